// Families that do not turn queries and keys, or not always: learned and sinusoidal tables, and
// biases. Read from the families' own sources.
#include <span>

#include "src/model/reading.h"

namespace gnomon::model::internal {
namespace {

std::int64_t hidden_size(Reading& r) {
  return r.size({"hidden_size", "n_embd", "d_model", "dim", "n_embed", "emb_dim"});
}

// One table that is added to the embeddings: all layers see it.
void put_learned(Reading& r, std::int64_t rows, std::int64_t offset) {
  if (offset < 0 || offset >= rows)
    r.fail("the position table must have more rows than its offset " + std::to_string(offset) +
           ", got " + std::to_string(rows));
  put_group(r, "learned", Learned{.rows = rows, .dim = hidden_size(r), .offset = offset});
  r.out.length = rows - offset;
}

void learned(Reading& r) {
  read_sizes(r);
  put_learned(r, r.out.length, 0);
}

void gpt2(Reading& r) {
  read_sizes(r);
  if (!r.keys.boolean({"scale_attn_weights"}).value_or(true)) r.softmax_scale = 1;
  if (r.keys.boolean({"scale_attn_by_inverse_layer_idx"}).value_or(false))
    r.note("scale_attn_by_inverse_layer_idx: softmax_scale is further divided by layer + 1");
  put_learned(r, r.out.length, 0);
}

void unscaled_learned(Reading& r) {
  read_sizes(r);
  r.softmax_scale = 1;
  put_learned(r, r.out.length, 0);
}

// OPT, BioGPT: two rows before the first position.
void learned_after_two(Reading& r) {
  read_sizes(r);
  put_learned(r, r.out.length + 2, 2);
}

// BERT: absolute, or Shaw's relative keys (before 5.x).
void bert_with_offset(Reading& r, std::int64_t offset) {
  read_sizes(r);
  const std::string type = r.keys.string({"position_embedding_type"}).value_or("absolute");
  if (type == "absolute") return put_learned(r, r.out.length, offset);
  if (type != "relative_key" && type != "relative_key_query")
    r.keys.find({"position_embedding_type"})
        ->fail(
            "position_embedding_type must be absolute, relative_key or relative_key_query, "
            "got " +
            type);
  LayerGroup& group = put_group(r, "shaw", NoPosition{});
  group.facts = {{"max_distance", static_cast<double>(r.out.length - 1)},
                 {"rows", static_cast<double>(2 * r.out.length - 1)},
                 {"on_keys", type == "relative_key_query" ? 1 : 0}};
}
void bert(Reading& r) { bert_with_offset(r, 0); }
void roberta(Reading& r) {
  bert_with_offset(r, r.keys.integer({"pad_token_id"}).value_or(1) + 1);
}

void bloom(Reading& r) {
  read_sizes(r);
  put_group(r, "alibi", Alibi{.heads = r.heads});
  r.note(
      "the released code adds slope x key position, which differs from slope x (key - "
      "query) by a number for each query that the softmax removes");
}

void falcon(Reading& r) {
  if (!r.keys.boolean({"alibi"}).value_or(false)) return read_rotary(r);
  for (const auto unused : {"rope_theta", "rope_scaling", "rope_parameters"})
    r.keys.find({unused});
  read_sizes(r);
  put_group(r, "alibi", Alibi{.heads = r.heads});
  r.note(
      "the released code rounds the slopes to bfloat16 and divides the bias by "
      "sqrt(head_dim), as it does q.k");
}

// Its sizes have names of their own, and the position's are in `attn_config`.
void mpt(Reading& r) {
  read_sizes(r);
  const auto inner = r.keys.find({"attn_config"});
  bool alibi = true, rope = false;
  double max_bias = 8;
  if (inner) {
    Keys keys(*inner);
    alibi = keys.boolean({"alibi"}).value_or(true);
    max_bias = keys.number({"alibi_bias_max"}).value_or(8);
    rope = keys.boolean({"rope"}).value_or(false);
    r.softmax_scale = keys.number({"softmax_scale"});
  }
  if (rope) r.fail("attn_config.rope of mpt is not understood");
  if (!(max_bias > 0)) inner->fail("alibi_bias_max must be positive");
  if (alibi)
    put_group(r, "alibi", Alibi{.heads = r.heads, .max_bias = max_bias});
  else if (r.keys.boolean({"learned_pos_emb"}).value_or(true))
    put_learned(r, r.out.length, 0);
  else
    put_group(r, "none", NoPosition{});
}

// Baichuan: 7B turns, 13B has ALiBi; their configs tell only by their sizes.
void baichuan(Reading& r) {
  read_sizes(r);
  if (r.heads != 40) return read_rotary(r);
  r.note("40 heads: the 13B model, which has ALiBi where 7B has rotary");
  put_group(r, "alibi", Alibi{.heads = r.heads});
}

void t5(Reading& r) {
  const std::int64_t encoder = r.size({"num_layers", "num_hidden_layers"});
  const std::int64_t decoder = r.size({"num_decoder_layers"}, encoder);
  r.out.layers = encoder;
  r.heads = r.size({"num_heads", "num_attention_heads"});
  r.head_dim = r.size({"d_kv"}, 64);
  r.softmax_scale = 1;
  r.out.length = r.size({"n_positions", "max_position_embeddings"}, 512);
  const std::int64_t buckets = r.size({"relative_attention_num_buckets"}, 32);
  const std::int64_t distance = r.size({"relative_attention_max_distance"}, 128);
  const auto bias = [&](T5Direction direction) {
    return T5Bias{
        .heads = r.heads, .direction = direction, .buckets = buckets, .max_distance = distance};
  };
  put_group(r, "t5", bias(T5Direction::bidirectional), encoder, "encoder");
  put_group(r, "t5", bias(T5Direction::causal), decoder, "decoder");
  r.note("cross-attention has no position; the scores are not divided by sqrt(head_dim)");
  r.note(r.out.model_type == "umt5" ? "every layer has a table of its own"
                                    : "all layers of a part share the table of its first");
}

}  // namespace

void read_unknown(Reading& r) {
  const auto has = [&](Keys::Names names) { return r.keys.find(names).has_value(); };
  r.note("the family " + r.out.model_type + " is not known: read by its keys");
  const std::string type =
      r.keys.string({"position_embedding_type", "pos_embedding_type"}).value_or("");
  if (r.keys.boolean({"alibi", "use_alibi"}).value_or(false) || type == "alibi")
    return read_sizes(r), void(put_group(r, "alibi", Alibi{.heads = r.heads}));
  if (has({"relative_attention_num_buckets"})) return t5(r);
  if (type == "absolute" || type == "learned" || type == "learned_absolute")
    return read_sizes(r), put_learned(r, r.out.length, 0);
  if (type == "none" || type == "nope")
    return read_sizes(r), void(put_group(r, "none", NoPosition{}));
  if (has({"rope_theta", "rope_scaling", "rope_parameters", "rotary_dim", "rotary_pct",
           "rotary_emb_base", "partial_rotary_factor"}) ||
      type == "rope" || type == "rotary") {
    if (has({"qk_rope_head_dim"}))
      r.fail("multi-head latent attention of the unknown family " + r.out.model_type +
             " is not understood");
    r.note(
        "its pairing is not said by the config: halves, as most families have it, is "
        "assumed");
    return read_rotary(r);
  }
  r.fail("model_type " + r.out.model_type +
         " is not known and no key says which position encoding it has");
}

std::span<const Family> other_families() {
  // clang-format off
  static constexpr Family list[] = {
      {.model_type = "gpt2", .read = gpt2, .position = "learned", .length = 1024},
      {.model_type = "gpt_neo", .read = unscaled_learned, .position = "learned"},
      {.model_type = "opt", .read = learned_after_two, .position = "learned, offset 2"},
      {.model_type = "bert", .read = bert, .position = "learned", .length = 512},
      {.model_type = "roberta", .read = roberta, .position = "learned, offset pad + 1", .length = 512},
      {.model_type = "bloom", .read = bloom, .position = "ALiBi"},
      {.model_type = "falcon", .read = falcon, .position = "rotary, halves, or ALiBi"},
      {.model_type = "mpt", .read = mpt, .position = "ALiBi"},
      {.model_type = "baichuan", .read = baichuan, .position = "rotary, halves, or ALiBi"},
      {.model_type = "t5", .read = t5, .position = "T5 bias"},
      {.model_type = "vit", .read = learned, .position = "learned"},
  };
  // clang-format on
  return list;
}

}  // namespace gnomon::model::internal
