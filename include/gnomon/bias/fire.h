// FIRE: a small trained network of the distance, in proportion to how far there is to look
// back.
//
//   Li et al. "Functional Interpolation for Relative Positions Improves Long Context
//   Transformers", 2023. https://arxiv.org/abs/2310.04418, section 3.1 and appendix D.
//
//   bias(h, i, j) = f_h( psi(|i - j|) / (psi(max(L, i)) + epsilon) ),  psi(n) = log(|c| n + 1)
//   f_h(x) = b2[h] + sum_u w2[h, u] max(0, w1[u] x + b1[u]),   L = |multiplier| threshold
//
// Query i and key j are positions. The paper speaks of causal attention, i >= j; with keys
// ahead the distance is |i - j|, as in its listing. Letters: H heads, U hidden units, P pieces.
//
// The network of one number is a line in pieces, at most U + 1 of them: that is what attention
// computes, one multiplication and one addition a score whatever U.
#pragma once

#include <cstdint>
#include <span>

#include "gnomon/bias/form.h"
#include "gnomon/view.h"

namespace gnomon {

struct Fire {
  std::int64_t heads = 0;    // H; at least 1
  std::int64_t hidden = 32;  // U; at least 1
  double threshold = 512;    // the initial L (`init_L`); positive
  double epsilon = 1e-6;     // as in the paper's listing (its formula has none); not negative

  bool operator==(const Fire&) const = default;
};

// What is trained, or (T = float) its gradient.
template <typename T>
struct FireParameters {
  View<T, 1> w1, b1;      // [U]: `mlp.0.weight`, `mlp.0.bias`
  View<T, 2> w2;          // [H, U]: `mlp.2.weight`
  View<T, 1> b2;          // [H]: `mlp.2.bias`
  View<T, 1> c;           // [1], 0.1 at first; not 0
  View<T, 1> multiplier;  // [1] of the threshold, 1 at first; not 0
};

// The plan, in double. Throws when shapes do not fit the spec, a number is not finite, or c or
// the multiplier is 0.
ProgressiveBias lower(const Fire& fire, const FireParameters<const float>& parameters);

// Gradient of `lower`: adds what bias_grad [H, 2 P + 2] (BiasGradient::values) gives to the
// parameters into grads, one rounding a number. Where a unit's input is 0 it passes nothing.
void lower_backward(const Fire& fire, const FireParameters<const float>& parameters,
                    std::span<const double> bias_grad, const FireParameters<float>& grads);

}  // namespace gnomon
