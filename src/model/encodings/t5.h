// Entry of T5's bias.
#pragma once

#include "gnomon/bias/t5.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
inline constexpr Spelling<T5Direction> spellings<T5Direction>[] = {
    {T5Direction::causal, "causal"}, {T5Direction::bidirectional, "bidirectional"}};

constexpr T5Direction direction(const Shape& shape) {
  return shape.reads == Visibility::causal ? T5Direction::causal : T5Direction::bidirectional;
}

template <>
struct Entry<T5Bias> : EntryOf<T5Bias> {
  static constexpr EncodingInfo infos[] = {
      {"t5", "T5 bias", "T5 relative bias, T5's relative position bias", Place::scores,
       Sharing::all_layers, "a trained bias for each head and each bucket of distances",
       "score(h, query, key) += table[bucket(key - query), h]",
       "Raffel et al. 2019, arXiv:1910.10683", "bias/t5.md",
       "T5, mT5, UMT5, Switch, LongT5, Pop2Piano, UDOP, MPNet, ProphetNet, CPM-Ant",
       [](const Shape& s) -> Encoding {
         return T5Bias{.heads = s.heads, .direction = direction(s)};
       }}};
  static constexpr Properties properties = {
      .reversal = Effect::some, .shift = Effect::none, .linearity = Linearity::linear};
  static void fields(T5Bias& s, auto&& v) {
    v("heads", s.heads), v("direction", s.direction);
    v("buckets", s.buckets), v("max_distance", s.max_distance);
  }
  static std::vector<Parameter> parameters(const T5Bias& s) {
    return {
        {"buckets", s.buckets, s.heads, table_deviation, 0, "relative_attention_bias.weight"}};
  }
  static constexpr CheckpointName tensors[] = {
      {"buckets",
       "block.{}.layer.0.SelfAttention.relative_attention_bias.weight|"
       "block.0.layer.0.SelfAttention.relative_attention_bias.weight|"
       "relative_attention_bias.weight|rel_pos_bias.weight"},
      {"buckets", "blk.{}.attn_rel_b.weight|blk.0.attn_rel_b.weight"}};  // GGUF
  static void lower(const T5Bias& s, const Call& call, Values values, LayerPlan& lowered) {
    const auto [min_distance, count] = call.distances();
    lowered.bias = gnomon::lower(s, values[0], min_distance, count);
  }
  static void backward(const T5Bias& s, const Call& call, Values, const LayerGradient& grad,
                       Gradients grads) {
    const auto [min_distance, count] = call.distances();
    gnomon::lower_backward(s, grad.bias.values, min_distance, count, grads[0]);
  }
};

}  // namespace gnomon::model
