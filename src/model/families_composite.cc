// Multimodal families: the types of their language model and other parts, if the config does
// not contain them.
#include "src/model/attention_facts.h"
#include "src/model/rules.h"

namespace gnomon::model::internal {
namespace {

// The type of a part in the given whole configs. A leading star is replaced by the whole's
// type.
struct CompositeRow {
  std::string_view part, type, wholes;
};

std::string type_in(std::span<const CompositeRow> rows, std::string_view whole,
                    std::string_view part) {
  for (const CompositeRow& row : rows) {
    if (row.part != part || !names(row.wholes, whole)) continue;
    return row.type.front() == '*' ? std::string(whole).append(row.type.substr(1))
                                   : std::string(row.type);
  }
  return {};
}

}  // namespace

std::string language_model_of(std::string_view model_type) {
  static constexpr CompositeRow rows[] = {
      {"", "*_text",
       "aria cosmos3_edge dots3_note embedding_gemma2 ernie4_5_vl_moe gemma3 gemma3n gemma4 "
       "gemma4_unified glm4v_moe glm5_next glm_image glm_ocr granite4_vision granite_docling "
       "llama4 minimax_m3_vl molmo2 muse_glimmer muse_spark paddleocr_vl qwen3_5 qwen3_5_moe "
       "qwen3_vl qwen3_vl_moe unlimited_ocr"},
      {"", "*_text_model",
       "aimv2 align altclip bridgetower clap clip clipseg emu3 flava groupvit metaclip_2 "
       "mllama owlv2 owlvit siglip siglip2 xclip"},
      {"", "bart", "florence2"},
      {"", "bert", "grounding-dino mm-grounding-dino vision-text-dual-encoder"},
      {"", "clip_text_model", "omdet-turbo sam3"},
      {"", "cohere2", "aya_vision cohere2_vision"},
      {"", "deepseek_v3", "kimi_k25 kimi_vl"},
      {"", "exaone4", "exaone4_5"},
      {"", "gemma", "paligemma"},
      {"", "gemma3_text", "shieldgemma2"},
      {"", "gemma4_unified_text", "gemma4_unified_assistant"},
      {"", "glm4v_text", "glm46v glmga"},
      {"", "granite", "granite_speech granite_speech_plus"},
      {"", "hyperclovax", "hyperclovax_vision_v2"},
      {"", "lfm2", "lfm2_vl"},
      {"", "lfm3", "lfm3_vl"},
      {"", "llama",
       "deepseek_vl deepseek_vl_hybrid glmasr granitevision idefics3 janus llava llava_next "
       "llava_next_video perception_lm smolvlm video_llava vipllava voxtral"},
      {"", "mistral", "idefics2 mistral3"},
      {"", "modernbert", "modernvbert pe_audio pe_audio_video pe_video"},
      {"", "nemotron_h", "nemo_speechlm nemotron_h_omni"},
      {"", "opt", "blip-2 instructblip instructblipvideo"},
      {"", "persimmon", "fuyu"},
      {"", "qwen2",
       "audioflamingo3 fast_vlm got_ocr2 internvl llava_onevision musicflamingo ovis2 "
       "pp_chart2table qwen2_audio vibevoice vibevoice_asr video_llama_3"},
      {"", "qwen2_5_omni_text", "qwen2_5_omni_thinker"},
      {"", "qwen3", "fun_asr_nano lighton_ocr moss_transcribe_diarize qianfan_ocr qwen3_asr"},
      {"", "qwen3_5_text", "jev minicpm_ocr minicpmv4_6 minicpmv4_7"},
      {"", "qwen3_omni_moe_text", "qwen3_omni_moe_thinker"},
      {"", "qwen3_vl_text", "cosmos3_omni"},
      {"", "t5gemma2_text", "t5gemma2_encoder"},
  };
  const std::string found = type_in(rows, model_type, "");
  return found.empty() ? std::string(model_type) : found;
}

std::string part_of(std::string_view model_type, std::string_view part) {
  static constexpr CompositeRow rows[] = {
      {"vision_config", "*_vision",
       "cohere_compass cosmos3_edge deepseek_ocr2 ernie4_5_vl_moe exaone4_5 gemma4 glm4v "
       "glm4v_moe glm5_next glm_image glm_ocr got_ocr2 granite_docling hunyuan_vl idefics2 "
       "idefics3 inkling2 internvl kimi_k25 lfm3_vl minicpm_ocr minicpmv4_6 minicpmv4_7 "
       "minimax_m3_vl molmo2 muse_glimmer muse_spark ovis2 paddleocr_vl phi4_multimodal "
       "pp_formulanet qianfan_ocr qwen2_5_vl qwen2_vl qwen3_5 qwen3_5_moe qwen3_vl "
       "qwen3_vl_moe qwen4_exp slanext smolvlm unlimited_ocr video_llama_3"},
      {"vision_config", "*_vision_encoder", "dots3_note"},
      {"vision_config", "*_vision_model",
       "aimv2 altclip blip chinese_clip clip clipseg edgetam git groupvit instructblip "
       "instructblipvideo janus llama4 metaclip_2 mllama owlv2 owlvit pix2struct sam sam2 "
       "sam3 sam_hq siglip siglip2 tipsv2 xclip"},
      {"vision_config", "blip_2_vision_model", "blip-2"},
      {"vision_config", "clip_vision_model",
       "granite4_vision llava llava_next llava_next_video video_llava vipllava"},
      {"vision_config", "gemma4_vision", "diffusion_gemma embedding_gemma2"},
      {"vision_config", "glm4v_vision", "glm46v glmga"},
      {"vision_config", "idefics3_vision", "aria"},
      {"vision_config", "kosmos_2_5_vision_model", "kosmos-2.5"},
      {"vision_config", "kosmos_2_vision_model", "kosmos-2"},
      {"vision_config", "pixtral", "lighton_ocr mistral3 mistral_large4"},
      {"vision_config", "qwen2_5_omni_vision_encoder", "qwen2_5_omni_thinker"},
      {"vision_config", "qwen2_5_vl_vision", "hyperclovax_vision_v2"},
      {"vision_config", "qwen3_omni_moe_vision_encoder", "qwen3_omni_moe_thinker"},
      {"vision_config", "qwen3_vl_vision", "cosmos3_omni"},
      {"vision_config", "sam2_vision_model", "edgetam_video sam2_video"},
      {"vision_config", "sam3_vision_model", "sam3_lite_text sam3_tracker sam3_tracker_video"},
      {"vision_config", "siglip2_vision_model", "lfm2_vl"},
      {"vision_config", "siglip_vision_model",
       "aya_vision cohere2_vision deepseek_vl deepseek_vl_hybrid gemma3 llava_onevision "
       "modernvbert paligemma shieldgemma2 t5gemma2_encoder ultravbert"},
      {"vision_config", "step3p5_vision", "step3p7"},
      {"audio_config", "*_encoder", "pe_audio"},
      {"audio_config", "nemotron3_5_transcribe_audio", "nemo_speechlm"},
      {"audio_config", "pe_audio_encoder", "pe_audio_video_encoder"},
      {"audio_video_config", "*_encoder", "pe_audio_video"},
      {"backbone_config", "beit", "zoedepth"},
      {"backbone_config", "dinov2", "depth_anything prompt_depth_anything"},
      {"backbone_config", "dinov3_vit", "chmv2"},
      {"backbone_config", "sam3_vit_model", "sam3_vision_model"},
      {"backbone_config", "swin",
       "grounding-dino mask2former maskformer mm-grounding-dino oneformer"},
      {"backbone_config", "tipsv2_vision_model", "tipsv2_dpt"},
      {"decoder", "*_decoder", "t5gemma2"},
      {"decoder_config", "*_decoder", "dia"},
      {"decoder_config", "*_local_decoder", "blt"},
      {"decoder_config", "detr", "maskformer"},
      {"depth_decoder_config", "*_depth", "moshi"},
      {"detector_config", "sam3", "sam3_video"},
      {"diarization_config", "nemotron3_diarization", "nemotron3_5_transcribe_audio"},
      {"dit_config", "gemma", "pi0"},
      {"encoder", "*_encoder", "t5gemma2"},
      {"encoder_config", "*_encoder", "dia moonshine_streaming unlimited_ocr_vision"},
      {"encoder_config", "*_local_encoder", "blt"},
      {"esmc_config", "esmc", "esmfold2"},
      {"fov_model_config", "dinov2", "depth_pro"},
      {"global_config", "*_global_transformer", "blt"},
      {"high_res_vision_config", "sam_vision_model", "deepseek_vl_hybrid"},
      {"image_config", "*_image_model", "flava"},
      {"image_model_config", "dinov2", "depth_pro"},
      {"patch_model_config", "dinov2", "depth_pro"},
      {"patcher_config", "*_patcher", "blt"},
      {"qformer_config", "*_qformer", "instructblip instructblipvideo"},
      {"sam_config", "deepseek_ocr2_sam_vision_model", "deepseek_ocr2_vision"},
      {"sam_config", "unlimited_ocr_sam_vision_model", "unlimited_ocr_vision"},
      {"semantic_model_config", "wav2vec2-bert", "neucodec xcodec2"},
      {"talker_config", "*_talker", "qwen2_5_omni"},
      {"thinker_config", "*_thinker", "qwen2_5_omni qwen3_omni_moe"},
      {"token2wav_config", "*_token2wav", "qwen2_5_omni"},
      {"tracker_config", "sam3_tracker_video", "sam3_video"},
      {"video_config", "*_encoder", "pe_video"},
      {"video_config", "pe_video_encoder", "pe_audio_video_encoder"},
      {"vlm_config", "modernvbert", "colmodernvbert"},
      {"vlm_config", "paligemma", "colpali pi0"},
      {"vlm_config", "qwen2_vl", "colqwen2"},
  };
  return type_in(rows, model_type, part);
}

}  // namespace gnomon::model::internal
