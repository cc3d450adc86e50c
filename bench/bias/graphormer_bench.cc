// Graphormer's matrix [32, T, T] for a ring with a chord at every tenth node, against its roof,
// the same bytes filled. Arguments: nodes, hops.
#include "gnomon/bias/graphormer.h"

#include <benchmark/benchmark.h>

#include "bench/roof.h"
#include "testing.h"

namespace gnomon {
namespace {

using testing::Tensor;

constexpr std::int64_t heads = 32;

struct Case {
  Graphormer spec;
  std::vector<std::int64_t> ends;
  Graph graph;
  GraphormerIndices indices;
  Tensor<float, 2> spatial, edges;
  Tensor<float, 1> token{{heads}};
  Tensor<float, 3> hops, matrix;
  Tensor<std::int64_t, 2> features;

  explicit Case(const benchmark::State& state)
      : spec(graphormer_released(heads)),
        spatial({spec.unreachable + 2, heads}),
        edges({spec.edge_rows, heads}),
        hops({state.range(1), heads, heads}),
        matrix({heads, state.range(0) + 1, state.range(0) + 1}),
        features({state.range(0) + state.range(0) / 10, 3}, 1) {
    spec.hops = state.range(1);
    if (!spec.hops) spec.edge_rows = 0;
    const std::int64_t nodes = state.range(0);
    for (std::int64_t i = 0; i < nodes; ++i) ends.insert(ends.end(), {i, (i + 1) % nodes});
    for (std::int64_t i = 0; i < nodes / 10; ++i)
      ends.insert(ends.end(), {10 * i, (10 * i + nodes / 2) % nodes});
    graph = Graph(nodes, {ends.data(), {static_cast<std::ptrdiff_t>(ends.size() / 2), 2}},
                  EdgeKind::undirected);
    indices = graphormer_indices(spec, graph);
  }
  GraphormerTables<const float> tables() const {
    return {spatial.view(), token.view(), edges.view(), hops.view()};
  }
  GraphormerInput input() const { return {features.view(), {}}; }
};

void count(benchmark::State& state) {
  const std::int64_t side = state.range(0) + 1;
  state.SetBytesProcessed(state.iterations() * heads * side * side * 4);
}

void sizes(benchmark::internal::Benchmark* one) {
  for (const std::int64_t nodes : {30, 300})
    for (const std::int64_t hops : {0, 5}) one->Args({nodes, hops});
  one->UseRealTime();
}

void graphormer_fill(benchmark::State& state) {
  Case one(state);
  for (auto _ : state) {
    fill(one.spec, one.indices, one.tables(), one.input(), one.matrix.view());
    benchmark::ClobberMemory();
  }
  count(state);
}
BENCHMARK(graphormer_fill)->Apply(sizes);

void graphormer_fill_backward(benchmark::State& state) {
  Case one(state);
  Tensor<float, 2> spatial(one.spatial.extents), edges(one.edges.extents);
  Tensor<float, 1> token(one.token.extents);
  Tensor<float, 3> hops(one.hops.extents);
  for (auto _ : state) {
    fill_backward(one.spec, one.indices, one.tables(), one.input(), one.matrix.view(),
                  {spatial.view(), token.view(), edges.view(), hops.view()});
    benchmark::ClobberMemory();
  }
  count(state);
}
BENCHMARK(graphormer_fill_backward)->Apply(sizes);

void graphormer_roof(benchmark::State& state) {
  const std::int64_t side = state.range(0) + 1;
  Tensor<float, 3> matrix({heads, side, side});
  for (auto _ : state) {
    roof::fill(matrix.values.data(), matrix.bytes());
    benchmark::ClobberMemory();
  }
  count(state);
}
BENCHMARK(graphormer_roof)->Apply(sizes);

}  // namespace
}  // namespace gnomon
