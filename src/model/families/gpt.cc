// GPT and early decoders: learned tables, ALiBi, partly rotated heads, Transformer-XL. Source:
// the code of each family.
#include "src/model/families/rules.h"

namespace gnomon::model::internal {
namespace {

using gguf_groups::as_is, gguf_groups::biased, gguf_groups::unbiased;
constexpr auto by_columns = GgufOrder::transposed, by_head = GgufOrder::by_head;
constexpr auto optional = GgufPresence::optional;

constexpr GgufTensorName gpt2_tensors[] = {
    {"wte", "token_embd", "VC", as_is, unbiased},
    {"wpe", "position_embd", "PC", as_is, unbiased},
    {"ln_f", "output_norm", "C", as_is, biased},
    {"h.{}.ln_1", "blk.{}.attn_norm", "C", as_is, biased},
    {"h.{}.attn.c_attn", "blk.{}.attn_qkv", "AC", by_columns, biased},
    {"h.{}.attn.c_proj", "blk.{}.attn_output", "CC", by_columns, biased},
    {"h.{}.ln_2", "blk.{}.ffn_norm", "C", as_is, biased},
    {"h.{}.mlp.c_fc", "blk.{}.ffn_up", "FC", by_columns, biased},
    {"h.{}.mlp.c_proj", "blk.{}.ffn_down", "CF", by_columns, biased},
};
constexpr GgufTensorName neox_tensors[] = {
    {"embed_in", "token_embd", "VC", as_is, unbiased},
    {"final_layer_norm", "output_norm", "C", as_is, biased},
    {"embed_out", "output", "VC", as_is, unbiased, GgufPresence::head},
    {"layers.{}.input_layernorm", "blk.{}.attn_norm", "C", as_is, biased},
    {"layers.{}.attention.query_key_value", "blk.{}.attn_qkv", "AC", by_head, biased},
    {"layers.{}.attention.dense", "blk.{}.attn_output", "CC", as_is, biased},
    {"layers.{}.post_attention_layernorm", "blk.{}.ffn_norm", "C", as_is, biased},
    {"layers.{}.mlp.dense_h_to_4h", "blk.{}.ffn_up", "FC", as_is, biased},
    {"layers.{}.mlp.dense_4h_to_h", "blk.{}.ffn_down", "CF", as_is, biased},
};
constexpr GgufTensorName bloom_tensors[] = {
    {"word_embeddings", "token_embd", "VC", as_is, unbiased},
    {"word_embeddings_layernorm", "token_embd_norm", "C", as_is, biased},
    {"ln_f", "output_norm", "C", as_is, biased},
    {"h.{}.input_layernorm", "blk.{}.attn_norm", "C", as_is, biased},
    {"h.{}.self_attention.query_key_value", "blk.{}.attn_qkv", "AC", by_head, biased},
    {"h.{}.self_attention.dense", "blk.{}.attn_output", "CC", as_is, biased},
    {"h.{}.post_attention_layernorm", "blk.{}.ffn_norm", "C", as_is, biased},
    {"h.{}.mlp.dense_h_to_4h", "blk.{}.ffn_up", "FC", as_is, biased},
    {"h.{}.mlp.dense_4h_to_h", "blk.{}.ffn_down", "CF", as_is, biased},
};
constexpr GgufTensorName phi3_layers[] = {
    {"layers.{}.self_attn.qkv_proj", "blk.{}.attn_qkv", "AC", as_is, unbiased},
    {"layers.{}.self_attn.o_proj", "blk.{}.attn_output", "CQ", as_is, unbiased},
    {"layers.{}.mlp.down_proj", "blk.{}.ffn_down", "CF", as_is, unbiased},
    {"layers.{}.mlp.gate_up_proj", "blk.{}.ffn_up", "GC", as_is, unbiased},
};
constexpr GgufTensorName stablelm_layers[] = {
    {"layers.{}.self_attn.q_layernorm.norms.{e}", "blk.{}.attn_q_norm", "HD", as_is, unbiased,
     optional},
    {"layers.{}.self_attn.k_layernorm.norms.{e}", "blk.{}.attn_k_norm", "ND", as_is, unbiased,
     optional},
    {"layers.{}.post_attention_layernorm", "blk.{}.ffn_norm", "C", as_is, GgufBias::optional,
     optional},
};
constexpr GgufTensorName gpt_oss_layers[] = {
    {"layers.{}.self_attn.q_proj", "blk.{}.attn_q", "QC", as_is, biased},
    {"layers.{}.self_attn.k_proj", "blk.{}.attn_k", "KC", as_is, biased},
    {"layers.{}.self_attn.v_proj", "blk.{}.attn_v", "KC", as_is, biased},
    {"layers.{}.self_attn.o_proj", "blk.{}.attn_output", "CQ", as_is, biased},
    {"layers.{}.self_attn.sinks", "blk.{}.attn_sinks.weight", "H"},
    {"layers.{}.mlp.router", "blk.{}.ffn_gate_inp", "EC", as_is, biased},
    {"layers.{}.mlp.experts.gate_up_proj", "blk.{}.ffn_gate_exps.weight", "EMC",
     GgufOrder::even_columns},
    {"layers.{}.mlp.experts.gate_up_proj_bias", "blk.{}.ffn_gate_exps.bias", "EM",
     GgufOrder::even_elements},
    {"layers.{}.mlp.experts.gate_up_proj", "blk.{}.ffn_up_exps.weight", "EMC",
     GgufOrder::odd_columns},
    {"layers.{}.mlp.experts.gate_up_proj_bias", "blk.{}.ffn_up_exps.bias", "EM",
     GgufOrder::odd_elements},
    {"layers.{}.mlp.experts.down_proj", "blk.{}.ffn_down_exps.weight", "ECM", by_columns},
    {"layers.{}.mlp.experts.down_proj_bias", "blk.{}.ffn_down_exps.bias", "EC"},
};
constexpr GgufTensorName olmoe_experts[] = {
    {"layers.{}.mlp.gate", "blk.{}.ffn_gate_inp", "EC"},
    {"layers.{}.mlp.experts.{e}.gate_proj", "blk.{}.ffn_gate_exps", "EFC", as_is, unbiased},
    {"layers.{}.mlp.experts.{e}.up_proj", "blk.{}.ffn_up_exps", "EFC", as_is, unbiased},
    {"layers.{}.mlp.experts.{e}.down_proj", "blk.{}.ffn_down_exps", "ECF", as_is, unbiased},
};
constexpr GgufKey parallel_residual[] = {
    {"use_parallel_residual", "use_parallel_residual", GgufKeyType::boolean}};

void read_gpt2(Reading& r) {
  read_sizes(r);
  if (!r.keys.boolean({"scale_attn_weights"}).value_or(true)) r.softmax_scale = 1;
  const bool by_layer = r.keys.boolean({"scale_attn_by_inverse_layer_idx"}).value_or(false);
  put_learned(r, r.out.length, 0, all_layers(r));
  const double scale = r.softmax_scale.value_or(inverse_sqrt(static_cast<double>(r.head_dim)));
  if (by_layer)
    for (Layer& layer : r.layers)
      layer.attention.softmax_scale = scale / static_cast<double>(layer.number + 1);
}

void read_gpt_bigcode(Reading& r) {
  r.fixed_key_heads = r.is_true("multi_query", true) ? 1 : 0;
  read_gpt2(r);
}

void read_sinusoidal(Reading& r) {
  read_sizes(r);
  put_sinusoidal(r, SinusoidalRecipe::half_split, 0, all_layers(r));
}

void read_xglm(Reading& r) {
  read_sizes(r);
  put_sinusoidal(r, SinusoidalRecipe::tensor2tensor, 2, all_layers(r));
}

void read_bloom(Reading& r) {
  read_sizes(r);
  put(r, Alibi{.heads = r.heads});
  r.note(
      "the released code adds slope x key position, which differs from slope x (key - "
      "query) by a constant for each query, which the softmax cancels");
}

void read_falcon(Reading& r) {
  if (!r.is_true("new_decoder_architecture", false))
    r.fixed_key_heads = r.is_true("multi_query", true) ? 1 : 0;
  if (!r.keys.boolean({"alibi"}).value_or(false)) return read_rotary(r);
  ignore_ropes(r);
  read_sizes(r);
  const double scale = inverse_sqrt(static_cast<double>(r.head_dim));
  put(r, Alibi{.heads = r.heads, .bias_scale = scale, .rounding = AlibiRounding::bfloat16});
  r.note(
      "the released code rounds the slopes to bfloat16 and divides the bias by "
      "sqrt(head_dim), like q.k");
}

// The position keys are in `attn_config`.
void read_mpt(Reading& r) {
  read_sizes(r);
  bool alibi = true;
  double max_bias = 8;
  if (const auto inner = r.keys.object_in("attn_config")) {
    Keys keys(*inner);
    alibi = keys.boolean({"alibi"}).value_or(true);
    max_bias = keys.positive({"alibi_bias_max"}).value_or(8);
    if (keys.boolean({"rope"}).value_or(false))
      inner->fail("attn_config.rope of mpt is not understood");
    r.softmax_scale = keys.positive({"softmax_scale"});
    if (keys.positive({"clip_qkv"}))
      r.unsupported = "clipped queries, keys and values (clip_qkv)";
    if (alibi && max_bias != 8)
      r.note("transformers uses 8 instead of alibi_bias_max " + shown(max_bias));
  }
  if (alibi)
    put(r, Alibi{.heads = r.heads, .max_bias = max_bias});
  else if (r.keys.boolean({"learned_pos_emb"}).value_or(true))
    put_learned(r, r.out.length, 0, all_layers(r));
}

// 7B has rotary, 13B has ALiBi. Their configs differ in the sizes only.
void read_baichuan(Reading& r) {
  read_sizes(r);
  if (r.heads != r.family.alibi_heads) return read_rotary(r);
  r.note("40 heads: the 13B model, which has ALiBi (the 7B model has rotary)");
  put(r, Alibi{.heads = r.heads});
}

void read_dbrx(Reading& r) {
  prepare(r);
  double base = r.keys.base({"rope_theta"}).value_or(r.family.base);
  if (const auto inner = r.keys.object_in("attn_config"))
    base = Keys(*inner).base({"rope_theta"}).value_or(base);
  r.ropes.emplace("", read_rope(r, r.keys.find({"rope_parameters", "rope_scaling"}), base));
  put_ropes(r);
}

void read_nanochat(Reading& r) {
  prepare(r);
  read_ropes(r);
  for (auto& [type, rope] : r.ropes) rope.direction = Direction::inverse;
  put_ropes(r);
}

void read_transformer_xl(Reading& r) {
  read_sizes(r);
  TransformerXl xl{.heads = r.heads,
                   .head_dim = r.head_dim,
                   .width = hidden_size(r),
                   .sinusoid = XlSinusoid::half_split};
  if (const auto clamp = r.keys.integer({"clamp_len"}); clamp && *clamp > 0) xl.clamp = *clamp;
  put(r, xl);
}

void read_xlnet(Reading& r) {
  if (r.keys.string({"attn_type"}).value_or("bi") == "uni") r.visibility = Visibility::causal;
  read_transformer_xl(r);
}

// A scaling with lists of factors is longrope, whatever its type.
void read_phi3(Reading& r) {
  r.lists_are_longrope = true;
  read_rotary(r);
}

void read_phimoe(Reading& r) {
  read_rotary(r);
  for (const auto& [type, rope] : r.ropes)
    if (const auto* const longrope = std::get_if<LongRopeScaling>(&rope.scaling))
      r.note("long_factor is used beyond " + std::to_string(longrope->original_length) +
             " tokens, as in the released code and transformers 4; the forward pass of "
             "transformers 5 uses short_factor at every length");
}

void read_bark(Reading& r) {
  read_sizes_without_length(r);
  put_learned(r, r.size({"block_size"}, r.family.length), 0, all_layers(r));
}

// `causal` is a key of the model. The table is stored, also if it began as sinusoids.
void read_xlm(Reading& r) {
  read_learned(r);
  r.keys.find({"sinusoidal_embeddings"});
  if (r.is_true("causal", false)) r.visibility = Visibility::causal;
}

}  // namespace

void add_gpt(Families& add) {
  using namespace changes;
  using namespace gguf_groups;
  const GgufWeights bloom_weights{
      .architecture = "bloom",
      .prefix = "transformer.",
      .tensors = {bloom_tensors, output_or_tied},
      .keys = {layer_norm_key},
      .fixed = {{"apply_residual_connection_post_layernorm", "false", "false"}}};
  const GgufWeights gpt2_weights{
      .architecture = "gpt2",
      .prefix = "transformer.",
      .tensors = {gpt2_tensors, output_or_tied},
      .keys = {layer_norm_key},
      .fixed = {{"activation_function", "gelu_new|gelu|gelu_pytorch_tanh", "gelu_new"}}};
  const GgufWeights neox_weights{
      .architecture = "gptneox",
      .prefix = "gpt_neox.",
      .tensors = {neox_tensors},
      .keys = {layer_norm_key, parallel_residual},
      .fixed = {{"hidden_act", "gelu_new|gelu|gelu_pytorch_tanh|gelu_fast", "gelu"}}};
  const GgufWeights gpt_oss_weights{
      .architecture = "gpt-oss",
      .tensors = {embeddings, output, input_norm, output_norm, gpt_oss_layers},
      .keys = {rms_norm_key, used_experts, feed_forward_length},
      .fixed = {silu, {"swiglu_limit", "7.0|7", "7"}}};
  const GgufWeights olmo2_weights{
      .architecture = "olmo2",
      .tensors = {embeddings, output, separate_qkv, row_norms, output_norms, gated_layer},
      .keys = {rms_norm_key},
      .fixed = {silu},
      .heads_fill_width = true};
  const GgufWeights olmoe_weights{.architecture = "olmoe",
                                  .tensors = {embeddings, output, input_norm, separate_qkv,
                                              row_norms, feed_forward_norm, olmoe_experts},
                                  .keys = {rms_norm_key, used_experts},
                                  .fixed = {silu, {"norm_topk_prob", "false", "false"}},
                                  .heads_fill_width = true};
  const GgufWeights phi3_weights{
      .architecture = "phi3",
      .tensors = {embeddings, output_or_tied, input_norm, phi3_layers, feed_forward_norm},
      .keys = {rms_norm_key},
      .fixed = {silu},
      .heads_fill_width = true};
  const GgufWeights stablelm_weights{.architecture = "stablelm",
                                     .tensors = {biased_embeddings, output, biased_input_norm,
                                                 separate_qkv, stablelm_layers, gated_layer},
                                     .keys = {layer_norm_key},
                                     .fixed = {silu},
                                     .heads_fill_width = true};
  add(rotary, {}, position("ALiBi"), gguf("jais", RopeType::none),
      gguf_keys("attention.max_alibi_bias"), gguf_scaled_by_head_dim(true));
  add(rotary, {}, alibi_heads(by_heads), gguf("refact", RopeType::none));
  add(rotary, {"baichuan"}, read(read_baichuan), position("rotary, halves, or ALiBi"),
      share(1, any), length(512), alibi_heads(40), weights(stacked),
      gguf("baichuan", RopeType::adjacent), gguf_alibi_layers(40), gguf_rotary_layers(32));
  add(rotary, {"bloom"}, read(read_bloom), position("ALiBi"), length(512), sizes(2, 8, 64),
      alibi_heads(by_heads), weights(grouped), gguf("bloom", RopeType::none),
      to_gguf(bloom_weights));
  add(rotary, {"codegen"}, pairing(adjacent), rotary_dim(64), sizes(28, 16, 4096),
      key_heads(by_heads), weights(quarters));
  add(rotary, {"ctrl"}, read(read_sinusoidal), position("sinusoidal, half_split"), length(256),
      sizes(48, 16, 1280));
  add(rotary, {"dbrx"}, read(read_dbrx), sizes(24, 16, 2048), key_heads(1), weights(stacked),
      gguf("dbrx", RopeType::halves), gguf_keys("attention.clamp_kqv"));
  add(rotary, {"falcon"}, read(read_falcon), position("rotary, halves, or ALiBi"),
      sizes(32, 71, 4544), weights(grouped), gguf("falcon", RopeType::halves));
  const Family gpt_sw3 = add(rotary, {"gpt-sw3"}, read(read_gpt2), position("learned"),
                             length(1024), sizes(12, 12, 768), weights(transposed));
  add(gpt_sw3, {"gpt2"}, gguf("gpt2", RopeType::none), to_gguf(gpt2_weights));
  const Family gpt_neox_japanese =
      add(rotary, {"gpt_neox_japanese"}, share(1, rotary_pct), sizes(32, 32, 2560),
          key_heads(by_heads), weights(grouped));
  add(gpt_neox_japanese, {"gpt_bigcode"}, read(read_gpt_bigcode), position("learned"), share(1),
      length(1024), sizes(12, 12, 768), key_heads(1), gguf("starcoder", RopeType::none));
  add(gpt_neox_japanese, {"gpt_neox"}, share(0.25, rotary_pct), odd_share(true),
      sizes(44, 64, 6144), gguf("gptneox", RopeType::halves), to_gguf(neox_weights));
  add(rotary, {"gpt_oss"}, base(150'000),
      rope(
          R"({"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
"truncate": false, "original_max_position_embeddings": 4096})"),
      head_dim(64), length(131'072), sizes(36, 64, 2880), key_heads(8),
      window(by_type, 128, "sf"), sinks(true), gguf("gpt-oss", RopeType::halves),
      gguf_window({.window = GgufWindow::causal, .every = 2, .size = by_file}),
      to_gguf(gpt_oss_weights));
  add(rotary, {"gptj"}, pairing(adjacent), rotary_dim(64), sizes(28, 16, 4096),
      key_heads(by_heads), gguf("gptj", RopeType::none),
      gguf_refused("llama.cpp has no graph for it"));
  const Family imagegpt = add(rotary, {"imagegpt"}, read(read_learned), position("learned"),
                              length(1024), sizes(24, 8, 512));
  add(imagegpt, {"gpt_neo"}, length(2048), sizes(24, 16, 2048),
      window(by_type, 256, "fs", "window_size"), softmax_scale(1));
  const Family bark =
      add(imagegpt, {"coarse_acoustics", "semantic"}, read(read_bark), sizes(12, 12, 768));
  add(bark, {"fine_acoustics"}, visibility(bidirectional));
  add(imagegpt, {"clvp_decoder"}, length(608), sizes(30, 16, 1024),
      note("tables of text and speech are separate; this is that of speech"));
  add(imagegpt, {"flaubert", "xlm"}, read(read_xlm), length(512), sizes(12, 16, 2048),
      visibility(bidirectional));
  add(imagegpt, {"openai-gpt"}, length(512), sizes(12, 12, 768), weights(transposed));
  add(rotary, {"mpt"}, read(read_mpt), position("ALiBi"), sizes(24, 16, 2048), weights(stacked),
      gguf("mpt", RopeType::none),
      gguf_keys("attention.clamp_kqv", "attention.max_alibi_bias"));
  add(rotary, {"nanochat"}, read(read_nanochat), sizes(12, 6, 768),
      norm(rms, after, head, 1e-6, 0, "", true, false, false));
  const Family olmo = add(rotary, {"olmo"}, sizes(32, 32, 4096),
                          gguf("olmo", RopeType::adjacent), gguf_keys("attention.clamp_kqv"));
  const Family olmo2 =
      add(olmo, {"olmo2"}, norm(rms, before, all_heads, 1e-5), gguf("olmo2", RopeType::halves),
          gguf_window({.window = GgufWindow::causal,
                       .every = 4,
                       .base = SlidingBase::same,
                       .scaled = false,
                       .table_scaled = false}),
          to_gguf(olmo2_weights));
  add(olmo2, {"olmoe"}, length(4096), sizes(16, 16, 2048), gguf("olmoe", RopeType::halves),
      to_gguf(olmoe_weights));
  add(olmo, {"olmo_hybrid"}, length(65'536), sizes(32, 30, 3840),
      norm(rms, before, all_heads, 1e-6));
  add(rotary, {"openai_privacy_filter"}, pairing(adjacent), base(150'000),
      rope(
          R"({"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
"truncate": false, "original_max_position_embeddings": 4096})"),
      head_dim(64), length(131'072), sizes(8, 14, 640), key_heads(2), visibility(bidirectional),
      window(all, 128), window_sides(WindowSides::whole), sinks(true));
  const Family opt = add(rotary, {"opt"}, read(read_learned_after_two),
                         position("learned, offset 2"), sizes(12, 12, 768));
  add(opt, {"biogpt"}, length(1024), sizes(24, 16, 1024));
  add(rotary, {"persimmon"}, share(0.5, factor), head_dim(by_heads), length(16'384),
      sizes(36, 64, 4096), key_heads(by_heads),
      norm(layer_norm, before, head, 1e-5, 0, "qk_layernorm", true), weights(grouped));
  add(rotary, {"phi"}, share(0.5, factor), sizes(24, 32, 2048),
      norm(layer_norm, before, head, 1e-5, 0, "qk_layernorm", false),
      gguf("phi2", RopeType::halves));
  add(rotary, {"phi3"}, read(read_phi3), share(1, factor), odd_share(true), length(4096),
      sizes(32, 32, 3072), window(all), weights(stacked), gguf("phi3", RopeType::halves),
      to_gguf(phi3_weights));
  add(rotary, {"phi4_multimodal"}, share(1, factor), length(131'072), sizes(32, 32, 3072),
      key_heads(8), window(all), weights(stacked), part("vision_config", "*_vision"));
  add(rotary, {"phimoe"}, read(read_phimoe), base(1'000'000), length(131'072),
      sizes(32, 32, 4096), key_heads(8), window(all), gguf("phimoe", RopeType::halves));
  add(rotary, {"stablelm"}, share(0.25, factor), head_dim(by_heads), length(4096),
      sizes(32, 32, 2560), key_heads(32),
      norm(layer_norm, before, head, 1e-5, 0, "qk_layernorm", false),
      gguf("stablelm", RopeType::halves), to_gguf(stablelm_weights));
  const Family transfo_xl = add(rotary, {"transfo-xl"}, read(read_transformer_xl),
                                position("Transformer-XL"), length(512), sizes(18, 16, 1024));
  add(transfo_xl, {"funnel"}, sizes(0, 0, 0), visibility(bidirectional),
      unsupported("queries that are pooled between blocks"));
  add(rotary, {"xglm"}, read(read_xglm), position("sinusoidal, tensor2tensor"),
      sizes(24, 16, 1024));
  add(rotary, {"xlnet"}, read(read_xlnet), position("Transformer-XL"), length(512),
      sizes(24, 16, 1024), visibility(bidirectional));
  const Family phi_msft = add(multimodal, {"phi-msft", "phi4mm"}, weights(stacked));
  add(phi_msft, {"openelm"}, gguf("openelm", RopeType::halves));
}

}  // namespace gnomon::model::internal
