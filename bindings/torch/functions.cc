#include "bindings/torch/functions.h"

#include <torch/csrc/autograd/custom_function.h>

#include <variant>

#include "bindings/torch/views.h"
#include "gnomon/attention/attention.h"
#include "gnomon/embedding/table.h"

namespace gnomon::libtorch {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// What the functions need beside tensors: borrowed in forward, shared with backward.
struct Setting {
  model::Encoding encoding;
  model::Window window;
  Plan plan;  // never null
  AttentionMask mask;
  double softmax_scale = 0;
};
using SharedSetting = std::shared_ptr<const Setting>;

// Carries the setting from forward to backward.
struct SettingHolder : torch::CustomClassHolder {
  explicit SettingHolder(SharedSetting shared) : setting(std::move(shared)) {}
  SharedSetting setting;
};

Plan made(const model::Encoding& encoding, const model::Window& window,
          at::TensorList parameters, Plan plan) {
  if (plan) return plan;
  const auto values = matrices(parameters);
  return std::make_shared<model::Lowered>(model::lower(encoding, window, values));
}

std::vector<at::Tensor> zeros_like_each(at::TensorList parameters) {
  std::vector<at::Tensor> zeros;
  for (const at::Tensor& one : parameters) zeros.push_back(at::zeros_like(one));
  return zeros;
}

// The gradients of the parameters, appended to those of the other inputs.
void append_parameter_gradients(const Setting& setting, at::TensorList parameters,
                                const model::LoweredGradient& lowered, variable_list& grads) {
  if (parameters.empty()) return;
  auto fresh = zeros_like_each(parameters);
  model::lower_backward(setting.encoding, setting.window, matrices(parameters), lowered,
                        matrices(fresh));
  grads.insert(grads.end(), fresh.begin(), fresh.end());
}

// A saved setting, and back.
void save(AutogradContext* context, SharedSetting setting) {
  context->saved_data["setting"] =
      at::IValue::make_capsule(c10::make_intrusive<SettingHolder>(std::move(setting)));
}
SharedSetting saved_setting(AutogradContext* context) {
  return c10::static_intrusive_pointer_cast<SettingHolder>(
             context->saved_data["setting"].toCapsule())
      ->setting;
}

struct AddTable : Function<AddTable> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            at::TensorList parameters, SharedSetting setting) {
    save(context, setting);
    context->save_for_backward(parameters.vec());
    at::Tensor sum = x.clone(at::MemoryFormat::Contiguous);
    with_element_type(
        sum, [&]<typename T>(T) { add_table(view<T, 3>(sum), setting->plan->table->view()); });
    return sum;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const SharedSetting setting = saved_setting(context);
    const variable_list parameters = context->get_saved_variables();
    variable_list result{grads[0]};
    if (!parameters.empty()) {
      const at::Tensor grad = with_contiguous_rows(grads[0]);
      EmbeddingTable sum{grad.size(1), grad.size(2), {}};
      sum.values.resize(static_cast<std::size_t>(sum.tokens * sum.channels));
      const View<float, 2> sums(sum.values.data(), {sum.tokens, sum.channels});
      with_element_type(
          grad, [&]<typename T>(T) { add_table_backward<T>(view<const T, 3>(grad), sums); });
      append_parameter_gradients(*setting, parameters, {.table = sums, .bias = {}}, result);
    }
    result.emplace_back();  // the setting
    return result;
  }
};

AttentionPosition position_of(const model::Lowered& lowered) {
  AttentionPosition position;
  if (lowered.query_rotary) position.query_rotary = &*lowered.query_rotary;
  if (lowered.key_rotary) position.key_rotary = &*lowered.key_rotary;
  position.bias = lowered.bias;
  return position;
}

struct Attend : Function<Attend> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q_in,
                            const at::Tensor& k_in, const at::Tensor& v_in,
                            at::TensorList parameters, SharedSetting setting) {
    const at::Tensor q = with_contiguous_rows(q_in), k = with_contiguous_rows(k_in),
                     v = with_contiguous_rows(v_in);
    at::Tensor out = at::empty({q.size(0), q.size(1), q.size(2), v.size(3)}, q.options());
    at::Tensor lse;
    with_element_type(q, [&]<typename T>(T) {
      using Sum = Accumulator<T>;
      lse = at::empty({q.size(0), q.size(2), q.size(1)},
                      std::is_same_v<Sum, double> ? at::kDouble : at::kFloat);
      attention<T>(view<const T, 4>(q), view<const T, 4>(k), view<const T, 4>(v), setting->mask,
                   position_of(*setting->plan), {.scale = setting->softmax_scale},
                   view<T, 4>(out), view<Sum, 3>(lse));
    });
    save(context, setting);
    variable_list kept{q, k, v, out, lse};
    kept.insert(kept.end(), parameters.begin(), parameters.end());
    context->save_for_backward(std::move(kept));
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const SharedSetting setting = saved_setting(context);
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2], &out = saved[3],
                     &lse = saved[4];
    const at::TensorList parameters = at::TensorList(saved).slice(5);
    const at::Tensor out_grad = with_contiguous_rows(grads[0]);
    const auto fresh = [](const at::Tensor& like) {
      return at::empty(like.sizes(), like.options());
    };
    variable_list result{fresh(q), fresh(k), fresh(v)};
    BiasGradient bias;
    with_element_type(q, [&]<typename T>(T) {
      attention_backward<T>(
          view<const T, 4>(q), view<const T, 4>(k), view<const T, 4>(v), setting->mask,
          position_of(*setting->plan), {.scale = setting->softmax_scale}, view<const T, 4>(out),
          view<const Accumulator<T>, 3>(lse), view<const T, 4>(out_grad), view<T, 4>(result[0]),
          view<T, 4>(result[1]), view<T, 4>(result[2]), parameters.empty() ? nullptr : &bias);
    });
    append_parameter_gradients(*setting, parameters, {.table = {}, .bias = bias}, result);
    result.emplace_back();  // the setting
    return result;
  }
};

struct LoweredNumbers : Function<LoweredNumbers> {
  static at::Tensor forward(AutogradContext* context, at::TensorList parameters,
                            SharedSetting setting) {
    save(context, setting);
    context->save_for_backward(parameters.vec());
    if (const auto& table = setting->plan->table)
      return at::tensor(table->values).view({table->tokens, table->channels});
    const StripBias& strip = std::get<StripBias>(setting->plan->bias);
    return at::tensor(strip.values).to(at::kFloat).view({strip.heads, strip.distances()});
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const SharedSetting setting = saved_setting(context);
    model::LoweredGradient lowered;
    const at::Tensor grad = grads[0].contiguous();
    if (setting->plan->table)
      lowered.table = view<const float, 2>(grad);
    else
      for (std::int64_t i = 0; i < grad.numel(); ++i)
        lowered.bias.values.push_back(grad.data_ptr<float>()[i]);
    variable_list result;
    append_parameter_gradients(*setting, context->get_saved_variables(), lowered, result);
    result.emplace_back();  // the setting
    return result;
  }
};

}  // namespace

at::Tensor add_position_table(const model::Encoding& encoding, at::TensorList parameters,
                              Plan plan, const model::Window& window, const at::Tensor& x) {
  plan = made(encoding, window, parameters, std::move(plan));
  return AddTable::apply(
      x, parameters,
      std::make_shared<const Setting>(Setting{encoding, window, std::move(plan), {}, 0}));
}

at::Tensor attend_fused(const model::Encoding& encoding, at::TensorList parameters, Plan plan,
                        const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const AttendOptions& options) {
  const model::Window window{q.size(1), k.size(1)};
  plan = made(encoding, window, parameters, std::move(plan));
  const AttentionMask mask{.visibility = options.visibility,
                           .offset = window.offset(),
                           .before = options.before,
                           .after = std::nullopt};
  return Attend::apply(q, k, v, parameters,
                       std::make_shared<const Setting>(
                           Setting{encoding, window, std::move(plan), mask,
                                   options.softmax_scale.value_or(softmax_scale(q.size(3)))}));
}

at::Tensor lowered_numbers(const model::Encoding& encoding, at::TensorList parameters,
                           const model::Window& window) {
  // Parameters may live on another device; the copies pass gradients back to them.
  std::vector<at::Tensor> here;
  for (const at::Tensor& one : parameters) here.push_back(one.to(at::kCPU, at::kFloat));
  Plan plan = made(encoding, window, here, nullptr);
  if (!plan->table && !std::holds_alternative<StripBias>(plan->bias)) return {};
  return LoweredNumbers::apply(
      at::TensorList(here),
      std::make_shared<const Setting>(Setting{encoding, window, std::move(plan), {}, 0}));
}

}  // namespace gnomon::libtorch
