// Attention in some layers, a state (linear attention, convolution, state spaces) in the
// others. Source: the code of each family.
#include "src/model/families/rules.h"

namespace gnomon::model::internal {
namespace {

using changes::per_head;

void read_falcon_h1(Reading& r) {
  prepare(r);
  r.softmax_scale = r.keys.positive({"key_multiplier"}).value_or(1) *
                    inverse_sqrt(static_cast<double>(r.head_dim));
  read_rotary(r);
}

void read_jamba(Reading& r) {
  prepare(r);
  const std::int64_t period = r.size({"attn_layer_period"}, 8);
  const std::int64_t offset = r.keys.integer({"attn_layer_offset"}, 0, period - 1).value_or(4);
  if (offset >= period)
    r.fail(
        "attn_layer_offset is not given: 4, the default of jamba, must be less than "
        "attn_layer_period, got " +
        std::to_string(period));
  for (std::int64_t l = 0; l < r.out.layers; ++l) {
    r.layers[to_size(l)].attends = l % period == offset;
    r.layers[to_size(l)].rotates = false;
  }
  put_ropes(r);
}

void read_lfm2(Reading& r) {
  prepare(r);
  attend_at(r, "full_attn_idxs");
  read_rotary(r);
}

void read_lfm3(Reading& r) {
  prepare(r);
  type_layers(r, [](std::int64_t l) {
    return l % 4 == 2 ? full : l % 4 == 0 && l > 0 ? sliding : "conv";
  });
  read_rotary(r);
}

void read_lfm3_attention(Reading& r) {
  if (!r.is_true("use_attention_gate", true)) return;
  for (Layer& layer : r.layers) layer.attention.output_gate = per_head;
}

// Queries and keys get length sqrt(D), and keys a trained factor for each head.
void read_zaya(Reading& r) {
  prepare(r);
  r.bases = {{"hybrid", 5'000'000}, {"hybrid_sliding", 10'000}};
  type_layers(r, [](std::int64_t) { return "hybrid"; });
  if (has_ropes_by_type(r))
    read_ropes(r);
  else
    for (const auto& [type, base] : r.bases) r.ropes[type] = read_rope(r, {}, base, type);
  put_ropes(r);
  for (Layer& layer : r.layers) layer.type = layer.type == "hybrid" ? full : sliding;
  r.note("queries, keys and values pass convolutions, which are not described");
}

void read_zaya_attention(Reading& r) {
  LayerNorm norm{.norm = {.kind = NormKind::rms, .epsilon = 1e-24},
                 .order = NormOrder::before_rotation,
                 .weights = NormWeights::none};
  for (Layer& layer : r.layers) {
    layer.attention.query_norm = layer.attention.key_norm = norm;
    layer.attention.key_norm->weights = NormWeights::heads;
  }
}

void read_minimax(Reading& r) {
  prepare(r);
  if (const auto kinds = r.keys.find({"attn_type_list"})) {
    const auto numbers = kinds->integers("attn_type_list");
    require_length(r, *kinds, numbers.size(), "attn_type_list");
    type_layers(r, [&](std::int64_t l) {
      return numbers[to_size(l)] == 0 ? "linear_attention" : full;
    });
  } else {
    type_layers(r, [](std::int64_t l) { return l % 2 == 0 ? full : "linear_attention"; });
  }
  if (r.keys.find({"rotary_dim"})) {
    r.rotary_dim = r.size({"rotary_dim"});
    r.note(
        "rotary_dim is used, as in the released code; transformers 4.57 rotates the whole "
        "head");
  }
  read_rotary(r);
}

void read_minimax_m2(Reading& r) {
  prepare(r);
  if (r.keys.find({"rotary_dim"})) r.rotary_dim = r.size({"rotary_dim"});
  read_rotary(r);
}

// transformers reads partial_rotary_factor alone. The release has both keys.
void read_minimax_m3(Reading& r) {
  prepare(r);
  if (!r.keys.find({"partial_rotary_factor"})) {
    r.rotary_dim = r.head_dim;
    if (const auto given = r.keys.size({"rotary_dim"}); given && *given != r.head_dim)
      r.note("rotary_dim " + std::to_string(*given) +
             " is not used: partial_rotary_factor is not given, so the whole head rotates, as "
             "in transformers 5.24");
  }
  read_rotary(r);
}

void read_nemotron_h(Reading& r) {
  prepare(r);
  ignore_ropes(r);
  for (Layer& layer : r.layers) layer.rotates = false;
  if (const auto given = r.keys.find({"hybrid_override_pattern"})) {
    const std::string pattern = given->string("hybrid_override_pattern");
    require_length(r, *given, pattern.size(), "hybrid_override_pattern");
    for (std::size_t l = 0; l < r.layers.size(); ++l) r.layers[l].attends = pattern[l] == '*';
  } else if (const auto types = r.keys.find({"layers_block_type"})) {
    const auto names = types->strings("layers_block_type");
    require_length(r, *types, names.size(), "layers_block_type");
    for (std::size_t l = 0; l < r.layers.size(); ++l)
      r.layers[l].attends = names[l] == "attention" || names[l] == "full_attention";
  }
  put_ropes(r);
}

void read_zamba2(Reading& r) {
  prepare(r);
  r.head_dim = r.size({"attention_head_dim"}, 2 * hidden_size(r) / r.heads, max_count);
  r.softmax_scale = inverse_sqrt(static_cast<double>(r.head_dim) / 2);
  const bool rotates = r.keys.boolean({"use_mem_rope"}).value_or(false);
  const auto types = r.keys.find({"layers_block_type"});
  const auto names = types ? types->strings("layers_block_type") : std::vector<std::string>();
  if (types) require_length(r, *types, names.size(), "layers_block_type");
  for (std::size_t l = 0; l < r.layers.size(); ++l) {
    r.layers[l].attends = l < names.size() && names[l] == "hybrid";
    r.layers[l].rotates = rotates;
  }
  if (rotates) return read_rotary(r);
  r.keys.find({"rope_theta"});
  put_ropes(r);
}

}  // namespace

// State-space and other models without position encodings.
void read_nowhere(Reading& r) {
  r.out.layers =
      r.size_or_default({"num_hidden_layers", "n_layer", "num_layers"}, 0, max_count);
  r.out.length = r.size({"max_position_embeddings", "context_length"}, 2048);
  ignore_ropes(r);
}

void add_hybrid(Families& add) {
  using namespace changes;
  for (const char* name : {"arwkv7", "rwkv6", "rwkv6qwen2", "rwkv7"})
    add(rotary, {}, position("none"), gguf(name, RopeType::none));
  add(rotary, {"falcon_h1"}, read(read_falcon_h1), length(8192), sizes(32, 32, 4096),
      key_heads(8), gguf("falcon-h1", RopeType::halves), gguf_unfactored(true));
  const Family falcon_mamba =
      add(rotary, {"falcon_mamba", "rwkv"}, read(read_nowhere), position("none"));
  add(falcon_mamba, {"glm5_next_text"}, sizes(45, 64, 4096),
      unsupported("an indexer that selects the keys of each query"),
      gguf("glm5-next", RopeType::none));
  add(falcon_mamba, {"mamba"}, gguf("mamba", RopeType::none));
  add(falcon_mamba, {"mamba2"}, sizes(64, 128, 4096), gguf("mamba2", RopeType::none));
  const Family moshi_depth =
      add(falcon_mamba, {"moshi_depth"}, sizes(6, 16, 1024), visibility(bidirectional));
  add(moshi_depth, {"moonshine_streaming_encoder"}, sizes(6, 8, 320), key_heads(8),
      unsupported("a window for each layer"));
  add(falcon_mamba, {"xlstm"}, sizes(32, 8, 4096));
  add(falcon_mamba, {"zamba"}, sizes(76, 16, 3712), key_heads(16));
  add(rotary, {"jamba"}, read(read_jamba), position("none"), length(262'144),
      sizes(32, 32, 4096), key_heads(8), differences("attention in some layers"),
      gguf("jamba", RopeType::none));
  const Family lfm2 =
      add(rotary, {"lfm2"}, read(read_lfm2), base(1'000'000), length(128'000),
          sizes(32, 32, 2560), key_heads(8), norm(rms, before, head, 1e-5),
          differences("attention in some layers"), gguf("lfm2", RopeType::halves),
          gguf_window({.window = GgufWindow::causal, .base = SlidingBase::same}));
  add(lfm2, {"lfm2_moe"}, sizes(32, 32, 2048), gguf("lfm2moe", RopeType::halves));
  add(rotary, {"lfm3"}, read(read_lfm3), attention(read_lfm3_attention), base(1'000'000),
      rope(
          R"({"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
"full_attention": {"rope_type": "proportional", "rope_theta": 1000000.0,
"partial_rotary_factor": 0.5}})"),
      head_dim(128), length(128'000), sizes(24, 16, 2048), key_heads(4), window(by_type, 256),
      norm(rms, before, head, 1e-5),
      differences("attention in some layers; one base for sliding layers"));
  add(rotary, {"minimax"}, read(read_minimax), base(1'000'000), length(131'072),
      sizes(32, 32, 4096), key_heads(8), window(all), differences("attention in some layers"),
      gguf("minimax-01", RopeType::halves), gguf_attention_every(8));
  const Family minimax_m3_vl_text =
      add(rotary, {"minimax_m3_vl_text"}, read(read_minimax_m3), base(5'000'000),
          share(1, factor), head_dim(128), length(524'288), sizes(60, 64, 6144), key_heads(4),
          norm(rms, before, head, 1e-6, 1),
          unsupported("an indexer that selects the keys of each query"),
          gguf("minimax-m3", RopeType::halves));
  add(minimax_m3_vl_text, {"minimax_m2"}, read(read_minimax_m2), odd_share(true),
      length(196'608), sizes(62, 48, 3072), key_heads(8), norm(rms, before, all_heads, 1e-6),
      unsupported(""), gguf("minimax-m2", RopeType::halves));
  const Family nemotron_h =
      add(rotary, {"nemotron_h"}, read(read_nemotron_h), position("none"), head_dim(128),
          length(4096), key_heads(8), differences("attention in some layers"),
          gguf("nemotron_h", RopeType::none), gguf_attends_without_ffn(true));
  add(nemotron_h, {}, gguf("nemotron_h_moe", RopeType::none), gguf_attends_without_ffn(true));
  add(rotary, {}, norm(rms, before, head, 1e-6), gguf("plamo2", RopeType::halves),
      gguf_scaled_by_value_dim(true));
  add(rotary, {"zaya"}, read(read_zaya), attention(read_zaya_attention), share(0.5, factor),
      head_dim(128), length(131'072), sizes(40, 8, 2048), key_heads(2), window(by_type),
      differences("one base per layer type"));
  add(rotary, {"zamba2"}, read(read_zamba2), length(4096), sizes(54, 32, 2560),
      differences("attention in some layers"));
}

}  // namespace gnomon::model::internal
