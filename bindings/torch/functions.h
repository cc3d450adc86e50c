// The differentiable functions behind PositionEncoding. Not installed.
#pragma once

#include <torch/types.h>

#include <memory>
#include <vector>

#include "bindings/torch/check.h"
#include "gnomon/model/encoding.h"
#include "gnomon/torch/position.h"

namespace gnomon::libtorch {

using Plan = std::shared_ptr<const LayerPlan>;

// A mixture and its parameters: float32 on the CPU, copies that pass gradients on. The plan is
// null if it depends on the parameters.
struct AtWork {
  model::Mixture mixture;
  std::vector<at::Tensor> parameters;
  Plan plan = nullptr;
};
at::Tensor for_kernels(const at::Tensor& parameter);
// The mask of attention reaches the plan; a table of positions needs none.
Plan plan_of(const AtWork& work, const model::Window& window, const AttentionMask& mask = {});
AttentionMask mask_of(const model::Window& window, const AttendOptions& options);
// Of queries [B, T, H, D] among `keys` keys, with the attention's own scale.
model::Window window_of(const at::Tensor& queries, std::int64_t keys,
                        const AttendOptions& options);

// x + table of the window, on the CPU. Gradients for x and the parameters.
at::Tensor add_position_table(const AtWork& work, const model::Window& window,
                              const at::Tensor& x);
// The same in LibTorch's operators, on any device.
at::Tensor add_position_table_composed(const AtWork& work, const model::Window& window,
                                       const at::Tensor& x);

// Gnomon's attention, on the CPU. Gradients for q, k, v and the parameters, and for
// options.hidden if the bias is gated.
at::Tensor attend_fused(const AtWork& work, const Inputs& in, const AttendOptions& options);
// The same of one tensor [B, T, H + 2 Hk, D], whose gradient is one tensor.
at::Tensor attend_packed_fused(const AtWork& work, const at::Tensor& qkv,
                               std::int64_t key_heads, const AttendOptions& options);

// The same in LibTorch's operators, on any device.
at::Tensor attend_in_operators(const AtWork& work, const Inputs& in,
                               const AttendOptions& options);

// The gates of the bias, [B, H, T] float32 on the CPU; undefined if nothing is gated.
at::Tensor gates_of(const AtWork& work, const at::Tensor& hidden, const at::Tensor& queries,
                    std::int64_t heads);

// The numbers of a LayerPlan as CPU tensors that pass gradients on to the parameters. Undefined
// or empty if there is no such part.
struct LoweredTensors {
  Plan plan;
  at::Tensor table;                               // [queries, C], float32; the others double
  at::Tensor bias;                                // [H, N], in the order of BiasGradient
  std::vector<at::Tensor> keys, queries, values;  // [heads, R, D]
  at::Tensor shift;                               // [H D]
  at::Tensor cosine;                              // [H]
};
LoweredTensors lowered_tensors(const AtWork& work, const model::Window& window);

}  // namespace gnomon::libtorch
