// Contextual rotary (GRAPE-M, contextual type I): tokens turn queries and keys by one trained
// amount each, in the proportions of trained frequencies.
//
//   Zhang et al. "Group Representational Position Encoding", ICLR 2026.
//   https://arxiv.org/abs/2512.07805; details as in github.com/model-architectures/GRAPE,
//   model/llama-mha-grape-m-ctx.py.
//
//   w_t = sigmoid((W x_t + b) / s)                  one number of a token, or of each head
//   angle[t, i] = -exp(l_i) sum over tau < t of w_tau        initially l_i = ln base^(-2i/R)
//
// The sum excludes the token itself: a query and a key at j < i differ by w_j + ... + w_(i-1).
// The direction is that of the released code, opposite to rotary's: with w = 1, scores are
// those of rotary with the two elements of each pair exchanged.
//
// Letters: B batch, T tokens, C width, H heads of the angles, R rotated elements, P = R/2.
//
// Naive version: tests/rotary/contextual_test.cc, `naive_increments`.
#pragma once

#include <cstdint>
#include <vector>

#include "gnomon/position/positions.h"
#include "gnomon/rotary/token_angles.h"
#include "gnomon/view.h"

namespace gnomon {

// A plain value.
struct RotaryContextual {
  std::int64_t width = 0;       // C; at least 1
  std::int64_t rotary_dim = 0;  // R; even, at least 2
  Pairing pairing = {};         // released code: halves
  std::int64_t heads = 1;       // H; 1: all heads turn equally. Divides query and key heads
  double base = 10'000.0;       // of the initial frequencies; greater than 1
  double scale = 16;            // s; positive, finite

  bool operator==(const RotaryContextual&) const = default;
};

// The trained parameters or, if T is float, their gradient.
template <typename T>
struct ContextualWeights {
  View<T, 1> log_frequencies;  // l [P]: `grape.log_freq`
  View<T, 2> weight;           // W [H, C]: `omega_proj.weight`
  View<T, 1> bias;             // b [H]: `omega_proj.bias`
};

// Returns the initial l, [P]. Throws std::invalid_argument if a field violates its bound.
std::vector<float> initial_log_frequencies(const RotaryContextual& contextual);

// Returns the rotation by increments (AngleTerm::increments), which attention sums. Throws
// std::invalid_argument if a field violates its bound.
TokenRotation lower(const RotaryContextual& contextual);

// Computes the increments of the angles, -exp(l_i) w of the token before: TokenTerms::angles. 0
// for the first token of a sequence and for padding. x: [B, E + T, C], the input of the layer
// with E <= 1 earlier token. tokens: sequences of the E + T tokens, or null: one sequence. out:
// [B, T, H, P].
//
// Error bound: one rounding of the formula in double. Cost: B T H (C + P) multiply-adds; memory
// O(B T H). Throws std::invalid_argument if a shape does not match the spec.
void increments(const RotaryContextual& contextual,
                const ContextualWeights<const float>& weights, View<const float, 3> x,
                const Positions* tokens, View<float, 4> out);

// Gradient of `increments`: adds the gradients of x and of the parameters to x_grad
// [B, E + T, C] and grads, given out_grad [B, T, H, P]. x_grad and grads may have no data.
void increments_backward(const RotaryContextual& contextual,
                         const ContextualWeights<const float>& weights, View<const float, 3> x,
                         const Positions* tokens, View<const float, 4> out_grad,
                         View<float, 3> x_grad, const ContextualWeights<float>& grads);

}  // namespace gnomon
