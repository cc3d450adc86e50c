#include "bindings/torch/functions.h"

#include <variant>

#include "bindings/torch/setting.h"
#include "gnomon/attention/cosine.h"
#include "gnomon/embedding/table.h"

namespace gnomon::libtorch {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

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
          grad, [&]<typename T>(T) { add_table_backward(view<const T, 3>(grad), sums); });
      append_parameter_gradients(*setting, parameters, {.table = sums}, result);
    }
    result.emplace_back();  // the setting
    return result;
  }
};

AttentionPosition position_of(const Setting& setting, const at::Tensor& gates) {
  const LayerPlan& lowered = *setting.plan;
  AttentionPosition position;
  if (lowered.query_rotary) position.query_rotary = &*lowered.query_rotary;
  if (lowered.key_rotary) position.key_rotary = &*lowered.key_rotary;
  position.bias = lowered.bias;
  if (!lowered.relative.empty()) position.relative = &lowered.relative;
  if (gates.defined()) position.gates = view<const float, 3>(gates);
  if (setting.queries) position.queries = &*setting.queries;
  if (setting.keys) position.keys = &*setting.keys;
  return position;
}

// Rotations that attention() does not apply itself.
using Rotations = std::vector<HeadRotation>;

at::Tensor rotated(const at::Tensor& x, const Rotations& rotations) {
  if (rotations.empty()) return x;
  const at::Tensor out = x.clone(at::MemoryFormat::Contiguous);
  with_element_type(x, [&]<typename T>(T) {
    for (const HeadRotation& one : rotations)
      std::visit([&](const auto& table) { rotate(view<T, 4>(out), table); }, one);
  });
  return out;
}

template <typename T>
void rotated_backward(View<T, 4> grad, const Rotations& rotations) {
  for (auto one = rotations.rbegin(); one != rotations.rend(); ++one)
    std::visit([&](const auto& table) { rotate_backward(grad, table); }, *one);
}

// Cosine attention's queries and keys are scaled to length 1.
at::Tensor normalised(const Setting& setting, const at::Tensor& x,
                      std::span<const double> scales) {
  if (setting.plan->cosine.empty()) return x;
  const at::Tensor out = at::empty(x.sizes(), x.options());
  with_element_type(
      x, [&]<typename T>(T) { normalise(view<const T, 4>(x), scales, view<T, 4>(out)); });
  return out;
}

struct Attended {
  at::Tensor out, lse;
};
Attended attended(const Setting& setting, const at::Tensor& q_in, const at::Tensor& k_in,
                  const at::Tensor& v, const at::Tensor& gates) {
  const LayerPlan& plan = *setting.plan;
  const at::Tensor q = normalised(setting, rotated(q_in, plan.query_rotations), plan.cosine);
  const at::Tensor k = normalised(setting, rotated(k_in, plan.key_rotations), {});
  Attended result;
  at::Tensor& out = result.out =
      at::empty({q.size(0), q.size(1), q.size(2), v.size(3)}, q.options());
  with_element_type(q, [&]<typename T>(T) {
    using Sum = Accumulator<T>;
    result.lse = at::empty({q.size(0), q.size(2), q.size(1)},
                           std::is_same_v<Sum, double> ? at::kDouble : at::kFloat);
    attention(view<const T, 4>(q), view<const T, 4>(k), view<const T, 4>(v), setting.mask,
              position_of(setting, gates), {.scale = setting.softmax_scale}, view<T, 4>(out),
              view<Sum, 3>(result.lse));
  });
  return result;
}

// The gradients of q, k and v, of any strides, are written; those of the gates and the
// parameters appended to `result`.
void attended_backward(const Setting& setting, const at::Tensor& q_in, const at::Tensor& k_in,
                       const at::Tensor& v, const Attended& forward, const at::Tensor& grad,
                       const at::Tensor& gates, at::TensorList parameters,
                       const std::array<at::Tensor, 3>& grads, variable_list& result) {
  const at::Tensor &out = forward.out, &lse = forward.lse;
  const at::Tensor out_grad = with_contiguous_rows(grad);
  const LayerPlan& plan = *setting.plan;
  const at::Tensor q_rotated = rotated(q_in, plan.query_rotations);
  const at::Tensor k_rotated = rotated(k_in, plan.key_rotations);
  const at::Tensor q = normalised(setting, q_rotated, plan.cosine);
  const at::Tensor k = normalised(setting, k_rotated, {});
  model::LayerGradient lowered;
  const at::Tensor gates_grad = gates.defined() ? at::empty_like(gates) : at::Tensor();
  PositionGradient wanted;
  if (!parameters.empty()) {
    wanted.bias = &lowered.bias;
    if (!plan.relative.empty()) wanted.relative = &lowered.relative;
  }
  if (gates.defined()) wanted.gates = view<float, 3>(gates_grad);
  with_element_type(q, [&]<typename T>(T) {
    attention_backward(
        view<const T, 4>(q), view<const T, 4>(k), view<const T, 4>(v), setting.mask,
        position_of(setting, gates), {.scale = setting.softmax_scale}, view<const T, 4>(out),
        view<const Accumulator<T>, 3>(lse), view<const T, 4>(out_grad), view<T, 4>(grads[0]),
        view<T, 4>(grads[1]), view<T, 4>(grads[2]), wanted);
    if (const auto& scales = plan.cosine; !scales.empty()) {
      lowered.cosine.resize(scales.size());
      normalise_backward(view<const T, 4>(q_rotated), scales, view<const T, 4>(grads[0]),
                         view<T, 4>(grads[0]), lowered.cosine);
      normalise_backward(view<const T, 4>(k_rotated), {}, view<const T, 4>(grads[1]),
                         view<T, 4>(grads[1]));
    }
    rotated_backward(view<T, 4>(grads[0]), plan.query_rotations);
    rotated_backward(view<T, 4>(grads[1]), plan.key_rotations);
  });
  if (gates.defined()) result.push_back(gates_grad);
  append_parameter_gradients(setting, parameters, lowered, result);
}

// An input of a Function that may be missing: a list of one tensor or none.
at::Tensor one_of(at::TensorList list) { return list.empty() ? at::Tensor() : list[0]; }
std::vector<at::Tensor> list_of(const at::Tensor& one) {
  if (!one.defined()) return {};
  return {one};
}

struct Attend : Function<Attend> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q_in,
                            const at::Tensor& k_in, const at::Tensor& v_in,
                            at::TensorList gates, at::TensorList parameters,
                            SharedSetting setting) {
    const at::Tensor q = with_contiguous_rows(q_in), k = with_contiguous_rows(k_in),
                     v = with_contiguous_rows(v_in);
    const Attended result = attended(*setting, q, k, v, one_of(gates));
    save(context, setting);
    variable_list kept{q, k, v, result.out, result.lse, one_of(gates)};
    kept.insert(kept.end(), parameters.begin(), parameters.end());
    context->save_for_backward(std::move(kept));
    return result.out;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const SharedSetting setting = saved_setting(context);
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2];
    const auto fresh = [](const at::Tensor& like) {
      return at::empty(like.sizes(), like.options());
    };
    variable_list result{fresh(q), fresh(k), fresh(v)};
    attended_backward(*setting, q, k, v, {saved[3], saved[4]}, grads[0], saved[5],
                      at::TensorList(saved).slice(6), {result[0], result[1], result[2]},
                      result);
    result.emplace_back();  // the setting
    return result;
  }
};

// q, k and v within one tensor [B, T, H + 2 Hk, D], and their gradients within another.
struct AttendPacked : Function<AttendPacked> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& qkv_in,
                            std::int64_t key_heads, at::TensorList gates,
                            at::TensorList parameters, SharedSetting setting) {
    const at::Tensor qkv = with_contiguous_rows(qkv_in);
    const auto [q, k, v] = split_heads(qkv, key_heads);
    const Attended result = attended(*setting, q, k, v, one_of(gates));
    save(context, setting);
    context->saved_data["key_heads"] = key_heads;
    variable_list kept{qkv, result.out, result.lse, one_of(gates)};
    kept.insert(kept.end(), parameters.begin(), parameters.end());
    context->save_for_backward(std::move(kept));
    return result.out;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const SharedSetting setting = saved_setting(context);
    const variable_list saved = context->get_saved_variables();
    const std::int64_t key_heads = context->saved_data["key_heads"].toInt();
    const auto [q, k, v] = split_heads(saved[0], key_heads);
    variable_list result{at::empty(saved[0].sizes(), saved[0].options()), {}};
    attended_backward(*setting, q, k, v, {saved[1], saved[2]}, grads[0], saved[3],
                      at::TensorList(saved).slice(4), split_heads(result[0], key_heads),
                      result);
    result.emplace_back();  // the setting
    return result;
  }
};

SharedSetting setting_of(const AtWork& work, const at::Tensor& queries, std::int64_t keys,
                         const AttendOptions& options) {
  Setting setting{.mixture = work.mixture, .window = window_of(queries, keys, options)};
  setting.plan = plan_of(work, setting.window);
  setting.mask = {.visibility = options.visibility,
                  .offset = setting.window.offset(),
                  .before = options.before,
                  .after = options.after};
  setting.softmax_scale = setting.plan->cosine.empty()
                              ? setting.window.softmax_scale * setting.plan->softmax_factor
                              : 1;
  if (!options.ids.empty()) {
    setting.queries = setting.window.query_positions();
    setting.keys = setting.window.key_positions();
  }
  return std::make_shared<const Setting>(std::move(setting));
}

}  // namespace

model::Window window_of(const at::Tensor& queries, std::int64_t keys,
                        const AttendOptions& options) {
  return {.queries = queries.size(1),
          .keys = keys,
          .ids = options.ids,
          .softmax_scale = options.softmax_scale.value_or(softmax_scale(queries.size(3)))};
}

Plan plan_of(const AtWork& work, const model::Window& window) {
  if (work.plan) return work.plan;
  return std::make_shared<LayerPlan>(
      model::lower(work.mixture, window, matrices(work.parameters)));
}

at::Tensor add_position_table(const AtWork& work, const model::Window& window,
                              const at::Tensor& x) {
  return AddTable::apply(
      x, at::TensorList(work.parameters),
      std::make_shared<const Setting>(
          Setting{.mixture = work.mixture, .window = window, .plan = plan_of(work, window)}));
}

at::Tensor attend_fused(const AtWork& work, const at::Tensor& q, const at::Tensor& k,
                        const at::Tensor& v, const AttendOptions& options) {
  const auto gates = list_of(gates_of(work, options.hidden, q.size(2)));
  return Attend::apply(q, k, v, at::TensorList(gates), at::TensorList(work.parameters),
                       setting_of(work, q, k.size(1), options));
}

at::Tensor attend_packed_fused(const AtWork& work, const at::Tensor& qkv,
                               std::int64_t key_heads, const AttendOptions& options) {
  const auto gates = list_of(gates_of(work, options.hidden, qkv.size(2) - 2 * key_heads));
  return AttendPacked::apply(qkv, key_heads, at::TensorList(gates),
                             at::TensorList(work.parameters),
                             setting_of(work, qkv, qkv.size(1), options));
}

}  // namespace gnomon::libtorch
