// WavLM's gated relative position bias: the T5 bias multiplied by a gate for each query and
// head. The gate is computed from the input of the layer.
//
//   Chen et al. "WavLM: Large-Scale Self-Supervised Pre-Training for Full Stack Speech
//   Processing", 2021. https://arxiv.org/abs/2110.13900, section III-B; constants as in the
//   released models.
//
//   score(h, i, j) += gate(h, i) b[h, bucket(j - i)]
//   gate(h, i) = g_a (g_b constant[h] - 1) + 2
//   z = weight x[i, h] + bias                  [8]
//   g_a = sigmoid(z_0 + z_1 + z_2 + z_3),  g_b = sigmoid(z_4 + z_5 + z_6 + z_7)
//
// x[i, h] is the part of the layer's input that belongs to head h. Letters: B batch, T tokens,
// H heads, D head dimension, C = H D, the width of the input.
//
// Naive version: tests/bias/wavlm_test.cc, `gate`.
#pragma once

#include <cstdint>

#include "gnomon/bias/t5.h"
#include "gnomon/dtype.h"
#include "gnomon/view.h"

namespace gnomon {

struct WavLm {
  // The bias is `strip(wavlm.t5, ...)`. The released models are bidirectional.
  T5Bias t5 = {.heads = 0, .direction = {}, .buckets = 320, .max_distance = 800};
  std::int64_t head_dim = 0;  // D; at least 1

  bool operator==(const WavLm&) const = default;
};

// The trained parameters of the gates or, if T is float, their gradient. All layers share the
// T5 table, but each layer has its own gate.
template <typename T>
struct WavLmGate {
  View<T, 2> weight;    // [8, D]: `gru_rel_pos_linear.weight`
  View<T, 1> bias;      // [8]: `gru_rel_pos_linear.bias`
  View<T, 1> constant;  // [H]: `gru_rel_pos_const`, initially 1
};

// Computes the factors on the bias, for AttentionInput::gates. Shapes: x [B, T, C], out [B, H,
// T], any strides. X: float, Half, BFloat16, double. Computed in double and rounded once. A
// gate is between 0 and 2 if the constant of its head is between -1 and 1. Throws
// std::invalid_argument if a shape does not match the spec.
template <typename X>
void gates(const WavLm& wavlm, const WavLmGate<const float>& gate, View<const X, 3> x,
           View<float, 3> out);

// Gradient of `gates`: adds the gradients with respect to x and to the parameters to x_grad [B,
// T, C] and to `grads`, given out_grad [B, H, T]. An output that is empty is skipped. Sums of
// `grads` are in double in a fixed order. One rounding per element.
template <typename X>
void gates_backward(const WavLm& wavlm, const WavLmGate<const float>& gate, View<const X, 3> x,
                    View<const float, 3> out_grad, View<X, 3> x_grad,
                    const WavLmGate<float>& grads);

}  // namespace gnomon
