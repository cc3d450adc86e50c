// Encoders with decoders: BART, T5, Marian, M2M-100, Whisper. Source: the code of each family.
#include "src/model/families/rules.h"

namespace gnomon::model::internal {
namespace {

void put_learned_tables(Reading& r, std::int64_t offset) {
  const Stacks stacks = read_stacks(r);
  const std::int64_t rows = r.out.length + offset;
  put_learned(r, rows, offset, add_layers(r, stacks.encoder, "encoder"));
  put_learned(r, rows, offset, add_layers(r, stacks.decoder, "decoder"));
}

void read_encoder_decoder(Reading& r) { put_learned_tables(r, 0); }

void read_encoder_decoder_after_two(Reading& r) { put_learned_tables(r, 2); }

void read_encoder_decoder_sinusoidal(Reading& r) {
  const Stacks stacks = read_stacks(r);
  put_sinusoidal(r, SinusoidalRecipe::half_split, 0, add_layers(r, stacks.encoder, "encoder"));
  put_sinusoidal(r, SinusoidalRecipe::half_split, 0, add_layers(r, stacks.decoder, "decoder"));
}

void read_encoder_decoder_tensor2tensor(Reading& r) {
  const Stacks stacks = read_stacks(r);
  const std::int64_t first = padding_offset(r);
  put_sinusoidal(r, SinusoidalRecipe::tensor2tensor, first,
                 add_layers(r, stacks.encoder, "encoder"));
  put_sinusoidal(r, SinusoidalRecipe::tensor2tensor, first,
                 add_layers(r, stacks.decoder, "decoder"));
  r.note("the row of padding is zero");
}

void read_whisper(Reading& r) {
  const Stacks stacks = read_stacks(r);
  put_sinusoidal(r, SinusoidalRecipe::tensor2tensor, 0,
                 add_layers(r, stacks.encoder, "encoder"));
  put_learned(r, r.size({"max_target_positions"}, 448), 0,
              add_layers(r, stacks.decoder, "decoder"));
  r.note("the encoder's table is stored in the checkpoint: " +
         std::to_string(r.size({"max_source_positions"}, 1500)) + " rows");
}

T5Bias t5_bias(Reading& r, T5Direction direction) {
  const T5Bias bias{
      .heads = r.heads,
      .direction = direction,
      .buckets = r.size({"relative_attention_num_buckets", "rel_pos_bins", "num_buckets"}, 32),
      .max_distance = r.size({"relative_attention_max_distance", "max_rel_pos",
                              "relative_max_distance", "max_bucket_distance"},
                             128)};
  if (bias.buckets < 4 || bias.buckets % 2 != 0)
    r.fail_at({"relative_attention_num_buckets", "rel_pos_bins", "num_buckets"},
              "relative_attention_num_buckets must be even and at least 4, got " +
                  std::to_string(bias.buckets));
  return bias;
}

void read_t5_parts(Reading& r, const char* tables) {
  const std::int64_t encoder =
      r.size_or_default({"num_layers", "num_hidden_layers"}, 0, max_count);
  const std::int64_t decoder = r.size({"num_decoder_layers"}, encoder, max_count);
  r.heads = r.size_or_default({"num_heads", "num_attention_heads"}, 0, max_count);
  r.out.layers = encoder;
  r.head_dim = r.size({"d_kv"}, 64);
  r.softmax_scale = 1;
  r.out.length = r.size({"n_positions", "max_position_embeddings"}, 512);
  put(r, t5_bias(r, T5Direction::bidirectional), add_layers(r, encoder, "encoder"));
  put(r, t5_bias(r, T5Direction::causal), add_layers(r, decoder, "decoder"));
  r.note("cross-attention has no position; the scores are not divided by sqrt(head_dim)");
  r.note(tables);
}

void read_pix2struct_text(Reading& r) {
  r.out.layers =
      r.size_or_default({"num_layers", "num_hidden_layers"}, r.family.layers, max_count);
  r.heads = r.size_or_default({"num_heads", "num_attention_heads"}, r.family.heads, max_count);
  r.head_dim = r.size({"d_kv"}, 64, max_count);
  r.softmax_scale = 1;
  r.out.length = r.size({"n_positions", "max_position_embeddings"}, r.family.length);
  put(r, t5_bias(r, T5Direction::causal));
  r.note("all layers share the table of the first layer; cross-attention has no position");
}

void read_umt5(Reading& r) { read_t5_parts(r, "every layer has a separate table"); }

// Sizes of a decoder whose config also has keys of an encoder.
void read_decoder_sizes(Reading& r) {
  r.out.layers = r.size_or_default({"decoder_layers", "layers"}, r.family.layers, max_count);
  r.heads = r.size_or_default({"decoder_attention_heads", "attention_heads"}, r.family.heads,
                              max_count);
  const std::int64_t width = hidden_size(r);
  if (width % r.heads != 0)
    r.fail("the width must be a multiple of the heads " + std::to_string(r.heads) + ", got " +
           std::to_string(width));
  r.head_dim = width / r.heads;
  r.out.length = r.size_or_default({"max_position_embeddings"}, r.family.length);
  r.keys.find({"encoder_layers", "num_hidden_layers"});
}

void read_decoder_after_two(Reading& r) {
  read_decoder_sizes(r);
  put_learned(r, r.out.length + 2, 2, all_layers(r));
}

void read_kosmos(Reading& r) {
  read_decoder_sizes(r);
  put_sinusoidal(r, SinusoidalRecipe::tensor2tensor, padding_offset(r), all_layers(r));
  r.note("the row of padding is zero");
}

void read_trocr(Reading& r) {
  if (r.is_true("use_learned_position_embeddings", true)) return read_decoder_after_two(r);
  read_kosmos(r);
}

// The decoder continues the positions of the encoder.
void read_time_series(Reading& r) {
  r.out.width = hidden_size(r);
  const std::int64_t context = r.size({"context_length", "prediction_length"}, 1);
  r.out.length = context + r.size({"prediction_length"}, 1);
  r.heads = r.size_or_default({"encoder_attention_heads"}, r.family.heads, max_count);
  r.out.layers = r.size_or_default({"encoder_layers"}, r.family.layers, max_count);
  if (r.out.width % r.heads != 0 || r.size({"decoder_attention_heads"}, r.heads) != r.heads)
    r.fail("d_model must be a multiple of the heads, which must be the same in both parts");
  r.head_dim = r.out.width / r.heads;
  const std::int64_t layers = r.size({"decoder_layers"}, r.out.layers, max_count);
  put_sinusoidal(r, SinusoidalRecipe::half_split, 0, add_layers(r, r.out.layers, "encoder"));
  put_sinusoidal(r, SinusoidalRecipe::half_split, context, add_layers(r, layers, "decoder"));
  r.note("the decoder's positions start at context_length, " + std::to_string(context));
}

}  // namespace

void read_t5(Reading& r) {
  read_t5_parts(r, "all layers of a part share the table of the first layer");
}

void add_encoder_decoder(Families& add) {
  using namespace changes;
  add(rotary, {"cohere_asr"}, read(read_learned), position("learned"), length(1024),
      sizes(8, 8, 1024),
      note("the encoder, a Conformer with Transformer-XL's distances, is not "
           "described"));
  const Family kosmos_2_text_model =
      add(rotary, {"kosmos_2_text_model"}, read(read_kosmos),
          position("sinusoidal, tensor2tensor"), sizes(24, 32, 2048));
  add(kosmos_2_text_model, {"kosmos_2_5_text_model"}, length(4096), sizes(24, 16, 1536));
  add(rotary, {"pp_formulanet_text"}, read(read_decoder_after_two),
      position("learned, offset 2"), length(2560), sizes(8, 16, 512));
  add(rotary, {"trocr"}, read(read_trocr), position("learned, offset 2, or sinusoidal"),
      length(512), sizes(12, 16, 1024));
  add(rotary, {"time_series_transformer"}, read(read_time_series),
      position("sinusoidal, half_split"), sizes(2, 2, 64));
  add(rotary, {"bart", "mbart", "mvp", "plbart"}, read(read_encoder_decoder_after_two),
      position("learned, offset 2"), length(1024));
  const Family blenderbot =
      add(rotary, {"blenderbot"}, read(read_encoder_decoder), position("learned"), length(128));
  add(blenderbot, {"bigbird_pegasus"}, length(4096),
      unsupported("block-sparse attention with random blocks"));
  add(blenderbot, {"blenderbot-small"}, length(512));
  const Family m2m_100 =
      add(rotary, {"m2m_100", "nllb", "nllb-moe"}, read(read_encoder_decoder_tensor2tensor),
          position("sinusoidal, tensor2tensor"), length(1024));
  const Family fsmt = add(m2m_100, {"fsmt"}, visibility(bidirectional));
  add(fsmt, {"speech_to_text"}, length(512));
  add(rotary, {"marian", "pegasus"}, read(read_encoder_decoder_sinusoidal),
      position("sinusoidal, half_split"), length(1024));
  const Family mt5 =
      add(rotary, {"mt5"}, read(read_t5), position("T5 bias"), length(512), sizes(8, 6, 512));
  const Family pop2piano = add(mt5, {"pop2piano"}, sizes(6, 8, 512));
  add(pop2piano, {"longt5"}, unsupported("attention in blocks with global tokens"));
  add(pop2piano, {"t5"}, gguf("t5", RopeType::none),
      gguf_parts(GgufParts::encoder_and_decoder));
  add(mt5, {"pix2struct_text_model"}, read(read_pix2struct_text), sizes(12, 12, 768));
  add(mt5, {"switch_transformers"}, sizes(12, 12, 768));
  add(rotary, {"umt5"}, read(read_umt5), position("T5 bias"), length(512), sizes(8, 6, 512));
  add(rotary, {"whisper"}, read(read_whisper), position("sinusoidal, learned"), length(448));
  add(rotary, {}, gguf("t5encoder", RopeType::none), gguf_parts(GgufParts::encoder));
}

}  // namespace gnomon::model::internal
