#include "gnomon/model/gguf_model.h"

#include <algorithm>

#include "src/model/gguf/gguf_draft.h"

namespace gnomon::model {
namespace {

using Reader = internal::GgufDraft;
using internal::GgufParts;
using internal::put;

// T5's bias. `parts`: those of the architecture.
void read_t5(Reader& r, GgufParts parts) {
  const std::int64_t buckets = r.size("attention.relative_buckets_count", internal::max_count);
  if (buckets < 4 || buckets % 2 != 0)
    r.fail(r.key("attention.relative_buckets_count"),
           "attention.relative_buckets_count must be even and at least 4, got " +
               std::to_string(buckets));
  r.softmax_scale = 1;
  T5Bias t5{.heads = r.heads, .direction = T5Direction::bidirectional, .buckets = buckets};
  r.layers.clear();
  put(r, t5, add_layers(r, r.out.layers, "encoder"));
  if (parts == GgufParts::encoder_and_decoder) {
    const std::int64_t decoder = r.size("decoder_block_count", internal::max_count);
    t5.direction = T5Direction::causal;
    put(r, t5, add_layers(r, decoder ? decoder : r.out.layers, "decoder"));
  }
  r.note("max_distance is 128 in llama.cpp for every model");
}

// Reads a model without rotation: a table, a bias, or no encoding.
void read_unrotated(Reader& r) {
  const bool fixed = r.row->alibi_heads == internal::by_heads;
  r.note_unread("attention.max_alibi_bias", fixed ? 8 : 0);
  const double max_bias = fixed ? 8
                          : r.reads("attention.max_alibi_bias")
                              ? r.not_negative("attention.max_alibi_bias")
                              : 0;
  if (const GgufParts parts = r.row->gguf.parts; parts != GgufParts::none) {
    read_t5(r, parts);
  } else if (max_bias > 0) {
    put(r, Alibi{.heads = r.heads, .max_bias = max_bias});
  } else if (const GgufTensor* table = r.file().find_tensor("position_embd.weight")) {
    if (table->size() == 0) r.fail("position_embd.weight must not be empty");
    put(r, Learned{.rows = table->extents[1], .width = table->extents[0]});
    r.note(
        "rows are numbered as in the file: the converter omits the first two rows of OPT and "
        "RoBERTa");
  } else if (r.row->visibility == Visibility::bidirectional) {
    put(r, Learned{.rows = std::max<std::int64_t>(r.out.length, 1),
                   .width = r.required("embedding_length", 1 << 24)});
  }
}

void read_encodings(Reader& r) {
  if (r.heads == 0) return;
  if (r.out.layers == r.row->gguf.alibi_layers) {
    // Baichuan 13B (ALiBi) has the same architecture name as 7B (rotary).
    put(r, Alibi{.heads = r.heads});
    r.note(std::to_string(r.out.layers) + " layers: the model with ALiBi (others have rotary)");
  } else if (const std::int64_t rotary = r.row->gguf.rotary_layers;
             rotary != 0 && rotary != r.out.layers) {
    r.note("llama.cpp does not rotate: it knows models of " + r.arch + " with " +
           std::to_string(rotary) + " layers only");
  } else if (r.is_unrotated()) {
    read_unrotated(r);
  } else {
    read_rope(r);
  }
}

}  // namespace

ModelDescription read_gguf(const Gguf& file) {
  if (const auto count = file.integer("split.count"); count > 1 && file.shards().size() == 1)
    throw FormatError(file.name(), file.find("split.count")->offset,
                      "the file is one of " + std::to_string(*count) +
                          " shards (split.count, split.no), and all are required, because the "
                          "description depends on tensors of every shard");
  Reader r(file);
  read_layers(r);
  read_encodings(r);
  read_attention(r);
  if (r.row->model_type.empty() && !r.row->note.empty()) r.note(std::string(r.row->note));
  finish(r);
  return std::move(r.out);
}

}  // namespace gnomon::model
