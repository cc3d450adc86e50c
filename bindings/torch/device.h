// Kernels of the library for tensors of a CUDA device. Not installed.
#pragma once

#include <torch/types.h>

#include "gnomon/rotary/rotary.h"

namespace gnomon::libtorch {

// Returns the rotation of x [B, T, H, D] by tables cos and sin [B or 1, T, R/2] on its device.
// Undefined if there is no kernel: in builds without the component cuda or with a LibTorch
// without CUDA, on other devices, and for float64.
at::Tensor rotate_on_device(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                            const RotaryFrequencies& frequencies, Direction direction);

}  // namespace gnomon::libtorch
