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

void read_sizes(Reader& r) {
  r.out.layers = r.required("block_count");
  r.out.length = r.size("context_length");
  all_layers(r);
  const auto counts = r.file().integers(r.key("attention.head_count"));
  if (!counts || counts->empty()) r.fail(r.key("attention.head_count") + " is missing");
  for (const std::int64_t count : *counts)
    if (count < 0 || count > internal::max_count)
      r.fail(r.key("attention.head_count"),
             "attention.head_count must be 0 to 65536, got " + std::to_string(count));
  r.heads = *std::max_element(counts->begin(), counts->end());
  // A list by layer: layers with 0 heads have no attention (hybrids, pruned layers).
  if (counts->size() > 1) {
    r.require_length("attention.head_count", counts->size());
    for (std::size_t l = 0; l < r.layers.size(); ++l) r.layers[l].attends = (*counts)[l] != 0;
  }
  if (r.heads == 0) return;
  r.head_dim = r.size("attention.key_length_mla", 1 << 16);
  if (r.head_dim == 0) r.head_dim = r.size("attention.key_length", 1 << 16);
  if (r.head_dim == 0) {
    const std::int64_t width = r.required("embedding_length", 1 << 24);
    if (width % r.heads != 0 || width / r.heads > internal::max_count)
      r.fail(r.key("embedding_length"), "embedding_length must be a multiple of the heads " +
                                            std::to_string(r.heads) + ", got " +
                                            std::to_string(width));
    r.head_dim = width / r.heads;
  }
  if (const double scale = r.not_negative("attention.scale"); scale > 0)
    r.softmax_scale = scale;
}

RopeScaling read_yarn(Reader& r, double factor, std::int64_t original) {
  YarnScaling yarn{.factor = factor,
                   .original_length = original,
                   .beta_fast = r.positive("rope.scaling.yarn_beta_fast", 32),
                   .beta_slow = r.positive("rope.scaling.yarn_beta_slow", 1)};
  const double ext = r.number("rope.scaling.yarn_ext_factor", -1);
  if (ext >= 0 && ext != 1)
    r.fail(r.key("rope.scaling.yarn_ext_factor"),
           "rope.scaling.yarn_ext_factor must be 1, got " + internal::shown(ext));
  if (const double unused = r.number("rope.scaling.yarn_attn_factor", 1); unused != 1)
    r.note("rope.scaling.yarn_attn_factor " + internal::shown(unused) +
           " is not used: llama.cpp computes the factor of YaRN itself");
  // mscale_all_dim. For DeepSeek's graph, the converter stores a tenth of it.
  const bool latent = r.row->gguf.yarn != GgufYarn::usual;
  yarn.mscale_all_dim = r.not_negative("rope.scaling.yarn_log_multiplier") / (latent ? 0.1 : 1);
  const bool own = r.row->gguf.yarn == GgufYarn::latent;
  if (yarn.mscale_all_dim != 0) yarn.mscale = own ? yarn.mscale_all_dim : 1;
  // That graph scales the softmax by the factor that cos and sin would have without
  // mscale_all_dim.
  if (latent) yarn.softmax_mscale = yarn.mscale_all_dim != 0 ? yarn.mscale : 1;
  const double scale = r.positive("rope.scaling.attn_factor", 1);
  if (scale == 1) return yarn;
  if (latent)
    r.fail(r.key("rope.scaling.attn_factor"), "rope.scaling.attn_factor must be 1 for " +
                                                  r.arch + ", got " + internal::shown(scale));
  const auto magnitude = [&](double mscale) {
    return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
  };
  yarn.attention_factor =
      scale * (yarn.mscale_all_dim == 0
                   ? magnitude(1)
                   : magnitude(yarn.mscale) / magnitude(yarn.mscale_all_dim));
  return yarn;
}

RopeScaling read_scaling(Reader& r, std::int64_t pairs) {
  const std::int64_t given = r.size("rope.scaling.original_context_length");
  const std::int64_t original = given ? given : r.out.length;
  const auto text = r.file().text(r.key("rope.scaling.type"));
  const std::string type(text.value_or("linear"));
  double factor = r.number("rope.scaling.factor", r.number("rope.scale_linear", 0));
  if (factor == 0) factor = 1;  // as llama.cpp reads it
  if (!(factor > 0))
    r.fail(r.key("rope.scaling.factor"),
           "rope.scaling.factor must be positive, got " + internal::shown(factor));
  if (type == "none") factor = 1;
  const auto slowed = [&](std::vector<double> factors) {
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
  const auto freqs = r.factors("rope_freqs.weight", pairs);
  if (!longer.empty()) {
    require_original();
    r.note("the long factors apply to contexts above " + std::to_string(original) +
           "; llama.cpp selects by the allocated context");
    return LongRopeScaling{.short_factors = slowed(shorter),
                           .long_factors = slowed(longer),
                           .original_length = original,
                           .attention_factor = r.positive("rope.scaling.attn_factor", 1)};
  }
  if (type == "yarn") {
    if (!freqs.empty())
      r.fail(r.key("rope.scaling.type"),
             "rope_freqs.weight together with yarn is not understood");
    require_original();
    return read_yarn(r, factor, original);
  }
  if (type == "longrope")
    r.fail(r.key("rope.scaling.type"), "longrope requires rope_factors_long.weight");
  if (type != "linear" && type != "none")
    r.fail(
        r.key("rope.scaling.type"),
        "rope.scaling.type must be none, linear, yarn or longrope, got " + type.substr(0, 40));
  for (const char* name : {"rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor"})
    if (const double scale = r.positive(name, 1); scale != 1)
      r.fail(r.key(name), r.key(name) + " must be 1 if the scaling is " + type + ", got " +
                              internal::shown(scale));
  if (!freqs.empty()) return FrequencyFactors{slowed(freqs)};
  if (factor == 1) return NoScaling{};
  return LinearScaling{factor};
}

std::vector<std::int32_t> read_axes(Reader& r, std::int64_t pairs) {
  const auto sections = r.file().integers(r.key("rope.dimension_sections"));
  const RopeType rope_type = r.row->gguf.rope_type;
  if (rope_type != RopeType::sections && rope_type != RopeType::interleaved_sections) return {};
  if (!sections) r.fail(r.key("rope.dimension_sections") + " is missing");
  std::vector<std::int64_t> sizes = *sections;
  if (rope_type == RopeType::sections)  // drops a fourth section of size 0
    while (sizes.size() > 3 && sizes.back() == 0) sizes.pop_back();
  try {
    return mrope_axes(
        rope_type == RopeType::sections ? MRopeOrder::sequential : MRopeOrder::ggml_interleaved,
        sizes, pairs);
  } catch (const std::invalid_argument& error) {
    const std::string why = error.what();
    r.fail(r.key("rope.dimension_sections"),
           "rope.dimension_sections does not fit: " + why.substr(why.find(']') + 2));
  }
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

// Sets the types of sliding layers, for architectures whose sliding layers have another base or
// no rotation.
void type_layers(Reader& r, std::int64_t every) {
  const auto pattern = r.file().find(r.key("attention.sliding_window_pattern"));
  if (pattern && pattern->type == GgufType::array && pattern->element == GgufType::boolean) {
    const auto slides = *r.file().booleans(r.key("attention.sliding_window_pattern"));
    r.require_length("attention.sliding_window_pattern", slides.size());
    for (std::size_t l = 0; l < r.layers.size(); ++l)
      if (slides[l]) r.layers[l].type = "sliding_attention";
    return;
  }
  if (pattern) every = r.size("attention.sliding_window_pattern");
  for (std::int64_t l = 0; l < r.out.layers; ++l)
    if ((l + 1) % every != 0) r.layers[static_cast<std::size_t>(l)].type = "sliding_attention";
}

// The rotation of sliding layers, which have another base and no scaling.
Rope local_rope(Reader& r, const Rope& rope) {
  Rope local{.rotary = rope.rotary};
  local.rotary.base = r.base("rope.freq_base_swa");
  const std::int64_t width = r.size("attention.key_length_swa", internal::max_count);
  const std::int64_t dim = r.size("rope.dimension_count_swa", internal::max_count);
  if (width != 0) r.set(&Layer::head_dim, "sliding_attention", width);
  local.rotary.rotary_dim = dim != 0 ? dim : width != 0 ? width : local.rotary.rotary_dim;
  require_dim(r, "rope.dimension_count_swa", local.rotary.rotary_dim,
              r.head_dim_of("sliding_attention"));
  check(r, local);
  return local;
}

// The query scale of Llama 4, in layers that do not rotate, or of Ministral 3, in all layers.
void read_temperature(Reader& r) {
  const bool llama4 = r.row->chunk != 0;
  const QueryTemperature usual = llama4_temperature();
  const std::int64_t length = r.size("attention.temperature_length");
  const double scale = llama4 ? r.positive("attention.temperature_scale", usual.beta)
                              : r.not_negative("attention.temperature_scale");
  if (scale == 0) return;
  const std::int64_t original = r.size("rope.scaling.original_context_length");
  const std::int64_t steps = length ? length : original ? original : r.out.length;
  if (!llama4 && steps == 0) r.fail(r.key("attention.temperature_length") + " is missing");
  for (Layer& layer : r.layers)
    if (!llama4)
      layer.attention.query_scale = ministral3_temperature(scale, steps);
    else if (!layer.rotates)
      layer.attention.query_scale = llama4_temperature(scale, length ? length : usual.length);
}

// Applies what the row of the architecture says of single layers.
void read_layers(Reader& r, const Rope& rope) {
  const internal::Family& row = *r.row;
  const bool nope =
      row.nope_layers == NopeLayers::full || (row.nope_layers == NopeLayers::full_with_window &&
                                              r.size("attention.sliding_window") != 0);
  if (row.local_base > 0 || nope) type_layers(r, row.full_every);
  if (row.local_base > 0) r.ropes["sliding_attention"] = local_rope(r, rope);
  for (Layer& layer : r.layers) {
    if (nope && layer.type == "full_attention") layer.rotates = false;
    if (row.nope_every != 0 && (layer.number + 1) % row.nope_every == 0) layer.rotates = false;
  }
  read_temperature(r);
  if (row.softmax_scale > 0 && row.scale_key.empty() && row.scalar_key.empty())
    r.softmax_scale = row.softmax_scale;
  if (row.gguf.layers_scaled_by_width == r.out.layers) {
    const std::int64_t width = r.required("embedding_length", 1 << 24);
    r.softmax_scale =
        internal::inverse_sqrt(static_cast<double>(width) / static_cast<double>(r.heads));
    r.note("27B: the softmax scale is 1 / sqrt(embedding_length / heads)");
  }
}

void read_rope(Reader& r) {
  std::int64_t dim = r.size("rope.dimension_count", 1 << 16);
  if (dim == 0) dim = r.head_dim;
  require_dim(r, "rope.dimension_count", dim, r.head_dim);
  const bool adjacent = r.row->gguf.rope_type == RopeType::adjacent;
  const bool latent = r.size("attention.kv_lora_rank") != 0;
  const double base = r.base("rope.freq_base");
  if (!r.file().find(r.key("rope.freq_base"))) r.note("rope.freq_base is not given: 10000");
  Rope rope{.rotary = {.rotary_dim = dim,
                       .pairing = adjacent ? Pairing::adjacent : Pairing::halves,
                       .base = base,
                       .head_offset = latent ? r.head_dim - dim : 0},
            .scaling = {},
            .axes = {}};
  rope.scaling = read_scaling(r, dim / 2);
  rope.axes = read_axes(r, dim / 2);
  check(r, rope);
  if (adjacent)
    r.note(
        "pairs are adjacent: the released weights have halves, and the GGUF converter permuted "
        "q and k");
  read_layers(r, rope);
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
  double max_bias = r.not_negative("attention.max_alibi_bias");
  if (max_bias == 0 && r.row->alibi_heads == internal::by_heads) max_bias = 8;
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
  if (r.is_unrotated() && !r.file().find(r.key("attention.head_count"))) {
    r.out.layers = r.required("block_count");
    r.out.length = r.size("context_length");
    return;
  }
  read_sizes(r);
  if (r.heads == 0) {  // the converter writes 0 for state-space models
    if (!r.is_unrotated())
      r.fail(r.key("attention.head_count"), "attention.head_count must be at least 1, got 0");
  } else if (r.heads == r.row->alibi_heads) {
    // Baichuan 13B (ALiBi) has the same architecture name as 7B (rotary).
    put(r, Alibi{.heads = r.heads});
    r.note("40 heads: the 13B model, which has ALiBi (the 7B model has rotary)");
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
  read_encodings(r);
  read_attention(r);
  finish(r);
  return std::move(r.out);
}

}  // namespace gnomon::model
