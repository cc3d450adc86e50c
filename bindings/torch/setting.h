// Arguments of differentiable functions that are not tensors, and their way to the backward
// pass. Not installed.
#pragma once

#include <torch/autograd.h>

#include <memory>
#include <optional>
#include <utility>

#include "bindings/torch/functions.h"
#include "bindings/torch/views.h"
#include "gnomon/attention/attention.h"

namespace gnomon::libtorch {

struct Setting {
  model::Mixture mixture;
  model::Window window = {};
  Plan plan = nullptr;  // null: composed attention computes the plan
  Visibility visibility = {};
  std::optional<std::int64_t> left = {}, right = {};
  std::shared_ptr<const Positions> tokens = nullptr;  // of the input of token terms
};
using SharedSetting = std::shared_ptr<const Setting>;

// Attention in LibTorch's operators. terms: as terms_of.
at::Tensor attend_by_operators(const Setting& setting,
                               const std::vector<at::Tensor>& parameters, const Inputs& in,
                               at::TensorList terms);

// Carries the setting from forward to backward.
struct SettingHolder : torch::CustomClassHolder {
  explicit SettingHolder(SharedSetting shared) : setting(std::move(shared)) {}
  SharedSetting setting;
};

inline void save(torch::autograd::AutogradContext* context, SharedSetting setting) {
  context->saved_data["setting"] =
      at::IValue::make_capsule(c10::make_intrusive<SettingHolder>(std::move(setting)));
}
inline SharedSetting saved_setting(torch::autograd::AutogradContext* context) {
  return c10::static_intrusive_pointer_cast<SettingHolder>(
             context->saved_data["setting"].toCapsule())
      ->setting;
}

inline std::vector<at::Tensor> zeros_like_each(at::TensorList parameters) {
  std::vector<at::Tensor> zeros;
  for (const at::Tensor& one : parameters) zeros.push_back(at::zeros_like(one));
  return zeros;
}

// Appends the gradients of the parameters to those of the other inputs.
inline void append_parameter_gradients(const Setting& setting, at::TensorList parameters,
                                       const model::LayerGradient& lowered,
                                       torch::autograd::variable_list& grads) {
  if (parameters.empty()) return;
  auto fresh = zeros_like_each(parameters);
  model::lower_backward(setting.mixture, setting.window, matrices(parameters), lowered,
                        matrices(fresh));
  grads.insert(grads.end(), fresh.begin(), fresh.end());
}

// Whether the tensors of a LayerPlan are linear functions of the parameters. If so, second
// derivatives follow from those of the operators.
bool is_linear(const model::Mixture& mixture);

// First derivatives that can be differentiated again: the gradients of `compute` at `inputs`,
// by LibTorch's autograd. compute(inputs) returns the output whose gradient is `grad`. The
// result is undefined for undefined inputs and for inputs without gradients.
template <typename Compute>
torch::autograd::variable_list differentiable_gradients(
    const torch::autograd::variable_list& inputs, const at::Tensor& grad, Compute&& compute) {
  // Views, so that an input that depends on another input is a separate input.
  torch::autograd::variable_list views = inputs, wanted;
  for (at::Tensor& one : views)
    if (one.defined() && one.requires_grad()) wanted.push_back(one = one.view_as(one));
  torch::autograd::variable_list result(inputs.size());
  if (wanted.empty()) return result;
  const at::Tensor out = compute(std::as_const(views));
  const auto found = torch::autograd::grad({out}, wanted, {grad}, /*retain_graph=*/true,
                                           /*create_graph=*/true, /*allow_unused=*/true);
  auto next = found.begin();
  for (std::size_t i = 0; i < views.size(); ++i)
    if (views[i].defined() && views[i].requires_grad()) result[i] = *next++;
  return result;
}

}  // namespace gnomon::libtorch
