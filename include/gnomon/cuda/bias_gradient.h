// The gradient of a trained bias on a CUDA device, from the tensors that the backward pass of
// any attention kernel already has. The attention kernel itself needs only the device functions
// of gnomon/cuda/bias.h.
//
//   score[b, h, i, j] = softmax_scale q[b, i, h] . k[b, j, g(h)] + bias(h, i + offset, j)
//   P  = exp(score - lse[b, h, i])                       if query row i sees key row j, else 0
//   dP = out_grad[b, i, h] . v[b, j, g(h)],  delta[b, h, i] = sum_d out_grad out
//   dS = P (dP - delta)
//   values_grad = sum over b, i, j of dS times the derivative of the bias by its values
//
// g(h) = h / (Hq / Hk). Letters: B batch, T query tokens, S key tokens, Hq query heads, Hk key
// heads, D head dimension of q and k, Dv head dimension of v, N distances.
//
// Naive version: tests/naive/attention.h, `naive_attention_backward`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "gnomon/attention/attention.h"
#include "gnomon/cuda/device.h"
#include "gnomon/cuda/device_bias.h"
#include "gnomon/tensor.h"

namespace gnomon::cuda {

// The tensors of attention, on the device. Any strides (so also the memory of [B, H, T, D],
// with the axes permuted), but the last axis contiguous, and the data and the other strides
// multiples of 16 bytes. Element types of all but lse: float, Half or BFloat16, the same in
// all. D and Dv: multiples of 8.
struct BiasGradientInput {
  ConstTensor q;         // [B, T, Hq, D]
  ConstTensor k;         // [B, S, Hk, D]
  ConstTensor v;         // [B, S, Hk, Dv]
  ConstTensor out;       // [B, T, Hq, Dv]: the result of attention
  ConstTensor lse;       // float [B, Hq, T], any strides: the natural logarithm of the sum of
                         // exp(score) over the keys of the row, with scale and bias
  ConstTensor out_grad;  // [B, T, Hq, Dv]: the gradient of out
};

struct BiasGradientOptions {
  AttentionMask mask = {};                   // query row i is at position i + offset
  std::optional<double> softmax_scale = {};  // nullopt: 1 / sqrt(D). T5: 1
  // Soft cap (Gemma 2): a product s becomes cap tanh(s / cap), before the bias is added.
  std::optional<double> cap = {};
};

// Returns the bytes of the workspace for these shapes: 4 B Hq T for delta, and for the sums 4 R
// Hq G N', where N' is the number of bands of 128 diagonals that have a visible pair, G the
// segments of a band (so that Hq G N' is about 4096, or G = 1), and R = 256 (slope, strip), 516
// (grid) or 2 P + 2 (piecewise logarithmic). So it grows with T + S. Throws as bias_gradient.
std::size_t bias_gradient_workspace(const BiasGradientInput& input, const BiasView& bias,
                                    const BiasGradientOptions& options);

// Computes the gradient of the values of a bias, summed over the batch. values_grad: float or
// double [Hq, gradient_size], any strides, in the order of BiasGradient (gnomon/bias/form.h);
// of a slope also [Hq]. It is overwritten. The entries of distances that no query sees are 0.
// workspace: u8 [bias_gradient_workspace(...)], contiguous, aligned to 16 bytes.
//
// Error bound, with G = |out_grad| |v| the greatest lengths of head vectors, e = 2^-16 + 2 half
// ulps for half and bfloat16 (whose `out` is rounded), scores and biases at most 30 in
// magnitude, D and Dv at most 256, and at most 64 tiles of 128 x 128 in a segment:
//
//   |values_grad - exact| <= e G sum over the pairs of P |derivative of the bias|
//
// The derivative is 1 for the pairs of an entry of a strip or a grid, and the distance for a
// slope. For a piecewise logarithmic bias, e is 2^-14 + 2 half ulps, the derivative by a slope
// is at most 1, and those by c and the threshold count each of their two terms by magnitude;
// pairs within rounding error of a knot may count for either piece.
//
// Deterministic: no atomics. Sums have a fixed order that depends on the shapes only, not on
// the device. (Devices of different generations can differ in the last bits of the products of
// their tensor cores.)
//
// Does not allocate and does not wait, so it can be captured into a CUDA graph. Three kernels.
// Cost: D + Dv multiply-adds for each pair of the tiles that have a visible pair, on tensor
// cores for Half and BFloat16, in float otherwise; a flash backward pass has 3 D + 2 Dv. Shared
// memory of a block: 99 KB (slope, strip), up to 93 KB (others).
//
// Throws std::invalid_argument if shapes, types, strides or devices do not match, the mask is
// invalid, a strip does not contain a visible distance, a position is not on the grid, or a
// piecewise logarithmic bias has more than 256 pieces; Error if a launch fails.
void bias_gradient(const BiasGradientInput& input, const BiasView& bias,
                   const BiasGradientOptions& options, const Tensor& values_grad,
                   const Tensor& workspace, Stream stream = nullptr);

// The gradient of a table whose rows are shared by distances, as in T5: table_grad[r, h] = sum
// over n with buckets[n] = r of strip_grad[h, n]. strip_grad: float or double [H, N], any
// strides, the result of bias_gradient. buckets: int32 [N], on the device; a bucket that is not
// a row of the table is ignored. table_grad: float or double [rows, H], any strides;
// overwritten. Sums are in double, in a fixed order. One kernel, O(rows H N).
void strip_to_table(const ConstTensor& strip_grad, const ConstTensor& buckets,
                    const Tensor& table_grad, Stream stream = nullptr);

}  // namespace gnomon::cuda
