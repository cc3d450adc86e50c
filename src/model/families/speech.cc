// Speech models. Source: the code of each family.
#include "src/model/families/rules.h"

namespace gnomon::model::internal {
namespace {

// The encoder has vectors by distance. Text has sinusoids, multiplied by a trained factor.
void read_speecht5(Reading& r) {
  const Stacks stacks = read_stacks(r);
  const std::int64_t most = r.size({"encoder_max_relative_position"}, 160, max_count);
  put(r, relative::speecht5(r.head_dim, most), add_layers(r, stacks.encoder, "encoder"));
  add_layers(r, stacks.decoder, "decoder");
  r.note("sinusoids, multiplied by a trained factor, are also added to the embeddings");
}

void read_conformer(Reading& r, const char* usual) {
  read_sizes_without_length(r);
  const std::string type = r.keys.string({"position_embeddings_type"}).value_or(usual);
  if (type == "relative_key") {
    put(r, relative::wav2vec2_bert(r.head_dim,
                                   r.size({"left_max_position_embeddings"}, 64, max_count),
                                   r.size({"right_max_position_embeddings"}, 8, max_count)));
  } else if (type == "relative") {
    put(r, TransformerXl{.heads = r.heads,
                         .head_dim = r.head_dim,
                         .width = hidden_size(r),
                         .sinusoid = XlSinusoid::interleaved});
  } else if (type == "rotary") {
    const double base = r.keys.base({"rotary_embedding_base"}).value_or(10'000);
    r.note("the hidden states are rotated before they are projected to q and k");
    read_layer_types(r);
    for (Layer& layer : r.layers) layer.attention.rotary_input = RotaryInput::hidden;
    r.ropes.emplace("", read_rope(r, std::nullopt, base));
    put_ropes(r);
  } else {
    r.keys.find({"position_embeddings_type"})
        ->fail("position_embeddings_type must be relative, relative_key or rotary, got " +
               type);
  }
}

void read_wav2vec2_bert(Reading& r) { read_conformer(r, "relative_key"); }
void read_wav2vec2_conformer(Reading& r) { read_conformer(r, "relative"); }

// T5's bias, multiplied by a gate that each layer computes from its input.
void read_wavlm(Reading& r) {
  read_sizes_without_length(r);
  const T5Bias t5{.heads = r.heads,
                  .direction = T5Direction::bidirectional,
                  .buckets = r.size({"num_buckets"}, 320),
                  .max_distance = r.size({"max_bucket_distance"}, 800)};
  if (t5.buckets < 4 || t5.buckets % 2 != 0)
    r.fail_at({"num_buckets"},
              "num_buckets must be even and at least 4, got " + std::to_string(t5.buckets));
  put(r, WavLm{.t5 = t5, .head_dim = r.head_dim});
  r.note("a convolution of the inputs is added to the inputs before the first layer");
}

void read_moonshine(Reading& r) {
  for (const char* name : {"decoder_num_hidden_layers", "decoder_num_attention_heads"})
    if (!r.keys.find({name})) r.fail(std::string("a config of moonshine must have ") + name);
  r.out.layers = r.size({"decoder_num_hidden_layers"});
  r.heads = r.size({"decoder_num_attention_heads"});
  r.out.length = r.size({"max_position_embeddings"}, r.family.length);
  const std::int64_t width = hidden_size(r);
  if (r.out.layers > 65536 || width % r.heads != 0 || width / r.heads > 65536)
    r.fail(
        "hidden_size must be a multiple of decoder_num_attention_heads, and sizes must be at "
        "most 65536");
  r.head_dim = width / r.heads;
  read_layer_types(r);
  read_ropes(r);
  put_ropes(r);
  for (Layer& layer : r.layers) layer.part = "decoder";
  r.note("cross-attention has no position");
  const std::int64_t layers = r.size({"encoder_num_hidden_layers"}, r.out.layers, max_count);
  if (r.size({"encoder_num_attention_heads"}, r.heads) != r.heads)
    return r.note("the encoder, whose heads have another size, is not described");
  const std::vector<std::size_t> encodings = r.layers.front().encodings;
  for (Layer& layer : add_layers(r, layers, "encoder")) layer.encodings = encodings;
}

}  // namespace

void add_speech(Families& add) {
  using namespace changes;
  const Family csm = add(rotary, {"csm"}, base(500'000), sizes(16, 32, 2048), key_heads(8));
  add(csm, {"csm_depth_decoder_model"}, head_dim(128), length(33), sizes(4, 8, 1024),
      key_heads(2), unsupported("attention that was not compared with the model's own code"));
  const Family dia_decoder = add(rotary, {"dia_decoder"}, head_dim(128), length(3072),
                                 sizes(18, 16, 2048), key_heads(4), softmax_scale(1));
  add(dia_decoder, {"dia_encoder"}, length(1024), sizes(12, 16, 1024), key_heads(16),
      visibility(bidirectional));
  add(rotary, {"dots3_note_audio_encoder"}, share(0.5, factor), length(6000),
      sizes(32, 20, 1280), visibility(bidirectional),
      unsupported("attention that was not compared with the model's own code"));
  add(rotary, {"gradium_phonon_tts"}, length(8192), sizes(6, 12, 768));
  add(rotary, {"moonshine"}, read(read_moonshine), pairing(adjacent), share(0.9, factor),
      odd_share(true), length(512));
  add(rotary, {"moshi"}, length(3000), sizes(32, 32, 4096), window(all, 3000),
      unsupported("attention that was not compared with the model's own code"),
      part("depth_decoder_config", "*_depth"));
  const Family pe_audio_encoder =
      add(rotary, {"pe_audio_encoder", "pe_video_encoder"}, pairing(adjacent), base(20'000),
          head_dim(128), length(10'000), sizes(6, 14, 1792), visibility(bidirectional),
          norm(rms, before, head, 1e-5));
  add(pe_audio_encoder, {"pe_audio_video_encoder"}, part("audio_config", "pe_audio_encoder"),
      part("video_config", "pe_video_encoder"));
  add(rotary, {}, gguf("wavtokenizer-dec", RopeType::none),
      gguf_refused(
          "a decoder of speech, with convolutions and one attention without positions"));
  add(rotary, {"pocket_tts"}, length(8192), sizes(6, 16, 1024));
  add(rotary, {}, pairing(adjacent), gguf("pockettts", RopeType::adjacent));
  add(rotary, {"speecht5"}, read(read_speecht5), position("Shaw"), length(450),
      sizes(0, 0, 768));
  add(rotary, {"voxtral_realtime_text"}, length(131'072), sizes(32, 32, 4096), key_heads(8),
      window(all, 4096));
  const Family wav2vec2_bert = add(rotary, {"wav2vec2-bert"}, read(read_wav2vec2_bert),
                                   position("Shaw, Transformer-XL or rotary"), length(512),
                                   sizes(24, 16, 1024), visibility(bidirectional));
  add(wav2vec2_bert, {"wav2vec2-conformer"}, read(read_wav2vec2_conformer),
      position("Transformer-XL or rotary"), sizes(12, 12, 768));
  add(rotary, {"wavlm"}, read(read_wavlm), position("T5 bias, gated"), length(512),
      sizes(12, 12, 768), visibility(bidirectional));
}

}  // namespace gnomon::model::internal
