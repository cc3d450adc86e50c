// Families with tables added to the embeddings, and biases on the scores. Source: the code of
// each family.
#include <stdexcept>

#include "src/model/rules.h"

namespace gnomon::model::internal {
namespace {

constexpr std::int64_t most_rows = std::int64_t{1} << 40;

// Returns the width of the embeddings. Some families project it to the width of the layers.
std::int64_t embedding_width(Reading& r) {
  const std::string_view type = r.family.model_type;
  if (type == "rembert") return r.size({"input_embedding_size"}, 256, most_of_few);
  if (type == "albert" || type == "electra" || type == "convbert")
    return r.size({"embedding_size"}, type == "convbert" ? 768 : 128, most_of_few);
  return hidden_size(r);
}

void put_sinusoidal(Reading& r, SinusoidalRecipe recipe, std::int64_t first_row,
                    std::int64_t layers = -1, const std::string& part = {}) {
  put_group(r, {Sinusoidal{.width = hidden_size(r), .recipe = recipe, .offset = first_row}},
            layers, part);
}

void bart(Reading& r, std::int64_t offset) {
  const Stacks stacks = read_stacks(r);
  const std::int64_t rows = r.out.length + offset;
  put_learned(r, rows, offset, stacks.encoder, "encoder");
  put_learned(r, rows, offset, stacks.decoder, "decoder");
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

void bert_with_offset(Reading& r, std::int64_t offset) {
  read_sizes(r);
  if (r.family.model_type == "mobilebert" &&
      r.keys.boolean({"use_bottleneck"}).value_or(true)) {
    const std::int64_t inner = r.size({"true_hidden_size", "intra_bottleneck_size"}, 128);
    if (inner % r.heads != 0 || inner / r.heads > most_of_few)
      r.fail_at({"true_hidden_size", "intra_bottleneck_size"},
                "intra_bottleneck_size must be a multiple of the heads " +
                    std::to_string(r.heads) + ", got " + std::to_string(inner));
    r.head_dim = inner / r.heads;
  }
  const std::string type = r.keys.string({"position_embedding_type"}).value_or("absolute");
  if (type == "absolute") return put_learned(r, r.out.length, offset);
  if (type != "relative_key" && type != "relative_key_query")
    r.keys.find({"position_embedding_type"})
        ->fail(
            "position_embedding_type must be absolute, relative_key or relative_key_query, "
            "got " +
            type);
  r.note("position_embedding_type " + type + ": transformers 5 has dropped it");
  if (r.out.length > most_of_few)
    r.fail_at({"max_position_embeddings"},
              "max_position_embeddings must be at most 65536 for " + type + ", got " +
                  std::to_string(r.out.length));
  put_group(r, {type == "relative_key" ? bert_relative_key(r.head_dim, r.out.length)
                                       : bert_relative_key_query(r.head_dim, r.out.length)});
}

std::int64_t padding_offset(Reading& r) {
  return r.keys.integer({"pad_token_id"}, 0).value_or(1) + 1;
}

}  // namespace

void put_learned(Reading& r, std::int64_t rows, std::int64_t offset, std::int64_t layers,
                 const std::string& part) {
  if (offset < 0 || offset >= rows || rows > most_rows)
    r.fail("the position table must have more rows than its offset " + std::to_string(offset) +
           ", got " + std::to_string(rows));
  r.out.width = embedding_width(r);
  put_group(r, {Learned{.rows = rows, .width = r.out.width, .offset = offset}}, layers, part);
  r.out.length = rows - offset;
}

Stacks read_stacks(Reading& r) {
  const std::int64_t width = hidden_size(r);
  const Keys::Names encoder = {"encoder_layers", "num_encoder_layers", "num_hidden_layers"};
  r.size(encoder);
  const Stacks stacks{r.size(encoder, 1, most_of_few),
                      r.size({"decoder_layers", "num_decoder_layers"}, 1, most_of_few)};
  r.out.layers = stacks.encoder;
  r.heads = r.size({"encoder_attention_heads", "num_encoder_attention_heads",
                    "decoder_attention_heads", "num_attention_heads"});
  if (width % r.heads != 0)
    r.fail_at({"d_model", "hidden_size"}, "d_model must be a multiple of the heads " +
                                              std::to_string(r.heads) + ", got " +
                                              std::to_string(width));
  r.head_dim = width / r.heads;
  r.out.length = r.size({"max_position_embeddings", "max_target_positions"}, r.family.length);
  return stacks;
}

void learned(Reading& r) {
  read_sizes(r);
  put_learned(r, r.out.length, 0);
}

void gpt2(Reading& r) {
  read_sizes(r);
  if (!r.keys.boolean({"scale_attn_weights"}).value_or(true)) r.softmax_scale = 1;
  const bool by_layer = r.keys.boolean({"scale_attn_by_inverse_layer_idx"}).value_or(false);
  put_learned(r, r.out.length, 0);
  if (!by_layer) return;
  LayerGroup all = std::move(r.out.groups.back());
  r.out.groups.pop_back();
  for (std::int64_t l = 0; l < r.out.layers; ++l) {
    LayerGroup one = all;
    one.layers = {l};
    one.attention.softmax_scale /= static_cast<double>(l + 1);
    r.out.groups.push_back(std::move(one));
  }
}

void unscaled_learned(Reading& r) {
  read_sizes(r);
  r.softmax_scale = 1;
  put_learned(r, r.out.length, 0);
}

// The table has two rows before the first position.
void learned_after_two(Reading& r) {
  read_sizes(r);
  put_learned(r, r.out.length + 2, 2);
}

// Learned table, or Shaw's relative keys.
void bert(Reading& r) { bert_with_offset(r, 0); }
// The rows up to that of padding are not positions.
void roberta(Reading& r) { bert_with_offset(r, padding_offset(r)); }

void esm(Reading& r) {
  if (r.keys.string({"position_embedding_type"}).value_or("absolute") == "rotary") {
    r.keys.find({"pad_token_id"});
    return read_rotary(r);
  }
  roberta(r);
}

void axial_learned(Reading& r) {
  read_sizes(r);
  if (!r.keys.boolean({"axial_pos_embds"}).value_or(true))
    return put_learned(r, r.out.length, 0);
  const auto shape = r.keys.find({"axial_pos_shape"});
  const auto sides =
      shape ? shape->integers("axial_pos_shape") : std::vector<std::int64_t>{64, 64};
  const auto widths = r.keys.find({"axial_pos_embds_dim"});
  auto dims =
      widths ? widths->integers("axial_pos_embds_dim") : std::vector<std::int64_t>{64, 192};
  if (dims.size() != sides.size() || sides.empty() || sides.size() > 4)
    r.fail("axial_pos_shape and axial_pos_embds_dim must have the same number of axes, 1 to 4");
  AxialLearned axial{.join = AxisJoin::concatenated, .rows = sides, .widths = std::move(dims)};
  try {
    capacity(axial), gnomon::width(axial);
  } catch (const std::invalid_argument& error) {
    r.fail_at({"axial_pos_shape"}, error.what());
  }
  put_group(r, {std::move(axial)});
  r.note("a factored table: a row is the concatenation of one row of each axis");
}

void sinusoidal(Reading& r) {
  read_sizes(r);
  put_sinusoidal(r, SinusoidalRecipe::half_split, 0);
}
void tensor2tensor_after_two(Reading& r) {
  read_sizes(r);
  put_sinusoidal(r, SinusoidalRecipe::tensor2tensor, 2);
}

void encoder_decoder(Reading& r) { bart(r, 0); }
void encoder_decoder_after_two(Reading& r) { bart(r, 2); }

void encoder_decoder_sinusoidal(Reading& r) {
  const Stacks stacks = read_stacks(r);
  put_sinusoidal(r, SinusoidalRecipe::half_split, 0, stacks.encoder, "encoder");
  put_sinusoidal(r, SinusoidalRecipe::half_split, 0, stacks.decoder, "decoder");
}

void encoder_decoder_tensor2tensor(Reading& r) {
  const Stacks stacks = read_stacks(r);
  const std::int64_t first = padding_offset(r);
  put_sinusoidal(r, SinusoidalRecipe::tensor2tensor, first, stacks.encoder, "encoder");
  put_sinusoidal(r, SinusoidalRecipe::tensor2tensor, first, stacks.decoder, "decoder");
  r.note("the row of padding is zero");
}

void whisper(Reading& r) {
  const Stacks stacks = read_stacks(r);
  put_sinusoidal(r, SinusoidalRecipe::tensor2tensor, 0, stacks.encoder, "encoder");
  put_learned(r, r.size({"max_target_positions"}, 448), 0, stacks.decoder, "decoder");
  r.note("the encoder's table is stored in the checkpoint: " +
         std::to_string(r.size({"max_source_positions"}, 1500)) + " rows");
}

void bloom(Reading& r) {
  read_sizes(r);
  put_group(r, {Alibi{.heads = r.heads}});
  r.note(
      "the released code adds slope x key position, which differs from slope x (key - "
      "query) by a constant for each query, which the softmax cancels");
}

void falcon(Reading& r) {
  if (!r.keys.boolean({"alibi"}).value_or(false)) return read_rotary(r);
  for (const auto unused : {"rope_theta", "rope_scaling", "rope_parameters"})
    r.keys.find({unused});
  read_sizes(r);
  const double scale = inverse_sqrt(static_cast<double>(r.head_dim));
  put_group(
      r, {Alibi{.heads = r.heads, .bias_scale = scale, .rounding = AlibiRounding::bfloat16}});
  r.note(
      "the released code rounds the slopes to bfloat16 and divides the bias by "
      "sqrt(head_dim), like q.k");
}

// The position keys are in `attn_config`.
void mpt(Reading& r) {
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
    put_group(r, {Alibi{.heads = r.heads, .max_bias = max_bias}});
  else if (r.keys.boolean({"learned_pos_emb"}).value_or(true))
    put_learned(r, r.out.length, 0);
  else
    put_group(r, {});
}

// 7B has rotary, 13B has ALiBi. Their configs differ in the sizes only.
void baichuan(Reading& r) {
  read_sizes(r);
  if (r.heads != 40) return read_rotary(r);
  r.note("40 heads: the 13B model, which has ALiBi (the 7B model has rotary)");
  put_group(r, {Alibi{.heads = r.heads}});
}

void t5(Reading& r) {
  const std::int64_t encoder =
      r.size_or_default({"num_layers", "num_hidden_layers"}, 0, most_of_few);
  const std::int64_t decoder = r.size({"num_decoder_layers"}, encoder, most_of_few);
  r.heads = r.size_or_default({"num_heads", "num_attention_heads"}, 0, most_of_few);
  r.out.layers = encoder;
  r.head_dim = r.size({"d_kv"}, 64);
  r.softmax_scale = 1;
  r.out.length = r.size({"n_positions", "max_position_embeddings"}, 512);
  put_group(r, {t5_bias(r, T5Direction::bidirectional)}, encoder, "encoder");
  put_group(r, {t5_bias(r, T5Direction::causal)}, decoder, "decoder");
  r.note("cross-attention has no position; the scores are not divided by sqrt(head_dim)");
  r.note(r.out.model_type == "umt5"
             ? "every layer has a separate table"
             : "all layers of a part share the table of the first layer");
}

// A learned table and T5's bias: 32 buckets up to distance 128. The config's keys are not used.
void mpnet(Reading& r) {
  read_sizes(r);
  put_learned(r, r.out.length, padding_offset(r));
  put_group(r, {T5Bias{.heads = r.heads, .direction = T5Direction::bidirectional}});
  if (const auto given = r.keys.size({"relative_attention_num_buckets"});
      given.value_or(32) != 32)
    r.note("relative_attention_num_buckets " + std::to_string(*given) +
           " is not used by mpnet: distances have 32 buckets");
}

// A learned table, and a bias by buckets of the distances in the text and on the page.
void layoutlm(Reading& r) {
  const bool third = r.family.model_type == "layoutlmv3";
  read_sizes(r);
  put_learned(r, r.out.length, third ? padding_offset(r) : 0);
  const bool text = r.keys.boolean({"has_relative_attention_bias"}).value_or(true);
  const bool page = r.keys.boolean({"has_spatial_attention_bias"}).value_or(true);
  LayoutBias bias = third ? bias::layoutlm_v3(r.heads, r.head_dim) : bias::layoutlm_v2(r.heads);
  bias.text_buckets = r.size({"rel_pos_bins"}, bias.text_buckets);
  bias.text_distance = r.size({"max_rel_pos"}, bias.text_distance);
  bias.page_buckets = r.size({"rel_2d_pos_bins"}, bias.page_buckets);
  bias.page_distance = r.size({"max_rel_2d_pos"}, bias.page_distance);
  for (const char* name : {"rel_pos_bins", "rel_2d_pos_bins"})
    if (const std::int64_t buckets = r.size({name}, 32); buckets < 4 || buckets % 2 != 0)
      r.fail_at({name}, std::string(name) + " must be even and at least 4, got " +
                            std::to_string(buckets));
  r.note("tables of the word boxes are also added to the embeddings");
  if (text && page)
    put_group(r, {bias});
  else if (text || !third)
    r.unsupported = text ? "a bias of the text alone" : "a bias of the page alone";
}

// T5's bias, multiplied by a gate that each layer computes from its input.
void wavlm(Reading& r) {
  read_sizes_without_length(r);
  const T5Bias t5{.heads = r.heads,
                  .direction = T5Direction::bidirectional,
                  .buckets = r.size({"num_buckets"}, 320),
                  .max_distance = r.size({"max_bucket_distance"}, 800)};
  if (t5.buckets < 4 || t5.buckets % 2 != 0)
    r.fail_at({"num_buckets"},
              "num_buckets must be even and at least 4, got " + std::to_string(t5.buckets));
  put_group(r, {WavLm{.t5 = t5, .head_dim = r.head_dim}});
  r.note("a convolution of the inputs is added to the inputs before the first layer");
}

// State-space and other models without position encodings.
void nowhere(Reading& r) {
  r.out.layers =
      r.size_or_default({"num_hidden_layers", "n_layer", "num_layers"}, 0, most_of_few);
  r.out.length = r.size({"max_position_embeddings", "context_length"}, 2048);
  for (const auto unused : {"rope_theta", "rope_scaling", "rope_parameters"})
    r.keys.find({unused});
  put_group(r, {});
}

void read_unknown(Reading& r) {
  const auto has = [&](Keys::Names names) { return r.keys.find(names).has_value(); };
  r.note("the family " + r.out.model_type + " is unknown: the keys of the config are used");
  const std::string type =
      r.keys.string({"position_embedding_type", "pos_embedding_type"}).value_or("");
  if (r.keys.boolean({"alibi", "use_alibi"}).value_or(false) || type == "alibi") {
    read_sizes(r);
    put_group(r, {Alibi{.heads = r.heads}});
  } else if (has({"relative_attention_num_buckets"})) {
    t5(r);
  } else if (type == "absolute" || type == "learned" || type == "learned_absolute") {
    learned(r);
  } else if (type == "none" || type == "nope") {
    nowhere(r);
  } else if (has({"rope_theta", "rope_scaling", "rope_parameters", "rotary_dim", "rotary_pct",
                  "rotary_emb_base", "partial_rotary_factor"}) ||
             type == "rope" || type == "rotary") {
    if (has({"qk_rope_head_dim"}))
      r.fail("multi-head latent attention of the unknown family " + r.out.model_type +
             " is not understood");
    const auto& pairing = r.options.assume_pairing;
    if (!pairing)
      r.fail_at({"model_type"},
                "model_type " + r.out.model_type +
                    " is unknown and no key gives the pairing of its rotation: "
                    "assume_pairing (--assume-pairing) must be halves or adjacent");
    read_rotary(r);
    for (LayerGroup& group : r.out.groups)
      for (Encoding& one : group.position)
        if (auto* const rotary = std::get_if<ScaledRotary>(&one))
          rotary->rotary.pairing = *pairing;
    r.note(std::string("the pairing is an assumption: ") +
           (*pairing == Pairing::halves ? "halves" : "adjacent"));
  } else {
    r.fail("model_type " + r.out.model_type +
           " is unknown and no key gives its position encoding");
  }
}

}  // namespace gnomon::model::internal
