// Cosine attention: head vectors are scaled to length 1, so that the products in attention are
// cosines.
//
//   y[b, t, h] = scales[h] x / max(|x|, 1e-12),    x = x[b, t, h]
//
// This is torch.nn.functional.normalize, followed by a factor for each head. Swin v2 multiplies
// q by trained scales and k by 1. QK-norm (Henry et al. 2020, https://arxiv.org/abs/2010.04245)
// uses one scale for all heads. Softmax::scale is then 1.
//
// Letters: B batch, T tokens, H heads, D head dimension.
//
// Naive version: tests/naive/attention.h, `naive_normalise`.
#pragma once

#include <span>

#include "gnomon/tensor.h"

namespace gnomon {

constexpr double least_norm = 1e-12;  // a vector shorter than this is divided by it

// Normalises head vectors. Shapes: x, out [B, T, H, D], any strides; out is x itself or does
// not overlap it. scales: [H], or empty for factors of 1. Element types: float, Half, BFloat16,
// double.
//
// Error bound: computed in double and rounded once, |out - exact| <= half an ulp + 2^-50 |out|
// (double: 2^-50 |out|). A vector of zeros gives zeros. Throws std::invalid_argument if shapes
// do not match.
void normalise(const ConstTensor& x, std::span<const double> scales, const Tensor& out);

// Computes the gradients of `normalise`. out_grad is the gradient of out, x the input of the
// forward pass. x_grad [B, T, H, D] is overwritten and may be out_grad itself. scale_grad [H]
// is overwritten, unless it is empty. With g = out_grad[b, t, h] and u = x / |x|:
//
//   x_grad = scales[h] (g - u (u . g)) / |x|        (|x| < 1e-12: scales[h] g / 1e-12)
//   scale_grad[h] = sum over b, t of u . g
//
// Error bound: each product u . g is within D 2^-52 |g| of the exact one; scale_grad is within
// D B T times that. Deterministic: the same bits for any number of threads.
void normalise_backward(const ConstTensor& x, const ConstTensor& out_grad,
                        std::span<const double> scales, const Tensor& x_grad,
                        std::span<double> scale_grad = {});

}  // namespace gnomon
