// The differentiable functions behind PositionEncoding. Not installed.
#pragma once

#include <torch/types.h>

#include <memory>
#include <vector>

#include "bindings/torch/check.h"
#include "bindings/torch/views.h"
#include "gnomon/model/encoding.h"
#include "gnomon/torch/position.h"

namespace gnomon::libtorch {

using Plan = std::shared_ptr<const LayerPlan>;

// A mixture and its parameters, as float32 copies on the CPU through which gradients flow. The
// plan is null if it depends on the parameters.
struct PreparedCall {
  model::Mixture mixture;
  std::vector<at::Tensor> parameters;
  Plan plan = nullptr;
};
at::Tensor for_kernels(const at::Tensor& parameter);
// The mask is stored in the plan. A position table does not depend on it.
Plan plan_of(const PreparedCall& work, const model::Window& window,
             const AttentionMask& mask = {});
AttentionMask mask_of(const model::Window& window, const AttendOptions& options);
// The window of queries [B, T, H, D] and `keys` keys, with the attention's own softmax scale.
model::Window window_of(const at::Tensor& queries, std::int64_t keys,
                        const AttendOptions& options);

// x + table of the window, on the CPU, with gradients of x and the parameters.
at::Tensor add_position_table(const PreparedCall& work, const model::Window& window,
                              const at::Tensor& x);
// Like add_position_table, in LibTorch's operators, on any device.
at::Tensor add_position_table_composed(const PreparedCall& work, const model::Window& window,
                                       const at::Tensor& x);

// Gnomon's attention, on the CPU, with gradients of q, k, v and the parameters, and of
// options.hidden if the mixture has token terms.
at::Tensor attend_fused(const PreparedCall& work, const Inputs& in,
                        const AttendOptions& options);
// Like attend_fused, for one tensor [B, T, H + 2 Hk, D], whose gradient is one tensor.
at::Tensor attend_packed_fused(const PreparedCall& work, const at::Tensor& qkv,
                               std::int64_t key_heads, const AttendOptions& options);

// Like attend_fused, in LibTorch's operators, on any device.
at::Tensor attend_in_operators(const PreparedCall& work, const Inputs& in,
                               const AttendOptions& options);

// The token terms of the mixture, in the order of model::token_terms, float32 on the CPU.
// queries: [B, T, ...].
std::vector<at::Tensor> terms_of(const PreparedCall& work, const model::Window& window,
                                 const at::Tensor& hidden, const at::Tensor& queries);
// The same tensors by name; borrows them.
template <typename TensorType>
TokenTermsOf<TensorType> named(const model::Mixture& mixture, at::TensorList terms) {
  TokenTermsOf<TensorType> all;
  std::size_t next = 0;
  for (const model::TermShape& shape : model::token_terms(mixture))
    for (const NamedTerm<TensorType>& one : named_terms<TensorType>)
      if (one.name == shape.name) all.*one.member = tensor(terms[next++]);
  return all;
}

// The values of a LayerPlan as CPU tensors through which gradients flow to the parameters.
// Undefined or empty if the plan has no such part.
struct LoweredTensors {
  Plan plan;
  at::Tensor table;  // [queries, C], float32; the others double
  at::Tensor bias;   // [H, N], in the order of BiasGradient
  std::vector<at::Tensor> keys, queries, values, projected;  // [heads, R, D]
  at::Tensor shift;                                          // [H D]
  at::Tensor contextual;                                     // [1 or H, P, D]
  at::Tensor cosine;                                         // [H]
  at::Tensor frequencies;                                    // [R/2], if they are trained
  at::Tensor phases;                                         // [H, D], of a polar form
};
LoweredTensors lowered_tensors(const PreparedCall& work, const model::Window& window);

}  // namespace gnomon::libtorch
