#include "src/model/attention_facts.h"

#include <span>

namespace gnomon::model::internal {

bool names(std::string_view families, std::string_view model_type) {
  if (model_type.empty()) return false;
  for (std::size_t at = 0; (at = families.find(model_type, at)) != std::string_view::npos;
       at += model_type.size()) {
    const std::size_t end = at + model_type.size();
    if ((at == 0 || families[at - 1] == ' ') &&
        (end == families.size() || families[end] == ' '))
      return true;
  }
  return false;
}

namespace {

template <typename Fact>
struct Row {
  std::string_view families;
  Fact fact;
};
template <typename Fact, std::size_t n>
const Fact* find(const Row<Fact> (&rows)[n], std::string_view model_type) {
  for (const Row<Fact>& row : rows)
    if (names(row.families, model_type)) return &row.fact;
  return nullptr;
}

}  // namespace

// Text encoders. Image towers are bidirectional too.
Visibility visibility_of(std::string_view model_type) {
  static constexpr std::string_view bidirectional =
      "aimv2_text_model albert align_text_model altclip_text_model bert bert-generation "
      "big_bird blip_text_model bridgetower_text_model camembert clap_text_model convbert "
      "data2vec-text deberta deberta-v2 dia_encoder distilbert donut-swin "
      "dots3_note_audio_encoder dpr electra "
      "embedding_gemma2_text "
      "ernie esm esmc eurobert flava_text_model fsmt funnel gte ibert "
      "instructblip_qformer instructblipvideo_qformer jina_embeddings_v3 layoutlm "
      "layoutlmv2 layoutlmv3 lilt longformer luke lxmert markuplm maskformer-swin "
      "megatron-bert mobilebert modernbert moonshine_streaming_encoder moshi_depth mpnet "
      "mra openai_privacy_filter pe_audio_encoder pe_audio_video_encoder pe_video_encoder "
      "muse_glimmer_assistant nomic_bert nystromformer realm rembert roberta "
      "roberta-prelayernorm roc_bert roformer siglip2_text_model siglip_text_model "
      "speech_to_text "
      "splinter squeezebert swin swinv2 t5gemma2_text tapas vilt visual_bert "
      "wav2vec2-bert wav2vec2-conformer wavlm xlm-roberta xlm-roberta-xl xlnet xmod yoso";
  return names(bidirectional, model_type) ? Visibility::bidirectional : Visibility::causal;
}

WindowFacts window_of(std::string_view model_type) {
  using enum Slides;
  static constexpr Row<WindowFacts> rows[] = {
      {"mistral voxtral_realtime_text", {all, 4096}},
      {"ministral", {by_type, 4096, "s"}},
      {"mixtral ministral3 phi3 phi4_multimodal phimoe starcoder2 minimax", {all}},
      {"qwen3_moe", {from_layer, 4096}},
      {"recurrent_gemma", {all, 2048, "", "attention_window_size"}},
      {"qwen2 qwen3 qwen2_vl_text qwen2_vl qwen2_5_vl_text qwen2_5_vl", {from_layer, 4096}},
      {"qwen2_moe", {even_below, 4096}},
      {"qwen2_5_omni_text qwen2_5_omni_talker", {from_layer, 32768}},
      {"dots1", {from_layer, 4096}},
      {"gemma2 vaultgemma", {by_type, 4096, "sf"}},
      {"gemma3_text cohere2 cohere2_moe olmo3 exaone4 exaone_moe", {by_type, 4096}},
      {"dots3_note_text embedding_gemma2_text gemma3n_text gemma4_text laguna", {by_type, 512}},
      {"muse_glimmer_text muse_spark_text", {by_type, 2048}},
      {"blt_patcher", {all, 512}},
      {"blt_local_encoder blt_local_decoder", {all}},
      {"deepseek_v4 openai_privacy_filter", {all, 128}},
      {"gemma4_unified_text afmoe mellum", {by_type, 1024}},
      {"gpt_oss", {by_type, 128, "sf"}},
      {"granite_swa granitemoe_swa", {by_type, 128, "fsss"}},
      {"mimo_v2_flash", {by_type, 129}},
      {"lfm3", {by_type, 256}},
      {"flint kolibri1", {by_type, 513}},
      {"moshi", {all, 3000}},
      {"cwm", {by_type, 8192, "fsss"}},
      {"step3p5", {by_type}},
      {"smollm3", {unrotated}},
      {"modernbert modernbert-decoder", {by_type, 128, "", "local_attention"}},
      {"gpt_neo", {by_type, 256, "fs", "window_size"}},
      {"t5gemma2_text", {by_type, 4096, "sssssf"}},
  };
  const WindowFacts* const found = find(rows, model_type);
  return found ? *found : WindowFacts{};
}

const NormFacts* norm_of(std::string_view model_type) {
  using enum NormKind;
  constexpr auto before = NormOrder::before_rotation, after = NormOrder::after_rotation;
  constexpr auto head = NormScope::head, together = NormScope::all_heads;
  static constexpr Row<NormFacts> rows[] = {
      {"doge dots1 embedding_gemma2_text flint gemma3n_text gemma4_text gemma4_unified_text "
       "gemma4_vision kolibri1 "
       "laguna mellum molmo2_text qwen3 qwen3_moe qwen3_omni_moe_talker_code_predictor "
       "qwen3_omni_moe_talker_text qwen3_omni_moe_text qwen3_vl_moe_text qwen3_vl_text",
       {rms, before, head, 1e-6}},
      {"afmoe apertus exaone4 exaone_moe hy_v3 lfm2 lfm2_moe lfm3 muse_glimmer_assistant "
       "muse_glimmer_text muse_spark_text pe_audio_encoder pe_audio_video_encoder "
       "pe_video_encoder "
       "glm5_next_vision glm_ocr_vision lfm3_vl_vision",
       {rms, before, head, 1e-5}},
      {"gemma3_text minimax_m3_vl_text qwen3_5_text qwen3_5_moe_text qwen3_next "
       "t5gemma2_text",
       {rms, before, head, 1e-6, 1}},
      {"step3p5", {rms, before, head, 1e-5, 1}},
      {"flex_olmo minimax_m2 olmo_hybrid", {rms, before, together, 1e-6}},
      {"olmo2 olmo3 olmoe", {rms, before, together, 1e-5}},
      {"glm4_moe", {rms, before, head, 1e-5, 0, "use_qk_norm", false}},
      {"esmc", {layer, before, together, 1e-5}},
      {"hunyuan_v1_dense hunyuan_v1_moe", {rms, after, head, 1e-5}},
      {"nanochat", {rms, after, head, 1e-6, 0, "", true, false, false}},
      {"llama4_text", {rms, after, head, 1e-5, 0, "use_qk_norm", true, true, false}},
      {"persimmon", {layer, before, head, 1e-5, 0, "qk_layernorm", true}},
      {"phi stablelm", {layer, before, head, 1e-5, 0, "qk_layernorm", false}},
      {"cohere", {layer, before, head, 1e-5, 0, "use_qk_norm", false}},
      {"internvl_vision qianfan_ocr_vision",
       {rms, before, together, 1e-6, 0, "use_qk_norm", false}},
      {"janus_vision_model", {layer, before, head, 1e-5, 0, "use_qk_norm", false}},
  };
  return find(rows, model_type);
}

std::int64_t key_heads_of(std::string_view model_type) {
  static constexpr Row<std::int64_t> rows[] = {
      {"codegen gpt_neox gpt_neox_japanese gptj gte jina_embeddings_v3 modernbert "
       "modernbert-decoder nomic_bert persimmon roformer",
       -1},
      {"dbrx deepseek_v4 gpt_bigcode", 1},
      {"csm_depth_decoder_model", 2},
      {"embedding_gemma2_text muse_glimmer_text openai_privacy_filter "
       "ernie4_5 gemma3n_text glm glm4 glm4v_text glm_image_text internlm3 "
       "paddleocr_vl_text qwen3_5_moe_text qwen3_next qwen3_omni_moe_talker_text "
       "starcoder2",
       2},
      {"dia_decoder ernie4_5_moe ernie4_5_vl_moe_text flint gemma2 gemma3_text "
       "gemma4_text gemma4_unified_text granite_docling_text granite_swa kolibri1 lfm3 "
       "mellum mimo_v2_flash minimax_m3_vl_text qwen2_5_omni_talker qwen2_5_omni_text "
       "qwen3_5_text qwen3_moe qwen3_omni_moe_text smollm3 t5gemma2_decoder "
       "t5gemma2_text vaultgemma",
       4},
      {"bitnet", 5},
      {"EvollaModel evolla bamba cosmos3_edge_text csm cwm emu3_text_model exaone4_5_vision "
       "falcon_h1 glm4_moe glm4v_moe_text glm_ocr_text gpt_oss hy_v3 iquestcoder jamba "
       "laguna lfm2 lfm2_moe lfm3_vl_vision llama4_text minimax minimax_m2 ministral "
       "ministral3 mistral mixtral mllama_text_model molmo2_text "
       "moonshine_streaming_encoder muse_glimmer_assistant nemotron_h phi4_multimodal "
       "phimoe qwen2_5_vl_text qwen2_vl_text qwen3_omni_moe_talker_code_predictor "
       "seed_oss solar_open step3p5 voxtral_realtime_text",
       8},
      {"unlimited_ocr_text", 10},
      {"gemma4_vision", 12},
      {"muse_spark_text dia_encoder gemma jetmoe molmo2_vision qwen2_moe qwen3_vl_moe_text "
       "youtu zamba",
       16},
      {"glm4_moe_lite helium", 20},
      {"axk2 bailing_hybrid dots1 exaone4 exaone_moe kimi_linear mistral4 qwen2 qwen3 "
       "qwen3_vl_text stablelm",
       32},
      {"minicpm3", 40},
      {"axk1 glm_moe_dsa mistral_large4_text", 64},
      {"deepseek_v3 deepseek_v32", 128},
  };
  const std::int64_t* const found = find(rows, model_type);
  return found ? *found : 0;
}

std::int64_t value_dim_of(std::string_view model_type) {
  static constexpr Row<std::int64_t> rows[] = {
      {"axk1 bailing_hybrid deepseek_v2 deepseek_v3 deepseek_v32 kimi_k2 kimi_linear "
       "dots3_note_text longcat_flash mimo_v2_flash mistral4 youtu glm4_moe_lite",
       128},
      {"axk2 minicpm3", 64},
      {"hy_v4", 256},
  };
  const std::int64_t* const found = find(rows, model_type);
  return found ? *found : 0;
}

bool has_sinks(std::string_view model_type) {
  return names(
      "deepseek_v4 flint openai_privacy_filter gpt_oss granite_swa granitemoe_swa hy_v4 "
      "mimo_v2_flash",
      model_type);
}

bool normalises_values(std::string_view model_type) {
  return names(
      "embedding_gemma2_text gemma3n_text gemma4_text gemma4_unified_text gemma4_vision",
      model_type);
}

double softcap_of(std::string_view model_type) {
  static constexpr Row<double> rows[] = {
      {"gemma2 vaultgemma", 50},
  };
  const double* const found = find(rows, model_type);
  return found ? *found : -1;
}

std::string_view unsupported_of(std::string_view model_type) {
  static constexpr Row<std::string_view> rows[] = {
      {"deepseek_v32 glm_moe_dsa axk2 hy_v4 mistral_large4_text minimax_m3_vl_text "
       "glm5_next_text",
       "an indexer that selects the keys of each query"},
      {"dots3_note_text", "partly normalised latent keys, and an indexer"},
      {"deepseek_v4", "compressed keys, and an output rotated by the inverse angles"},
      {"longformer", "global tokens, which attend to all tokens and are attended by all"},
      {"big_bird bigbird_pegasus", "block-sparse attention with random blocks"},
      {"longt5", "attention in blocks with global tokens"},
      {"reformer", "locality-sensitive hashing that selects keys"},
      {"nystromformer mra yoso", "an approximation of softmax attention"},
      {"funnel", "queries that are pooled between blocks"},
      {"diffllama", "the difference of two softmaxes"},
      {"doge", "a trained mask added to the scores"},
      {"t5gemma2_decoder", "self-attention and cross-attention in one softmax"},
      {"unlimited_ocr_text", "windows and a reference image"},
      {"muse_glimmer_assistant muse_glimmer_vision muse_spark_vision inkling2_vision",
       "attention that was not compared with the model's own code"},
      {"moonshine_streaming_encoder", "a window for each layer"},
      {"mllama_vision_model", "a gated table, tables of tiles, and a mask of padded tiles"},
      {"perceiver", "cross-attention, whose keys have the position"},
      {"sam2_video sam3_tracker_video edgetam_video", "attention to a memory of other frames"},
      {"convbert", "heads that share their layer with a convolution"},
      {"ibert", "attention in integers"},
      {"layoutlm lilt", "tables of the boxes of words added to the embeddings"},
      {"tapas vilt", "several tables added to the embeddings"},
      {"timesformer", "attention in time, then in space"},
      {"apertus1p5_text chameleon csm_depth_decoder_model dots3_note_audio_encoder "
       "dots3_note_vision_encoder hyperclovax moshi realm squeezebert",
       "attention that was not compared with the model's own code"},
      {"kosmos_2_5_vision_model groupvit_vision_model perceiver yolos",
       "tokens other than those of the image"},
  };
  const std::string_view* const found = find(rows, model_type);
  return found ? *found : std::string_view();
}

}  // namespace gnomon::model::internal
