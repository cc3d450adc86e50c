#include "bindings/python/attend.h"

#include <variant>

#include "bindings/python/copy.h"
#include "gnomon/attention/cosine.h"
#include "gnomon/embedding/sinusoidal.h"
#include "gnomon/embedding/table.h"
#include "gnomon/error.h"
#include "src/attention/ragged.h"
#include "src/core/tensor.h"

namespace gnomon::python {
namespace {

bool changes_queries(const LayerPlan& plan) {
  return plan.query_norm || !plan.query_rotations.empty() || !plan.cosine.empty() ||
         plan.query_scale;
}
bool changes_keys(const LayerPlan& plan) {
  return plan.key_norm || !plan.key_rotations.empty() || !plan.cosine.empty();
}
bool changes_values(const LayerPlan& plan) { return plan.value_norm || plan.value_scale != 1; }

// Copies of q, k and v after `prepare`, where it changes them.
class Prepared {
 public:
  Prepared(const LayerPlan& plan, const AttentionInput& input) : input_(input) {
    if (changes_queries(plan)) input_.q = q_.emplace("q", input.q).tensor();
    if (changes_keys(plan)) input_.k = k_.emplace("k", input.k).tensor();
    if (changes_values(plan)) input_.v = v_.emplace("v", input.v).tensor();
    prepare(plan, q_ ? q_->tensor() : Tensor(), k_ ? k_->tensor() : Tensor(),
            v_ ? v_->tensor() : Tensor());
  }
  const AttentionInput& input() const noexcept { return input_; }

 private:
  AttentionInput input_;
  std::optional<Copy> q_, k_, v_;
};

void rotate_all(const std::vector<HeadRotation>& rotations, const Tensor& x) {
  for (const HeadRotation& one : rotations)
    std::visit([&](const auto& table) { rotate(x, table); }, one);
}
template <typename Table>
void rotate_back(const Table& table, const Tensor& grad) {
  rotate(grad, table, Direction::inverse);
}
void rotate_back(const Vjepa2Table& table, const Tensor& grad) { rotate_backward(grad, table); }
void rotate_back(const std::vector<HeadRotation>& rotations, const Tensor& grad) {
  for (auto one = rotations.rbegin(); one != rotations.rend(); ++one)
    std::visit([&](const auto& table) { rotate_back(table, grad); }, *one);
}

// x of [B, T, C] as one row [1, B T, C], for a table with one row for each token of each row of
// the batch.
struct TokenRows {
  TokenRows(const ConstTensor& x, std::int64_t table_tokens)
      : tensor(static_cast<const Tensor&>(x)) {
    internal::check_tensor({"embed", "x"}, x, 3);
    if (table_tokens == x.extent(1)) return;
    if (table_tokens != x.extent(0) * x.extent(1))
      refuse("embed", "x must have " + std::to_string(table_tokens) + " tokens",
             x.extent(0) * x.extent(1));
    if (x.extent(0) > 1 && x.stride(0) != x.extent(1) * x.stride(1))
      refuse("embed", "the rows of x must be contiguous if their positions differ, stride",
             x.stride(0));
    shape[0] = 1, shape[1] = table_tokens, shape[2] = x.extent(2);
    strides[0] = 0, strides[1] = x.stride(1), strides[2] = x.stride(2);
    tensor.shape = shape, tensor.strides = strides;
  }
  TokenRows(const TokenRows&) = delete;
  TokenRows& operator=(const TokenRows&) = delete;
  Tensor tensor;
  std::int64_t shape[3] = {}, strides[3] = {};
};

// Returns the plan with a dense bias in place of its own.
LayerPlan with_bias(const LayerPlan& plan, const View<const float, 4>& bias) {
  LayerPlan changed = plan;
  changed.bias = DenseBias{bias};
  changed.gated = false;
  return changed;
}

}  // namespace

Plan lower_plan(model::Mixture mixture, model::Window window, std::vector<Matrix> parameters,
                const LowerOptions& options) {
  Plan plan{.lowered = {},
            .mixture = std::move(mixture),
            .window = std::move(window),
            .parameters = std::move(parameters)};
  plan.window.softmax_scale = options.softmax_scale.value_or(0);
  plan.window.length = options.length;
  LayerPlan& lowered = plan.lowered = model::lower(plan.mixture, plan.window, plan.values());
  lowered.mask = {.visibility = options.visibility,
                  .offset = plan.window.offset(),
                  .left = options.left,
                  .right = options.right};
  if (options.softmax_scale && !lowered.softmax.scale)
    lowered.softmax.scale = *options.softmax_scale * lowered.softmax.factor;
  lowered.softmax.cap = options.cap;
  lowered.softmax.rounds_weights = options.rounds_weights;
  lowered.softmax.sinks = options.sinks;
  if (const auto& batch = plan.window.batch) {
    lowered.queries = std::make_shared<const Positions>(batch->queries);
    lowered.keys = std::make_shared<const Positions>(batch->keys);
  }
  return plan;
}

void lower_continuous(Plan& plan, View<const double, 2> queries, View<const double, 2> keys) {
  for (const model::Encoding& one : plan.mixture) {
    if (const auto frequencies = model::rotary_frequencies(one, plan.window.length)) {
      plan.lowered.query_rotary.emplace(*frequencies, queries);
      plan.lowered.key_rotary.emplace(*frequencies, keys);
    } else if (const auto* sinusoidal = std::get_if<Sinusoidal>(&one)) {
      EmbeddingTable& table = *plan.lowered.table;
      if (queries.extent(1) != 1)
        refuse("lower", "positions of sinusoids must have 1 axis",
               std::int64_t{queries.extent(1)});
      const std::int64_t shape[] = {table.tokens, table.width};
      fill(*sinusoidal, std::span(queries.data(), static_cast<std::size_t>(table.tokens)),
           View<float, 2>(table.values.data(), {shape[0], shape[1]}));
    } else {
      refuse("lower", "positions must be integers unless the encoding is rotary or sinusoidal",
             model::info(one).name);
    }
  }
  plan.query_coordinates.assign(queries.data(), queries.data() + queries.size());
  plan.key_coordinates.assign(keys.data(), keys.data() + keys.size());
  plan.axes = queries.extent(1);
}

void attend(const AttentionInput& input, const Plan& plan, const Tensor& out, const Tensor& lse,
            const View<const float, 4>& bias, const RaggedBatch& ragged) {
  if (plan.lowered.compression)
    refuse("attention", "a layer with compressed keys requires compressed_attention",
           summary(plan));
  // Keys of a cache cannot be prepared here.
  if (!ragged.empty() && !plan.prepared &&
      (changes_queries(plan.lowered) || changes_keys(plan.lowered) ||
       changes_values(plan.lowered)))
    refuse("attention", "a ragged batch requires a plan that does not change q, k and v",
           summary(plan));
  const auto run = [&](const LayerPlan& lowered) {
    if (plan.prepared || !ragged.empty())
      return internal::attend(input, lowered, ragged, out, lse);
    attention(Prepared(lowered, input).input(), lowered, out, lse);
  };
  bias.data() ? run(with_bias(plan.lowered, bias)) : run(plan.lowered);
  finish(plan.lowered, out);
}

void attend_backward(const AttentionInput& input, const Plan& plan, const ConstTensor& out,
                     const ConstTensor& lse, const ConstTensor& out_grad,
                     const AttendGradient& gradient) {
  if (plan.lowered.compression)
    refuse("attention_backward", "the plan must have no compressed keys", summary(plan));
  // The gradient and the output before `finish`.
  ConstTensor unfinished = out, unfinished_grad = out_grad;
  std::optional<Copy> of_out, of_grad;
  if (plan.lowered.output_rotary) {
    unfinished = of_out.emplace("out", out).tensor();
    unfinished_grad = of_grad.emplace("out_grad", out_grad).tensor();
    finish_backward(plan.lowered, of_out->tensor());
    finish_backward(plan.lowered, of_grad->tensor());
  }
  const bool dense = gradient.bias.data();
  std::optional<LayerPlan> changed;
  if (dense) changed = with_bias(plan.lowered, gradient.bias);
  const LayerPlan& lowered = dense ? *changed : plan.lowered;
  const std::vector<HeadRotation> none;
  const auto& query_rotations = plan.prepared ? none : lowered.query_rotations;
  const auto& key_rotations = plan.prepared ? none : lowered.key_rotations;
  if (!plan.prepared && (lowered.query_norm || lowered.key_norm || lowered.query_scale ||
                         changes_values(lowered)))
    refuse("attention_backward", "the plan must have no norms and no query scale",
           "a plan of a model's layer");
  // The inputs of cosine attention before they are scaled are needed again.
  AttentionInput used = input;
  std::optional<Copy> q_rotated, k_rotated, q_unit, k_unit;
  const bool cosine = !plan.prepared && !lowered.cosine.empty();
  if (!query_rotations.empty()) {
    used.q = q_rotated.emplace("q", input.q).tensor();
    rotate_all(query_rotations, q_rotated->tensor());
  }
  if (!key_rotations.empty()) {
    used.k = k_rotated.emplace("k", input.k).tensor();
    rotate_all(key_rotations, k_rotated->tensor());
  }
  const AttentionInput unscaled = used;
  if (cosine) {
    used.q = q_unit.emplace("q", unscaled.q).tensor();
    used.k = k_unit.emplace("k", unscaled.k).tensor();
    normalise(unscaled.q, lowered.cosine, q_unit->tensor());
    normalise(unscaled.k, {}, k_unit->tensor());
  }
  model::LayerGradient forms;
  AttentionGradient wanted{.q = gradient.q,
                           .k = gradient.k,
                           .v = gradient.v,
                           .terms = gradient.terms,
                           .sinks = gradient.sinks};
  if (!gradient.parameters.empty()) {
    wanted.bias = &forms.bias;
    if (!lowered.relative.empty()) wanted.relative = &forms.relative;
    if (lowered.polar) forms.phases.resize(lowered.polar->phases.size());
    wanted.phases = forms.phases;
  }
  BiasGradient of_dense;
  if (dense) {
    of_dense.dense = gradient.bias_grad;
    wanted.bias = gradient.bias_grad.data() ? &of_dense : nullptr;
    // The replaced bias has no gradient.
    forms.bias.values.resize(
        static_cast<std::size_t>(heads(plan.lowered.bias) * gradient_size(plan.lowered.bias)));
  }
  attention_backward(used, lowered, unfinished, lse, unfinished_grad, wanted);
  if (!gradient.parameters.empty())
    forms.frequencies = model::frequencies_gradient(lowered, plan.window, used.q, gradient.q,
                                                    used.k, gradient.k);
  if (cosine) {
    forms.cosine.resize(lowered.cosine.size());
    normalise_backward(unscaled.q, gradient.q, lowered.cosine, gradient.q, forms.cosine);
    normalise_backward(unscaled.k, gradient.k, {}, gradient.k);
  }
  rotate_back(query_rotations, gradient.q);
  rotate_back(key_rotations, gradient.k);
  if (!gradient.parameters.empty())
    model::lower_backward(plan.mixture, plan.window, plan.values(), forms, gradient.parameters);
}

bool embed(const Plan& plan, const Tensor& x) {
  if (!plan.lowered.table) return false;
  const EmbeddingTable& table = *plan.lowered.table;
  const TokenRows rows(x, table.tokens);
  add_table(rows.tensor, table.view());
  return true;
}

void embed_backward(const Plan& plan, const ConstTensor& grad,
                    const std::vector<View<float, 2>>& parameters) {
  if (!plan.lowered.table) return;
  const EmbeddingTable& table = *plan.lowered.table;
  std::vector<float> sums(table.values.size());
  const View<float, 2> view(sums.data(), {table.tokens, table.width});
  const TokenRows rows(grad, table.tokens);
  add_table_backward(rows.tensor, 1, view);
  model::lower_backward(plan.mixture, plan.window, plan.values(), {.table = view}, parameters);
}

}  // namespace gnomon::python
