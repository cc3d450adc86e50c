// The differentiable functions behind PositionEncoding. Not installed.
#pragma once

#include <torch/types.h>

#include <memory>

#include "gnomon/model/encoding.h"
#include "gnomon/torch/position.h"

namespace gnomon::libtorch {

// A plan made before, or null: then it is made from `parameters` here.
using Plan = std::shared_ptr<const model::Lowered>;

// x + table of the window, on the CPU. Gradients for x and the parameters.
at::Tensor add_position_table(const model::Encoding& encoding, at::TensorList parameters,
                              Plan plan, const model::Window& window, const at::Tensor& x);

// Gnomon's attention, on the CPU. Gradients for q, k, v and the parameters.
at::Tensor attend_fused(const model::Encoding& encoding, at::TensorList parameters, Plan plan,
                        const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const AttendOptions& options);

// The same of one tensor [B, T, H + 2 Hk, D], whose gradient is written in place.
at::Tensor attend_packed_fused(const model::Encoding& encoding, at::TensorList parameters,
                               Plan plan, const at::Tensor& qkv, std::int64_t key_heads,
                               const AttendOptions& options);

// The numbers of the lowered table [queries, C] or strip [H, N] as a CPU float tensor that
// passes gradients on to the parameters; undefined where the encoding lowers to neither.
at::Tensor lowered_numbers(const model::Encoding& encoding, at::TensorList parameters,
                           const model::Window& window);

}  // namespace gnomon::libtorch
