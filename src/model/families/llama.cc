// Decoders that rotate all layers in the same way. Source: the code of each family.
#include "src/model/families/rules.h"

namespace gnomon::model::internal {
namespace {

constexpr GgufTensorName mixtral_experts[] = {
    {"layers.{}.block_sparse_moe.gate", "blk.{}.ffn_gate_inp", "EC"},
    {"layers.{}.block_sparse_moe.experts.{e}.w1", "blk.{}.ffn_gate_exps", "EFC"},
    {"layers.{}.block_sparse_moe.experts.{e}.w3", "blk.{}.ffn_up_exps", "EFC"},
    {"layers.{}.block_sparse_moe.experts.{e}.w2", "blk.{}.ffn_down_exps", "ECF"},
};
constexpr GgufTensorName arcee_layers[] = {
    {"layers.{}.mlp.up_proj", "blk.{}.ffn_up", "FC", GgufOrder::as_is, GgufBias::none},
    {"layers.{}.mlp.down_proj", "blk.{}.ffn_down", "CF", GgufOrder::as_is, GgufBias::none},
};
constexpr GgufTensorName starcoder2_layers[] = {
    {"layers.{}.mlp.c_fc", "blk.{}.ffn_up", "FC", GgufOrder::as_is, GgufBias::required},
    {"layers.{}.mlp.c_proj", "blk.{}.ffn_down", "CF", GgufOrder::as_is, GgufBias::required},
};

void read_ministral3(Reading& r) {
  prepare(r);
  for (const char* name : {"rope_scaling", "rope_parameters"})
    if (const auto dictionary = r.keys.find({name}); dictionary && !r.temperature)
      read_temperature(r, *dictionary);
  read_rotary(r);
}

// Rotates queries, keys and values. The rotated part is at least 32 elements of a head.
void read_clvp_encoder(Reading& r) {
  read_sizes_without_length(r);
  read_layer_types(r);
  const std::int64_t projected = r.size({"projection_dim"}, 768);
  r.rotary_dim = std::max<std::int64_t>(projected / (2 * r.heads), 32);
  if (r.keys.boolean({"use_rotary_embedding"}).value_or(true)) {
    r.ropes.emplace("", read_rope(r, std::nullopt, 10'000));
    r.unsupported = "rotated values";
  } else {
    for (Layer& layer : r.layers) layer.rotates = false;
  }
  put_ropes(r);
}

// Heads of the second half are subtracted. Each key head reads the values of two.
void read_diffllama(Reading& r) {
  const std::int64_t key_heads = r.key_heads == 0 ? r.heads : r.key_heads;
  if (key_heads % 2 != 0)
    r.fail_at({"num_key_value_heads"},
              "num_key_value_heads must be even, got " + std::to_string(key_heads));
  r.value_dim = 2 * r.head_dim;
  for (Layer& layer : r.layers) layer.attention.head_pairs = HeadPairs::differential;
}

// With mrope_section, the two elements of a pair may use different axes.
void read_hunyuan_vl(Reading& r) {
  const auto given = r.keys.find({"rope_scaling", "rope_parameters"});
  if (given && given->is(JsonType::object))
    for (const char* name : {"mrope_section", "xdrope_section"})
      if (Keys(*given).find({name})) {
        r.unsupported = "positions on several axes for the two elements of a pair";
        r.note("text has the same position on all axes, so its rotation is that of one axis");
      }
  read_rotary(r);
}

// Positions are those of patches of a time series.
void read_timesfm(Reading& r) {
  const std::int64_t patch = r.size({"patch_length"}, 32);
  read_sizes_without_length(r);
  r.out.length = std::max<std::int64_t>(r.size({"context_length"}, 512) / patch, 1);
  if (!r.is_true("use_positional_embedding", false)) return read_layer_types(r);
  if (r.size({"min_timescale"}, 1) != 1 || r.size({"max_timescale"}, 10'000) != 10'000)
    r.fail_at({"min_timescale", "max_timescale"},
              "min_timescale must be 1 and max_timescale 10000");
  put_sinusoidal(r, SinusoidalRecipe::tensor2tensor, 0, all_layers(r));
}

}  // namespace

void add_llama(Families& add) {
  using namespace changes;
  using namespace gguf_groups;
  const GgufWeights llama_weights{.architecture = "llama",
                                  .tensors = {embeddings, output_or_tied, input_norm,
                                              separate_qkv, feed_forward_norm, gated_layer},
                                  .keys = {rms_norm_key},
                                  .fixed = {silu}};
  const GgufWeights arcee_weights{.architecture = "arcee",
                                  .tensors = {embeddings, output_or_tied, input_norm,
                                              separate_qkv, feed_forward_norm, arcee_layers},
                                  .keys = {rms_norm_key},
                                  .fixed = {{"hidden_act", "relu2", "relu2"}}};
  const GgufWeights seed_oss_weights{.architecture = "seed_oss",
                                     .tensors = {embeddings, output_or_tied, input_norm,
                                                 separate_qkv, output_norm, gated_layer},
                                     .keys = {rms_norm_key},
                                     .fixed = {silu}};
  GgufWeights mixtral_weights = llama_weights;
  mixtral_weights.tensors.back() = mixtral_experts;
  mixtral_weights.keys.push_back(used_experts);
  const GgufWeights starcoder2_weights{
      .architecture = "starcoder2",
      .tensors = {biased_embeddings, output_or_tied, biased_input_norm, separate_qkv,
                  biased_feed_forward_norm, starcoder2_layers},
      .keys = {layer_norm_key},
      .fixed = {gelu},
      .heads_fill_width = true};
  const Family normed =
      add(rotary, {}, norm(rms, before, head, 1e-6), gguf("bailingmoe2", RopeType::halves));
  add(normed, {}, gguf("grovemoe", RopeType::halves));
  add(normed, {}, gguf("k2-horizon", RopeType::halves),
      gguf_keys("rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow"));
  for (const char* name : {"llada-moe", "rnd1"})
    add(normed, {}, visibility(bidirectional), gguf(name, RopeType::halves));
  add(normed, {}, nope_layers(NopeLayers::full), gguf("maple", RopeType::halves),
      gguf_keys("rope.dimension_count_swa"),
      gguf_window({.window = GgufWindow::causal, .every = by_file, .size = by_file}));
  add(normed, {}, gguf("plamo3", RopeType::halves),
      gguf_window({.window = GgufWindow::causal,
                   .every = 8,
                   .base = SlidingBase::own,
                   .scaled = false}));
  add(rotary, {}, pairing(adjacent), norm(rms, after, head, 1e-6),
      gguf("maincoder", RopeType::adjacent));
  add(rotary, {}, norm(rms, after, head, 1e-6), gguf("talkie", RopeType::halves));
  add(rotary, {}, visibility(bidirectional), gguf("dream", RopeType::halves));
  add(rotary, {}, visibility(bidirectional), gguf("llada", RopeType::adjacent),
      gguf_unfactored(true));
  add(rotary, {}, gguf("pangu-embedded", RopeType::halves), gguf_unfactored(true));
  add(rotary, {}, pairing(adjacent), gguf("plm", RopeType::adjacent));
  add(rotary, {}, gguf("nanbeige", RopeType::adjacent), gguf_keys("num_loops"));
  add(rotary, {}, gguf("spark2_5", RopeType::halves), gguf_keys("rope.dimension_count_swa"),
      gguf_window({.window = GgufWindow::causal, .every = by_file, .size = by_file}));
  add(rotary, {}, gguf("cogvlm", RopeType::halves), gguf_fixed_rope(true));
  for (const char* name : {"dflash", "eagle3"})
    add(rotary, {}, gguf(name, RopeType::none),
        gguf_refused("a draft of another model, whose hidden states it reads"));
  for (const char* name : {"arctic", "bailingmoe", "deci", "llama-embed"})
    add(rotary, {}, gguf(name, RopeType::adjacent));
  for (const char* name : {"codeshell", "plamo"}) add(rotary, {}, gguf(name, RopeType::halves));
  add(rotary, {}, nope_every(4), nope_layers(NopeLayers::full_with_window),
      gguf("smallthinker", RopeType::halves),
      gguf_window(
          {.window = GgufWindow::causal, .every = 4, .full_first = true, .fixed = 4096}));
  add(rotary, {}, softmax_scale(0.08838834764831845), softcap(30),
      gguf("grok", RopeType::halves), gguf_beta_fast(8),
      gguf_keys("attention.output_scale", "attn_logit_softcapping",
                "rope.scaling.yarn_ext_factor", "rope.scaling.yarn_attn_factor",
                "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow"));
  add(rotary, {}, norm(layer_norm, before, head, 1e-5), gguf("chameleon", RopeType::adjacent),
      gguf_norm_epsilon(1e-5));
  add(rotary, {"EvollaModel", "evolla"}, base(500'000), length(8192), sizes(32, 32, 4096),
      key_heads(8));
  const Family apertus1p5_text =
      add(rotary, {"apertus1p5_text"}, base(12'000'000),
          rope(
              R"({"rope_type": "llama3", "rope_theta": 12000000.0, "factor": 8.0,
"original_max_position_embeddings": 8192, "low_freq_factor": 1.0,
"high_freq_factor": 4.0})"),
          length(65'536), sizes(32, 32, 4096),
          unsupported("attention that was not compared with the model's own code"));
  add(apertus1p5_text, {"apertus"}, norm(rms, before, head, 1e-5), unsupported(""),
      gguf("apertus", RopeType::halves));
  add(rotary, {"aquila"}, share(1, any));
  add(rotary, {"arcee"}, length(4096), sizes(32, 32, 2560), gguf("arcee", RopeType::adjacent),
      to_gguf(arcee_weights));
  add(rotary, {"aria_text"}, sizes(32, 32, 4096));
  add(rotary, {"llama"}, sizes(32, 32, 4096), to_gguf(llama_weights));
  add(rotary, {"bitnet"}, base(500'000), sizes(30, 20, 2560), key_heads(5),
      gguf("bitnet", RopeType::halves));
  const Family blt_global_transformer =
      add(rotary, {"blt_global_transformer"}, pairing(adjacent), base(500'000),
          head_dim(by_heads), length(4096), sizes(25, 16, 2048));
  const Family blt_local_decoder = add(blt_global_transformer, {"blt_local_decoder"},
                                       length(24'576), sizes(9, 16, 1024), window(all));
  add(blt_local_decoder, {"blt_local_encoder"}, sizes(1, 16, 1024));
  add(blt_global_transformer, {"blt_patcher"}, base(10'000), length(8192), sizes(14, 12, 768),
      window(all, 512));
  add(rotary, {"chameleon"}, length(4096), sizes(32, 32, 4096),
      unsupported("attention that was not compared with the model's own code"));
  add(rotary, {"code_llama", "open-llama"}, share(1, any), sizes(32, 32, 4096));
  add(rotary, {"cwm"}, base(1'000'000),
      rope(
          R"({"rope_theta": 1000000.0, "factor": 16.0, "high_freq_factor": 4.0,
"low_freq_factor": 1.0, "original_max_position_embeddings": 8192, "rope_type":
"llama3"})"),
      head_dim(128), length(131'072), sizes(64, 48, 6144), key_heads(8),
      window(by_type, 8192, "fsss"));
  add(rotary, {"clvp_encoder"}, read(read_clvp_encoder), sizes(20, 12, 768),
      visibility(bidirectional));
  add(rotary, {"diffllama"}, attention(read_diffllama), sizes(16, 32, 2048));
  add(rotary, {"doge"}, sizes(32, 8, 1024), norm(rms, before, head, 1e-6),
      unsupported("a trained mask added to the scores"));
  add(rotary, {"dots1"}, sizes(62, 32, 4608), key_heads(32), window(from_layer, 4096),
      window_on(true), norm(rms, before, head, 1e-6), gguf("dots1", RopeType::halves));
  add(rotary, {"emu3_text_model"}, base(1'000'000), length(9216), sizes(32, 32, 4096),
      key_heads(8));
  add(rotary, {"flex_olmo"}, base(500'000), length(4096), sizes(32, 32, 4096),
      norm(rms, before, all_heads, 1e-6));
  add(rotary, {"helium"}, pairing(adjacent), base(100'000), head_dim(128), length(4096),
      sizes(24, 20, 2560), key_heads(20));
  add(rotary, {"higgs_audio_v2"}, base(500'000),
      rope(
          R"({"rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0,
"original_max_position_embeddings": 1024, "low_freq_factor": 0.125,
"high_freq_factor": 0.5})"),
      head_dim(128), sizes(28, 24, 3072), key_heads(8));
  add(rotary, {"hrm_text"}, output_gate(per_channel), head_dim(128), sizes(128, 12, 1536),
      gguf("hrm_text", RopeType::halves));
  const Family hunyuan_v1_dense =
      add(rotary, {"hunyuan_v1_dense"}, sizes(32, 32, 4096), norm(rms, after, head, 1e-5),
          gguf("hunyuan-dense", RopeType::halves), gguf_keys("rope.scaling.alpha"));
  add(hunyuan_v1_dense, {}, gguf("hunyuan_vl", RopeType::halves),
      gguf_keys("rope.scaling.alpha", "rope.dimension_sections"));
  add(hunyuan_v1_dense, {"hunyuan_vl_text"}, read(read_hunyuan_vl));
  add(hunyuan_v1_dense, {"hunyuan_v1_moe"}, gguf("hunyuan-moe", RopeType::halves));
  add(rotary, {"hy_v3"}, base(11'158'840), head_dim(128), length(131'072), sizes(80, 64, 4096),
      key_heads(8), norm(rms, before, head, 1e-5), gguf("hy_v3", RopeType::halves));
  add(rotary, {"idefics"}, key_heads(by_heads), sizes(32, 32, 4096),
      note("gated attention to an image, without position, stands between the layers"));
  add(rotary, {"internlm2"}, share(1, any), weights(grouped),
      gguf("internlm2", RopeType::adjacent));
  add(rotary, {"internlm3"}, head_dim(128), length(32'768), sizes(48, 32, 4096), key_heads(2));
  add(rotary, {"iquestcoder"}, head_dim(128), length(131'072), sizes(80, 40, 5120),
      key_heads(8));
  add(rotary, {"jais2"}, length(8192), sizes(32, 26, 3328), gguf("jais2", RopeType::halves));
  add(rotary, {"jetmoe"}, head_dim(128), length(4096), sizes(12, 32, 2048), key_heads(16));
  add(rotary, {"kyutai_speech_to_text"}, length(750), sizes(48, 32, 2048), window(all, 375),
      unsupported("attention that was not compared with the model's own code"));
  add(rotary, {"mellum"}, base(500'000), share(1, factor),
      rope(
          R"({"full_attention": {"rope_type": "default", "rope_theta": 500000.0},
"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}})"),
      head_dim(128), length(131'072), sizes(28, 32, 2304), key_heads(4), window(by_type, 1024),
      norm(rms, before, head, 1e-6), gguf("mellum", RopeType::halves),
      gguf_window({.window = GgufWindow::causal,
                   .every = 4,
                   .base = SlidingBase::same,
                   .scaled = false,
                   .table_scaled = false}));
  add(rotary, {"minicpm"}, share(1, any), gguf("minicpm", RopeType::adjacent));
  const Family ministral = add(rotary, {"ministral"}, length(131'072), sizes(32, 32, 4096),
                               key_heads(8), window(by_type, 4096, "s"));
  add(ministral, {"ministral3"}, read(read_ministral3), base(1'000'000),
      rope(
          R"({"rope_theta": 1000000.0, "factor": 16.0,
"original_max_position_embeddings": 16384, "max_position_embeddings": 262144,
"beta_fast": 32.0, "beta_slow": 1.0, "mscale_all_dim": 1.0, "mscale": 1.0,
"llama_4_scaling_beta": 0.1, "rope_type": "yarn"})"),
      head_dim(128), length(262'144), sizes(34, 32, 4096), window(all),
      gguf("mistral3", RopeType::adjacent),
      gguf_keys("attention.temperature_scale", "rope.scaling.yarn_beta_fast",
                "rope.scaling.yarn_beta_slow", "rope.scaling.yarn_log_multiplier"));
  add(rotary, {"mistral"}, length(131'072), sizes(32, 32, 4096), key_heads(8),
      window(all, 4096), gguf("llama", RopeType::adjacent), to_gguf(llama_weights));
  add(rotary, {"mixtral"}, base(1'000'000), length(131'072), sizes(32, 32, 4096), key_heads(8),
      window(all), to_gguf(mixtral_weights));
  add(rotary, {"molmo2_text"}, head_dim(128), length(36'864), sizes(36, 32, 4096), key_heads(8),
      norm(rms, before, head, 1e-6));
  add(rotary, {"muse_glimmer_assistant"}, base(500'000), head_dim(128), length(131'072),
      sizes(5, 32, 6656), key_heads(8), visibility(bidirectional),
      norm(rms, before, head, 1e-5),
      unsupported("attention that was not compared with the model's own code"));
  add(rotary, {"nemotron"}, share(0.5, factor), odd_share(true), length(4096),
      sizes(32, 48, 6144), gguf("nemotron", RopeType::halves));
  add(rotary, {"orion"}, share(1, any), gguf("orion", RopeType::halves));
  add(rotary, {"seed_oss"}, head_dim(128), length(524'288), sizes(64, 80, 4096), key_heads(8),
      gguf("seed_oss", RopeType::halves), to_gguf(seed_oss_weights));
  add(rotary, {"solar_open"}, base(1'000'000), share(1, factor), head_dim(128), length(131'072),
      sizes(48, 64, 4096), key_heads(8));
  add(rotary, {"starcoder2"}, length(4096), sizes(30, 24, 3072), key_heads(2), window(all),
      gguf("starcoder2", RopeType::halves), to_gguf(starcoder2_weights));
  const char* const scaled_queries = "a trained scale for each element of the queries";
  add(rotary, {"timesfm"}, read(read_timesfm), position("none, or sinusoidal"), length(512),
      head_dim(80), sizes(50, 16, 1280), softmax_scale(1), unsupported(scaled_queries));
  add(rotary, {"timesfm2_5"}, length(16'384), head_dim(80), sizes(20, 16, 1280), key_heads(16),
      norm(rms, after, head, 1e-6), softmax_scale(1), unsupported(scaled_queries),
      note("positions count from the first point that is not masked"));
  add(rotary, {"unlimited_ocr_text"}, head_dim(by_heads), length(32'768), sizes(12, 10, 1280),
      key_heads(10), unsupported("windows and a reference image"));
  add(rotary, {"xverse"}, share(1, any), gguf("xverse", RopeType::adjacent));
}

}  // namespace gnomon::model::internal
