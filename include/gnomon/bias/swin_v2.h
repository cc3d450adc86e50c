// Swin v2 bias: a small trained network that computes a bounded bias from the log-spaced offset
// of two cells; and the scale of the model's cosine attention.
//
//   Liu et al. "Swin Transformer V2: Scaling Up Capacity and Resolution", 2021.
//   https://arxiv.org/abs/2111.09883, section 3.3; constants as in the released code.
//
//   t(delta, n) = sign(x) log2(1 + |x|) / 3,    x = 8 delta / (n - 1)
//   bias(h, dy, dx) = 16 sigmoid( w2[h] . max(0, w1 (t(dy, height), t(dx, width)) + b1) )
//
// (dy, dx) = cell of the query - cell of the key. n is the height or width of the window or, if
// set, of the window of the pretrained weights. If n is 1, t = 0 along that axis.
//
// Letters: H heads, U hidden units, N offsets in the order of GridBias.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gnomon/bias/form.h"
#include "gnomon/view.h"

namespace gnomon {

struct SwinV2 {
  std::int64_t heads = 0;     // H; at least 1
  std::int64_t height = 0;    // window height, in cells; 1 to 32767
  std::int64_t width = 0;     // window width, in cells; 1 to 32767
  std::int64_t hidden = 512;  // U; at least 1
  // The window of the pretrained weights (`pretrained_window_sizes`): both at least 2, or both
  // 0 if it is the same window.
  std::int64_t pretrained_height = 0, pretrained_width = 0;

  bool operator==(const SwinV2&) const = default;
};

// The trained parameters or, if T is float, their gradient.
template <typename T>
struct SwinV2Parameters {
  View<T, 2> w1;  // [U, 2], by dy and dx: `cpb_mlp.0.weight`
  View<T, 1> b1;  // [U]: `cpb_mlp.0.bias`
  View<T, 2> w2;  // [H, U]: `cpb_mlp.2.weight`
};

// Returns the plan, computed in double. There are no class tokens. Throws std::invalid_argument
// if a shape does not match the spec or a parameter is not finite.
GridBias lower(const SwinV2& swin, const SwinV2Parameters<const float>& parameters);

// Gradient of `lower`: adds the gradient with respect to the parameters to `grads`, given
// grid_grad [H, N] (BiasGradient::values). Sums are in double in a fixed order, with one
// rounding per parameter. The derivative of a ReLU at 0 is 0.
void lower_backward(const SwinV2& swin, const SwinV2Parameters<const float>& parameters,
                    std::span<const double> grid_grad, const SwinV2Parameters<float>& grads);

// Returns the factors on the cosine of query and key, [H] (gnomon/attention/cosine.h):
// exp(min(logit_scale[h], ln 100)). They replace 1 / sqrt(D). Initially logit_scale is ln 10.
std::vector<double> cosine_scales(View<const float, 1> logit_scale);

// Gradient of `cosine_scales`: adds the gradient with respect to logit_scale to `grad`, given
// scale_grad [H]. It is 0 for a logit_scale above ln 100.
void cosine_scales_backward(View<const float, 1> logit_scale,
                            std::span<const double> scale_grad, View<float, 1> grad);

}  // namespace gnomon
