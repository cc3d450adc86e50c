// Relative logits (Inkling): a small query of each token and head, a projection of the layer's
// input, meets a trained vector for each distance into the past.
//
//   Thinking Machines, Inkling (July 2026) and Inkling 2; no paper. The code is
//   `InklingRelativeLogits` in Hugging Face Transformers 5.23.
//
//   r[i, h] = W_h x_i
//   score[h, i, j] += r[i, h] . E[:, i - j]     if 0 <= i - j < extent, after the softmax scale
//
// Inkling 2 multiplies r by a trained scale and shortens it to a length: r = min(1, clip / (|s
// r| + 1e-6)) s r.
//
// Letters: B batch, T tokens, C width of the layer's input, H query heads, K rank.
//
// Naive version: tests/relative/relative_logits_test.cc, `naive_relative_query`.
#pragma once

#include <cstdint>

#include "gnomon/relative/form.h"
#include "gnomon/view.h"

namespace gnomon {

struct RelativeLogits {
  std::int64_t heads = 0;      // H; at least 1
  std::int64_t width = 0;      // C; at least 1
  std::int64_t rank = 16;      // K; at least 1
  std::int64_t extent = 1024;  // distances 0 to extent - 1; the window in sliding layers
  double clip = 0;             // the greatest length of a query; 0: no limit, and no scale

  bool operator==(const RelativeLogits&) const = default;
};

// The trained parameters of the queries or, if T is float, their gradient: projection [H K, C],
// head by head, and scale [H, K] (only with a clip).
template <typename T>
struct RelativeProjection {
  View<T, 2> weight, scale = {};
};

// Returns the form: one table in `projected`, shared by the heads. table: E [K, extent]. Throws
// std::invalid_argument if the spec is inconsistent or the table has another shape.
RelativeForm lower(const RelativeLogits& logits, View<const float, 2> table);
// Adds the gradient of the table, given that of the form, to table_grad [K, extent].
void lower_backward(const RelativeLogits& logits, const RelativeGradient& grad,
                    View<float, 2> table_grad);

// Computes the queries r [B, T, H, K] of tokens x [B, T, C], for
// TokenTerms::relative_queries. A cache keeps nothing of them. Throws std::invalid_argument if
// a shape does not match the spec. Error bound: one rounding of the formula in double. Cost:
// B T H K C multiply-adds; memory O(B T (C + H K)).
void relative_queries(const RelativeLogits& logits,
                      const RelativeProjection<const float>& projection, View<const float, 3> x,
                      View<float, 4> out);
// Gradient of `relative_queries`: adds the gradients with respect to x and to the parameters to
// x_grad [B, T, C] and grads, given out_grad [B, T, H, K]. x_grad and grads may have no data.
void relative_queries_backward(const RelativeLogits& logits,
                               const RelativeProjection<const float>& projection,
                               View<const float, 3> x, View<const float, 4> out_grad,
                               View<float, 3> x_grad, const RelativeProjection<float>& grads);

}  // namespace gnomon
