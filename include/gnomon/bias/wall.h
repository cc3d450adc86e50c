// Wall attention: each channel of a head has forget gates of its own.
//
//   Averbuch, Dhruv. "Wall attention", Tilde Research 2026. Code: fla-core 0.6.0,
//   fla/ops/wall_attn (contributed by the authors).
//
//   g_t,hn = ln sigmoid(w_hn . x_t + b_hn)
//   q_i . k_j becomes  sum over n of q_in k_jn exp(g_(j+1),n + ... + g_i,n)
//
// Each query head has its own gates, also if query heads share key heads.
//
// Letters: B batch, T tokens, H query heads, D head dimension, C width of the layer's input.
//
// Naive version: tests/bias/wall_test.cc, `naive_channel_gate`.
#pragma once

#include <cstdint>

#include "gnomon/view.h"

namespace gnomon {

struct Wall {
  std::int64_t heads = 0;     // H; at least 1
  std::int64_t head_dim = 0;  // D; at least 1
  std::int64_t width = 0;     // C; at least 1

  bool operator==(const Wall&) const = default;
};

// The trained parameters or, if T is float, their gradient: weight [H D, C], bias [H D].
template <typename T>
struct WallGate {
  View<T, 2> weight;
  View<T, 1> bias;
};

// Computes the gates [B, T, H, D] of tokens x [B, T, C], for TokenTerms::channel_gates. A cache
// of keys keeps them: D floats for each token and query head. Throws std::invalid_argument if
// the spec is inconsistent or a shape does not match it. Error bound: one rounding of the
// formula in double. Cost: B T H D C multiply-adds; memory O(B T (C + H D)).
void channel_gates(const Wall& wall, const WallGate<const float>& gate, View<const float, 3> x,
                   View<float, 4> out);

// Gradient of `channel_gates`: adds the gradients with respect to x and to the parameters to
// x_grad [B, T, C] and grads, given out_grad [B, T, H, D]. x_grad and grads may have no data.
void channel_gates_backward(const Wall& wall, const WallGate<const float>& gate,
                            View<const float, 3> x, View<const float, 4> out_grad,
                            View<float, 3> x_grad, const WallGate<float>& grads);

}  // namespace gnomon
