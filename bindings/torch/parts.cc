// What encodings compute before attention, as differentiable functions: gates, and the numbers
// of their forms.
#include <utility>
#include <variant>

#include "bindings/torch/functions.h"
#include "bindings/torch/setting.h"
#include "gnomon/error.h"

namespace gnomon::libtorch {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

struct Gates : Function<Gates> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden,
                            std::int64_t heads, at::TensorList parameters,
                            SharedSetting setting) {
    save(context, setting);
    variable_list kept{hidden};
    kept.insert(kept.end(), parameters.begin(), parameters.end());
    context->save_for_backward(std::move(kept));
    const at::Tensor out = at::empty({hidden.size(0), heads, hidden.size(1)}, at::kFloat);
    model::gates(setting->mixture, matrices(parameters), view<const float, 3>(hidden),
                 view<float, 3>(out));
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const SharedSetting setting = saved_setting(context);
    const variable_list saved = context->get_saved_variables();
    const at::TensorList parameters = at::TensorList(saved).slice(1);
    const at::Tensor hidden_grad = at::zeros(saved[0].sizes(), at::kFloat);
    auto fresh = zeros_like_each(parameters);
    model::gates_backward(setting->mixture, matrices(parameters),
                          view<const float, 3>(saved[0]), view<const float, 3>(grads[0]),
                          view<float, 3>(hidden_grad), matrices(fresh));
    variable_list result{hidden_grad, {}};
    result.insert(result.end(), fresh.begin(), fresh.end());
    result.emplace_back();  // the setting
    return result;
  }
};

at::Tensor tensor_of(const std::vector<double>& numbers, at::IntArrayRef sizes) {
  return at::tensor(numbers, at::kDouble).view(sizes);
}

// [H, N], each head's numbers as BiasGradient has them.
at::Tensor numbers_of(const BiasForm& form) {
  const std::int64_t heads = gnomon::heads(form), count = numbers(form);
  if (const auto* slope = std::get_if<SlopeBias>(&form))
    return tensor_of(slope->slopes, {heads, 1});
  if (const auto* strip = std::get_if<StripBias>(&form))
    return tensor_of(strip->values, {heads, count});
  if (const auto* grid = std::get_if<GridBias>(&form))
    return tensor_of(grid->values, {heads, count});
  if (const auto* axes = std::get_if<AxesBias>(&form)) {
    std::vector<at::Tensor> parts;
    for (const AxisStrip& one : axes->axes) parts.push_back(tensor_of(one.values, {heads, -1}));
    return at::cat(parts, 1);
  }
  if (const auto* progressive = std::get_if<ProgressiveBias>(&form))
    return at::cat({tensor_of(progressive->offsets, {heads, -1}),
                    tensor_of(progressive->slopes, {heads, -1}),
                    at::full({heads, 1}, progressive->c, at::kDouble),
                    at::full({heads, 1}, progressive->threshold, at::kDouble)},
                   1);
  return {};
}

// All that there is, in the order that `lowered_tensors` and the gradient take it apart.
variable_list tensors_of(const LayerPlan& lowered) {
  variable_list all;
  if (const auto& table = lowered.table)
    all.push_back(at::tensor(table->values).view({table->tokens, table->channels}));
  if (const at::Tensor bias = numbers_of(lowered.bias); bias.defined()) all.push_back(bias);
  const RelativeForm& relative = lowered.relative;
  for (const auto* part : {&relative.keys, &relative.queries, &relative.values})
    for (const RelativeVectors& one : *part)
      all.push_back(tensor_of(one.values, {one.heads, one.vectors(), one.size}));
  if (!relative.shift.empty()) all.push_back(tensor_of(relative.shift, {-1}));
  if (!lowered.cosine.empty()) all.push_back(tensor_of(lowered.cosine, {-1}));
  return all;
}

std::vector<double> numbers_of(const at::Tensor& grad) {
  const at::Tensor flat = grad.contiguous();
  const double* first = flat.data_ptr<double>();
  return {first, first + flat.numel()};
}

struct Lowering : Function<Lowering> {
  static variable_list forward(AutogradContext* context, at::TensorList parameters,
                               SharedSetting setting) {
    save(context, setting);
    context->save_for_backward(parameters.vec());
    return tensors_of(*setting->plan);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const SharedSetting setting = saved_setting(context);
    const LayerPlan& plan = *setting->plan;
    model::LayerGradient lowered;
    auto next = grads.begin();
    const at::Tensor of_table = plan.table ? (next++)->contiguous() : at::Tensor();
    if (plan.table) lowered.table = view<const float, 2>(of_table);
    if (heads(plan.bias) > 0) lowered.bias.values = numbers_of(*next++);
    const RelativeForm& relative = plan.relative;
    for (auto [part, to] : {std::pair(&relative.keys, &lowered.relative.keys),
                            std::pair(&relative.queries, &lowered.relative.queries),
                            std::pair(&relative.values, &lowered.relative.values)})
      for (std::size_t i = 0; i < part->size(); ++i) to->push_back(numbers_of(*next++));
    if (!relative.shift.empty()) lowered.relative.shift = numbers_of(*next++);
    if (!plan.cosine.empty()) lowered.cosine = numbers_of(*next++);
    variable_list result;
    append_parameter_gradients(*setting, context->get_saved_variables(), lowered, result);
    result.emplace_back();  // the setting
    return result;
  }
};

}  // namespace

at::Tensor gates_of(const AtWork& work, const at::Tensor& hidden, std::int64_t heads) {
  if (!model::gated(work.mixture)) return {};
  if (!hidden.defined() || hidden.dim() != 3)
    refuse("torch", "hidden must be given as [B, T, C] where a bias is gated",
           std::string_view(model::names(work.mixture)));
  std::vector<at::Tensor> here;
  for (const at::Tensor& one : work.parameters) here.push_back(one.to(at::kCPU, at::kFloat));
  return Gates::apply(with_contiguous_rows(hidden.to(at::kCPU, at::kFloat)), heads,
                      at::TensorList(here),
                      std::make_shared<const Setting>(Setting{.mixture = work.mixture}));
}

LoweredTensors lowered_tensors(const AtWork& work, const model::Window& window) {
  AtWork here{work.mixture, {}, work.plan};
  for (const at::Tensor& one : work.parameters)  // the copies pass gradients back
    here.parameters.push_back(one.to(at::kCPU, at::kFloat).contiguous());
  LoweredTensors tensors;
  tensors.plan = plan_of(here, window);
  const LayerPlan& plan = *tensors.plan;
  const variable_list all =
      here.parameters.empty()
          ? tensors_of(plan)
          : Lowering::apply(
                at::TensorList(here.parameters),
                std::make_shared<const Setting>(
                    Setting{.mixture = work.mixture, .window = window, .plan = tensors.plan}));
  auto next = all.begin();
  if (plan.table) tensors.table = *next++;
  if (heads(plan.bias) > 0) tensors.bias = *next++;
  const RelativeForm& relative = plan.relative;
  for (auto [part, to] : {std::pair(&relative.keys, &tensors.keys),
                          std::pair(&relative.queries, &tensors.queries),
                          std::pair(&relative.values, &tensors.values)})
    for (std::size_t i = 0; i < part->size(); ++i) to->push_back(*next++);
  if (!relative.shift.empty()) tensors.shift = *next++;
  if (!plan.cosine.empty()) tensors.cosine = *next++;
  return tensors;
}

}  // namespace gnomon::libtorch
