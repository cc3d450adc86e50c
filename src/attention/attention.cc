#include "gnomon/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <string>

#include "gnomon/error.h"
#include "src/attention/channel_gates.h"
#include "src/attention/check.h"
#include "src/attention/key_elements.h"
#include "src/attention/key_terms.h"
#include "src/attention/problem.h"
#include "src/attention/product.h"
#include "src/attention/ragged.h"
#include "src/attention/tile.h"
#include "src/attention/token_rotation.h"
#include "src/attention/written.h"
#include "src/core/overloaded.h"
#include "src/core/size.h"
#include "src/core/tensor.h"

namespace gnomon {
namespace {

using std::int64_t;

constexpr internal::Argument named(std::string_view name) { return {"attention", name}; }

using Extents = std::array<int64_t, 4>;

// Checks rank, type, device, extents, and that the last axis is contiguous.
void check_heads(std::string_view name, const ConstTensor& tensor, const Extents& wanted,
                 DataType type) {
  internal::check_tensor(named(name), tensor, 4, type);
  for (std::size_t axis = 0; axis < 4; ++axis)
    if (tensor.shape[axis] != wanted[axis])
      refuse("attention",
             "axis " + std::to_string(axis) + " of " + std::string(name) + " must be " +
                 std::to_string(wanted[axis]),
             tensor.shape[axis]);
  if (tensor.extent(3) > 1 && tensor.stride(3) != 1)
    refuse("attention", "the last axis of " + std::string(name) + " must have stride 1",
           tensor.stride(3));
}

void check_places_of(std::string_view name, const Tensor& written) {
  if (!internal::in_row_major_order(written)) internal::check_own_places(named(name), written);
}

template <typename T, std::size_t Rank>
void check_shape(std::string_view name, View<T, Rank> tensor,
                 const std::array<std::int64_t, Rank>& wanted) {
  for (std::size_t axis = 0; axis < Rank; ++axis)
    if (tensor.extent(axis) != wanted[axis])
      refuse("attention",
             "axis " + std::to_string(axis) + " of " + std::string(name) + " must be " +
                 std::to_string(wanted[axis]),
             int64_t{tensor.extent(axis)});
}

DType dtype(DataType type) {
  if (type == data_type_of<double>) return DType::f64;
  if (type == data_type_of<Half>) return DType::f16;
  if (type == data_type_of<BFloat16>) return DType::bf16;
  return type == data_type_of<float> ? DType::f32 : DType{};  // int8 and E4M3 have scales
}
internal::Operand operand(const ConstTensor& tensor, View<const float, 3> scales = {}) {
  return {.data = tensor.start(),
          .strides = {tensor.stride(0), tensor.stride(1), tensor.stride(2)},
          .dtype = dtype(tensor.dtype),
          .scales = scales,
          .e4m3 = internal::is_e4m3(tensor)};
}
internal::Result result(const Tensor& tensor) {
  return {.data = tensor.start(),
          .strides = {tensor.stride(0), tensor.stride(1), tensor.stride(2)},
          .dtype = dtype(tensor.dtype)};
}

void describe(const AttentionInput& input, const AttentionPlan& plan, const RaggedBatch& ragged,
              internal::AttentionProblem& problem) {
  const ConstTensor &q = input.q, &k = input.k, &v = input.v;
  internal::by_type(named("q"), q, [](auto) {});
  for (const auto& [name, tensor] : {std::pair("q", &q), {"k", &k}, {"v", &v}})
    internal::check_tensor(named(name), *tensor, 4);
  internal::check_type_of_keys("k", q, k, input.k_scales);
  internal::check_type_of_keys("v", q, v, input.v_scales);
  if (v.dtype != k.dtype)
    internal::refuse_type(named("v"), name(k.dtype) + ", as k has", v.dtype);
  check_heads("q", q, {q.extent(0), q.extent(1), q.extent(2), q.extent(3)}, q.dtype);
  const int64_t batch_of_keys = ragged.empty() ? q.extent(0) : k.extent(0);
  check_heads("k", k, {batch_of_keys, k.extent(1), k.extent(2), q.extent(3)}, k.dtype);
  check_heads("v", v, {batch_of_keys, k.extent(1), k.extent(2), v.extent(3)}, v.dtype);
  problem.batch = q.extent(0), problem.queries = q.extent(1), problem.heads = q.extent(2);
  problem.rows = q.extent(1);
  problem.size = problem.head_dim = q.extent(3);
  problem.keys = k.extent(1), problem.key_heads = k.extent(2);
  problem.value_dim = v.extent(3);
  problem.q = operand(q);
  problem.k = operand(k, internal::scales_of("the scales of k", input.k_scales, k));
  problem.v = operand(v, internal::scales_of("the scales of v", input.v_scales, v));
  const int64_t queries = ragged.empty() ? problem.queries : 0;  // else each has an offset
  problem.mask = internal::known_mask(plan, queries, problem.keys);
  if (!ragged.empty()) internal::take_ragged(input, ragged, problem);
  problem.softmax.scale = plan.softmax.scale.value_or(
      problem.head_dim < 1 ? 1 : plan.softmax.factor * softmax_scale(problem.head_dim));
  problem.softmax.cap = plan.softmax.cap;
  problem.softmax.rounds_weights = plan.softmax.rounds_weights;
  problem.softmax.sinks = plan.softmax.sinks;
  problem.softmax.query_sinks = internal::read_if<float, 3>(named("sinks"), input.terms.sinks);
  problem.needs_gates = plan.gated, problem.needs_key_slopes = plan.key_slopes;
  if (plan.polar) problem.size = 2 * problem.head_dim;
  problem.position = {
      .query_rotary = plan.query_rotary ? &*plan.query_rotary : nullptr,
      .key_rotary = plan.key_rotary ? &*plan.key_rotary : nullptr,
      .bias = &plan.bias,
      .relative = plan.relative.empty() ? nullptr : &plan.relative,
      .gates = internal::read_if<float, 3>(named("gates"), input.terms.gates),
      .log_gates = internal::read_if<float, 3>(named("log_gates"), input.terms.log_gates),
      .key_slopes = internal::read_if<float, 3>(named("key_slopes"), input.terms.key_slopes),
      .relative_queries =
          internal::read_if<float, 4>(named("relative_queries"), input.terms.relative_queries),
      .cumulative = plan.cumulative ? &*plan.cumulative : nullptr,
      .polar = plan.polar ? &*plan.polar : nullptr,
      .queries = plan.queries.get(),
      .keys = plan.keys.get(),
  };
  problem.stick_breaking = plan.stick_breaking.has_value();
  if (plan.stick_breaking && plan.stick_breaking->own_key != OwnKey::excluded &&
      plan.stick_breaking->own_key != OwnKey::included)
    refuse("attention", "own_key must be excluded or included",
           static_cast<int>(plan.stick_breaking->own_key));
  internal::take_edges(plan, input.terms, problem);
  internal::check(problem);
  if (problem.walks() && (plan.product != PairProduct::dot || plan.polar))
    refuse("attention",
           "contextual vectors, edges and stick-breaking require plain dot products of queries "
           "and keys",
           "another product");
  if (plan.mask.rate > 1 && plan.product != PairProduct::dot)
    refuse("attention", "a rate above 1 requires plain dot products of queries and keys",
           plan.mask.rate);
  internal::take_product(plan, input.terms, problem);
  if (plan.stick_breaking && plan.stick_breaking->own_key == OwnKey::excluded) {
    // The last row that a query sees is the row before its own.
    --problem.mask.offset;
    if (problem.mask.left) --*problem.mask.left;
  }
}

internal::IdRange range_of(const std::vector<int64_t>& ids) {
  if (ids.empty()) return {};
  const auto [least, most] = std::minmax_element(ids.begin(), ids.end());
  return {*least, *most};
}

// Prepares relative vectors, and biases that fill tiles themselves.
template <typename A>
void prepare_position(internal::TypedProblem<A>& problem) {
  if (problem.position.cumulative)
    problem.cumulative =
        internal::cumulative_sums(problem.position.log_gates, problem.position.keys);
  if (problem.edges.bias) problem.edge_rows.emplace(problem);
  if (problem.position.relative)  // products of packed rows are in units of ln 2
    problem.relative = internal::PreparedRelative<A>(
        *problem.position.relative, problem.softmax.scale * std::numbers::log2e);
  if (problem.channel_gates.data()) problem.gate_tiles = internal::sums_of_tiles(problem);
  const auto& position = problem.position;
  if (position.polar)
    for (const double phase : position.polar->phases) {
      problem.phase_cos.push_back(static_cast<A>(std::cos(phase)));
      problem.phase_sin.push_back(static_cast<A>(std::sin(phase)));
    }
  internal::IdRange queries, keys;
  const auto find_ids = [&] {
    if (problem.ragged) {
      problem.key_ids.resize(static_cast<std::size_t>(problem.keys));
      std::iota(problem.key_ids.begin(), problem.key_ids.end(), int64_t{0});
      queries = internal::query_range(problem), keys = range_of(problem.key_ids);
      return;
    }
    if (!position.queries) {
      problem.query_ids.resize(static_cast<std::size_t>(problem.queries));
      std::iota(problem.query_ids.begin(), problem.query_ids.end(), problem.mask.offset);
      problem.key_ids.resize(static_cast<std::size_t>(problem.keys));
      std::iota(problem.key_ids.begin(), problem.key_ids.end(), int64_t{0});
    }
    queries = range_of(position.queries ? position.queries->ids : problem.query_ids);
    keys = range_of(position.keys ? position.keys->ids : problem.key_ids);
  };
  const auto prepare_tiles = [&](const auto& form, auto& prepared) {
    find_ids();
    prepared = internal::prepare<A>(form, queries, keys);
  };
  std::visit(
      internal::Overloaded{
          [](const NoBias&) {}, [](const SlopeBias&) {}, [](const StripBias&) {},
          [](const DenseBias&) {},
          [&](const GridBias& form) { prepare_tiles(form, problem.grid); },
          [&](const PiecewiseLogBias& form) { prepare_tiles(form, problem.piecewise_log); },
          [&](const AxesBias& form) { prepare_tiles(form, problem.axes); }},
      *position.bias);
}

// Returns sums [B, Hq, parts, count], added over batch and parts in order.
std::vector<double> added(const internal::AttentionProblem& problem,
                          const std::vector<double>& sums, int64_t count) {
  std::vector<double> total(
      internal::checked_size("attention", "heads x values", {problem.heads, count}));
  if (total.empty()) return total;
  const auto rows = static_cast<int64_t>(sums.size()) / count;
  const int64_t parts = problem.batch ? rows / (problem.batch * problem.heads) : 1;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t n = 0; n < count; ++n)
      total[static_cast<std::size_t>(row / parts % problem.heads * count + n)] +=
          sums[static_cast<std::size_t>(row * count + n)];
  return total;
}

// Packed queries include the factor of the scores, packed keys do not.
template <typename A, typename T>
RelativeGradient relative_total(const internal::BackwardProblem<A>& problem,
                                View<const T, 4> q_grad) {
  RelativeGradient total;
  const auto sum = [&](const auto& tables, const internal::RelativeSums<A>& sums, double factor,
                       std::vector<std::vector<double>>& to) {
    for (std::size_t t = 0; t < tables.size(); ++t)
      to.push_back(tables[t].total(sums.of_table[t].data(),
                                   problem.batch * problem.heads * problem.parts, problem.parts,
                                   problem.heads, factor));
  };
  sum(problem.relative.keys, problem.key_vectors, std::numbers::ln2, total.keys);
  sum(problem.relative.queries, problem.query_vectors, problem.softmax.scale, total.queries);
  sum(problem.relative.values, problem.value_vectors, 1, total.values);
  if (problem.contextual_sums)
    total.contextual = problem.relative.contextual.total(
        problem.contextual_sums, problem.batch * problem.heads * problem.parts, problem.parts,
        problem.heads, std::numbers::ln2 / problem.softmax.scale);
  sum(problem.relative.projected, problem.projected_vectors, std::numbers::ln2,
      total.projected);
  total.shift.resize(problem.relative.shift.size());
  if (!total.shift.empty())
    for (int64_t b = 0; b < problem.batch; ++b)
      for (int64_t i = 0; i < problem.queries; ++i)
        for (int64_t h = 0; h < problem.heads; ++h)
          for (int64_t d = 0; d < problem.size; ++d)
            total.shift[static_cast<std::size_t>(h * problem.size + d)] +=
                static_cast<double>(static_cast<Accumulator<T>>(q_grad(b, i, h, d)));
  return total;
}

}  // namespace

double softmax_scale(int64_t head_dim) {
  if (head_dim < 1) refuse("attention", "head_dim must be at least 1", head_dim);
  return 1 / std::sqrt(static_cast<double>(head_dim));
}

namespace {

template <typename T>
void forward(const AttentionInput& input, const AttentionPlan& plan, const RaggedBatch& ragged,
             const Tensor& out, const Tensor& lse) {
  using A = Accumulator<T>;
  internal::ForwardProblem<A> problem;
  describe(input, plan, ragged, problem);
  const ConstTensor& q = input.q;
  check_heads("out", out, {q.extent(0), q.extent(1), q.extent(2), problem.value_dim}, q.dtype);
  check_places_of("out", out);
  problem.out = result(out);
  problem.out.places = problem.q.places;
  problem.lse = internal::write_if<A, 3>(named("lse"), lse);
  if (lse.has_data()) check_shape("lse", problem.lse, {q.extent(0), q.extent(2), q.extent(1)});
  internal::check_written({{"out", &out}, {"lse", &lse}}, input,
                          {{"block_table", &ragged.block_table}});
  prepare_position(problem);
  internal::run_forward(problem);
}

template <typename T>
void backward(const AttentionInput& input, const AttentionPlan& plan, const ConstTensor& out,
              const ConstTensor& lse, const ConstTensor& out_grad,
              const AttentionGradient& gradient) {
  using A = Accumulator<T>;
  internal::BackwardProblem<A> problem;
  describe(input, plan, {}, problem);
  const ConstTensor &q = input.q, &k = input.k, &v = input.v;
  if (k.dtype != q.dtype)
    internal::refuse_type(named("k"), name(q.dtype) + ", as q has, for gradients", k.dtype);
  const Extents of_out = {q.extent(0), q.extent(1), q.extent(2), v.extent(3)};
  const auto extents = [](const ConstTensor& tensor) {
    return Extents{tensor.extent(0), tensor.extent(1), tensor.extent(2), tensor.extent(3)};
  };
  check_heads("out", out, of_out, q.dtype);
  check_heads("out_grad", out_grad, of_out, q.dtype);
  problem.lse = internal::read<A, 3>(named("lse"), lse);
  check_shape("lse", problem.lse, {q.extent(0), q.extent(2), q.extent(1)});
  check_heads("the gradient of q", gradient.q, extents(q), q.dtype);
  check_heads("the gradient of k", gradient.k, extents(k), q.dtype);
  check_heads("the gradient of v", gradient.v, extents(v), q.dtype);
  check_places_of("the gradient of q", gradient.q);
  check_places_of("the gradient of k", gradient.k);
  check_places_of("the gradient of v", gradient.v);
  internal::check_written({{"the gradient of q", &gradient.q},
                           {"the gradient of k", &gradient.k},
                           {"the gradient of v", &gradient.v}},
                          input, {{"out", &out}, {"lse", &lse}, {"out_grad", &out_grad}});

  BiasGradient* const bias_grad = gradient.bias;
  int64_t numbers = 0;  // elements of the bias for each head
  if (bias_grad) {
    numbers = gnomon::gradient_size(plan.bias);
    if (std::holds_alternative<DenseBias>(plan.bias) && bias_grad->dense.data()) {
      check_shape("bias_grad.dense", bias_grad->dense,
                  {q.extent(0), q.extent(2), q.extent(1), k.extent(1)});
      problem.dense_grad = bias_grad->dense;
    }
  }
  const std::span<double> sinks_grad = gradient.sinks;
  if (!sinks_grad.empty() && sinks_grad.size() != plan.softmax.sinks.size())
    refuse("attention", "the gradient of the sinks must be as long as the sinks",
           static_cast<int64_t>(sinks_grad.size()));
  problem.parts = internal::BackwardPlan(problem).parts;
  const auto sums_of = [&](int64_t count) {
    return std::vector<double>(
        internal::checked_size("attention", "batch x heads x parts x values",
                               {problem.batch, problem.heads, problem.parts, count}));
  };
  std::vector<double> bias_sums = sums_of(numbers);
  std::vector<double> sink_sums = sums_of(sinks_grad.empty() ? 0 : 1);
  const std::span<double> phases_grad = gradient.phases;
  if (!phases_grad.empty() && (!plan.polar || phases_grad.size() != plan.polar->phases.size()))
    refuse("attention", "the gradient of the phases must be as long as the phases",
           static_cast<int64_t>(phases_grad.size()));
  std::vector<double> phase_sums = sums_of(phases_grad.empty() ? 0 : problem.head_dim);
  problem.phase_sums = phase_sums.empty() ? nullptr : phase_sums.data();
  problem.bias_sums = bias_sums.empty() ? nullptr : bias_sums.data();
  problem.bias_numbers = numbers;
  problem.sink_sums = sink_sums.empty() ? nullptr : sink_sums.data();
  problem.out = operand(out), problem.out_grad = operand(out_grad);
  problem.q_grad = result(gradient.q), problem.k_grad = result(gradient.k);
  problem.v_grad = result(gradient.v);
  for (std::ptrdiff_t b = 0; b < problem.dense_grad.extent(0); ++b)
    for (std::ptrdiff_t h = 0; h < problem.dense_grad.extent(1); ++h)
      for (std::ptrdiff_t i = 0; i < problem.dense_grad.extent(2); ++i)
        for (std::ptrdiff_t j = 0; j < problem.dense_grad.extent(3); ++j)
          problem.dense_grad(b, h, i, j) = 0;
  prepare_position(problem);
  RelativeGradient* const relative_grad = gradient.relative;
  const int64_t each = problem.batch * problem.heads * problem.parts;
  if (relative_grad) {
    problem.key_vectors = {problem.relative.keys, each};
    problem.query_vectors = {problem.relative.queries, each};
    problem.value_vectors = {problem.relative.values, each};
    problem.projected_vectors = {problem.relative.projected, each};
  }
  std::optional<internal::Numbers<A>> contextual_sums;
  if (relative_grad && problem.contextual_positions()) {
    contextual_sums.emplace(each * problem.relative.contextual.numbers());
    problem.contextual_sums = contextual_sums->data();
  }
  problem.relative_query_grad = internal::term_gradient(
      "relative_queries", gradient.terms.relative_queries, problem.position.relative_queries);
  problem.query_sink_grad =
      internal::term_gradient("sinks", gradient.terms.sinks, problem.softmax.query_sinks);
  std::vector<double> gate_sums;
  const auto gates_grad =
      internal::write_if<float, 3>(named("the gradient of the gates"), gradient.terms.gates);
  if (gates_grad.data()) {
    check_shape("the gradient of the gates", gates_grad,
                {q.extent(0), q.extent(2), q.extent(1)});
    gate_sums.resize(static_cast<std::size_t>(gates_grad.size()));
    problem.gate_sums = gate_sums.data();
  }
  internal::take_product_gradients(gradient.terms, problem);
  const internal::KeyTermSums<A> key_terms(gradient.terms, problem);
  const internal::EdgeGradients<A> edges(gradient.terms, problem);
  internal::run_backward(problem);
  key_terms.finish(), edges.finish();
  if (bias_grad) bias_grad->values = added(problem, bias_sums, numbers);
  if (relative_grad) *relative_grad = relative_total(problem, view<const T, 4>(gradient.q));
  for (std::size_t n = 0; n < gate_sums.size(); ++n) {
    const auto i = static_cast<int64_t>(n), of_head = i / problem.queries;
    gates_grad(of_head / problem.heads, of_head % problem.heads, i % problem.queries) =
        static_cast<float>(gate_sums[n]);
  }
  if (!phases_grad.empty()) {
    const std::vector<double> total = added(problem, phase_sums, problem.head_dim);
    std::copy(total.begin(), total.end(), phases_grad.begin());
  }
  if (!sinks_grad.empty()) {
    const std::vector<double> total = added(problem, sink_sums, 1);
    std::copy(total.begin(), total.end(), sinks_grad.begin());
  }
}

}  // namespace

void internal::attend(const AttentionInput& input, const AttentionPlan& plan,
                      const RaggedBatch& ragged, const Tensor& out, const Tensor& lse) {
  check_ragged_plan(plan, ragged, input.terms);
  const RotatedInput rotated(input, plan);
  by_type(named("q"), input.q,
          [&]<typename T>(T) { forward<T>(rotated.input(), plan, ragged, out, lse); });
}

void attention(const AttentionInput& input, const AttentionPlan& plan, const Tensor& out,
               const Tensor& lse) {
  internal::attend(input, plan, plan.ragged, out, lse);
}

std::string explain_attention(const AttentionInput& input, const AttentionPlan& plan) {
  internal::check_ragged_plan(plan, plan.ragged, input.terms);
  const internal::RotatedInput rotated(input, plan);
  std::string text;
  internal::by_type(named("q"), input.q, [&]<typename T>(T) {
    internal::ForwardProblem<Accumulator<T>> problem;
    describe(rotated.input(), plan, plan.ragged, problem);
    text = internal::explain(problem);
  });
  return text;
}

void attention_backward(const AttentionInput& input, const AttentionPlan& plan,
                        const ConstTensor& out, const ConstTensor& lse,
                        const ConstTensor& out_grad, const AttentionGradient& gradient) {
  internal::refuse_ragged("attention_backward", plan);
  const internal::RotatedInput rotated(input, plan);
  internal::by_type(named("q"), input.q, [&]<typename T>(T) {
    backward<T>(rotated.input(), plan, out, lse, out_grad, gradient);
  });
  rotated.backward(gradient);
}

}  // namespace gnomon
