// Additive GRAPE: biases by distance and by paths, which depend on the tokens.
//
//   Zhang et al. "Group Representational Position Encoding" (GRAPE), ICLR 2026.
//   https://arxiv.org/abs/2512.07805; formulas as in the code of the paper,
//   https://github.com/model-architectures/GRAPE.
//
//   GRAPE-A, key-gated: score[h, i, j] -= g(h, j) |i - j|,
//                       g(h, j) = s_h softplus(o_h) softplus(u_h . x_j / (|u_h| sqrt(C)))
//   GRAPE-AP:           score[h, i, j] += s_h (e(i, j+1) + ... + e(i, i)),
//                       e(i, l) = ln sigmoid(p_i . R(-l) rms(p_l) / P)
//
// s_h: slopes of ALiBi. p = W x of each head. R(l) rotates all pairs (n, n + P/2) by l radians,
// rms(p) = p / sqrt(mean of p^2 + 2^-23). The code of the paper computes the gate of GRAPE-A
// from the normalised key of the head, of D elements, in place of the input x of the layer.
//
// Letters: B batch, T tokens, H query heads, C width of the layer's input, P elements of p.
//
// Naive version: tests/bias/grape_test.cc, `naive_slope`.
#pragma once

#include <cstdint>

#include "gnomon/bias/form.h"
#include "gnomon/view.h"

namespace gnomon {

struct GrapeAdditive {
  std::int64_t heads = 0;  // H; at least 1
  std::int64_t width = 0;  // C; at least 1

  bool operator==(const GrapeAdditive&) const = default;
};

// The trained parameters or, if T is float, their gradient: direction u [H, C], omega o [H].
template <typename T>
struct GrapeGate {
  View<T, 2> direction;
  View<T, 1> omega;
};

// Computes the slopes [B, H, T] of tokens x [B, T, C], for TokenTerms::key_slopes. A cache of
// keys keeps them: one float for each token and head. Throws std::invalid_argument if the spec
// is inconsistent or a shape does not match it. Error bound: one rounding of the formula in
// double. Cost: B T H C multiply-adds; memory O(B T (C + H)).
void key_slopes(const GrapeAdditive& grape, const GrapeGate<const float>& gate,
                View<const float, 3> x, View<float, 3> out);

// Gradient of `key_slopes`: adds the gradients with respect to x and to the parameters to
// x_grad [B, T, C] and grads, given out_grad [B, H, T]. x_grad and grads may have no data.
void key_slopes_backward(const GrapeAdditive& grape, const GrapeGate<const float>& gate,
                         View<const float, 3> x, View<const float, 3> out_grad,
                         View<float, 3> x_grad, const GrapeGate<float>& grads);

struct GrapePath {
  std::int64_t heads = 0;  // H; at least 1
  std::int64_t width = 0;  // C; at least 1
  std::int64_t size = 8;   // P; even, at least 2

  bool operator==(const GrapePath&) const = default;
};

// Returns the bias of the plan. Its rotary table has P/2 frequencies of 1. Throws
// std::invalid_argument if the spec is inconsistent.
EdgeBias lower(const GrapePath& grape);

// Computes the vectors p / P and rms(p), [B, T, H, P] each, of tokens x [B, T, C], for
// TokenTerms::edge_queries and edge_keys, with weight [H P, C]. A cache keeps those of the
// keys. Throws, error bound and cost as `key_slopes`, with H P in place of H.
void edge_vectors(const GrapePath& grape, View<const float, 2> weight, View<const float, 3> x,
                  View<float, 4> queries, View<float, 4> keys);

// Gradient of `edge_vectors`: adds to x_grad [B, T, C] and weight_grad, which may have no data.
void edge_vectors_backward(const GrapePath& grape, View<const float, 2> weight,
                           View<const float, 3> x, View<const float, 4> queries_grad,
                           View<const float, 4> keys_grad, View<float, 3> x_grad,
                           View<float, 2> weight_grad);

}  // namespace gnomon
