// The example of docs/cuda/bias_gradient.md, which a test runs.
#pragma once

#include "gnomon/cuda/bias_gradient.h"

namespace engine {

using gnomon::BFloat16;
using gnomon::View;

// q, k, v, out, out_grad [B, H, T, D] and lse [B, H, T]: contiguous, on the device.
struct AttentionTensors {
  std::ptrdiff_t B, H, T, D;
  const BFloat16 *q, *k, *v, *out, *out_grad;
  const float* lse;
};

// strip_grad: [H, N] on the device. workspace: at least gnomon::cuda::bias_gradient_workspace
// bytes for these arguments, which depends on their shapes only.
inline void causal_strip_gradient(const AttentionTensors& x,
                                  const gnomon::cuda::StripView& strip, double* strip_grad,
                                  std::uint8_t* workspace, std::ptrdiff_t bytes,
                                  gnomon::cuda::Stream stream) {
  using gnomon::cuda::on_device;
  // The axes are [B, T, H, D], in memory of [B, H, T, D].
  const auto heads = [&](const BFloat16* data) {
    return View<const BFloat16, 4>(data, {x.B, x.T, x.H, x.D},
                                   {x.H * x.T * x.D, x.D, x.T * x.D, 1});
  };
  const auto q = heads(x.q), k = heads(x.k), v = heads(x.v), out = heads(x.out),
             out_grad = heads(x.out_grad);
  const View<const float, 3> lse(x.lse, {x.B, x.H, x.T});
  const View<double, 2> grad(strip_grad, {x.H, strip.distances});
  const View<std::uint8_t, 1> space(workspace, {bytes});
  gnomon::cuda::bias_gradient({on_device(q), on_device(k), on_device(v), on_device(out),
                               on_device(lse), on_device(out_grad)},
                              strip, {.mask = {gnomon::Visibility::causal}}, on_device(grad),
                              on_device(space), stream);
}

}  // namespace engine
