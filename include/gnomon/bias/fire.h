// FIRE: a small trained network that computes the bias from the distance, normalized by the
// position of the query.
//
//   Li et al. "Functional Interpolation for Relative Positions Improves Long Context
//   Transformers", 2023. https://arxiv.org/abs/2310.04418, section 3.1 and appendix D.
//
//   bias(h, i, j) = f_h( psi(|i - j|) / (psi(max(L, i)) + epsilon) ),  psi(n) = log(|c| n + 1)
//   f_h(x) = b2[h] + sum_u w2[h, u] max(0, w1[u] x + b1[u]),   L = |multiplier| threshold
//
// i and j are the positions of query and key. The paper defines the bias for causal attention,
// i >= j. For future keys the distance is |i - j|, as in the paper's listing.
// Letters: H heads, U hidden units, P pieces.
//
// A ReLU network of one scalar input is a piecewise linear function with at most U + 1 pieces.
// Attention evaluates the pieces: one multiplication and one addition per score for any U.
#pragma once

#include <cstdint>
#include <span>

#include "gnomon/bias/form.h"
#include "gnomon/view.h"

namespace gnomon {

struct Fire {
  std::int64_t heads = 0;    // H; at least 1
  std::int64_t hidden = 32;  // U; at least 1
  double threshold = 512;    // the initial L (`init_L`), in positions; positive
  double epsilon = 1e-6;     // as in the paper's listing (its formula has none); not negative

  bool operator==(const Fire&) const = default;
};

// The trained parameters or, if T is float, their gradient.
template <typename T>
struct FireParameters {
  View<T, 1> w1, b1;      // [U]: `mlp.0.weight`, `mlp.0.bias`
  View<T, 2> w2;          // [H, U]: `mlp.2.weight`
  View<T, 1> b2;          // [H]: `mlp.2.bias`
  View<T, 1> c;           // [1], initially 0.1; not 0
  View<T, 1> multiplier;  // [1], factor on the threshold, initially 1; not 0
};

// Returns the plan, computed in double. Throws std::invalid_argument if a shape does not match
// the spec, a parameter is not finite, or c or the multiplier is 0.
PiecewiseLogBias lower(const Fire& fire, const FireParameters<const float>& parameters);

// Gradient of `lower`: adds the gradient with respect to the parameters to `grads`, given
// bias_grad [H, 2 P + 2] (BiasGradient::values). One rounding per parameter. If the input of a
// ReLU is exactly 0, the derivative is that of the piece that starts there.
void lower_backward(const Fire& fire, const FireParameters<const float>& parameters,
                    std::span<const double> bias_grad, const FireParameters<float>& grads);

}  // namespace gnomon
