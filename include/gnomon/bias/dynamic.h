// Dynamic position bias: a small trained network that computes the bias from the distance.
//
//   x-transformers, https://github.com/lucidrains/x-transformers: `dynamic_pos_bias`; after
//   Wang et al. "CrossFormer", 2021. https://arxiv.org/abs/2108.00154, section 3.3. CrossFormer
//   uses two-dimensional offsets, layer norms and ReLU. Also known as continuous position bias.
//
//   bias(h, d) = f_h(x),    x = i - j = -d                       linear
//                           x = sign(i - j) ln(1 + |i - j|)      logarithmic
//   f: Linear(1, U), SiLU, (Linear(U, U), SiLU) depth - 1 times, Linear(U, H)
//
// Letters: H heads, U hidden units, N distances.
#pragma once

#include <cstdint>
#include <span>

#include "gnomon/bias/form.h"
#include "gnomon/view.h"

namespace gnomon {

enum class DynamicScale { linear = 1, logarithmic };

struct DynamicBias {
  std::int64_t heads = 0;   // H; at least 1
  std::int64_t hidden = 0;  // U; at least 1; a quarter of the model width in x-transformers
  std::int64_t depth = 2;   // hidden layers; 1 to 1024
  DynamicScale scale = {};

  bool operator==(const DynamicBias&) const = default;
};

// The parameters of one layer or, if T is float, their gradient: weight [out, in], bias [out],
// as in PyTorch's Linear.
template <typename T>
struct DynamicLayer {
  View<T, 2> weight;
  View<T, 1> bias;
};

// Returns the plan for `count` distances from `min_distance` on, computed in double. layers:
// [depth + 1]. Throws std::invalid_argument if a shape does not match the spec or a parameter
// is not finite.
StripBias lower(const DynamicBias& dynamic, std::span<const DynamicLayer<const float>> layers,
                std::int64_t min_distance, std::int64_t count);

// Gradient of `strip`: adds the gradient with respect to the parameters to `grads`, given
// strip_grad [H, N] (BiasGradient::values). Sums are in double in a fixed order, with one
// rounding per parameter.
void lower_backward(const DynamicBias& dynamic,
                    std::span<const DynamicLayer<const float>> layers,
                    std::span<const double> strip_grad, std::int64_t min_distance,
                    std::int64_t count, std::span<const DynamicLayer<float>> grads);

}  // namespace gnomon
