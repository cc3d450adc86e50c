#include "gnomon/model/gguf_model.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "src/model/gguf/gguf_draft.h"

namespace gnomon::model {
namespace {

using internal::Draft;
using Reader = internal::GgufDraft;
using internal::GgufParts;
using internal::GgufYarn;
using internal::Layer;
using internal::NopeLayers;
using internal::put;
using internal::Rope;
using internal::RopeType;
using internal::SlidingBase;

// Frequencies divided by the factors. `scale`: of cos and sin.
RopeScaling slowed(std::vector<double> factors, double scale) {
  if (scale == 1) return FrequencyFactors{std::move(factors)};
  return LongRopeScaling{.short_factors = factors,
                         .long_factors = factors,
                         .original_length = 2,
                         .attention_factor = scale};
}

// Returns a positive number that only some architectures use. A note says if it is not used.
double read_optional(Reader& r, const std::string& name, double usual) {
  r.note_unread(name, usual);
  return r.reads(name) ? r.positive(name, usual) : usual;
}

// Returns the share of YaRN's mixture, 0 or 1. 0: the frequencies are interpolated linearly.
double read_mixture(Reader& r) {
  const std::string name = "rope.scaling.yarn_ext_factor";
  if (r.number(name, -1) >= 0) r.note_unread(name, 1);
  const double share = r.reads(name) ? r.number(name, -1) : 1;
  if (share > 0 && share != 1)
    r.fail(r.key(name), name + " must be 0 or 1, got " + internal::shown(share));
  return share == 0 ? 0 : 1;
}

// mscale_all_dim. For DeepSeek's graph, the converter stores a tenth of it.
double read_all_dim(Reader& r) {
  const std::string name = "rope.scaling.yarn_log_multiplier";
  r.note_unread(name, 0);
  if (!r.reads(name)) return 0;
  return r.not_negative(name) / (r.row->gguf.yarn != GgufYarn::usual ? 0.1 : 1);
}

RopeScaling read_yarn(Reader& r, double factor, std::int64_t original) {
  YarnScaling yarn{
      .factor = factor,
      .original_length = original,
      .beta_fast = read_optional(r, "rope.scaling.yarn_beta_fast", r.row->gguf.beta_fast),
      .beta_slow = read_optional(r, "rope.scaling.yarn_beta_slow", 1)};
  if (const double unused = r.number("rope.scaling.yarn_attn_factor", 1); unused != 1)
    r.note("rope.scaling.yarn_attn_factor " + internal::shown(unused) +
           " is not used: llama.cpp computes the factor of YaRN itself");
  const bool latent = r.row->gguf.yarn != GgufYarn::usual;
  const bool own = r.row->gguf.yarn == GgufYarn::latent;
  yarn.mscale_all_dim = read_all_dim(r);
  if (yarn.mscale_all_dim != 0) yarn.mscale = own ? yarn.mscale_all_dim : 1;
  // That graph scales the softmax by the factor that cos and sin would have without
  // mscale_all_dim.
  if (latent) yarn.softmax_mscale = yarn.mscale_all_dim != 0 ? yarn.mscale : 1;
  const double scale = r.positive("rope.scaling.attn_factor", 1);
  if (scale == 1) return yarn;
  if (latent)
    r.softmax_scale = scale * scale * internal::inverse_sqrt(static_cast<double>(r.head_dim));
  const auto magnitude = [&](double mscale) {
    return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
  };
  yarn.attention_factor =
      scale * (yarn.mscale_all_dim == 0
                   ? magnitude(1)
                   : magnitude(yarn.mscale) / magnitude(yarn.mscale_all_dim));
  return yarn;
}

// DeepSeek's graph multiplies the softmax scale by YaRN's factors without YaRN too.
void scale_linear_latent(Reader& r, double factor) {
  const double mscale = r.positive("rope.scaling.attn_factor", 1) *
                        (1 + 0.1 * std::log(factor)) *
                        (1 + 0.1 * read_all_dim(r) * std::log(factor));
  r.softmax_scale = mscale * mscale * internal::inverse_sqrt(static_cast<double>(r.head_dim));
  r.note("llama.cpp multiplies the softmax scale by " + internal::shown(mscale * mscale) +
         ", which only YaRN has in the trained models");
}

// `sliding`: of sliding layers, which have the factor of the file with the type none too.
RopeScaling read_scaling(Reader& r, std::int64_t pairs, bool sliding = false) {
  const std::int64_t given = r.size("rope.scaling.original_context_length");
  const std::int64_t original = given ? given : r.out.length;
  const auto text = r.file().text(r.key("rope.scaling.type"));
  const std::string type(text.value_or("linear"));
  double factor = r.number("rope.scaling.factor", r.number("rope.scale_linear", 0));
  if (factor == 0) factor = 1;  // as llama.cpp reads it
  if (!(factor > 0))
    r.fail(r.key("rope.scaling.factor"),
           "rope.scaling.factor must be positive, got " + internal::shown(factor));
  if (type == "none" && !sliding) factor = 1;
  const auto times_factor = [&](std::vector<double> factors) {
    for (double& one : factors) one *= factor;
    return factors;
  };
  const auto require_original = [&] {
    if (given) return;
    if (original == 0) r.fail(r.key("rope.scaling.original_context_length") + " is missing");
    r.note("rope.scaling.original_context_length is not given: context_length is used");
  };

  const auto shorter = r.factors("rope_factors_short.weight", pairs);
  const auto longer = r.factors("rope_factors_long.weight", pairs);
  if (shorter.empty() != longer.empty())
    r.fail(
        "rope_factors_short.weight and rope_factors_long.weight must both be given, or "
        "neither");
  const bool unfactored = r.row->gguf.unfactored;
  if (unfactored && r.file().find_tensor("rope_freqs.weight"))
    r.note("rope_freqs.weight is not used: llama.cpp does not read it for " + r.arch);
  const auto freqs = unfactored ? std::vector<double>() : r.factors("rope_freqs.weight", pairs);
  if (!longer.empty()) {
    require_original();
    r.note("the long factors apply to contexts above " + std::to_string(original) +
           "; llama.cpp selects by the allocated context");
    return LongRopeScaling{.short_factors = times_factor(shorter),
                           .long_factors = times_factor(longer),
                           .original_length = original,
                           .attention_factor = r.positive("rope.scaling.attn_factor", 1)};
  }
  if (type == "yarn" && read_mixture(r) != 0) {
    if (!freqs.empty())
      r.fail(r.key("rope.scaling.type"),
             "rope_freqs.weight together with yarn is not understood");
    require_original();
    return read_yarn(r, factor, original);
  }
  if (type == "longrope")
    r.fail(r.key("rope.scaling.type"), "longrope requires rope_factors_long.weight");
  if (type != "linear" && type != "none" && type != "yarn")
    r.fail(
        r.key("rope.scaling.type"),
        "rope.scaling.type must be none, linear, yarn or longrope, got " + type.substr(0, 40));
  const double attn_factor = r.positive("rope.scaling.attn_factor", 1);
  if ((factor != 1 || attn_factor != 1) && r.row->gguf.yarn != GgufYarn::usual)
    scale_linear_latent(r, factor);
  const double scale = attn_factor * read_optional(r, "rope.scaling.yarn_attn_factor", 1);
  if (!freqs.empty()) return slowed(times_factor(freqs), scale);
  if (scale != 1)
    return slowed(std::vector<double>(static_cast<std::size_t>(pairs), factor), scale);
  if (factor == 1) return NoScaling{};
  return LinearScaling{factor};
}

// The type of the architecture, or of its files with sections, which need h and t.
RopeType rope_type_of(const Reader& r) {
  const auto sections = r.file().integers(r.key("rope.dimension_sections"));
  const bool several =
      sections && sections->size() > 1 && (*sections)[0] > 0 && (*sections)[1] > 0;
  return several && r.reads("rope.dimension_sections") ? RopeType::sections
                                                       : r.row->gguf.rope_type;
}

[[noreturn]] void fail_sections(const Reader& r, const std::string& why) {
  r.fail(r.key("rope.dimension_sections"), "rope.dimension_sections does not fit: " + why);
}

// Up to four sections, which repeat over the pairs.
std::vector<std::int32_t> sequential_axes(const Reader& r,
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

std::vector<std::int32_t> interleaved_axes(const Reader& r,
                                           const std::vector<std::int64_t>& sections,
                                           std::int64_t pairs) {
  try {
    return mrope_axes(MRopeOrder::ggml_interleaved, sections, pairs);
  } catch (const std::invalid_argument& error) {
    const std::string why = error.what();
    fail_sections(r, why.substr(why.find(']') + 2));
  }
}

std::vector<std::int32_t> read_axes(Reader& r, std::int64_t pairs) {
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

void check(Reader& r, const Rope& rope) {
  try {
    const auto scaled =
        scaled_frequencies(rope.rotary, rope.scaling, std::max<std::int64_t>(r.out.length, 1));
    const auto good = [](double value) { return std::isfinite(value); };
    if (!std::all_of(scaled.inv_freq.begin(), scaled.inv_freq.end(), good) ||
        !good(scaled.table_scale) || !good(scaled.softmax_scale))
      r.fail("the frequencies and scales must be finite");
  } catch (const std::invalid_argument& error) {
    const std::string why = error.what();
    r.fail(r.key("rope.dimension_count"), why.substr(why.find(']') + 2));
  }
}

void require_dim(const Reader& r, const char* name, std::int64_t dim, std::int64_t head_dim) {
  if (dim > head_dim || dim % 2 != 0)
    r.fail(r.key(name), r.key(name) + " must be even and at most " + std::to_string(head_dim) +
                            ", got " + std::to_string(dim));
}

// The rotation of sliding layers.
Rope local_rope(Reader& r, const Rope& rope) {
  const internal::GgufSliding& facts = r.row->gguf.sliding;
  Rope local = rope;
  if (facts.base == SlidingBase::own ||
      (facts.base == SlidingBase::own_or_same && r.file().find(r.key("rope.freq_base_swa"))))
    local.rotary.base = r.base("rope.freq_base_swa");
  const std::int64_t width = r.head_dim_of("sliding_attention");
  const std::int64_t dim = r.reads("rope.dimension_count_swa")
                               ? r.size("rope.dimension_count_swa", internal::max_count)
                               : 0;
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
    local.scaling = read_scaling(r, pairs, true);
  check(r, local);
  return local;
}

// Sets the rotation of a graph that reads no keys of the rotation.
void read_fixed_rope(Reader& r) {
  if (r.head_dim % 2 != 0)
    r.fail("the head dimension must be even, got " + std::to_string(r.head_dim));
  const double base = r.number("rope.freq_base", 10'000);
  if (base != 10'000)
    r.note("rope.freq_base " + internal::shown(base) +
           " is not used: it is 10000 in llama.cpp");
  if (r.number("rope.scaling.factor", 1) != 1)
    r.note("rope.scaling.factor is not used: llama.cpp does not scale " + r.arch);
  r.ropes.emplace(
      "",
      Rope{.rotary = {.rotary_dim = r.head_dim, .pairing = Pairing::halves, .base = 10'000}});
  put_ropes(r);
}

void read_rope(Reader& r) {
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
  rope.scaling = read_scaling(r, dim / 2);
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

// T5's bias. `parts`: those of the architecture.
void read_t5(Reader& r, GgufParts parts) {
  const std::int64_t buckets = r.size("attention.relative_buckets_count", internal::max_count);
  if (buckets < 4 || buckets % 2 != 0)
    r.fail(r.key("attention.relative_buckets_count"),
           "attention.relative_buckets_count must be even and at least 4, got " +
               std::to_string(buckets));
  r.softmax_scale = 1;
  T5Bias t5{.heads = r.heads, .direction = T5Direction::bidirectional, .buckets = buckets};
  r.layers.clear();
  put(r, t5, add_layers(r, r.out.layers, "encoder"));
  if (parts == GgufParts::encoder_and_decoder) {
    const std::int64_t decoder = r.size("decoder_block_count", internal::max_count);
    t5.direction = T5Direction::causal;
    put(r, t5, add_layers(r, decoder ? decoder : r.out.layers, "decoder"));
  }
  r.note("max_distance is 128 in llama.cpp for every model");
}

// Reads a model without rotation: a table, a bias, or no encoding.
void read_unrotated(Reader& r) {
  const bool fixed = r.row->alibi_heads == internal::by_heads;
  r.note_unread("attention.max_alibi_bias", fixed ? 8 : 0);
  const double max_bias = fixed ? 8
                          : r.reads("attention.max_alibi_bias")
                              ? r.not_negative("attention.max_alibi_bias")
                              : 0;
  if (const GgufParts parts = r.row->gguf.parts; parts != GgufParts::none) {
    read_t5(r, parts);
  } else if (max_bias > 0) {
    put(r, Alibi{.heads = r.heads, .max_bias = max_bias});
  } else if (const GgufTensor* table = r.file().find_tensor("position_embd.weight")) {
    if (table->size() == 0) r.fail("position_embd.weight must not be empty");
    put(r, Learned{.rows = table->extents[1], .width = table->extents[0]});
    r.note(
        "rows are numbered as in the file: the converter omits the first two rows of OPT and "
        "RoBERTa");
  } else if (r.row->visibility == Visibility::bidirectional) {
    put(r, Learned{.rows = std::max<std::int64_t>(r.out.length, 1),
                   .width = r.required("embedding_length", 1 << 24)});
  }
}

void read_encodings(Reader& r) {
  if (r.heads == 0) return;
  if (r.out.layers == r.row->gguf.alibi_layers) {
    // Baichuan 13B (ALiBi) has the same architecture name as 7B (rotary).
    put(r, Alibi{.heads = r.heads});
    r.note(std::to_string(r.out.layers) + " layers: the model with ALiBi (others have rotary)");
  } else if (const std::int64_t rotary = r.row->gguf.rotary_layers;
             rotary != 0 && rotary != r.out.layers) {
    r.note("llama.cpp does not rotate: it knows models of " + r.arch + " with " +
           std::to_string(rotary) + " layers only");
  } else if (r.is_unrotated()) {
    read_unrotated(r);
  } else {
    read_rope(r);
  }
}

}  // namespace

ModelDescription read_gguf(const Gguf& file) {
  if (const auto count = file.integer("split.count"); count > 1 && file.shards().size() == 1)
    throw FormatError(file.name(), file.find("split.count")->offset,
                      "the file is one of " + std::to_string(*count) +
                          " shards (split.count, split.no), and all are required, because the "
                          "description depends on tensors of every shard");
  Reader r(file);
  read_layers(r);
  read_encodings(r);
  read_attention(r);
  if (r.row->model_type.empty() && !r.row->note.empty()) r.note(std::string(r.row->note));
  finish(r);
  return std::move(r.out);
}

}  // namespace gnomon::model
