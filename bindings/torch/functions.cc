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

// A table with one row for each token of each row of the batch is added to x as one long row.
at::Tensor rows_of_table(const at::Tensor& x, const EmbeddingTable& table) {
  if (table.tokens == x.size(1)) return x;
  return x.view({1, x.size(0) * x.size(1), x.size(2)});
}

struct AddTable : Function<AddTable> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            at::TensorList parameters, SharedSetting setting) {
    save(context, setting);
    context->save_for_backward(parameters.vec());
    const at::Tensor sum = x.clone(at::MemoryFormat::Contiguous);
    const at::Tensor rows = rows_of_table(sum, *setting->plan->table);
    add_table(tensor(rows), setting->plan->table->view());
    return sum;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const SharedSetting setting = saved_setting(context);
    const variable_list parameters = context->get_saved_variables();
    variable_list result{grads[0]};
    if (at::GradMode::is_enabled()) {
      const at::Tensor zeros = at::zeros({1}, grads[0].options()).expand(grads[0].sizes());
      const variable_list of_parameters =
          differentiable_gradients(parameters, grads[0], [&](const variable_list& inputs) {
            return add_position_table_composed({setting->mixture, inputs, setting->plan},
                                               setting->window, zeros);
          });
      result.insert(result.end(), of_parameters.begin(), of_parameters.end());
    } else if (!parameters.empty()) {
      const EmbeddingTable& table = *setting->plan->table;
      const at::Tensor grad = rows_of_table(grads[0].contiguous(), table);
      EmbeddingTable sum{table.tokens, table.width, {}};
      sum.values.resize(static_cast<std::size_t>(sum.tokens * sum.width));
      const View<float, 2> sums(sum.values.data(), {sum.tokens, sum.width});
      add_table_backward(tensor(grad), 1, sums);
      append_parameter_gradients(*setting, parameters, {.table = sums}, result);
    }
    result.emplace_back();  // the setting
    return result;
  }
};

// Rotations before attention (LayerPlan::query_rotations, key_rotations).
using Rotations = std::vector<HeadRotation>;

at::Tensor rotated(const at::Tensor& x, const Rotations& rotations) {
  if (rotations.empty()) return x;
  const at::Tensor out = x.clone(at::MemoryFormat::Contiguous);
  for (const HeadRotation& one : rotations)
    std::visit([&](const auto& table) { rotate(tensor(out), table); }, one);
  return out;
}

// The gradients of one rotation.
template <typename Table>
void rotated_backward(const at::Tensor& grad, const Table& table) {
  rotate(tensor(grad), table, Direction::inverse);
}
void rotated_backward(const at::Tensor& grad, const Vjepa2Table& table) {
  rotate_backward(tensor(grad), table);
}
void rotated_backward(const at::Tensor& grad, const Rotations& rotations) {
  for (auto one = rotations.rbegin(); one != rotations.rend(); ++one)
    std::visit([&](const auto& table) { rotated_backward(grad, table); }, *one);
}

// Cosine attention: queries and keys are scaled to length 1.
at::Tensor normalised(const Setting& setting, const at::Tensor& x,
                      std::span<const double> scales) {
  if (setting.plan->cosine.empty()) return x;
  const at::Tensor out = at::empty(x.sizes(), x.options());
  normalise(tensor(x), scales, tensor(out));
  return out;
}

// Keys or values in the type that attention reads. The type is that of the input, unless the
// input is rotated or normalized here, or another type is requested.
at::Tensor as_read(const Setting& setting, const at::Tensor& x, at::ScalarType query_type) {
  const bool changed = !setting.plan->cosine.empty() || !setting.plan->key_rotations.empty();
  return changed ? x.to(query_type) : x;
}

struct Attended {
  at::Tensor out, lse;
};
Attended attended(const Setting& setting, const Inputs& in, at::TensorList terms) {
  const LayerPlan& plan = *setting.plan;
  const at::ScalarType type = in.q.scalar_type();
  const at::Tensor v = with_contiguous_rows(as_read(setting, in.v, type));
  const at::Tensor q = normalised(
      setting, rotated(with_contiguous_rows(in.q), plan.query_rotations), plan.cosine);
  const at::Tensor k = normalised(
      setting, rotated(with_contiguous_rows(as_read(setting, in.k, type)), plan.key_rotations),
      {});
  Attended result;
  at::Tensor& out = result.out =
      at::empty({q.size(0), q.size(1), q.size(2), v.size(3)}, q.options());
  const bool in_double = q.scalar_type() == at::kDouble;
  result.lse =
      at::empty({q.size(0), q.size(2), q.size(1)}, in_double ? at::kDouble : at::kFloat);
  attention({.q = tensor(q),
             .k = tensor(k),
             .v = tensor(v),
             .terms = named<ConstTensor>(setting.mixture, terms)},
            plan, tensor(out), tensor(result.lse));
  return result;
}

// Writes the gradients of q, k and v, of any strides and of the type of q. Appends the
// gradients of the terms and the parameters to `result`.
void attended_backward(const Setting& setting, const Inputs& in, const Attended& forward,
                       const at::Tensor& grad, at::TensorList terms, at::TensorList parameters,
                       const std::array<at::Tensor, 3>& grads, variable_list& result) {
  const at::Tensor &out = forward.out, &lse = forward.lse;
  const at::Tensor out_grad = with_contiguous_rows(grad);
  const LayerPlan& plan = *setting.plan;
  const at::ScalarType type = in.q.scalar_type();
  const at::Tensor v = with_contiguous_rows(in.v.to(type));
  const at::Tensor q_rotated = rotated(with_contiguous_rows(in.q), plan.query_rotations);
  const at::Tensor k_rotated = rotated(with_contiguous_rows(in.k.to(type)), plan.key_rotations);
  const at::Tensor q = normalised(setting, q_rotated, plan.cosine);
  const at::Tensor k = normalised(setting, k_rotated, {});
  model::LayerGradient lowered;
  variable_list term_grads;
  for (const at::Tensor& one : terms) term_grads.push_back(at::empty_like(one));
  AttentionGradient wanted{.q = tensor(grads[0]),
                           .k = tensor(grads[1]),
                           .v = tensor(grads[2]),
                           .terms = named<Tensor>(setting.mixture, term_grads)};
  if (!parameters.empty()) {
    wanted.bias = &lowered.bias;
    if (!plan.relative.empty()) wanted.relative = &lowered.relative;
    if (plan.polar) lowered.phases.resize(plan.polar->phases.size());
    wanted.phases = lowered.phases;
  }
  attention_backward({.q = tensor(q),
                      .k = tensor(k),
                      .v = tensor(v),
                      .terms = named<ConstTensor>(setting.mixture, terms)},
                     plan, tensor(out), tensor(lse), tensor(out_grad), wanted);
  if (!parameters.empty())
    lowered.frequencies = model::frequencies_gradient(
        plan, setting.window, tensor(q), tensor(grads[0]), tensor(k), tensor(grads[1]));
  if (const auto& scales = plan.cosine; !scales.empty()) {
    lowered.cosine.resize(scales.size());
    normalise_backward(tensor(q_rotated), tensor(grads[0]), scales, tensor(grads[0]),
                       lowered.cosine);
    normalise_backward(tensor(k_rotated), tensor(grads[1]), {}, tensor(grads[1]));
  }
  rotated_backward(grads[0], plan.query_rotations);
  rotated_backward(grads[1], plan.key_rotations);
  result.insert(result.end(), term_grads.begin(), term_grads.end());
  append_parameter_gradients(setting, parameters, lowered, result);
}

// The positions of the last `tokens` of each row.
Positions last_of(const Positions& all, std::int64_t tokens) {
  if (all.tokens == tokens) return all;
  Positions last{.batch = all.batch, .tokens = tokens, .ids = {}, .sequences = {}};
  for (std::int64_t b = 0; b < all.batch; ++b) {
    const std::int64_t end = (b + 1) * all.tokens, begin = end - tokens;
    last.ids.insert(last.ids.end(), all.ids.begin() + begin, all.ids.begin() + end);
    last.sequences.insert(last.sequences.end(), all.sequences.begin() + begin,
                          all.sequences.begin() + end);
  }
  return last;
}

// Computes in float for 16-bit types.
at::Tensor composed(const Setting& setting, const Inputs& in, at::TensorList rest) {
  const std::size_t terms = model::token_terms(setting.mixture).size();
  const at::ScalarType type = in.q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return attend_by_operators(setting, rest.slice(terms).vec(),
                             {in.q.to(type), in.k.to(type), in.v.to(type)},
                             rest.slice(0, terms))
      .to(in.q.scalar_type());
}

struct Attend : Function<Attend> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, at::TensorList terms,
                            at::TensorList parameters, SharedSetting setting) {
    const Attended result = attended(*setting, {q, k, v}, terms);
    save(context, setting);
    variable_list kept{q, k, v};
    kept.insert(kept.end(), terms.begin(), terms.end());
    kept.insert(kept.end(), parameters.begin(), parameters.end());
    kept.insert(kept.end(), {result.out, result.lse});
    context->save_for_backward(std::move(kept));
    return result.out;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const SharedSetting setting = saved_setting(context);
    const variable_list saved = context->get_saved_variables();
    const variable_list inputs(saved.begin(), saved.end() - 2);
    const std::size_t terms = model::token_terms(setting->mixture).size();
    variable_list result;
    if (at::GradMode::is_enabled()) {
      result = differentiable_gradients(inputs, grads[0], [&](const variable_list& x) {
        return composed(*setting, {x[0], x[1], x[2]}, at::TensorList(x).slice(3));
      });
    } else {
      const at::Tensor &q = inputs[0], &k = inputs[1], &v = inputs[2];
      const auto fresh = [&](const at::Tensor& like) {
        return at::empty(like.sizes(), q.options());
      };
      result = {fresh(q), fresh(k), fresh(v)};
      attended_backward(*setting, {q, k, v}, {saved.end()[-2], saved.end()[-1]}, grads[0],
                        at::TensorList(inputs).slice(3, terms),
                        at::TensorList(inputs).slice(3 + terms),
                        {result[0], result[1], result[2]}, result);
      result[1] = result[1].to(k.scalar_type());
      result[2] = result[2].to(v.scalar_type());
    }
    result.emplace_back();  // the setting
    return result;
  }
};

// q, k and v as parts of one tensor [B, T, H + 2 Hk, D], and their gradients as parts of
// another.
struct AttendPacked : Function<AttendPacked> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& qkv,
                            std::int64_t key_heads, at::TensorList terms,
                            at::TensorList parameters, SharedSetting setting) {
    const auto [q, k, v] = split_heads(with_contiguous_rows(qkv), key_heads);
    const Attended result = attended(*setting, {q, k, v}, terms);
    save(context, setting);
    context->saved_data["key_heads"] = key_heads;
    variable_list kept{qkv};
    kept.insert(kept.end(), terms.begin(), terms.end());
    kept.insert(kept.end(), parameters.begin(), parameters.end());
    kept.insert(kept.end(), {result.out, result.lse});
    context->save_for_backward(std::move(kept));
    return result.out;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const SharedSetting setting = saved_setting(context);
    const variable_list saved = context->get_saved_variables();
    const variable_list inputs(saved.begin(), saved.end() - 2);
    const std::size_t terms = model::token_terms(setting->mixture).size();
    const std::int64_t key_heads = context->saved_data["key_heads"].toInt();
    variable_list result;
    if (at::GradMode::is_enabled()) {
      result = differentiable_gradients(inputs, grads[0], [&](const variable_list& x) {
        const auto [q, k, v] = split_heads(x[0], key_heads);
        return composed(*setting, {q, k, v}, at::TensorList(x).slice(1));
      });
      result.insert(result.begin() + 1, at::Tensor());  // key_heads
    } else {
      const at::Tensor& qkv = inputs[0];
      const auto [q, k, v] = split_heads(qkv, key_heads);
      result = {at::empty(qkv.sizes(), qkv.options()), {}};
      attended_backward(*setting, {q, k, v}, {saved.end()[-2], saved.end()[-1]}, grads[0],
                        at::TensorList(inputs).slice(1, terms),
                        at::TensorList(inputs).slice(1 + terms),
                        split_heads(result[0], key_heads), result);
    }
    result.emplace_back();  // the setting
    return result;
  }
};

SharedSetting setting_of(const PreparedCall& work, const at::Tensor& queries, std::int64_t keys,
                         const AttendOptions& options) {
  Setting setting{.mixture = work.mixture,
                  .window = window_of(queries, keys, options),
                  .visibility = options.visibility,
                  .left = options.left,
                  .right = options.right};
  setting.plan = plan_of(work, setting.window, mask_of(setting.window, options));
  return std::make_shared<const Setting>(std::move(setting));
}

}  // namespace

model::Window window_of(const at::Tensor& queries, std::int64_t keys,
                        const AttendOptions& options) {
  model::Window window{
      .queries = queries.size(1),
      .keys = keys,
      .softmax_scale = options.softmax_scale.value_or(softmax_scale(queries.size(3)))};
  if (options.positions) {
    const Positions& all = *options.positions;
    window.batch = {
        options.query_positions ? *options.query_positions : last_of(all, window.queries), all};
  }
  return window;
}

at::Tensor for_kernels(const at::Tensor& parameter) {
  return parameter.to(at::kCPU, at::kFloat);
}

AttentionMask mask_of(const model::Window& window, const AttendOptions& options) {
  return {.visibility = options.visibility,
          .offset = window.offset(),
          .left = options.left,
          .right = options.right};
}

Plan plan_of(const PreparedCall& work, const model::Window& window, const AttentionMask& mask) {
  if (work.plan) return work.plan;
  auto plan = std::make_shared<LayerPlan>(
      model::lower(work.mixture, window, matrices(work.parameters)));
  plan->mask = mask;
  if (const auto& batch = window.batch) {
    plan->queries = std::make_shared<const Positions>(batch->queries);
    plan->keys = std::make_shared<const Positions>(batch->keys);
  }
  return plan;
}

at::Tensor add_position_table(const PreparedCall& work, const model::Window& window,
                              const at::Tensor& x) {
  return AddTable::apply(
      x, at::TensorList(work.parameters),
      std::make_shared<const Setting>(
          Setting{.mixture = work.mixture, .window = window, .plan = plan_of(work, window)}));
}

at::Tensor add_position_table_composed(const PreparedCall& work, const model::Window& window,
                                       const at::Tensor& x) {
  const at::Tensor table = lowered_tensors(work, window).table.to(x.options());
  if (table.size(0) == x.size(1)) return x + table;
  return x + table.view(x.sizes());
}

at::Tensor attend_fused(const PreparedCall& work, const Inputs& in,
                        const AttendOptions& options) {
  const SharedSetting setting = setting_of(work, in.q, in.k.size(1), options);
  const auto terms = terms_of(work, setting->window, options.hidden, in.q);
  return Attend::apply(in.q, in.k, in.v, at::TensorList(terms), at::TensorList(work.parameters),
                       setting);
}

at::Tensor attend_packed_fused(const PreparedCall& work, const at::Tensor& qkv,
                               std::int64_t key_heads, const AttendOptions& options) {
  const SharedSetting setting = setting_of(work, qkv, qkv.size(1), options);
  const auto terms = terms_of(work, setting->window, options.hidden, qkv);
  return AttendPacked::apply(qkv, key_heads, at::TensorList(terms),
                             at::TensorList(work.parameters), setting);
}

}  // namespace gnomon::libtorch
