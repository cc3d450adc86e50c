// Entry of the clipped bias table.
#pragma once

#include "gnomon/bias/clipped.h"
#include "src/core/size.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
struct Entry<ClippedBias> : EntryOf<ClippedBias> {
  static constexpr EncodingInfo infos[] = {
      {"clipped", "Clipped table", "clipped bias, clipped relative bias", Place::scores,
       Sharing::all_layers, "a trained bias for each head and each distance up to a limit",
       "score(h, i, j) += b[h, clip(i - j, -right, left)]",
       "Shaw et al. 2018, arXiv:1803.02155", "bias/clipped.md", "",
       [](const Shape& s) -> Encoding {
         return ClippedBias{.heads = s.heads,
                            .left = s.length - 1,
                            .right = s.reads == Visibility::causal ? 0 : s.length - 1};
       }}};
  static constexpr Properties properties = {
      .reversal = Effect::some, .shift = Effect::none, .linearity = Linearity::linear};
  static void fields(ClippedBias& s, auto&& v) {
    v("heads", s.heads), v("left", s.left), v("right", s.right);
  }
  static std::vector<Parameter> parameters(const ClippedBias& s) {
    const std::int64_t columns =
        gnomon::internal::checked_sum("clipped", "left + 1 + right", {s.left, 1, s.right});
    return {{"table", s.heads, columns, table_deviation}};
  }
  static void lower(const ClippedBias& s, const Call& call, Values values, LayerPlan& lowered) {
    const auto [min_distance, count] = call.distances();
    lowered.bias = gnomon::lower(s, values[0], min_distance, count);
  }
  static void backward(const ClippedBias& s, const Call& call, Values,
                       const LayerGradient& grad, Gradients grads) {
    const auto [min_distance, count] = call.distances();
    gnomon::lower_backward(s, grad.bias.values, min_distance, count, grads[0]);
  }
};

}  // namespace gnomon::model
