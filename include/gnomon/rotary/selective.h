// Selective rotary: each token turns queries and keys further by angles computed from it.
//
//   Movahedi, Carstensen et al. "Selective Rotary Position Embedding", ICLR 2026.
//   https://arxiv.org/abs/2511.17388; settings and details as in the released configs and code,
//   github.com/timurcarstensen/selective-rope.
//
//   n_t = x_t, the elements of each head divided by their length       [C]
//   z_t = W2 W1 n_t                                                    [H P]
//   angle[t, h, i] = T_i sum_{s <= t} sum_{w < K} conv[h P + i, w] z_{s - K + 1 + w}[h P + i]
//   T_i = base^(-2i/R)
//
// Pairs are halves, (i, i + R/2). Queries and keys are normalised after the rotation, if at all
// (by the model). Without gate, bias and activation, as in the released configs.
//
// Letters: B batch, T tokens, C width, H heads, R rotated elements, P = R/2 pairs, K width of
// the convolution.
//
// Naive version: tests/rotary/selective_test.cc, `naive_increments`.
#pragma once

#include <cstdint>

#include "gnomon/position/positions.h"
#include "gnomon/rotary/token_angles.h"
#include "gnomon/view.h"

namespace gnomon {

// A plain value.
struct SelectiveRotary {
  std::int64_t heads = 0;       // H, query and key heads; divides the width
  std::int64_t width = 0;       // C
  std::int64_t rotary_dim = 0;  // R; even, at least 2
  double base = 500'000.0;      // finite, greater than 1
  std::int64_t rank = 32;       // of W2 W1; at least 1
  std::int64_t kernel = 4;      // K; at least 1

  bool operator==(const SelectiveRotary&) const = default;
};

// The trained parameters or, if T is float, their gradient.
template <typename T>
struct SelectiveWeights {
  View<T, 2> down;  // W1 [rank, C]: `phi_proj.0.weight`
  View<T, 2> up;    // W2 [H P, rank]: `phi_proj.1.weight`
  View<T, 2> conv;  // [H P, K]: `phi_conv1d.weight`, [H P, 1, K]
};

// Returns the rotation by increments (AngleTerm::increments), which attention sums. Throws
// std::invalid_argument if a field violates its bound.
TokenRotation lower(const SelectiveRotary& selective);

// Computes the increments of the angles, T_i times the convolution, for TokenTerms::angles.
// x: [B, E + T, C], the input of the layer with E <= K - 1 earlier tokens (fewer: zeros before
// them). tokens: sequences of the E + T tokens, or null: one sequence. The convolution does not
// reach other sequences or padding, whose increments are 0. out: [B, T, H, P].
//
// Error bound: one rounding of the formula in double; lengths are sqrt(sum x^2 + 1e-6). Cost:
// B T rank (C + H P) multiply-adds; memory O(B T (C + H P)). Throws std::invalid_argument if a
// shape does not match the spec.
void increments(const SelectiveRotary& selective, const SelectiveWeights<const float>& weights,
                View<const float, 3> x, const Positions* tokens, View<float, 4> out);

// Gradient of `increments`: adds the gradients of x and of the parameters to x_grad
// [B, E + T, C] and grads, given out_grad [B, T, H, P]. x_grad and grads may have no data.
void increments_backward(const SelectiveRotary& selective,
                         const SelectiveWeights<const float>& weights, View<const float, 3> x,
                         const Positions* tokens, View<const float, 4> out_grad,
                         View<float, 3> x_grad, const SelectiveWeights<float>& grads);

}  // namespace gnomon
