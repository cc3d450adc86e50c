// Transformer-XL: projected sinusoids of the distance, multiplied with queries, and two trained
// vectors u and v that replace the query in the terms that do not depend on its content.
//
//   Dai et al. "Transformer-XL: Attentive Language Models Beyond a Fixed-Length Context", 2019.
//   https://arxiv.org/abs/1901.02860, section 3.3.
//   Yang et al. "XLNet", 2019. https://arxiv.org/abs/1906.08237: distances on both sides.
//   Gulati et al. "Conformer", 2020. https://arxiv.org/abs/2005.08100: the interleaved
//   sinusoid.
//
//   score[h, i, j] = scale ( (q_i + u_h) . k_j + (q_i + v_h) . W_h r(i - j) )
//
// The plan has two parts: a form with the vectors K_h(d) = W_h r(d) on keys and the shift u,
// and a strip scale (v_h - u_h) . K_h(d). The strip is required because a form adds the same
// shift, u, in both products.
//
// Letters: H heads, D head dimension, C width of the sinusoid, N distances.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gnomon/relative/form.h"
#include "gnomon/view.h"

namespace gnomon {

enum class XlSinusoid {
  half_split = 1,  // C/2 sines | C/2 cosines: Transformer-XL, XLNet
  interleaved,     // sine, cosine, sine, cosine, ...: Conformer
};

struct TransformerXl {
  std::int64_t heads = 0;     // H; at least 1
  std::int64_t head_dim = 0;  // D; at least 1
  std::int64_t width = 0;     // C, the width of the model; even, at least 2
  XlSinusoid sinusoid = {};
  // Distances are clamped to -clamp and clamp (`clamp_len`); positive. None: no clamping.
  std::optional<std::int64_t> clamp = {};
  double base = 10'000.0;  // sinusoid base: frequency i is base^(-2i/C); greater than 1

  bool operator==(const TransformerXl&) const = default;
};

struct XlWeights {
  View<const float, 2> w;  // [H D, C], head by head: `r_net` or `linear_pos`
  View<const float, 2> u;  // [H, D], multiplied with keys: `r_w_bias` or `pos_bias_u`
  View<const float, 2> v;  // [H, D], multiplied with W r: `r_r_bias` or `pos_bias_v`
};

// The plan. Pass the strip to attention as a StripBias with H heads, `min_distance` and these
// values.
struct TransformerXlPlan {
  RelativeForm form;              // one table of keys, and a shift
  std::int64_t min_distance = 0;  // the distance of column 0
  std::vector<double> strip;      // [H, N], added to the scores after the softmax scale
};

// Returns the plan for `count` distances (key - query) from `min_distance` on. Unless clamped,
// they must be at most 2^31 in magnitude. softmax_scale: the scale that attention will use;
// positive. Throws std::invalid_argument if a shape does not match the spec, or a field,
// distance or scale is out of bounds.
//
// Error bound: a vector of the form is within 2^-44 sum_c |W r| of its formula.
// Cost: H D C multiply-adds for each distance that is not clamped. Memory: O(H D + C) for each
// of these distances, and O(H) for each of the N distances.
TransformerXlPlan lower(const TransformerXl& xl, const XlWeights& weights,
                        std::int64_t min_distance, std::int64_t count, double softmax_scale);

// Gradient of `lower` for the same distances: adds the gradient with respect to the weights to
// weights_grad, given the gradients of the form and of the strip [H, N] from the backward pass
// of attention. One rounding per parameter. Deterministic.
struct XlGradients {
  View<float, 2> w, u, v;
};
void lower_backward(const TransformerXl& xl, const XlWeights& weights,
                    std::int64_t min_distance, std::int64_t count, double softmax_scale,
                    const RelativeGradient& grad, std::span<const double> strip_grad,
                    const XlGradients& weights_grad);

}  // namespace gnomon
