// Multimodal models, whose language model and towers have rows of their own. Source: the code
// of each family.
#include "src/model/families/rules.h"

namespace gnomon::model::internal {
void add_multimodal(Families& add) {
  using namespace changes;
  add(multimodal,
      {"aimv2", "altclip", "clip", "clipseg", "groupvit", "metaclip_2", "mllama", "owlv2",
       "owlvit", "siglip", "siglip2", "xclip"},
      language("*_text_model"), part("vision_config", "*_vision_model"));
  add(multimodal, {"align", "bridgetower", "clap", "emu3"}, language("*_text_model"));
  add(multimodal, {"aria"}, language("*_text"), part("vision_config", "idefics3_vision"));
  add(multimodal,
      {"audioflamingo3", "fast_vlm", "musicflamingo", "pp_chart2table", "vibevoice",
       "vibevoice_asr"},
      language("qwen2"));
  add(multimodal, {"aya_vision", "cohere2_vision"}, language("cohere2"),
      part("vision_config", "siglip_vision_model"));
  add(multimodal,
      {"blip", "chinese_clip", "edgetam", "git", "pix2struct", "sam", "sam2", "sam_hq",
       "tipsv2"},
      part("vision_config", "*_vision_model"));
  // No language model, or several: each part is read by itself.
  add(multimodal, {"canary", "edgetam_vision_model", "encoder-decoder",
                   "higgs_audio_v2_tokenizer", "lasr_ctc", "musicgen", "musicgen_melody",
                   "nemotron3_5_asr", "nemotron3_diarization", "qwen2_5_omni_token2wav",
                   "nougat", "rag", "sam2_vision_model", "speech-encoder-decoder", "t5gemma",

                   "vision-encoder-decoder", "vitmatte", "vitpose", "xcodec"});
  add(multimodal, {"blip-2"}, language("opt"), part("vision_config", "blip_2_vision_model"));
  add(multimodal, {"bark"}, part("semantic_config", "semantic"),
      part("coarse_acoustics_config", "coarse_acoustics"),
      part("fine_acoustics_config", "fine_acoustics"));
  add(multimodal, {"blt"}, part("decoder_config", "*_local_decoder"),
      part("encoder_config", "*_local_encoder"), part("global_config", "*_global_transformer"),
      part("patcher_config", "*_patcher"));
  add(multimodal, {"chmv2"}, part("backbone_config", "dinov3_vit"));
  add(multimodal, {"cohere_compass", "deepseek_ocr2", "hunyuan_vl", "pp_formulanet", "slanext"},
      part("vision_config", "*_vision"));
  add(multimodal, {"colmodernvbert"}, part("vlm_config", "modernvbert"));
  add(multimodal, {"colpali"},
      unsupported("bidirectional attention in a prefix of image and text"),
      part("vlm_config", "paligemma"));
  add(multimodal, {"colqwen2"}, part("vlm_config", "qwen2_vl"));
  add(multimodal,
      {"cosmos3_edge", "ernie4_5_vl_moe", "minimax_m3_vl", "molmo2", "muse_glimmer",
       "muse_spark", "paddleocr_vl", "unlimited_ocr"},
      language("*_text"), part("vision_config", "*_vision"));
  add(multimodal, {"cosmos3_omni"}, language("qwen3_vl_text"),
      part("vision_config", "qwen3_vl_vision"));
  add(multimodal, {"deepseek_ocr2_vision"},
      part("sam_config", "deepseek_ocr2_sam_vision_model"));
  add(multimodal, {"deepseek_vl"}, language("llama"),
      part("vision_config", "siglip_vision_model"));
  add(multimodal, {"deepseek_vl_hybrid"}, language("llama"),
      part("vision_config", "siglip_vision_model"),
      part("high_res_vision_config", "sam_vision_model"));
  add(multimodal, {"depth_anything", "prompt_depth_anything"},
      part("backbone_config", "dinov2"));
  add(multimodal, {"depth_pro"}, part("fov_model_config", "dinov2"),
      part("image_model_config", "dinov2"), part("patch_model_config", "dinov2"));
  add(multimodal, {"dia"}, part("decoder_config", "*_decoder"),
      part("encoder_config", "*_encoder"));
  add(multimodal, {"diffusion_gemma"}, part("vision_config", "gemma4_vision"));
  add(multimodal, {"dots3_note"}, language("*_text"),
      part("vision_config", "*_vision_encoder"));
  add(multimodal, {"esmfold2"}, refused("its attention has biases of pairs of residues"),
      part("esmc_config", "esmc"));
  add(multimodal, {"exaone4_5"}, language("exaone4"), part("vision_config", "*_vision"));
  add(multimodal, {"flava"}, language("*_text_model"), part("image_config", "*_image_model"));
  add(multimodal, {"florence2"}, language("bart"));
  add(multimodal, {"fun_asr_nano", "moss_transcribe_diarize"}, language("qwen3"));
  add(multimodal, {"fuyu"}, language("persimmon"));
  add(multimodal, {"got_ocr2", "internvl", "ovis2", "video_llama_3"}, language("qwen2"),
      part("vision_config", "*_vision"));
  add(multimodal, {"grounding-dino", "mm-grounding-dino"}, language("bert"),
      part("backbone_config", "swin"));
  add(multimodal, {"hyperclovax_vision_v2"}, language("hyperclovax"),
      part("vision_config", "qwen2_5_vl_vision"));
  add(multimodal, {"idefics2"}, language("mistral"), part("vision_config", "*_vision"));
  add(multimodal, {"idefics3", "smolvlm"}, language("llama"),
      part("vision_config", "*_vision"));
  add(multimodal, {"inkling2"}, language("*_text"), part("vision_config", "*_vision"));
  add(multimodal, {"inkling_mm_model"}, language("inkling_text"));
  add(multimodal, {"instructblip", "instructblipvideo"}, language("opt"),
      part("vision_config", "*_vision_model"), part("qformer_config", "*_qformer"));
  add(multimodal, {"janus"}, language("llama"), part("vision_config", "*_vision_model"));
  add(multimodal, {"jev"}, language("qwen3_5_text"));
  add(multimodal, {"kimi_k25"}, language("deepseek_v3"), part("vision_config", "*_vision"));
  add(multimodal, {"kimi_vl"}, language("deepseek_v3"));
  add(multimodal, {"kosmos-2"}, part("vision_config", "kosmos_2_vision_model"));
  add(multimodal, {"kosmos-2.5"}, part("vision_config", "kosmos_2_5_vision_model"));
  add(multimodal, {"lfm2_vl"}, language("lfm2"), part("vision_config", "siglip2_vision_model"));
  add(multimodal, {"lfm3_vl"}, language("lfm3"), part("vision_config", "*_vision"));
  add(multimodal, {"lighton_ocr"}, language("qwen3"), part("vision_config", "pixtral"));
  add(multimodal, {"llama4"}, language("*_text"), part("vision_config", "*_vision_model"));
  add(multimodal, {"llava", "llava_next", "llava_next_video", "video_llava", "vipllava"},
      language("llama"), part("vision_config", "clip_vision_model"));
  add(multimodal, {"llava_onevision"}, language("qwen2"),
      part("vision_config", "siglip_vision_model"));
  add(multimodal, {"mask2former", "oneformer"}, part("backbone_config", "swin"));
  add(multimodal, {"maskformer"}, part("backbone_config", "swin"),
      part("decoder_config", "detr"));
  add(multimodal, {"minicpm_ocr", "minicpmv4_6", "minicpmv4_7"}, language("qwen3_5_text"),
      part("vision_config", "*_vision"));
  add(multimodal, {"mistral3"}, language("mistral"), part("vision_config", "pixtral"));
  add(multimodal, {"mistral_large4"}, part("vision_config", "pixtral"));
  add(multimodal, {"modernvbert"}, language("modernbert"),
      part("vision_config", "siglip_vision_model"));
  add(multimodal, {"moonshine_streaming"}, part("encoder_config", "*_encoder"));
  add(multimodal, {"nemo_speechlm"}, language("nemotron_h"),
      part("audio_config", "nemotron3_5_transcribe_audio"));
  add(multimodal, {"nemotron3_5_transcribe_audio"},
      part("diarization_config", "nemotron3_diarization"));
  add(multimodal, {"nemotron_h_omni"}, language("nemotron_h"));
  add(multimodal, {"neucodec", "xcodec2"}, part("semantic_model_config", "wav2vec2-bert"));
  add(multimodal, {"omdet-turbo"}, language("clip_text_model"));
  add(multimodal, {"pe_audio"}, language("modernbert"), part("audio_config", "*_encoder"));
  add(multimodal, {"pe_audio_video"}, language("modernbert"),
      part("audio_video_config", "*_encoder"));
  add(multimodal, {"pe_video"}, language("modernbert"), part("video_config", "*_encoder"));
  add(multimodal, {"glmasr", "granitevision", "perception_lm", "voxtral"}, language("llama"));
  add(multimodal, {"pi0"}, unsupported("bidirectional attention in a prefix of image and text"),
      part("dit_config", "gemma"), part("vlm_config", "paligemma"));
  add(multimodal, {"qianfan_ocr"}, language("qwen3"), part("vision_config", "*_vision"));
  add(multimodal, {"sam3"}, language("clip_text_model"),
      part("vision_config", "*_vision_model"));
  add(multimodal, {"sam3_lite_text", "sam3_tracker"},
      part("vision_config", "sam3_vision_model"));
  add(multimodal, {"sam3_video"}, part("detector_config", "sam3"),
      part("tracker_config", "sam3_tracker_video"));
  add(multimodal, {"sam3_vision_model"}, part("backbone_config", "sam3_vit_model"));
  add(multimodal, {"step3p7"}, part("vision_config", "step3p5_vision"));
  add(multimodal, {"tipsv2_dpt"}, part("backbone_config", "tipsv2_vision_model"));
  add(multimodal, {"ultravbert"}, part("vision_config", "siglip_vision_model"));
  add(multimodal, {"unlimited_ocr_vision"}, part("encoder_config", "*_encoder"),
      part("sam_config", "unlimited_ocr_sam_vision_model"));
  add(multimodal, {"vision-text-dual-encoder"}, language("bert"));
  add(multimodal, {"zoedepth"}, part("backbone_config", "beit"));
}

}  // namespace gnomon::model::internal
