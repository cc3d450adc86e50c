// Lowering of the encodings of this room, and its gradient, as executed once per call of
// attention: causal windows of T tokens, 8 heads, D = 64. The roof is the multiply-adds of the
// projections, or the bytes of the tables.
#include <benchmark/benchmark.h>

#include "gnomon/relative/deberta.h"
#include "gnomon/relative/decomposed.h"
#include "gnomon/relative/shaw.h"
#include "gnomon/relative/transformer_xl.h"
#include "testing.h"

namespace gnomon {
namespace {

using testing::Tensor;

constexpr std::int64_t heads = 8, head_dim = 64, width = heads * head_dim;

Tensor<float, 2> matrix(std::int64_t rows, std::int64_t columns) {
  return testing::random_tensor<float, 2>({rows, columns});
}

// Random values with the shape of a form's gradient.
RelativeGradient like(const RelativeForm& form) {
  RelativeGradient grad;
  for (const auto& table : form.keys) grad.keys.push_back(table.values);
  for (const auto& table : form.queries) grad.queries.push_back(table.values);
  for (const auto& table : form.values) grad.values.push_back(table.values);
  grad.shift = form.shift;
  return grad;
}

void multiply_adds(benchmark::State& state, std::int64_t each) {
  state.counters["multiply_adds/s"] = benchmark::Counter(
      static_cast<double>(each * state.iterations()), benchmark::Counter::kIsRate);
}

struct OfXl {
  TransformerXl spec{
      .heads = heads, .head_dim = head_dim, .width = width, .sinusoid = XlSinusoid::half_split};
  Tensor<float, 2> w = matrix(width, width), u = matrix(heads, head_dim), v = u;
  XlWeights weights() const { return {w.view(), u.view(), v.view()}; }
};

void transformer_xl_lower(benchmark::State& state) {
  const OfXl xl;
  const std::int64_t tokens = state.range(0);
  for (auto _ : state)
    benchmark::DoNotOptimize(lower(xl.spec, xl.weights(), 1 - tokens, tokens, 0.125));
  multiply_adds(state, tokens * width * width);
}
BENCHMARK(transformer_xl_lower)->Arg(128)->Arg(1024);

void transformer_xl_lower_backward(benchmark::State& state) {
  const OfXl xl;
  OfXl grads;
  const std::int64_t tokens = state.range(0);
  const TransformerXlPlan plan = lower(xl.spec, xl.weights(), 1 - tokens, tokens, 0.125);
  const RelativeGradient grad = like(plan.form);
  for (auto _ : state)
    lower_backward(xl.spec, xl.weights(), 1 - tokens, tokens, 0.125, grad, plan.strip,
                   {grads.w.view(), grads.u.view(), grads.v.view()});
  multiply_adds(state, 2 * tokens * width * width);
}
BENCHMARK(transformer_xl_lower_backward)->Arg(128)->Arg(1024);

struct OfDeberta {
  Deberta spec{.heads = heads,
               .head_dim = head_dim,
               .width = width,
               .span = 256,
               .distance = DebertaDistance::logarithmic,
               .norm_epsilon = 1e-7};
  Tensor<float, 2> embeddings = matrix(512, width), key = matrix(width, width), query = key,
                   bias = matrix(1, width), norm = bias;
  DebertaGradients views() {
    return {.embeddings = embeddings.view(),
            .key = key.view(),
            .query = query.view(),
            .query_bias = bias.view(),
            .norm_weight = norm.view(),
            .norm_bias = norm.view()};
  }
  DebertaWeights weights() {
    const DebertaGradients all = views();
    return {.embeddings = all.embeddings,
            .key = all.key,
            .query = all.query,
            .query_bias = all.query_bias,
            .norm_weight = all.norm_weight,
            .norm_bias = all.norm_bias};
  }
};

void deberta_lower(benchmark::State& state) {
  OfDeberta deberta;
  const std::int64_t tokens = state.range(0);
  for (auto _ : state)
    benchmark::DoNotOptimize(
        lower(deberta.spec, deberta.weights(), 1 - tokens, 2 * tokens - 1));
  multiply_adds(state, 2 * std::min<std::int64_t>(2 * tokens, 512) * width * width);
}
BENCHMARK(deberta_lower)->Arg(128)->Arg(1024);

void deberta_lower_backward(benchmark::State& state) {
  OfDeberta deberta, grads;
  const std::int64_t tokens = state.range(0), count = 2 * tokens - 1;
  const RelativeGradient grad = like(lower(deberta.spec, deberta.weights(), 1 - tokens, count));
  for (auto _ : state)
    lower_backward(deberta.spec, deberta.weights(), 1 - tokens, count, grad, grads.views());
  multiply_adds(state, 4 * std::min<std::int64_t>(2 * tokens, 512) * width * width);
}
BENCHMARK(deberta_lower_backward)->Arg(128)->Arg(1024);

void shaw_lower(benchmark::State& state) {
  const Shaw shaw = bert_relative_key_query(head_dim, state.range(0));
  const Tensor<float, 2> table = matrix(vectors(shaw), head_dim);
  const std::int64_t last = state.range(0) - 1;
  for (auto _ : state)
    benchmark::DoNotOptimize(lower(shaw, {table.view(), {}}, -last, 2 * last + 1));
  state.SetBytesProcessed(state.iterations() * vectors(shaw) * head_dim * (4 + 2 * 8));
}
BENCHMARK(shaw_lower)->Arg(128)->Arg(1024);

void decomposed_lower(benchmark::State& state) {
  const Decomposed window{
      .head_dim = head_dim, .height = state.range(0), .width = state.range(0)};
  const Tensor<float, 2> table = matrix(table_height(window), head_dim);
  for (auto _ : state)
    benchmark::DoNotOptimize(lower(window, {table.view(), table.view()}, 0.125));
  state.SetBytesProcessed(state.iterations() * 2 * table_height(window) * head_dim * (4 + 8));
}
BENCHMARK(decomposed_lower)->Arg(14)->Arg(64);

}  // namespace
}  // namespace gnomon
