// WavLM's gated relative position bias: T5's bias times a gate for each query and head, which
// the layer's input opens and closes.
//
//   Chen et al. "WavLM: Large-Scale Self-Supervised Pre-Training for Full Stack Speech
//   Processing", 2021. https://arxiv.org/abs/2110.13900, section III-B; numbers as in the
//   released models.
//
//   score(h, i, j) += gate(h, i) b[h, bucket(j - i)]
//   gate(h, i) = g_a (g_b constant[h] - 1) + 2
//   g_a, g_b = sigmoid of the sum of the first, the last four of weight x[i, h] + bias
//
// x[i, h] is head h's part of the layer's input. Letters: B batch, T tokens, H heads, D head
// size, C = H D channels.
#pragma once

#include <cstdint>

#include "gnomon/bias/t5.h"
#include "gnomon/dtype.h"
#include "gnomon/view.h"

namespace gnomon {

struct WavLm {
  // Its strip, `strip(wavlm.t5, ...)`, is the bias. The released models are bidirectional.
  T5Bias t5 = {.heads = 0, .direction = {}, .buckets = 320, .max_distance = 800};
  std::int64_t head_size = 0;  // D; at least 1

  bool operator==(const WavLm&) const = default;
};

// What the gates are trained by, or (T = float) its gradient. All layers share T5's table, but
// each has its own gate.
template <typename T>
struct WavLmGate {
  View<T, 2> weight;    // [8, D]: `gru_rel_pos_linear.weight`
  View<T, 1> bias;      // [8]: `gru_rel_pos_linear.bias`
  View<T, 1> constant;  // [H]: `gru_rel_pos_const`, 1 at first
};

// The factors on the bias, for AttentionInput::gates: x [B, T, C], out [B, H, T], any
// strides. X: float, Half, BFloat16, double; in double, rounded once. Between 0 and 2 where the
// constants are between -1 and 1. Throws when shapes do not fit the spec.
template <typename X>
void gates(const WavLm& wavlm, const WavLmGate<const float>& gate, View<const X, 3> x,
           View<float, 3> out);

// Adds the gradients that out_grad [B, H, T] gives into x_grad [B, T, C] and grads, each where
// it has data; those of the gate are summed in double in a fixed order. One rounding a number.
template <typename X>
void gates_backward(const WavLm& wavlm, const WavLmGate<const float>& gate, View<const X, 3> x,
                    View<const float, 3> out_grad, View<X, 3> x_grad,
                    const WavLmGate<float>& grads);

}  // namespace gnomon
