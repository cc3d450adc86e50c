// KERPLE: a trained penalty that grows with the distance, from one of two families of kernels.
//
//   Chi et al. "KERPLE: Kernelized Relative Positional Embedding for Length Extrapolation",
//   2022. https://arxiv.org/abs/2205.09921, section 4.
//
//   power          bias(h, d) = -r1[h] |d|^r2[h]           r1 > 0, 0 < r2 <= 2
//   logarithmic    bias(h, d) = -r1[h] ln(1 + r2[h] |d|)   r1, r2 > 0
//
// The released code keeps the parameters within these bounds by overwriting them: a parameter
// below 0.01 becomes 0.01, and a power above 2 becomes 2. Gnomon does not write to the
// parameters: it computes the bias from the clamped values. The gradient is that of the clamped
// value, but it is 0 if a gradient step would move the parameter further out of bounds. So an
// optimizer can move a parameter back into the bounds and does not drive it further away.
//
// Letters: H heads, N distances.
#pragma once

#include <cstdint>
#include <span>

#include "gnomon/bias/form.h"
#include "gnomon/view.h"

namespace gnomon {

enum class KerpleKernel { power = 1, logarithmic };

struct Kerple {
  std::int64_t heads = 0;  // H; at least 1
  KerpleKernel kernel = {};

  static constexpr double least = 0.01;      // lower bound of r1 and r2
  static constexpr double most_power = 2.0;  // upper bound of r2 of the power kernel

  bool operator==(const Kerple&) const = default;
};

// The trained parameters or, if T is float, their gradient. In the released code r1 is `bias_a`
// of the power kernel and `bias_p` of the logarithmic kernel; r2 is the other one.
template <typename T>
struct KerpleParameters {
  View<T, 1> r1, r2;  // [H]
};

// Returns the plan: the kernel for `count` distances from `min_distance` on. Error bound: 4
// ulp. Throws std::invalid_argument if a shape does not match the spec or a parameter is not
// finite.
StripBias lower(const Kerple& kerple, const KerpleParameters<const float>& parameters,
                std::int64_t min_distance, std::int64_t count);

// Gradient of `strip`: adds the gradient with respect to the parameters to `grads`, given
// strip_grad [H, N] (BiasGradient::values). Sums are in double in the order of the distances,
// with one rounding per parameter.
void lower_backward(const Kerple& kerple, const KerpleParameters<const float>& parameters,
                    std::span<const double> strip_grad, std::int64_t min_distance,
                    std::int64_t count, const KerpleParameters<float>& grads);

}  // namespace gnomon
