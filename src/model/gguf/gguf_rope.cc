// Rotation of a GGUF file: pairing, base, sections, and the rotation of sliding layers.
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "src/model/gguf/gguf_draft.h"

namespace gnomon::model::internal {
namespace {

// The type of the architecture, or of its files with sections, which need h and t.
RopeType rope_type_of(const GgufDraft& r) {
  const auto sections = r.file().integers(r.key("rope.dimension_sections"));
  const bool several =
      sections && sections->size() > 1 && (*sections)[0] > 0 && (*sections)[1] > 0;
  return several && r.reads("rope.dimension_sections") ? RopeType::sections
                                                       : r.row->gguf.rope_type;
}

[[noreturn]] void fail_sections(const GgufDraft& r, const std::string& why) {
  r.fail(r.key("rope.dimension_sections"), "rope.dimension_sections does not fit: " + why);
}

// Up to four sections, which repeat over the pairs.
std::vector<std::int32_t> sequential_axes(const GgufDraft& r,
                                          const std::vector<std::int64_t>& sections,
                                          std::int64_t pairs) {
  std::vector<std::int32_t> axes;
  for (std::size_t axis = 0; axis < sections.size(); ++axis) {
    const std::int64_t left = pairs - std::ssize(axes);
    if (sections[axis] < 0 || sections[axis] > left || axis > 3)
      fail_sections(r, "sections must be at most 4, of " + std::to_string(pairs) +
                           " pairs in sum, got " + std::to_string(sections[axis]));
    axes.insert(axes.end(), static_cast<std::size_t>(sections[axis]),
                static_cast<std::int32_t>(axis));
  }
  if (axes.empty()) fail_sections(r, "sections must have pairs");
  for (std::size_t i = 0; std::ssize(axes) < pairs; ++i) axes.push_back(axes[i]);
  return axes;
}

std::vector<std::int32_t> interleaved_axes(const GgufDraft& r,
                                           const std::vector<std::int64_t>& sections,
                                           std::int64_t pairs) {
  try {
    return mrope_axes(MRopeOrder::ggml_interleaved, sections, pairs);
  } catch (const std::invalid_argument& error) {
    const std::string why = error.what();
    fail_sections(r, why.substr(why.find(']') + 2));
  }
}

std::vector<std::int32_t> read_axes(GgufDraft& r, std::int64_t pairs) {
  const auto sections = r.file().integers(r.key("rope.dimension_sections"));
  const RopeType rope_type = rope_type_of(r);
  if (rope_type != RopeType::sections && rope_type != RopeType::interleaved_sections) return {};
  if (!sections) r.fail(r.key("rope.dimension_sections") + " is missing");
  const std::vector<std::int32_t> axes = rope_type == RopeType::sections
                                             ? sequential_axes(r, *sections, pairs)
                                             : interleaved_axes(r, *sections, pairs);
  if (std::find(axes.begin(), axes.end(), 3) != axes.end())
    r.note("some pairs rotate by a fourth position, which is 0 for text");
  return axes;
}

void require_dim(const GgufDraft& r, const char* name, std::int64_t dim,
                 std::int64_t head_dim) {
  if (dim > head_dim || dim % 2 != 0)
    r.fail(r.key(name), r.key(name) + " must be even and at most " + std::to_string(head_dim) +
                            ", got " + std::to_string(dim));
}

// The rotation of sliding layers.
Rope local_rope(GgufDraft& r, const Rope& rope) {
  const GgufSliding& facts = r.row->gguf.sliding;
  Rope local = rope;
  if (facts.base == SlidingBase::own ||
      (facts.base == SlidingBase::own_or_same && r.file().find(r.key("rope.freq_base_swa"))))
    local.rotary.base = r.base("rope.freq_base_swa");
  const std::int64_t width = r.head_dim_of("sliding_attention");
  const std::int64_t dim =
      r.reads("rope.dimension_count_swa") ? r.size("rope.dimension_count_swa", max_count) : 0;
  const std::int64_t usual = rope.rotary.rotary_dim * (r.row->gguf.half_rotated ? 2 : 1);
  local.rotary.rotary_dim = dim != 0 ? dim : std::min(width, usual);
  require_dim(r, "rope.dimension_count_swa", local.rotary.rotary_dim, width);
  if (r.size("attention.kv_lora_rank") != 0)
    local.rotary.head_offset = width - local.rotary.rotary_dim;
  const std::int64_t pairs = local.rotary.rotary_dim / 2;
  const double scale = facts.table_scaled ? r.positive("rope.scaling.attn_factor", 1) : 1;
  if (!facts.scaled && scale == 1)
    local.scaling = NoScaling{};
  else if (!facts.scaled)
    local.scaling = slowed(std::vector<double>(static_cast<std::size_t>(pairs), 1), scale);
  else if (facts.base != SlidingBase::same &&
           r.file().text(r.key("rope.scaling.type")) == "none")
    local.scaling = read_scaling(r, local.rotary, true);
  check(r, local);
  return local;
}

// Sets the rotation of a graph that reads no keys of the rotation.
void read_fixed_rope(GgufDraft& r) {
  if (r.head_dim % 2 != 0)
    r.fail("the head dimension must be even, got " + std::to_string(r.head_dim));
  const double base = r.number("rope.freq_base", 10'000);
  if (base != 10'000)
    r.note("rope.freq_base " + shown(base) + " is not used: it is 10000 in llama.cpp");
  // DeepSeek's graph still scales the softmax.
  if (r.row->gguf.yarn != GgufYarn::usual)
    for (const char* name :
         {"rope.scaling.factor", "rope.scale_linear", "rope.scaling.attn_factor"})
      if (const double scale = r.number(name, 1); scale != 1)
        r.fail(r.key(name), r.key(name) + " must be 1: llama.cpp scales the softmax of " +
                                r.arch + " by it, but not the rotation, got " + shown(scale));
  if (r.number("rope.scaling.factor", 1) != 1)
    r.note("rope.scaling.factor is not used: llama.cpp does not scale " + r.arch);
  r.ropes.emplace(
      "",
      Rope{.rotary = {.rotary_dim = r.head_dim, .pairing = Pairing::halves, .base = 10'000}});
  put_ropes(r);
}

}  // namespace

void read_rope(GgufDraft& r) {
  if (r.row->gguf.fixed_rope) return read_fixed_rope(r);
  std::int64_t dim = r.size("rope.dimension_count", 1 << 16);
  if (dim == 0) dim = r.head_dim;
  if (r.row->gguf.half_rotated) dim /= 2;
  // Most graphs use the number of the first layer in all layers.
  if (r.window != 0 && r.layers.front().type == "sliding_attention" &&
      !r.reads("rope.dimension_count_swa"))
    if (const std::int64_t first = r.size("rope.dimension_count_swa", 1 << 16)) dim = first;
  require_dim(r, "rope.dimension_count", dim, r.head_dim);
  const bool adjacent = rope_type_of(r) == RopeType::adjacent;
  const bool latent = r.size("attention.kv_lora_rank") != 0;
  double base = r.base("rope.freq_base");
  if (!r.file().find(r.key("rope.freq_base"))) r.note("rope.freq_base is not given: 10000");
  r.note_unread("rope.scaling.alpha", 0);
  if (const double alpha = r.not_negative("rope.scaling.alpha");
      alpha > 0 && r.reads("rope.scaling.alpha") && r.head_dim > 2)
    base *=
        std::pow(alpha, static_cast<double>(r.head_dim) / static_cast<double>(r.head_dim - 2));
  Rope rope{.rotary = {.rotary_dim = dim,
                       .pairing = adjacent ? Pairing::adjacent : Pairing::halves,
                       .base = base,
                       .head_offset = latent ? r.head_dim - dim : 0},
            .scaling = {},
            .axes = {}};
  rope.scaling = read_scaling(r, rope.rotary);
  rope.axes = read_axes(r, dim / 2);
  check(r, rope);
  if (adjacent != (r.row->pairing == Pairing::adjacent))
    r.note(adjacent
               ? "pairs are adjacent: the released weights have halves, and the GGUF "
                 "converter permuted q and k"
               : "pairs are halves: the released weights have adjacent pairs, and the GGUF "
                 "converter permuted q and k");
  const bool own_base = r.window != 0 && r.row->gguf.sliding.base != SlidingBase::same;
  if (r.file().find(r.key("rope.freq_base_swa")) && !own_base)
    r.note("rope.freq_base_swa is not used: in llama.cpp, all layers have rope.freq_base");
  if (r.window != 0) r.ropes["sliding_attention"] = local_rope(r, rope);
  r.ropes.emplace("", std::move(rope));
  put_ropes(r);
}

}  // namespace gnomon::model::internal
