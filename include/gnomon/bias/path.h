// PaTH attention: between a key and a query lie Householder factors of the tokens between them.
//
//   Yang et al. "PaTH Attention: Position Encoding via Accumulating Householder
//   Transformations", NeurIPS 2025. https://arxiv.org/abs/2505.16381. Code: fla-core 0.6.0,
//   fla/ops/path_attn, and the layer of flash-linear-attention.
//
//   q_i . k_j becomes  k_j . H_(j+1) ... H_i q_i        H_t = I - b_t w_t w_t^T
//   w_t = l2(silu(conv3(W2 W1 x)_t)), for each key head        b_t = 2 sigmoid(u . x_t + c)
//
// There is no rotary. With H_t = I for all t this is attention without position.
//
// Letters: B batch, T tokens, H key heads, D head dimension, C width of the layer's input, K
// width of the convolution, E earlier tokens.
//
// Naive version: tests/bias/path_test.cc, `naive_direction`, `naive_beta`.
#pragma once

#include <cstdint>

#include "gnomon/dtype.h"
#include "gnomon/position/positions.h"
#include "gnomon/tensor.h"
#include "gnomon/view.h"

namespace gnomon {

struct PathAttention {
  std::int64_t heads = 0;     // H, key heads; at least 1
  std::int64_t head_dim = 0;  // D; at least 1
  std::int64_t width = 0;     // C; at least 1
  std::int64_t rank = 32;     // of W2 W1; at least 1
  std::int64_t kernel = 3;    // K; at least 1

  bool operator==(const PathAttention&) const = default;
};

// The trained parameters or, if T is float, their gradient.
template <typename T>
struct PathWeights {
  View<T, 2> down;    // W1 [rank, C]
  View<T, 2> up;      // W2 [H D, rank]
  View<T, 2> conv;    // [H D, K]
  View<T, 2> weight;  // u [H, C]
  View<T, 1> bias;    // c [H]
};

// Computes TokenTerms::householder, w [B, T, H, D], and TokenTerms::betas, betas [B, H, T], of
// the last T tokens of x [B, E + T, C], with E <= K - 1 (fewer: zeros before them). tokens:
// sequences of the E + T tokens, or null: one sequence. The convolution does not reach other
// sequences or padding; w of padding is 0. Lengths are sqrt(sum w^2 + 1e-6). Throws
// std::invalid_argument if the spec is inconsistent or a shape does not match it. Error bound:
// one rounding of the formula in double. Cost: B T rank (C + H D) multiply-adds; memory
// O(B T (C + H D)).
void householder(const PathAttention& path, const PathWeights<const float>& weights,
                 View<const float, 3> x, const Positions* tokens, View<float, 4> w,
                 View<float, 3> betas);

// Gradient of `householder`: adds the gradients with respect to x and to the parameters to
// x_grad [B, E + T, C] and grads. x_grad and grads may have no data.
void householder_backward(const PathAttention& path, const PathWeights<const float>& weights,
                          View<const float, 3> x, const Positions* tokens,
                          View<const float, 4> w_grad, View<const float, 3> betas_grad,
                          View<float, 3> x_grad, const PathWeights<float>& grads);

// Applies the factors of T new tokens to the keys of a cache, in the order of the tokens:
// k_j -= b_t (w_t . k_j) w_t. Call it before the keys of the new tokens are appended, one token
// at a time: the cache then holds H_i ... H_(j+1) k_j, and plain attention (PairProduct::dot)
// of the newest query with it is PaTH attention. A cache of another layout keeps the keys as
// projected, and w and betas, and attends with PairProduct::householder.
//
// Shapes: keys [B, S, H, D], in place; w [B, T, H, D]; betas [B, H, T]. Element types of keys:
// float, Half, BFloat16, double; each is rounded once for each token. Cost: 2 B S H D T
// multiply-adds; all keys are read and written once for each token. Throws
// std::invalid_argument if shapes do not match.
void move_keys(const Tensor& keys, View<const float, 4> w, View<const float, 3> betas);

}  // namespace gnomon
