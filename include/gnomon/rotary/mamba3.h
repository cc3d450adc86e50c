// The rotation of Mamba-3: each token turns queries and keys further by angles computed from
// it, in proportion to a step of each head.
//
//   Lahoti et al. "Mamba-3: Improved Sequence Modeling using State Space Principles",
//   ICLR 2026. https://arxiv.org/abs/2603.15569; details as in
//   github.com/state-spaces/mamba, mamba_ssm/modules/mamba3.py, where queries and keys are
//   named C and B.
//
//   dt[t, h] = softplus(W_dt x_t + b)[h]                              step of a head
//   angle[t, h, i] = pi sum over s <= t of tanh(W_a x_s)[i] dt[s, h]
//
// All heads have the angles W_a x, multiplied by steps of their own. In Mamba-3 the steps also
// determine the decay of a state; here they only turn queries and keys of attention.
//
// Letters: B batch, T tokens, C width, H heads, R rotated elements, P = R/2.
//
// Naive version: tests/rotary/mamba3_test.cc, `naive_increment`.
#pragma once

#include <cstdint>

#include "gnomon/position/positions.h"
#include "gnomon/rotary/token_angles.h"
#include "gnomon/view.h"

namespace gnomon {

// A plain value.
struct RotaryMamba3 {
  std::int64_t heads = 0;       // H; divides query and key heads; at least 1
  std::int64_t width = 0;       // C; at least 1
  std::int64_t rotary_dim = 0;  // R; even, at least 2. Released code: half of the head, or all
  Pairing pairing = {};         // released code: adjacent (halves of the whole head in MIMO)

  bool operator==(const RotaryMamba3&) const = default;
};

// The trained parameters or, if T is float, their gradient.
template <typename T>
struct Mamba3Weights {
  View<T, 2> angle;  // W_a [P, C], the last rows of `in_proj.weight`
  View<T, 2> step;   // W_dt [H, C], the rows `dd_dt` of `in_proj.weight`
  View<T, 1> bias;   // b [H]: `dt_bias`
};

// Returns the rotation by increments (AngleTerm::increments), which attention sums. Throws
// std::invalid_argument if a field violates its bound.
TokenRotation lower(const RotaryMamba3& mamba3);

// Computes the increments of the angles, TokenTerms::angles. 0 for padding, which is not read.
// x: [B, T, C], the input of the layer. tokens: sequences of the tokens, or null: one sequence.
// out: [B, T, H, P].
//
// Error bound: one rounding of the formula in double. Cost: B T C (H + P) + B T H P
// multiply-adds; memory O(H + P). Throws std::invalid_argument if a shape does not match the
// spec.
void increments(const RotaryMamba3& mamba3, const Mamba3Weights<const float>& weights,
                View<const float, 3> x, const Positions* tokens, View<float, 4> out);

// Gradient of `increments`: adds the gradients of x and of the parameters to x_grad [B, T, C]
// and grads, given out_grad [B, T, H, P]. x_grad and grads may have no data.
void increments_backward(const RotaryMamba3& mamba3, const Mamba3Weights<const float>& weights,
                         View<const float, 3> x, const Positions* tokens,
                         View<const float, 4> out_grad, View<float, 3> x_grad,
                         const Mamba3Weights<float>& grads);

}  // namespace gnomon
