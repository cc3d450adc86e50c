// Entry of the learned table.
#pragma once

#include <utility>

#include "gnomon/embedding/learned.h"
#include "gnomon/embedding/resize.h"
#include "src/core/size.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
struct Entry<Learned> : EntryOf<Learned> {
  static constexpr EncodingInfo infos[] = {
      {"learned", "Learned table", "learned positions, learned absolute, learned embedding",
       Place::embeddings, Sharing::all_layers,
       "one trained vector per position; no positions after the end of the table",
       "x[b, t] += table[position + offset]", "Gehring et al. 2017, arXiv:1705.03122",
       "embedding/learned.md",
       "GPT, GPT-2, BERT, ALBERT, ELECTRA, ViT, CLIP; with an offset OPT, BART, RoBERTa, "
       "XLM-R, Longformer",
       [](const Shape& s) -> Encoding { return learned_plain(s.length, s.width); }}};
  static constexpr Properties properties = {
      .reversal = Effect::some, .shift = Effect::some, .linearity = Linearity::linear};
  static void fields(Learned& s, auto&& v) {
    v("rows", s.rows), v("width", s.width), v("offset", s.offset);
  }
  static std::vector<Parameter> parameters(const Learned& s) {
    return {{"table", s.rows, s.width, table_deviation, 0, "weight"}};  // torch.nn.Embedding
  }
  static constexpr CheckpointName tensors[] = {
      {"table",
       "embeddings.position_embeddings.weight|embeddings.position_embedding.weight|wpe.weight|"
       "embed_positions.weight|positions_embed.weight|position_embeddings.weight|"
       "embeddings.position_embeddings|embeddings.position_embedding|pos_embed.weight|"
       "pos_embed|positional_embedding_vlm|position_embedding.weight|positional_embedding|"
       "position_embeds.weight|query_position_embeddings.weight"},
      {"table", "position_embd.weight"}};  // GGUF
  static std::optional<std::int64_t> capacity(const Learned& s) { return gnomon::capacity(s); }

  // The table resized to the grid of an image, in the order of its patches.
  static EmbeddingTable resized(const Learned& s, const Call& call,
                                View<const float, 2> table) {
    const ImageTokens& rule = *call.resized;
    const GridSize to{call.image[1], call.image[2]};
    EmbeddingTable all{rule.first_tokens + to.height * to.width, s.width, {}};
    all.values.resize(
        gnomon::internal::checked_size("embedding", "tokens x width", {all.tokens, s.width}));
    resize_table(rule.resize, table, *rule.table,
                 View<float, 2>(all.values.data(), {all.tokens, s.width}), to);
    const auto axes = call.query_axes();
    const Positions &y = axes[axes.size() - 2], &x = axes[axes.size() - 1];
    EmbeddingTable ordered{call.queries(), s.width, {}};
    for (std::int64_t t = 0; t < ordered.tokens; ++t) {
      const auto at = static_cast<std::size_t>(t);
      const std::int64_t row =
          t < rule.first_tokens ? t : rule.first_tokens + y.ids[at] * to.width + x.ids[at];
      const auto begin = all.values.begin() + row * s.width;
      ordered.values.insert(ordered.values.end(), begin, begin + s.width);
    }
    return ordered;
  }

  static void lower(const Learned& s, const Call& call, Values values, LayerPlan& lowered) {
    if (call.resized) {
      lowered.table = resized(s, call, values[0]);
      return;
    }
    const auto rows = learned_rows(s, call.query_positions());
    EmbeddingTable table{call.queries(), s.width, {}};
    table.values.reserve(gnomon::internal::checked_size("embedding", "tokens x width",
                                                        {call.queries(), s.width}));
    for (const std::int64_t row : rows)
      for (std::int64_t c = 0; c < s.width; ++c) table.values.push_back(values[0](row, c));
    lowered.table = std::move(table);
  }
  static void backward(const Learned& s, const Call& call, Values, const LayerGradient& grad,
                       Gradients grads) {
    const auto rows = learned_rows(s, call.query_positions());
    for (std::int64_t t = 0; t < call.queries(); ++t)
      for (std::int64_t c = 0; c < s.width; ++c)
        grads[0](rows[static_cast<std::size_t>(t)], c) += grad.table(t, c);
  }
};

}  // namespace gnomon::model
