// The spatial bias of LayoutLMv2 and v3: a sum of three T5 biases, by the distance of two words
// in the text, the horizontal distance of their boxes on the page, and the vertical distance.
//
//   Xu et al. "LayoutLMv2", 2020. https://arxiv.org/abs/2012.14740, section 2.2.
//   Huang et al. "LayoutLMv3", 2022. https://arxiv.org/abs/2204.08387; as released.
//
//   bias(h, i, j) = scale ( text[bucket(j - i), h]
//                           + x[bucket(x_j - x_i), h] + y[bucket(y_j - y_i), h] )
//
// Letters: H heads, P positions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gnomon/bias/form.h"
#include "gnomon/bias/t5.h"
#include "gnomon/view.h"

namespace gnomon {

struct LayoutBias {
  std::int64_t heads = 0;            // H; at least 1
  std::int64_t text_buckets = 32;    // buckets of a bidirectional T5Bias
  std::int64_t text_distance = 128;  // its max_distance, in tokens
  std::int64_t page_buckets = 64;    // buckets of x and of y
  std::int64_t page_distance = 256;  // in units of the boxes; a page is 1000 wide and high
  double scale = 1;                  // factor on the sum of the three biases; finite
  std::int64_t columns = 1;          // for text without boxes: see boxes_of_text

  bool operator==(const LayoutBias&) const = default;
};

namespace bias {
// Return the released settings. v2 adds the bias to the scaled scores. v3 divides the bias by
// sqrt(D), together with the scores.
LayoutBias layoutlm_v2(std::int64_t heads);
LayoutBias layoutlm_v3(std::int64_t heads, std::int64_t head_dim);
}  // namespace bias

// The boxes of P words: x is the left edge and y the bottom edge (`bbox[0]`, `bbox[3]`).
struct WordBoxes {
  std::vector<std::int64_t> x, y;  // [P], within 2^31; a page is at most 2^20 wide and high
};
// Returns a page for text without boxes, as lines of `columns` tokens: x = p mod columns, y = p
// / columns.
WordBoxes boxes_of_text(std::int64_t positions, std::int64_t columns);

// The trained parameters or, if T is float, their gradient. The released weights are stored as
// [H, buckets].
template <typename T>
struct LayoutParameters {
  View<T, 2> text;  // [text_buckets, H]: `rel_pos_bias.weight`
  View<T, 2> x, y;  // [page_buckets, H]: `rel_pos_x_bias.weight`, `rel_pos_y_bias.weight`
};

// Returns the plan for positions 0 to P - 1. The axes are text, x, y, in this order. Throws
// std::invalid_argument if a shape does not match the spec, or page.x and page.y have different
// lengths.
AxesBias lower(const LayoutBias& layout, const LayoutParameters<const float>& parameters,
               const WordBoxes& boxes);

// Gradient of `lower`: adds the gradient with respect to the tables to `grads`, given bias_grad
// [H, N of the three axes] (BiasGradient::values). Sums are in double in the order of the
// distances, with one rounding per parameter.
void lower_backward(const LayoutBias& layout, const WordBoxes& boxes,
                    std::span<const double> bias_grad, const LayoutParameters<float>& grads);

}  // namespace gnomon
