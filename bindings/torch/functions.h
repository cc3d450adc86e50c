// The differentiable functions behind PositionEncoding. Not installed.
#pragma once

#include <torch/types.h>

#include <memory>
#include <vector>

#include "gnomon/model/encoding.h"
#include "gnomon/torch/position.h"

namespace gnomon::libtorch {

using Plan = std::shared_ptr<const LayerPlan>;

// A mixture with what it has learned. The plan was made before, or is null: then it is made
// from the parameters where it is needed.
struct AtWork {
  model::Mixture mixture;
  std::vector<at::Tensor> parameters;
  Plan plan = nullptr;
};
Plan plan_of(const AtWork& work, const model::Window& window);
// Of queries [B, T, H, D] among `keys` keys, with the attention's own scale.
model::Window window_of(const at::Tensor& queries, std::int64_t keys,
                        const AttendOptions& options);

// x + table of the window, on the CPU. Gradients for x and the parameters.
at::Tensor add_position_table(const AtWork& work, const model::Window& window,
                              const at::Tensor& x);

// Gnomon's attention, on the CPU. Gradients for q, k, v and the parameters, and where the bias
// is gated for options.hidden.
at::Tensor attend_fused(const AtWork& work, const at::Tensor& q, const at::Tensor& k,
                        const at::Tensor& v, const AttendOptions& options);

// The same of one tensor [B, T, H + 2 Hk, D], whose gradient is written in place.
at::Tensor attend_packed_fused(const AtWork& work, const at::Tensor& qkv,
                               std::int64_t key_heads, const AttendOptions& options);

// The gates of the bias, [B, H, T] float32 on the CPU, from `hidden` on any device; undefined
// where nothing is gated.
at::Tensor gates_of(const AtWork& work, const at::Tensor& hidden, std::int64_t heads);

// The numbers of a LayerPlan as CPU tensors that pass gradients on to the parameters, which may
// live on another device. Undefined or empty where there is no such part.
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
