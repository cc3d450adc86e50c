// Qwen, and models with its positions on several axes. Source: the code of each family.
#include "src/model/families/rules.h"

namespace gnomon::model::internal {
namespace {

void read_qwen1(Reading& r) {
  prepare(r);
  const std::int64_t trained = r.size({"seq_length"}, 2048);
  if (r.keys.boolean({"use_dynamic_ntk"}).value_or(false))
    r.note("use_dynamic_ntk: past " + std::to_string(trained) +
           " tokens the base is multiplied by a^(d/(d-2)), a = 2^ceil(log2(length / " +
           std::to_string(trained) + ") + 1) - 1; these frequencies apply up to this length");
  if (r.keys.boolean({"use_logn_attn"}).value_or(false))
    r.note("use_logn_attn: queries past " + std::to_string(trained) +
           " are multiplied by log(position) / log(" + std::to_string(trained) + ")");
  r.keys.find({"rotary_emb_base"});
  r.out.length = trained;
  read_rotary(r);
}

void read_qwen3_next(Reading& r) {
  prepare(r);
  const std::int64_t every = r.size({"full_attention_interval"}, 4);
  type_layers(r,
              [&](std::int64_t l) { return (l + 1) % every == 0 ? full : "linear_attention"; });
  read_rotary(r);
}

}  // namespace

void add_qwen(Families& add) {
  using namespace changes;
  using namespace gguf_groups;
  const GgufWeights qwen2_weights{.architecture = "qwen2",
                                  .tensors = {embeddings, output_or_tied, input_norm,
                                              biased_qkv, feed_forward_norm, gated_layer},
                                  .keys = {rms_norm_key},
                                  .fixed = {silu},
                                  .heads_fill_width = true};
  const GgufWeights qwen3_weights{
      .architecture = "qwen3",
      .tensors = {embeddings, output_or_tied, input_norm, separate_qkv, head_norms,
                  feed_forward_norm, gated_layer},
      .keys = {rms_norm_key},
      .fixed = {silu}};
  const GgufWeights qwen3_moe_weights{
      .architecture = "qwen3moe",
      .tensors = {embeddings, output_or_tied, input_norm, separate_qkv, head_norms,
                  feed_forward_norm, experts},
      .keys = {rms_norm_key, used_experts, feed_forward_length},
      .fixed = {silu, {"norm_topk_prob", "true", "false"}}};
  add(rotary, {"cosmos3_edge_text"}, base(100'000'000),
      rope(
          R"({"rope_type": "default", "rope_theta": 100000000.0,
"mrope_section": [24, 20, 20]})"),
      mrope(MRopeOrder::interleaved, {24, 20, 20}), head_dim(128), length(131'072),
      sizes(28, 16, 2048), key_heads(8));
  add(rotary, {"paddleocr_vl_text"}, base(500'000), mrope(MRopeOrder::sequential, {16, 24, 24}),
      head_dim(128), length(131'072), sizes(18, 16, 1024), key_heads(2),
      gguf("paddleocr", RopeType::sections));
  add(rotary, {"qwen"}, read(read_qwen1), share(1, any), head_dim(128), length(8192),
      weights(stacked), gguf("qwen", RopeType::halves));
  const Family qwen2 =
      add(rotary, {"qwen2"}, length(32'768), sizes(32, 32, 4096), key_heads(32),
          window(from_layer, 4096), gguf("qwen2", RopeType::halves), to_gguf(qwen2_weights));
  const Family qwen2_5_vl_text =
      add(qwen2, {"qwen2_5_vl_text", "qwen2_vl_text"}, base(1'000'000),
          mrope(MRopeOrder::sequential, {16, 24, 24}), head_dim(by_heads), sizes(80, 64, 8192),
          key_heads(8));
  const Family qwen2_5_omni_talker =
      add(qwen2_5_vl_text, {"qwen2_5_omni_talker"}, head_dim(128), sizes(28, 28, 3584),
          key_heads(4), window(from_layer, 32768));
  add(qwen2_5_omni_talker, {"qwen2_5_omni_text"}, head_dim(0));
  const Family qwen2_5_vl =
      add(qwen2_5_vl_text, {"qwen2_5_vl"}, key_heads(0), part("vision_config", "*_vision"));
  add(qwen2_5_vl, {"qwen2_vl"}, gguf("qwen2vl", RopeType::sections));
  add(qwen2, {"qwen2_moe"}, sizes(24, 16, 2048), key_heads(16), window(even_below, 4096),
      gguf("qwen2moe", RopeType::halves));
  const Family qwen3 = add(qwen2, {"qwen3"}, head_dim(128), norm(rms, before, head, 1e-6),
                           gguf("qwen3", RopeType::halves), to_gguf(qwen3_weights));
  const Family qwen3_omni_moe_talker_code_predictor =
      add(qwen3, {"qwen3_omni_moe_talker_code_predictor"}, sizes(5, 16, 1024), key_heads(8),
          window(none));
  add(qwen3_omni_moe_talker_code_predictor, {"qwen3_next"}, read(read_qwen3_next),
      share(0.25, factor), odd_share(true), head_dim(256), sizes(48, 16, 2048), key_heads(2),
      norm(rms, before, head, 1e-6, 1), weights(gated), output_gate(per_channel),
      differences("attention in one layer of four"), gguf("qwen3next", RopeType::halves),
      gguf_attention_every(4));
  const Family qwen3_omni_moe_talker_text =
      add(qwen3_omni_moe_talker_code_predictor, {"qwen3_omni_moe_talker_text"},
          mrope(MRopeOrder::interleaved, {24, 20, 20}), head_dim(0), sizes(20, 16, 1024),
          key_heads(2));
  const Family qwen3_5_moe_text =
      add(qwen3_omni_moe_talker_text, {"qwen3_5_moe_text"}, read(read_qwen3_next),
          share(0.25, factor), mrope(MRopeOrder::interleaved, {11, 11, 10}), head_dim(256),
          sizes(40, 16, 2048), norm(rms, before, head, 1e-6, 1), weights(gated),
          output_gate(per_channel), differences("attention in one layer of four"),
          gguf("qwen35moe", RopeType::interleaved_sections), gguf_attention_every(4));
  add(qwen3_5_moe_text, {"qwen3_5_text"}, sizes(32, 16, 4096), key_heads(4),
      gguf("qwen35", RopeType::interleaved_sections), gguf_attention_every(4));
  add(qwen3_omni_moe_talker_text, {"qwen3_omni_moe_text"}, base(1'000'000),
      rounds_head_dim(true), sizes(28, 28, 2048), key_heads(4));
  const Family qwen3_vl_moe_text = add(
      qwen3_omni_moe_talker_text, {"qwen3_vl_moe_text"}, base(500'000), length(128'000),
      sizes(24, 16, 2048), key_heads(16), gguf("qwen3vlmoe", RopeType::interleaved_sections));
  const Family qwen3_vl_text =
      add(qwen3_vl_moe_text, {"qwen3_vl_text"}, head_dim(128), sizes(32, 32, 4096),
          key_heads(32), gguf("qwen3vl", RopeType::interleaved_sections));
  add(qwen3_vl_text, {}, gguf("qwen3tts", RopeType::interleaved_sections));
  add(qwen3_5_moe_text, {"qwen4_exp_text"}, share(1, factor), length(32'768),
      unsupported("an indexer that selects the keys of each query"));
  add(qwen3_5_moe_text, {}, unsupported("an indexer that selects the keys of each query"),
      gguf("qwen4exp", RopeType::interleaved_sections), gguf_attention_every(4),
      gguf_unsupported_by("attention.compress_ratios"));
  add(qwen2, {"qwen3_moe"}, sizes(24, 32, 2048), key_heads(4), window(switched, 4096),
      norm(rms, before, head, 1e-6), gguf("qwen3moe", RopeType::halves),
      to_gguf(qwen3_moe_weights));
  const Family qwen2_audio = add(multimodal, {"qwen2_audio"}, language("qwen2"));
  add(qwen2_audio, {"qwen2_5_omni_thinker"}, language("qwen2_5_omni_text"),
      part("vision_config", "qwen2_5_omni_vision_encoder"));
  add(qwen2_audio, {"qwen3_asr"}, language("qwen3"));
  add(qwen2_audio, {"qwen3_omni_moe_thinker"}, language("qwen3_omni_moe_text"),
      part("vision_config", "qwen3_omni_moe_vision_encoder"));
  const Family qwen3_omni_moe =
      add(multimodal, {"qwen3_omni_moe"}, part("thinker_config", "*_thinker"));
  add(qwen3_omni_moe, {"qwen2_5_omni"}, part("talker_config", "*_talker"),
      part("token2wav_config", "*_token2wav"));
  const Family qwen4_exp = add(multimodal, {"qwen4_exp"}, part("vision_config", "*_vision"));
  const Family qwen3_vl = add(qwen4_exp, {"qwen3_vl", "qwen3_vl_moe"}, language("*_text"));
  add(qwen3_vl, {"qwen3_5", "qwen3_5_moe"}, weights(gated));
}

}  // namespace gnomon::model::internal
