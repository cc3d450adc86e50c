// Model types whose configs are not read, with the reason. Source: the code of each family.
#include "src/model/families/rules.h"

namespace gnomon::model::internal {

void add_refused(Families& add) {
  using namespace changes;
  const auto refuse = [&](std::string_view reason, auto... names) {
    add(multimodal, {std::string_view(names)...}, refused(reason));
  };

  // Without attention.
  refuse("it is a convolutional network without attention", "align_vision_model", "bit",
         "convnext", "convnextv2", "dinov3_convnext", "efficientnet", "focalnet", "hgnet_v2",
         "mobilenet_v1", "mobilenet_v2", "pp_chart2table_vision", "pp_lcnet", "pp_lcnet_v3",
         "pp_lcnet_v4", "pp_ocrv5_mobile_det", "pp_ocrv5_server_det", "pp_ocrv6_medium_det",
         "pp_ocrv6_small_det", "regnet", "resnet", "rt_detr_resnet", "sapiens2_head",
         "superpoint", "textnet", "upernet", "uvdoc", "uvdoc_backbone", "flava_image_codebook");
  refuse("it is a convolutional network for audio without attention", "dac",
         "fastspeech2_conformer_hifigan", "muse_spark_audio", "qwen2_5_omni_bigvgan",
         "speecht5_hifigan", "univnet", "vibevoice_acoustic_tokenizer",
         "vibevoice_acoustic_tokenizer_decoder", "vibevoice_acoustic_tokenizer_encoder");
  refuse("it has convolutions and an LSTM, no attention", "encodec");
  refuse("it has no attention: Fourier transforms mix the tokens", "fnet");
  refuse("it has no attention: pooling mixes the tokens", "poolformer");
  refuse("it has no attention: MLPs mix patches and channels", "patchtsmixer");
  refuse("it has no attention: it projects each frame or patch by itself",
         "gemma4_unified_audio", "gemma4_unified_vision", "inkling_audio", "inkling_vision",
         "vibevoice_diffusion");
  refuse("its decoder is recurrent: no attention between tokens", "slanet");
  refuse("the model is one of timm, named by another key", "gemma3n_vision", "timm_backbone",
         "timm_wrapper");

  // Attention without positions, or with positions from other places.
  refuse("the attention of its convolutional autoencoder has no positions", "chameleon_vqgan",
         "emu3_vqgan", "glm_image_vqmodel", "janus_vqgan");
  refuse("its attention has no positions: learned queries read an image", "blip_2_qformer",
         "idefics2_perceiver", "idefics_perciever", "molmo2_adapter");
  refuse("its attention has no positions: it joins the outputs of two encoders",
         "flava_multimodal_model");
  refuse("convolutions between and inside its attention layers give the positions", "cvt",
         "glpn", "mobilevit", "mobilevitv2", "pp_ocrv5_mobile_rec", "pp_ocrv5_server_rec",
         "pp_ocrv6_small_rec", "pp_ocrv6_tiny_rec", "pvt_v2", "segformer", "swiftformer");
  refuse("a convolution over the frames gives the positions", "data2vec-audio", "hubert", "sew",
         "unispeech", "unispeech-sat", "wav2vec2");
  refuse("a convolution over the frames gives positions, besides DeBERTa's distances", "sew-d");
  refuse(
      "its positions are random Fourier features of points and image cells, added to "
      "queries and keys",
      "edgetam_mask_decoder", "edgetam_prompt_encoder", "edgetam_video_mask_decoder",
      "edgetam_video_prompt_encoder", "sam2_mask_decoder", "sam2_prompt_encoder",
      "sam2_video_mask_decoder", "sam2_video_prompt_encoder", "sam3_lite_text_mask_decoder",
      "sam3_mask_decoder", "sam3_tracker_mask_decoder", "sam3_tracker_prompt_encoder",
      "sam3_tracker_video_mask_decoder", "sam3_tracker_video_prompt_encoder",
      "sam_hq_mask_decoder", "sam_hq_prompt_encoder", "sam_mask_decoder", "sam_prompt_encoder");
  refuse("its positions are those of points and boxes", "sam3_geometry_encoder",
         "sam3_lite_text_geometry_encoder");
  refuse("its positions are coordinates of keypoints", "lightglue", "superglue");

  // Detection.
  refuse("deformable attention samples the image at learned points", "d_fine",
         "deformable_detr", "deimv2", "lw_detr", "pp_doclayout_v2", "pp_doclayout_v3",
         "pp_doclayout_v4", "rf_detr", "rt_detr", "rt_detr_v2");
  refuse("its positions are computed from the boxes of the queries", "conditional_detr",
         "dab-detr", "sam3_detr_decoder", "sam3_lite_text_detr_decoder");
  refuse("the positions of the image come from another module", "sam3_detr_encoder",
         "sam3_lite_text_detr_encoder");

  // Towers.
  refuse("its blocks reduce the grid, and each block adds a learned table", "pvt");
  refuse("its blocks reduce the grid, and a learned bias depends on |dy| and |dx|", "levit");
  refuse("neighbourhood attention with a learned bias by offset", "dinat");
  refuse("attention in units of a grid that its stages reduce", "hiera");
  refuse("channel attention alternates with windows that have no bias", "florence_vision");
  refuse("SwinV2's bias in an image that is not reduced", "swin2sr");
  refuse("windows with a learned table of the window, repeated over the image",
         "sam2_hiera_det_model");
  refuse("Swin's bias on a spectrogram that is folded into a square", "clap_audio_model");
  refuse("windows over a table of the whole image", "lw_detr_vit", "rf_detr_dinov2");
  refuse("decomposed distances on two images, one above the other", "seggpt");
  refuse("learned tables of rows, columns and frames", "tvp");
  refuse("learned tables of cells and frames in alternating layers", "videoprism_vision_model");
  refuse("queries join the tokens of the image in the last layers", "eomt", "eomt_dinov3",
         "videomt");
  refuse("windows over a resized table, with distances of rows and columns", "vitdet");
  refuse("the row of the class token is added to each row of the grid", "vitpose_backbone");
  refuse("a table that is cropped and resized by the size of the image", "radio");
  refuse("rotation by normalised cells in windows and grouped layers", "sapiens2");
  refuse("rotation of pooled cells of two images", "efficientloftr");

  // Speech.
  refuse("a learned relative bias of distances in blocks", "granite_speech5_ctc",
         "granite_speech5_encoder", "granite_speech_encoder", "granite_speech_plus_encoder");
  refuse("Transformer-XL's distances in chunks of frames", "gemma3n_audio", "gemma4_audio");
  refuse("Transformer-XL's distances in a Conformer", "fastspeech2_conformer",
         "fastspeech2_conformer_with_hifigan", "nemotron_asr_streaming",
         "nemotron_asr_streaming_encoder", "parakeet_ctc", "parakeet_encoder", "parakeet_rnnt",
         "parakeet_tdt");
  refuse("a learned bias by distance in a Conformer", "phi4_multimodal_audio");
  refuse("its encoder gives positions by distances and by a convolution", "seamless_m4t",
         "seamless_m4t_v2");
  refuse("Shaw's distances in its text encoder only", "vits");

  // Several tables, or positions that are no row numbers.
  refuse("positions of characters and of pooled characters", "canine");
  refuse("word boxes give a term of each pair of words", "bros");
  refuse("T5's bias of words and of their boxes", "udop");
  refuse("a table of timesteps: three tokens share a position", "decision_transformer");
  refuse("T5's bias with a bucket for each pair of segments", "cpmant");
  refuse("relative buckets computed from the hidden state", "prophetnet");
  refuse("attention of selected queries", "informer");
  refuse("autocorrelation instead of a softmax over keys", "autoformer");
  refuse("a sliding window with global tokens", "led");
  refuse("attention in blocks with global tokens", "pegasus_x");
  refuse("sinusoids that are divided by the square root of the width", "canary_decoder");
  refuse("sinusoids whose cosines stand before the sines", "musicgen_decoder",
         "musicgen_melody_decoder");
  refuse("sinusoids that are normalised over all patches", "patchtst");
  refuse("its layers attend to blocks of frames, and only its first head rotates",
         "qwen2_5_omni_dit");
  refuse("its keys and values are those of another model", "gemma4_assistant");
}

}  // namespace gnomon::model::internal
