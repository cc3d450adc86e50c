// What differentiable functions need beside tensors, and how it gets to their backward pass.
// Not installed.
#pragma once

#include <torch/csrc/autograd/custom_function.h>

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
  Plan plan = nullptr;
  AttentionMask mask = {};
  double softmax_scale = 0;
  std::optional<Positions> queries = {}, keys = {};  // where the window has ids
};
using SharedSetting = std::shared_ptr<const Setting>;

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

// The gradients of the parameters, appended to those of the other inputs.
inline void append_parameter_gradients(const Setting& setting, at::TensorList parameters,
                                       const model::LayerGradient& lowered,
                                       torch::autograd::variable_list& grads) {
  if (parameters.empty()) return;
  auto fresh = zeros_like_each(parameters);
  model::lower_backward(setting.mixture, setting.window, matrices(parameters), lowered,
                        matrices(fresh));
  grads.insert(grads.end(), fresh.begin(), fresh.end());
}

}  // namespace gnomon::libtorch
