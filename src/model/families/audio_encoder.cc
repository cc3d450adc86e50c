// Encoders and codecs of audio. Source: the code of each family.
#include "src/model/families/rules.h"

namespace gnomon::model::internal {
namespace {

// Sizes of an encoder with Whisper's names of keys, or the usual names.
std::int64_t read_encoder_sizes(Reading& r) {
  const std::int64_t width = hidden_size(r);
  r.out.layers =
      r.size_or_default({"encoder_layers", "num_hidden_layers"}, r.family.layers, max_count);
  r.heads = r.size_or_default({"encoder_attention_heads", "num_attention_heads"},
                              r.family.heads, max_count);
  if (width % r.heads != 0)
    r.fail_at({"d_model", "hidden_size"}, "the width must be a multiple of the heads " +
                                              std::to_string(r.heads) + ", got " +
                                              std::to_string(width));
  r.head_dim = width / r.heads;
  r.out.length = r.size({"max_source_positions", "max_position_embeddings"}, r.family.length);
  return width;
}

// The table of Whisper's encoder, which the checkpoint stores. It begins as sinusoids.
void read_whisper_encoder(Reading& r) {
  read_encoder_sizes(r);
  put_learned(r, r.out.length, 0, all_layers(r));
}

// Whisper's sinusoids, counted from the start of each chunk of frames.
void read_chunked_encoder(Reading& r) {
  read_encoder_sizes(r);
  const std::int64_t chunk = r.size({"n_window"}, 50);
  put_sinusoidal(r, SinusoidalRecipe::tensor2tensor, 0, all_layers(r));
  r.note("positions are counted from the start of each chunk of 2 n_window = " +
         std::to_string(2 * chunk) + " frames, before the convolutions");
}

// Sinusoids of the stacked frames, before they are projected to the width of the layers.
void read_fun_asr(Reading& r) {
  read_encoder_sizes(r);
  const std::int64_t width =
      r.size({"num_mel_bins"}, 80, max_count) * r.size({"num_stacked_frames"}, 7, max_count);
  if (width % 2 != 0)
    r.fail_at({"num_mel_bins"},
              "num_mel_bins x num_stacked_frames must be even, got " + std::to_string(width));
  put(r, Sinusoidal{.width = width, .recipe = SinusoidalRecipe::tensor2tensor, .offset = 1});
  r.out.width = width;
  r.note("the table is added to the stacked frames, before their projection");
}

}  // namespace

void add_audio_encoder(Families& add) {
  using namespace changes;
  Family encoder = rotary;
  encoder.visibility = bidirectional;
  encoder.length = 1500;
  Family whisper = encoder;
  whisper.read = read_whisper_encoder;
  whisper.position = "learned";
  add(whisper, {"audioflamingo3_encoder", "qwen2_audio_encoder", "voxtral_encoder"},
      sizes(32, 20, 1280));
  add(whisper, {"moss_transcribe_diarize_audio"}, sizes(24, 16, 1024));
  const Family chunked = add(
      whisper, {"qwen2_5_omni_audio_encoder", "qwen3_omni_moe_audio_encoder"},
      read(read_chunked_encoder), position("sinusoidal, tensor2tensor"), sizes(32, 20, 1280),
      unsupported("attention in chunks of frames, whose positions start again"));
  add(chunked, {"qwen3_asr_encoder"}, length(13), sizes(24, 16, 1024));
  add(whisper, {"fun_asr_nano_encoder"}, read(read_fun_asr),
      position("sinusoidal, tensor2tensor"), length(2049), sizes(70, 4, 512),
      unsupported("a convolution of values beside the attention"));

  add(encoder, {"glmasr_encoder"}, share(0.5, factor), sizes(32, 20, 1280));
  add(encoder, {"lasr_encoder"}, length(10'000), sizes(17, 8, 512));
  const Family nemotron3_diarization_audio =
      add(encoder, {"nemotron3_diarization_audio"}, share(1, factor), length(5000),
          sizes(31, 8, 512));
  const Family nemotron3_5_transcribe_asr_audio =
      add(nemotron3_diarization_audio, {"nemotron3_5_transcribe_asr_audio"}, share(0.5, factor),
          sizes(32, 10, 1280), norm(layer_norm, before, head, 1e-5));
  add(nemotron3_5_transcribe_asr_audio, {"nemotron3_5_transcribe_word_timestamp"},
      sizes(2, 16, 1280));
  const Family mimi = add(rotary, {"mimi", "mimi_decoder", "mimi_encoder"}, length(8000),
                          sizes(8, 8, 512), key_heads(8), window(all, 250));
  add(mimi,
      {"pocket_tts_audio_tokenizer", "pocket_tts_audio_tokenizer_decoder",
       "pocket_tts_audio_tokenizer_encoder"},
      sizes(2, 8, 512));
  add(rotary, {"voxtral_realtime_encoder"}, head_dim(64), length(1500), sizes(32, 32, 1280),
      window(all, 750));
}

}  // namespace gnomon::model::internal
