#include "gnomon/attention/dape.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "src/attention/check.h"
#include "src/attention/dape.h"
#include "src/core/size.h"
#include "src/core/tensor.h"

namespace gnomon {
namespace {

using internal::DapeCall;
using internal::DapeSums;
using internal::to_size;
using std::int64_t;

constexpr std::string_view dape_operation = "dape_attention";
constexpr internal::Argument dape_argument(std::string_view name) {
  return {dape_operation, name};
}

// Rows of floats: a view of a tensor of floats, or a copy.
struct FloatRows {
  std::vector<float> values;
  View<float, 4> own;
  View<const float, 4> view;

  explicit FloatRows(const std::array<std::int64_t, 4>& shape)
      : values(internal::checked_size(dape_operation, "the elements of a result",
                                      {shape[0], shape[1], shape[2], shape[3]})),
        own(values.data(), shape),
        view(own) {}
  template <typename T>
  static FloatRows of(std::string_view name, const ConstTensor& tensor) {
    const auto from = internal::read<T, 4>(dape_argument(name), tensor);
    if constexpr (std::is_same_v<T, float>) {
      FloatRows rows({0, 0, 0, 0});
      rows.view = from;
      return rows;
    } else {
      FloatRows rows(from.extents());
      float* to = rows.values.data();
      for (std::ptrdiff_t b = 0; b < from.extent(0); ++b)
        for (std::ptrdiff_t t = 0; t < from.extent(1); ++t)
          for (std::ptrdiff_t h = 0; h < from.extent(2); ++h)
            for (std::ptrdiff_t d = 0; d < from.extent(3); ++d)
              *to++ = static_cast<float>(from(b, t, h, d));
      return rows;
    }
  }
};

template <typename T>
void round_rows(View<const float, 4> from, View<T, 4> to) {
  for (std::ptrdiff_t b = 0; b < to.extent(0); ++b)
    for (std::ptrdiff_t t = 0; t < to.extent(1); ++t)
      for (std::ptrdiff_t h = 0; h < to.extent(2); ++h)
        for (std::ptrdiff_t d = 0; d < to.extent(3); ++d)
          to(b, t, h, d) = static_cast<T>(from(b, t, h, d));
}

// The result that a call writes: of floats, or one that is rounded at the end.
template <typename T>
class FloatResult {
 public:
  FloatResult(std::string_view name, const Tensor& tensor,
              const std::array<std::int64_t, 4>& shape)
      : to_(internal::write<T, 4>(dape_argument(name), tensor)) {
    if (to_.extents() != shape)
      refuse(dape_operation, std::string(name) + " must be " + shape_text(shape),
             shape_text(to_.extents()));
    if constexpr (std::is_same_v<T, float>) {
      view = to_;
    } else {
      rows_.emplace(shape), view = rows_->own;
    }
  }
  void finish() const {
    if constexpr (!std::is_same_v<T, float>) round_rows<T>(view, to_);
  }
  View<float, 4> view;

 private:
  View<T, 4> to_;
  std::optional<FloatRows> rows_;
};

void check_plan(const AttentionPlan& plan, const AttentionInput& input) {
  const std::pair<bool, const char*> terms[] = {
      {plan.product != PairProduct::dot || plan.polar, "another product"},
      {plan.query_rotary || plan.key_rotary || plan.token_rotation, "a rotation"},
      {std::holds_alternative<DenseBias>(plan.bias), "a dense bias"},
      {plan.cumulative || plan.gated || plan.key_slopes || plan.edges, "a bias of tokens"},
      {!plan.relative.empty(), "relative vectors"},
      {plan.softmax.cap.has_value(), "a cap"},
      {plan.mask.rate != 1, "a rate above 1"},
      {plan.stick_breaking.has_value(), "stick-breaking"},
      {!plan.ragged.empty(), "a ragged batch"},
      {input.k_scales.has_data() || input.v_scales.has_data(), "scales of keys or values"}};
  for (const auto& [has, name] : terms)
    if (has)
      refuse(dape_operation,
             "the plan must have a mask, positions, a bias by position and a softmax only",
             name);
  for (const auto& term : named_terms<ConstTensor>)
    if ((input.terms.*term.member).has_data())
      refuse(dape_operation, "terms of the tokens must not be given", term.name);
}

void check_network(const Dape& dape, const DapeNetwork<const float>& network,
                   const internal::AttentionProblem& problem) {
  const int64_t heads = problem.heads;
  if (dape.hidden < 1) refuse(dape_operation, "hidden must be at least 1", dape.hidden);
  if (!std::isfinite(dape.negative_slope))
    refuse(dape_operation, "negative_slope must be finite", dape.negative_slope);
  if (dape.kernel < 1 || dape.kernel % 2 == 0)
    refuse(dape_operation, "kernel must be odd and at least 1", dape.kernel);
  if (dape.kernel > 1 && problem.mask.visibility != Visibility::causal)
    refuse(dape_operation, "a kernel above 1 requires causal visibility", "bidirectional");
  internal::check_shape<2>(
      dape_operation, "first", network.first.extents(),
      {dape.hidden, internal::checked_product(dape_operation, "2 x heads x kernel",
                                              {2, heads, dape.kernel})});
  internal::check_shape<1>(dape_operation, "first_bias", network.first_bias.extents(),
                           {dape.hidden});
  internal::check_shape<2>(dape_operation, "second", network.second.extents(),
                           {heads, internal::checked_product(dape_operation, "hidden x kernel",
                                                             {dape.hidden, dape.kernel})});
  internal::check_shape<1>(dape_operation, "second_bias", network.second_bias.extents(),
                           {heads});
}

// One call with rows of floats. Its problem refers to the plan.
struct Setting {
  FloatRows q, k, v;
  internal::AttentionProblem problem;

  template <typename T>
  static Setting of(const AttentionInput& input, const AttentionPlan& plan) {
    check_plan(plan, input);
    Setting setting{FloatRows::of<T>("q", input.q),
                    FloatRows::of<T>("k", input.k),
                    FloatRows::of<T>("v", input.v),
                    {}};
    const auto &q = setting.q.view, &k = setting.k.view, &v = setting.v.view;
    internal::check_shape<4>(dape_operation, "k", k.extents(),
                             {q.extent(0), k.extent(1), k.extent(2), q.extent(3)});
    internal::check_shape<4>(dape_operation, "v", v.extents(),
                             {q.extent(0), k.extent(1), k.extent(2), v.extent(3)});
    internal::AttentionProblem& problem = setting.problem;
    problem.batch = q.extent(0), problem.queries = q.extent(1), problem.heads = q.extent(2);
    problem.keys = k.extent(1), problem.key_heads = k.extent(2);
    problem.size = problem.head_dim = q.extent(3), problem.value_dim = v.extent(3);
    problem.mask = internal::known_mask(plan, problem.queries, problem.keys);
    problem.softmax.scale = plan.softmax.scale.value_or(
        problem.size < 1 ? 1 : plan.softmax.factor * softmax_scale(problem.size));
    problem.softmax.sinks = plan.softmax.sinks;
    problem.position.bias = &plan.bias;
    problem.position.queries = plan.queries.get();
    problem.position.keys = plan.keys.get();
    internal::check(problem);
    return setting;
  }
};

Positions rows_of(const Positions& from, int64_t begin, int64_t count) {
  Positions part{.batch = from.batch, .tokens = count};
  for (int64_t b = 0; b < from.batch; ++b)
    for (int64_t t = begin; t < begin + count; ++t) {
      part.ids.push_back(from.ids[to_size(b * from.tokens + t)]);
      part.sequences.push_back(from.sequences[to_size(b * from.tokens + t)]);
    }
  return part;
}

// Calls body(first query, queries, input, plan) for blocks of queries, with the adapted bias.
template <typename Body>
void for_blocks(const Setting& setting, const AttentionPlan& plan, DapeCall& call,
                const Body& body) {
  const internal::AttentionProblem& problem = setting.problem;
  for (int64_t query = 0; query < problem.queries; query += DapeCall::block_queries) {
    const int64_t count = std::min(DapeCall::block_queries, problem.queries - query);
    // Without positions, the keys after the last that a query sees are left out.
    const int64_t keys =
        plan.keys ? problem.keys : internal::visible_keys(problem, 0, query + count - 1).end;
    call.adapt(query, count, keys);
    AttentionPlan of_block{.mask = plan.mask, .softmax = plan.softmax};
    of_block.mask.offset = problem.mask.offset + query;
    of_block.softmax.scale = problem.softmax.scale;
    of_block.bias = DenseBias{call.adapted(count, keys)};
    if (plan.queries) {
      of_block.queries = std::make_shared<Positions>(rows_of(*plan.queries, query, count));
      of_block.keys = plan.keys;
    }
    body(query, count, keys, of_block);
  }
}

template <typename T>
void attend(const AttentionInput& input, const AttentionPlan& plan, const Dape& dape,
            const DapeNetwork<const float>& network, const Tensor& out_tensor,
            const Tensor& lse_tensor) {
  const Setting setting = Setting::of<T>(input, plan);
  const internal::AttentionProblem& problem = setting.problem;
  check_network(dape, network, problem);
  const FloatResult<T> out("out", out_tensor,
                           {problem.batch, problem.queries, problem.heads, problem.value_dim});
  const auto lse = internal::write_if<float, 3>(dape_argument("lse"), lse_tensor);
  if (lse.data())
    internal::check_shape<3>(dape_operation, "lse", lse.extents(),
                             {problem.batch, problem.heads, problem.queries});
  const auto &q = setting.q.view, &k = setting.k.view, &v = setting.v.view;
  DapeCall call(problem, dape, network, q, k, internal::DapePass::forward);
  for_blocks(setting, plan, call,
             [&](int64_t query, int64_t count, int64_t keys, const AttentionPlan& of_block) {
               attention({q.slice(1, query, count), k.slice(1, 0, keys), v.slice(1, 0, keys)},
                         of_block, out.view.slice(1, query, count),
                         lse.data() ? lse.slice(2, query, count) : lse);
             });
  out.finish();
}

void add_rows(View<const float, 4> from, View<float, 4> to) {
  parallel_for(from.extent(1), 16, [&](int64_t begin, int64_t end) {
    for (std::ptrdiff_t b = 0; b < from.extent(0); ++b)
      for (std::int64_t t = begin; t < end; ++t)
        for (std::ptrdiff_t h = 0; h < from.extent(2); ++h)
          for (std::ptrdiff_t d = 0; d < from.extent(3); ++d)
            to(b, t, h, d) += from(b, t, h, d);
  });
}

void store_network(const DapeSums& sums, const DapeNetwork<float>& to) {
  if (!to.first.data()) return;
  const double* from = sums.network.data();
  for (std::ptrdiff_t m = 0; m < to.first.extent(0); ++m)
    for (std::ptrdiff_t n = 0; n < to.first.extent(1); ++n)
      to.first(m, n) = static_cast<float>(*from++);
  for (std::ptrdiff_t h = 0; h < to.second.extent(0); ++h)
    for (std::ptrdiff_t m = 0; m < to.second.extent(1); ++m)
      to.second(h, m) = static_cast<float>(*from++);
  for (const View<float, 1>& one : {to.first_bias, to.second_bias})
    for (std::ptrdiff_t n = 0; n < one.extent(0); ++n) one(n) = static_cast<float>(*from++);
}

template <typename T>
void attend_backward(const AttentionInput& input, const AttentionPlan& plan, const Dape& dape,
                     const DapeNetwork<const float>& network, const ConstTensor& out_tensor,
                     const ConstTensor& lse_tensor, const ConstTensor& out_grad_tensor,
                     const DapeGradient& gradient) {
  const Setting setting = Setting::of<T>(input, plan);
  const internal::AttentionProblem& problem = setting.problem;
  check_network(dape, network, problem);
  if (gradient.network.first.data())
    check_network(dape,
                  {gradient.network.first, gradient.network.first_bias, gradient.network.second,
                   gradient.network.second_bias},
                  problem);
  const auto &q = setting.q.view, &k = setting.k.view, &v = setting.v.view;
  const std::array<std::int64_t, 4> of_out{problem.batch, problem.queries, problem.heads,
                                           problem.value_dim};
  const FloatRows out = FloatRows::of<T>("out", out_tensor),
                  out_grad = FloatRows::of<T>("out_grad", out_grad_tensor);
  internal::check_shape<4>(dape_operation, "out", out.view.extents(), of_out);
  internal::check_shape<4>(dape_operation, "out_grad", out_grad.view.extents(), of_out);
  const auto lse = internal::read<float, 3>(dape_argument("lse"), lse_tensor);
  internal::check_shape<3>(dape_operation, "lse", lse.extents(),
                           {problem.batch, problem.heads, problem.queries});
  const FloatResult<T> q_grad("the gradient of q", gradient.q, q.extents()),
      k_grad("the gradient of k", gradient.k, k.extents()),
      v_grad("the gradient of v", gradient.v, v.extents());
  if (!gradient.sinks.empty() && gradient.sinks.size() != plan.softmax.sinks.size())
    refuse(dape_operation, "the gradient of the sinks must be as long as the sinks",
           static_cast<int64_t>(gradient.sinks.size()));
  std::fill(gradient.sinks.begin(), gradient.sinks.end(), 0.0);
  const int64_t numbers = gradient.bias ? gradient_size(plan.bias) : 0;
  DapeCall call(
      problem, dape, network, q, k,
      numbers ? internal::DapePass::backward_with_bias : internal::DapePass::backward);
  DapeSums sums(problem, dape, numbers, gradient.network.first.data() != nullptr);
  FloatRows k_sum(k.extents()), v_sum(v.extents());
  FloatRows k_block(k.extents()), v_block(v.extents());
  std::vector<double> sinks(gradient.sinks.size());
  for_blocks(setting, plan, call,
             [&](int64_t query, int64_t count, int64_t keys, const AttentionPlan& of_block) {
               BiasGradient of_scores{.values = {}, .dense = call.score_grad(count, keys)};
               const auto rows = q_grad.view.slice(1, query, count);
               const auto k_rows = k_block.own.slice(1, 0, keys);
               const auto v_rows = v_block.own.slice(1, 0, keys);
               attention_backward(
                   {q.slice(1, query, count), k.slice(1, 0, keys), v.slice(1, 0, keys)},
                   of_block, out.view.slice(1, query, count), lse.slice(2, query, count),
                   out_grad.view.slice(1, query, count),
                   {.q = rows, .k = k_rows, .v = v_rows, .bias = &of_scores, .sinks = sinks});
               add_rows(k_rows, k_sum.own), add_rows(v_rows, v_sum.own);
               for (std::size_t n = 0; n < sinks.size(); ++n) gradient.sinks[n] += sinks[n];
               call.backward(query, count, keys, rows, sums);
             });
  call.add_key_grad(sums, k_sum.own);
  round_rows<float>(k_sum.view, k_grad.view), round_rows<float>(v_sum.view, v_grad.view);
  q_grad.finish(), k_grad.finish(), v_grad.finish();
  if (gradient.bias) gradient.bias->values = std::move(sums.bias);
  store_network(sums, gradient.network);
}

// Calls body(T{}) with the type of q, which is not double: the network computes in floats.
template <typename Body>
void by_float_type(const ConstTensor& q, const Body& body) {
  if (q.holds<float>()) return body(float{});
  if (q.holds<BFloat16>()) return body(BFloat16{});
  if (q.holds<Half>()) return body(Half{});
  internal::refuse_type(dape_argument("q"), "f32, f16 or bf16", q.dtype);
}

}  // namespace

void dape_attention(const AttentionInput& input, const AttentionPlan& plan, const Dape& dape,
                    const DapeNetwork<const float>& network, const Tensor& out,
                    const Tensor& lse) {
  by_float_type(input.q,
                [&]<typename T>(T) { attend<T>(input, plan, dape, network, out, lse); });
}

void dape_attention_backward(const AttentionInput& input, const AttentionPlan& plan,
                             const Dape& dape, const DapeNetwork<const float>& network,
                             const ConstTensor& out, const ConstTensor& lse,
                             const ConstTensor& out_grad, const DapeGradient& gradient) {
  by_float_type(input.q, [&]<typename T>(T) {
    attend_backward<T>(input, plan, dape, network, out, lse, out_grad, gradient);
  });
}

}  // namespace gnomon
