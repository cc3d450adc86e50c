// Gemma. Source: the code of each family.
#include <algorithm>

#include "src/model/families/rules.h"

namespace gnomon::model::internal {
namespace {

constexpr GgufKey softcaps[] = {
    {"attn_logit_softcapping", "attn_logit_softcapping"},
    {"final_logit_softcapping", "final_logit_softcapping"},
};
constexpr GgufKey final_softcap[] = {{"final_logit_softcapping", "final_logit_softcapping",
                                      GgufKeyType::number, GgufKeyPresence::optional}};

// The last layers have no separate keys and values.
void share_keys(Reading& r, std::int64_t otherwise) {
  const std::int64_t shared = r.keys.integer({"num_kv_shared_layers"}, 0).value_or(otherwise);
  for (std::int64_t l = std::max<std::int64_t>(r.out.layers - shared, 0); l < r.out.layers; ++l)
    r.layers[to_size(l)].unsupported = "keys and values of an earlier layer";
}

void read_gemma3(Reading& r) {
  prepare(r);
  slide_all_but_every(
      r, r.size({"sliding_window_pattern", "_sliding_window_pattern"}, r.family.full_every));
  read_local_base(r, "rope_local_base_freq");
  read_rotary(r);
}

void read_gemma3n(Reading& r) {
  prepare(r);
  slide_all_but_every(r, r.family.full_every);
  share_keys(r, 15);
  read_local_base(r, "rope_local_base_freq");
  read_rotary(r);
}

void read_gemma4(Reading& r) {
  prepare(r);
  type_layers(r, [&](std::int64_t l) {
    return (l + 1) % r.family.full_every == 0 || l + 1 == r.out.layers ? full : sliding;
  });
  share_keys(r, 0);
  const bool own = r.keys.find({"per_layer_config"}).has_value();
  const std::int64_t wide =
      r.size({"global_head_dim"}, own ? r.head_dim_of(full) : 512, max_count);
  r.set(&Layer::head_dim, full, wide);
  if (has_ropes_by_type(r)) return read_rotary(r);
  r.note("rope_parameters is not given: the defaults of " + r.out.model_type);
  Rope& rope = r.ropes[full] = read_rope(r, std::nullopt, r.family.base, full);
  rope.scaling = ProportionalScaling{.rotated_pairs = wide / 8};
  r.ropes[sliding] = read_rope(r, std::nullopt, r.family.local_base, sliding);
  put_ropes(r);
}

// Bidirectional. Full layers have other heads.
void read_embedding_gemma2(Reading& r) {
  prepare(r);
  const std::int64_t every = r.size({"sliding_window_pattern"}, r.family.full_every);
  type_layers(r, [&](std::int64_t l) {
    return (l + 1) % every == 0 || l + 1 == r.out.layers ? full : sliding;
  });
  const bool own = r.keys.find({"per_layer_config"}).has_value();
  if (!own) {
    r.set(&Layer::head_dim, full, r.size({"global_head_dim"}, 512, max_count));
    r.set(&Layer::key_heads, full, r.size({"num_global_key_value_heads"}, 1, max_count));
  }
  r.bases = {{full, r.family.base}, {sliding, r.family.local_base}};
  if (has_ropes_by_type(r)) return read_rotary(r);
  r.note("rope_parameters is not given: the defaults of " + r.out.model_type);
  for (const auto& [type, base] : r.bases)
    r.ropes[type] = read_rope(r, std::nullopt, base, type);
  put_ropes(r);
}

void read_recurrent_gemma(Reading& r) {
  prepare(r);
  std::vector<std::string> types{"recurrent", "recurrent", "attention"};
  if (const auto list = r.keys.find({"block_types", "_block_types"}))
    types = list->strings("block_types");
  if (types.empty())
    r.fail_at({"block_types", "_block_types"}, "block_types must not be empty");
  for (std::size_t l = 0; l < r.layers.size(); ++l)
    r.layers[l].attends = types[l % types.size()] == "attention";
  read_rotary(r);
}

}  // namespace

void add_gemma(Families& add) {
  using namespace changes;
  using namespace gguf_groups;
  const GgufFixed activation = {"hidden_activation|hidden_act", "gelu_pytorch_tanh|gelu",
                                "gelu_pytorch_tanh"};
  const GgufWeights gemma_weights{.architecture = "gemma",
                                  .tensors = {embeddings, always_tied, input_norm, separate_qkv,
                                              feed_forward_norm, gated_layer},
                                  .keys = {rms_norm_key},
                                  .fixed = {activation},
                                  .norm_offset = 1};
  const GgufWeights gemma2_weights{
      .architecture = "gemma2",
      .tensors = {embeddings, always_tied, input_norm, separate_qkv, output_norms,
                  inner_feed_forward_norm, gated_layer},
      .keys = {rms_norm_key, softcaps},
      .fixed = {activation},
      .norm_offset = 1};
  GgufWeights gemma3_weights = gemma2_weights;
  gemma3_weights.architecture = "gemma3";
  gemma3_weights.tensors[1] = output_or_tied;
  gemma3_weights.tensors.push_back(head_norms);
  gemma3_weights.keys = {rms_norm_key, final_softcap};
  add(rotary, {"embedding_gemma2_text"}, read(read_embedding_gemma2), base(1'000'000),
      head_dim(256), length(262'144), sizes(24, 4, 512), key_heads(2),
      visibility(bidirectional), window(by_type, 512), window_sides(WindowSides::whole),
      local_base(10'000), full_every(6), norm(rms, before, head, 1e-6), value_norm(true),
      softmax_scale(1), differences("full layers have wider heads; one base per layer type"));
  const Family gemma =
      add(rotary, {"gemma"}, head_dim(256), length(8192), sizes(28, 16, 3072), key_heads(16),
          gguf("gemma", RopeType::halves), to_gguf(gemma_weights));
  const Family gemma2 =
      add(gemma, {"gemma2"}, softmax_scale(1.0 / 16), scalar_key("query_pre_attn_scalar"),
          sizes(26, 8, 2304), key_heads(4), window(by_type, 4096, "sf"), softcap(50),
          gguf("gemma2", RopeType::halves), gguf_layers_scaled_by_width(46),
          gguf_keys("attn_logit_softcapping"),
          gguf_window({.window = GgufWindow::causal, .every = 2, .size = 4096}),
          to_gguf(gemma2_weights));
  const Family gemma3_text =
      add(gemma2, {"gemma3_text"}, read(read_gemma3), base(1'000'000), length(131'072),
          window(by_type, 4096), local_base(10'000), full_every(6),
          norm(rms, before, head, 1e-6, 1), softcap(0),
          differences("another base for sliding layers; only full layers are scaled"),
          gguf("gemma3", RopeType::halves), gguf_layers_scaled_by_width(62),
          gguf_window({.window = GgufWindow::causal,
                       .every = 6,
                       .base = SlidingBase::own,
                       .scaled = false}),
          to_gguf(gemma3_weights));
  add(gemma3_text, {}, visibility(bidirectional), gguf("gemma-embedding", RopeType::halves),
      gguf_window({.window = GgufWindow::symmetric,
                   .every = 6,
                   .size = by_file,
                   .base = SlidingBase::own,
                   .scaled = false}));
  add(gemma3_text, {}, gguf("gemma4-assistant", RopeType::halves),
      gguf_refused("a draft of another model, whose keys and values it reads"));
  const Family gemma4_unified_text = add(
      gemma3_text, {"gemma4_unified_text"}, read(read_gemma4), scalar_key(""), length(262'144),
      sizes(30, 8, 2304), window(by_type, 1024), window_sides(WindowSides::one_more),
      norm(rms, before, head, 1e-6), value_norm(true), softmax_scale(1),
      differences("full layers have wider heads, a quarter of which rotates"));
  add(gemma4_unified_text, {}, visibility(bidirectional),
      gguf("gemma-embedding2", RopeType::halves), gguf_keys("rope.dimension_count_swa"),
      gguf_window({.window = GgufWindow::symmetric,
                   .every = 6,
                   .size = by_file,
                   .base = SlidingBase::own,
                   .scaled = false}));
  add(gemma4_unified_text, {"gemma3n_text"}, read(read_gemma3n), length(32'768),
      sizes(35, 8, 2048), key_heads(2), window(by_type, 512), window_sides(WindowSides::halves),
      full_every(5),
      differences("another base for sliding layers; only full layers are scaled"),
      gguf("gemma3n", RopeType::halves), gguf_layers_with_keys(20),
      gguf_window({.window = GgufWindow::causal,
                   .every = 5,
                   .size = by_file,
                   .base = SlidingBase::own,
                   .scaled = false}));
  add(gemma4_unified_text, {"gemma4_text"}, length(131'072), window(by_type, 512),
      inconvertible("keys must not share their rows with values"),
      gguf("gemma4", RopeType::halves), gguf_full_is_causal(true),
      gguf_keys("attention.shared_kv_layers", "rope.dimension_count_swa"),
      gguf_window({.window = GgufWindow::causal,
                   .every = by_file,
                   .size = by_file,
                   .base = SlidingBase::own,
                   .scaled = false}));
  add(gemma4_unified_text, {"diffusion_gemma_text"}, length(131'072), window(by_type, 512),
      key_heads(4), window_sides(WindowSides::halves),
      note("these are the layers that read the prompt; those that denoise have the same "
           "projections and attend to all tokens"));
  add(gemma2, {"t5_gemma_module"}, visibility(bidirectional), window_sides(WindowSides::whole));
  add(gemma3_text, {"t5gemma2_text"}, visibility(bidirectional),
      window(by_type, 4096, "sssssf"), window_sides(WindowSides::one_less_before));
  add(gemma2, {"vaultgemma"});
  add(rotary, {"recurrent_gemma"}, read(read_recurrent_gemma), share(0.5, factor), length(8192),
      sizes(26, 10, 2560), window(all, 2048, "", "attention_window_size"),
      differences("attention in one layer of three"));
  add(rotary, {"t5gemma2_decoder"}, read(read_gemma3), softmax_scale(1.0 / 16),
      scalar_key("query_pre_attn_scalar"), base(1'000'000), head_dim(256), length(131'072),
      sizes(26, 8, 2304), key_heads(4), local_base(10'000), full_every(6),
      unsupported("self-attention and cross-attention in one softmax"),
      differences("another base for sliding layers; only full layers are scaled"));
  const Family gemma3n = add(multimodal, {"gemma3n"}, language("*_text"));
  add(gemma3n, {"embedding_gemma2"}, part("vision_config", "gemma4_vision"));
  const Family gemma4_unified = add(gemma3n, {"gemma4_unified"},
                                    note("tokens of one image attend to each other in both "
                                         "directions; here every token is causal"));
  add(gemma4_unified, {"gemma3"}, part("vision_config", "siglip_vision_model"));
  add(gemma4_unified, {"gemma4"}, inconvertible("keys must not share their rows with values"),
      part("vision_config", "*_vision"));
  add(gemma3n, {"gemma4_unified_assistant"}, language("gemma4_unified_text"));
  const Family shieldgemma2 = add(gemma3n, {"shieldgemma2"}, language("gemma3_text"),
                                  part("vision_config", "siglip_vision_model"));
  add(shieldgemma2, {"paligemma"},
      unsupported("bidirectional attention in a prefix of image and text"), language("gemma"));
  add(shieldgemma2, {"t5gemma2_encoder"}, language("t5gemma2_text"));
  add(multimodal, {"t5gemma2"}, part("decoder", "*_decoder"), part("encoder", "*_encoder"));
}

}  // namespace gnomon::model::internal
