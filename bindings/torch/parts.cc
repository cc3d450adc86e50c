// Computations of encodings before attention, as differentiable functions: token terms, and the
// values of their forms.
#include <algorithm>
#include <string>
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

// The backward pass of Terms. Its own derivative is not available.
struct TermsBackward : Function<TermsBackward> {
  static variable_list forward(AutogradContext* context, at::TensorList grads,
                               const at::Tensor& hidden, at::TensorList parameters,
                               SharedSetting setting) {
    save(context, setting);
    const at::Tensor hidden_grad = at::zeros(hidden.sizes(), at::kFloat);
    variable_list fresh = zeros_like_each(parameters);
    model::compute_terms_backward(
        setting->mixture, matrices(parameters), view<const float, 3>(hidden),
        named<ConstTensor>(setting->mixture, grads), view<float, 3>(hidden_grad),
        matrices(fresh), setting->tokens.get());
    fresh.insert(fresh.begin(), hidden_grad);
    return fresh;
  }
  static variable_list backward(AutogradContext* context, variable_list) {
    refuse("attend", "second derivatives of token terms are not available",
           model::names(saved_setting(context)->mixture));
  }
};

struct Terms : Function<Terms> {
  static variable_list forward(AutogradContext* context, const at::Tensor& hidden,
                               at::TensorList parameters, SharedSetting setting) {
    save(context, setting);
    variable_list kept{hidden}, terms;
    kept.insert(kept.end(), parameters.begin(), parameters.end());
    context->save_for_backward(std::move(kept));
    for (const model::TermShape& one : model::token_terms(setting->mixture))
      terms.push_back(at::empty(one.shape(hidden.size(0), hidden.size(1)), at::kFloat));
    model::compute_terms(setting->mixture, matrices(parameters), view<const float, 3>(hidden),
                         named<Tensor>(setting->mixture, terms), setting->tokens.get());
    return terms;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const SharedSetting setting = saved_setting(context);
    const variable_list saved = context->get_saved_variables();
    const auto shapes = model::token_terms(setting->mixture);
    for (std::size_t n = 0; n < grads.size(); ++n)
      grads[n] =
          grads[n].defined()
              ? with_contiguous_rows(grads[n])
              : at::zeros(shapes[n].shape(saved[0].size(0), saved[0].size(1)), at::kFloat);
    variable_list result = TermsBackward::apply(at::TensorList(grads), saved[0],
                                                at::TensorList(saved).slice(1), setting);
    result.emplace_back();  // the setting
    return result;
  }
};

at::Tensor tensor_of(const std::vector<double>& numbers, at::IntArrayRef sizes) {
  return at::tensor(numbers, at::kDouble).view(sizes);
}

// [H, N], the values of each head in the order of BiasGradient.
at::Tensor numbers_of(const BiasForm& form) {
  const std::int64_t heads = gnomon::heads(form), count = gradient_size(form);
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
  if (const auto* piecewise_log = std::get_if<PiecewiseLogBias>(&form))
    return at::cat({tensor_of(piecewise_log->offsets, {heads, -1}),
                    tensor_of(piecewise_log->slopes, {heads, -1}),
                    at::full({heads, 1}, piecewise_log->c, at::kDouble),
                    at::full({heads, 1}, piecewise_log->threshold, at::kDouble)},
                   1);
  return {};
}

// All tensors of a plan, in the order in which `lowered_tensors` and the gradient read them.
variable_list tensors_of(const LayerPlan& lowered) {
  variable_list all;
  if (const auto& table = lowered.table)
    all.push_back(at::tensor(table->values).view({table->tokens, table->width}));
  if (const at::Tensor bias = numbers_of(lowered.bias); bias.defined()) all.push_back(bias);
  const RelativeForm& relative = lowered.relative;
  for (const auto* part :
       {&relative.keys, &relative.queries, &relative.values, &relative.projected})
    for (const RelativeVectors& one : *part)
      all.push_back(tensor_of(one.values, {one.heads, one.vectors(), one.head_dim}));
  if (!relative.shift.empty()) all.push_back(tensor_of(relative.shift, {-1}));
  if (const auto& one = relative.contextual)
    all.push_back(tensor_of(one->values, {one->heads, one->positions(), one->head_dim}));
  if (!lowered.cosine.empty()) all.push_back(tensor_of(lowered.cosine, {-1}));
  if (const auto trained = trained_values(lowered); !trained.empty())
    all.push_back(tensor_of({trained.begin(), trained.end()}, {-1}));
  if (const auto& polar = lowered.polar)
    all.push_back(tensor_of(polar->phases, {polar->heads, polar->head_dim}));
  return all;
}

std::vector<double> numbers_of(const at::Tensor& grad) {
  const at::Tensor flat = grad.contiguous();
  const double* first = flat.data_ptr<double>();
  return {first, first + flat.numel()};
}

// The backward pass of Lowering: gradients of the parameters from those of the tensors. It is
// linear in the gradients of the tensors, and does not depend on the parameters if they enter
// linearly.
struct LoweringBackward : Function<LoweringBackward> {
  static variable_list forward(AutogradContext* context, at::TensorList grads,
                               at::TensorList parameters, SharedSetting setting) {
    save(context, setting);
    context->saved_data["grads"] = static_cast<std::int64_t>(grads.size());
    context->saved_data["parameters"] = static_cast<std::int64_t>(parameters.size());
    const LayerPlan& plan = *setting->plan;
    model::LayerGradient lowered;
    auto next = grads.begin();
    const at::Tensor of_table = plan.table ? (next++)->contiguous() : at::Tensor();
    if (plan.table) lowered.table = view<const float, 2>(of_table);
    if (gradient_size(plan.bias) > 0) lowered.bias.values = numbers_of(*next++);
    const RelativeForm& relative = plan.relative;
    for (auto [part, to] : {std::pair(&relative.keys, &lowered.relative.keys),
                            std::pair(&relative.queries, &lowered.relative.queries),
                            std::pair(&relative.values, &lowered.relative.values),
                            std::pair(&relative.projected, &lowered.relative.projected)})
      for (std::size_t i = 0; i < part->size(); ++i) to->push_back(numbers_of(*next++));
    if (!relative.shift.empty()) lowered.relative.shift = numbers_of(*next++);
    if (relative.contextual) lowered.relative.contextual = numbers_of(*next++);
    if (!plan.cosine.empty()) lowered.cosine = numbers_of(*next++);
    if (plan.trained_frequencies) lowered.frequencies = numbers_of(*next++);
    if (plan.polar) lowered.phases = numbers_of(*next++);
    variable_list result;
    append_parameter_gradients(*setting, parameters, lowered, result);
    return result;
  }

  static variable_list backward(AutogradContext* context, variable_list directions) {
    const SharedSetting setting = saved_setting(context);
    if (!is_linear(setting->mixture))
      refuse("torch",
             "second derivatives are not available for parameters that enter non-linearly",
             model::names(setting->mixture));
    const auto lowered_at = [&](const variable_list& parameters) {
      return tensors_of(model::lower(setting->mixture, setting->window,
                                     matrices(at::TensorList(parameters))));
    };
    for (at::Tensor& one : directions) one = one.contiguous();
    variable_list result = lowered_at(directions);
    const variable_list at_zero = lowered_at(zeros_like_each(directions));
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = result[i] - at_zero[i];
    result.resize(result.size() + directions.size() + 1);  // the parameters, the setting
    return result;
  }
};

struct Lowering : Function<Lowering> {
  static variable_list forward(AutogradContext* context, at::TensorList parameters,
                               SharedSetting setting) {
    save(context, setting);
    context->save_for_backward(parameters.vec());
    return tensors_of(*setting->plan);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list parameters = context->get_saved_variables();
    variable_list result = LoweringBackward::apply(
        at::TensorList(grads), at::TensorList(parameters), saved_setting(context));
    result.emplace_back();  // the setting
    return result;
  }
};

}  // namespace

bool is_linear(const model::Mixture& mixture) {
  return std::all_of(mixture.begin(), mixture.end(), [](const model::Encoding& one) {
    return model::properties(one).linearity == model::Linearity::linear;
  });
}

std::vector<at::Tensor> terms_of(const PreparedCall& work, const model::Window& window,
                                 const at::Tensor& hidden_in, const at::Tensor& queries) {
  const auto shapes = model::token_terms(work.mixture);
  if (shapes.empty()) return {};
  const std::string name =
      "options.hidden, the input of the layer for " + model::names(work.mixture) + ",";
  const at::Tensor hidden = checked("attend", name, hidden_in, 3, "[B, T, C]");
  const auto tokens_of = [](const model::TermShape& shape) {
    const auto& all = named_terms<Tensor>;
    return std::find_if(std::begin(all), std::end(all),
                        [&](const auto& one) { return one.name == shape.name; })
        ->tokens;
  };
  const bool of_keys = std::any_of(shapes.begin(), shapes.end(), [&](const auto& shape) {
    return tokens_of(shape) != TermTokens::queries;
  });
  const std::int64_t count = of_keys ? window.keys : window.queries;
  if (hidden.size(0) != queries.size(0) || hidden.size(1) != count)
    refuse("attend",
           name + " must be [" + std::to_string(queries.size(0)) + ", " +
               std::to_string(count) + ", C]" + (of_keys ? ", with a row for each key" : ""),
           shape_text(hidden));
  Setting setting{.mixture = work.mixture};
  if (window.batch)
    setting.tokens =
        std::make_shared<const Positions>(of_keys ? window.batch->keys : window.batch->queries);
  std::vector<at::Tensor> terms = Terms::apply(
      with_contiguous_rows(hidden.to(at::kCPU, at::kFloat)), at::TensorList(work.parameters),
      std::make_shared<const Setting>(std::move(setting)));
  for (std::size_t n = 0; n < shapes.size(); ++n)  // of the queries, the last tokens
    if (tokens_of(shapes[n]) == TermTokens::queries)
      terms[n] =
          terms[n].narrow(shapes[n].size ? 1 : 2, count - window.queries, window.queries);
  return terms;
}

LoweredTensors lowered_tensors(const PreparedCall& work, const model::Window& window) {
  LoweredTensors tensors;
  tensors.plan = plan_of(work, window);
  const LayerPlan& plan = *tensors.plan;
  const variable_list all =
      work.parameters.empty()
          ? tensors_of(plan)
          : Lowering::apply(
                at::TensorList(work.parameters),
                std::make_shared<const Setting>(
                    Setting{.mixture = work.mixture, .window = window, .plan = tensors.plan}));
  auto next = all.begin();
  if (plan.table) tensors.table = *next++;
  if (gradient_size(plan.bias) > 0) tensors.bias = *next++;
  const RelativeForm& relative = plan.relative;
  for (auto [part, to] : {std::pair(&relative.keys, &tensors.keys),
                          std::pair(&relative.queries, &tensors.queries),
                          std::pair(&relative.values, &tensors.values),
                          std::pair(&relative.projected, &tensors.projected)})
    for (std::size_t i = 0; i < part->size(); ++i) to->push_back(*next++);
  if (!relative.shift.empty()) tensors.shift = *next++;
  if (relative.contextual) tensors.contextual = *next++;
  if (!plan.cosine.empty()) tensors.cosine = *next++;
  if (plan.trained_frequencies) tensors.frequencies = *next++;
  if (plan.polar) tensors.phases = *next++;
  return tensors;
}

}  // namespace gnomon::libtorch
