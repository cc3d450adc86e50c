// Vectors of heads brought to length 1, so that attention's products are cosines.
//
//   y[b, t, h] = scales[h] x / max(|x|, 1e-12),    x = x[b, t, h]
//
// As torch.nn.functional.normalize, and then a factor for each head: Swin v2 multiplies q by
// its trained scales and k by nothing; QK-norm (Henry et al. 2020, https://arxiv.org/abs/
// 2010.04245) is the same with one scale. Softmax::scale is then 1.
//
// Letters: B batch, T tokens, H heads, D head size.
#pragma once

#include <span>

#include "gnomon/tensor.h"

namespace gnomon {

constexpr double least_norm = 1e-12;  // a shorter vector is divided by this

// x, out: [B, T, H, D], any strides; out may be x itself, or not overlap it. scales: [H], or
// empty for none. T: float, Half, BFloat16, double.
//
// Computed in double and rounded once: |out - exact| <= half an ulp + 2^-50 |out| (double:
// 2^-50 |out|). A vector of zeros stays zeros. Throws when shapes do not fit each other.
void normalise(const ConstTensor& x, std::span<const double> scales, const Tensor& out);

// The gradients: from that of `out` and what x was, x_grad [B, T, H, D], overwritten (it may be
// out_grad itself), and, where not empty, scale_grad [H], overwritten. With u = x / |x|,
//
//   x_grad = scales[h] (g - u (u . g)) / |x|        (shorter than 1e-12: scales[h] g / 1e-12)
//   scale_grad[h] = sum over b, t of u . g
//
// Each product u . g is within D 2^-52 |g| of the exact one, scale_grad within D B T times
// that. Deterministic: the same bits for any number of threads.
void normalise_backward(const ConstTensor& x, const ConstTensor& out_grad,
                        std::span<const double> scales, const Tensor& x_grad,
                        std::span<double> scale_grad = {});

}  // namespace gnomon
