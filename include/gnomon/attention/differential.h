// Differential heads: the outputs of the first half of the query heads minus those of the
// second half, each of which reads the values of two key heads.
//
//   Ye, Dong, Xia, Sun, Zhu, Huang, Wei. "Differential Transformer", 2024.
//   https://arxiv.org/abs/2410.05258. DiffLlama of transformers.
//
//   o1, o2   outputs of heads h and h + H/2: attention over values [v_j, v_j+Hk/2], 2D wide
//   y_h = (1 - lambda_init) u / sqrt(mean(u^2) + epsilon),   u = o1 - lambda o2
//   lambda = exp(lambda_q1 . lambda_k1) - exp(lambda_q2 . lambda_k2) + lambda_init
//
// The two halves attend as ordinary heads, with their own queries and keys, so rotations,
// biases and masks apply to each. Only the values and this combination differ.
//
//   differential_values(v, wide);                  // before attention, or before the cache
//   attention({q, k, wide}, plan, heads);
//   combine_heads(heads, {.lambda = lambda, .lambda_init = init}, out);
//
// Letters: B batch, T tokens, H query heads, Hk key heads, D head dimension.
//
// Naive version: tests/attention/differential_test.cc, `naive_combination`.
#pragma once

#include <cstdint>

#include "gnomon/tensor.h"

namespace gnomon {

// Constants of the combination. A plain value.
struct DifferentialHeads {
  double lambda = 0;       // finite
  double lambda_init = 0;  // finite
  double epsilon = 1e-5;   // of the norm; finite, positive

  bool operator==(const DifferentialHeads&) const = default;
};

// Returns lambda_init of a layer, counted from 0: 0.8 - 0.6 exp(-0.3 layer). Throws
// std::invalid_argument if the layer is negative.
double differential_lambda(std::int64_t layer);

// Writes the values that each key head of the layer reads: out[b, t, j] = [v_i, v_{i + Hk/2}]
// with i = j mod Hk/2. v: [B, T, Hk, D], Hk even; out: [B, T, Hk, 2D]. Any strides, D
// contiguous. Element types: float, Half, BFloat16, double. Throws std::invalid_argument if the
// shapes do not match.
void differential_values(const ConstTensor& v, const Tensor& out);

// Combines the heads. heads: [B, T, H, 2D], H even; out: [B, T, H/2, 2D]. Element types as
// above. Error bound: computed in double and rounded once, half an ulp + 2^-48 |y| while lambda
// o2 does not cancel o1. Cost: reads and writes once. Deterministic.
//
// Throws std::invalid_argument if a constant is invalid or the shapes do not match.
void combine_heads(const ConstTensor& heads, const DifferentialHeads& differential,
                   const Tensor& out);

// Writes the gradient of `heads` from that of `out`, and returns the gradient of lambda, summed
// in double in a fixed order. Throws as combine_heads.
double combine_heads_backward(const ConstTensor& heads, const ConstTensor& out_grad,
                              const DifferentialHeads& differential, const Tensor& heads_grad);

}  // namespace gnomon
