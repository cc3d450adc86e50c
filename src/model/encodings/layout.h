// Entry of LayoutLM's bias. Text is read as the lines of a page.
#pragma once

#include <algorithm>

#include "gnomon/bias/layout.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
struct Entry<LayoutBias> : EntryOf<LayoutBias> {
  static constexpr EncodingInfo infos[] = {
      {"layout", "LayoutLM bias", "LayoutLM, LayoutLMv2, LayoutLMv3", Place::scores,
       Sharing::all_layers,
       "T5 buckets of the distance in the text, and across and down the page",
       "score(h, i, j) += scale ( text[bucket(j - i), h] + x[bucket(x_j - x_i), h] + "
       "y[bucket(y_j - y_i), h] )",
       "Huang et al. 2022, arXiv:2204.08387", "bias/layout.md", "LayoutLMv2, LayoutLMv3",
       [](const Shape& s) -> Encoding {
         LayoutBias layout = bias::layoutlm_v3(s.heads, s.width / s.heads);
         layout.columns = page_size(s.length).width;
         return layout;
       }}};
  static constexpr Properties properties = {
      .reversal = Effect::some, .shift = Effect::some, .linearity = Linearity::linear};
  static void fields(LayoutBias& s, auto&& v) {
    v("heads", s.heads), v("text_buckets", s.text_buckets);
    v("text_distance", s.text_distance), v("page_buckets", s.page_buckets);
    v("page_distance", s.page_distance), v("scale", s.scale), v("columns", s.columns);
  }
  // Stored as the weights of linear layers.
  static std::vector<Parameter> parameters(const LayoutBias& s) {
    const auto matrix = [&](const char* name, std::int64_t buckets,
                            const char* path) -> Parameter {
      return {name, buckets, s.heads, table_deviation, 0, path, {s.heads, buckets}, true};
    };
    return {matrix("text", s.text_buckets, "rel_pos_bias.weight"),
            matrix("x", s.page_buckets, "rel_pos_x_bias.weight"),
            matrix("y", s.page_buckets, "rel_pos_y_bias.weight")};
  }
  static constexpr CheckpointName tensors[] = {
      {"text", "rel_pos_bias.weight", TensorLayout::transposed},
      {"x", "rel_pos_x_bias.weight", TensorLayout::transposed},
      {"y", "rel_pos_y_bias.weight", TensorLayout::transposed}};
  static gnomon::WordBoxes text(const LayoutBias& s, const Call& call) {
    if (call.boxes) return *call.boxes;
    const auto ids = call.key_positions().ids;
    const std::int64_t most = ids.empty() ? 0 : *std::max_element(ids.begin(), ids.end());
    return boxes_of_text(most + 1, s.columns);
  }
  static void lower(const LayoutBias& s, const Call& call, Values values, LayerPlan& lowered) {
    lowered.bias = gnomon::lower(s, {values[0], values[1], values[2]}, text(s, call));
  }
  static void backward(const LayoutBias& s, const Call& call, Values, const LayerGradient& grad,
                       Gradients grads) {
    gnomon::lower_backward(s, text(s, call), grad.bias.values, {grads[0], grads[1], grads[2]});
  }
};

}  // namespace gnomon::model
