// Shortest paths of a grid of side x side nodes, compared with their roof: writing 8 bytes per
// pair. A breadth-first search visits four arcs per pair.
#include "gnomon/position/graph.h"

#include <benchmark/benchmark.h>

namespace gnomon {
namespace {

Graph grid_graph(std::int64_t side) {
  std::vector<std::int64_t> ends;
  for (std::int64_t i = 0; i < side * side; ++i) {
    if (i % side + 1 < side) ends.insert(ends.end(), {i, i + 1});
    if (i + side < side * side) ends.insert(ends.end(), {i, i + side});
  }
  return Graph(side * side, {ends.data(), {static_cast<std::ptrdiff_t>(ends.size() / 2), 2}},
               EdgeKind::undirected);
}

void count(benchmark::State& state) {
  const std::int64_t nodes = state.range(0) * state.range(0);
  state.SetBytesProcessed(state.iterations() * nodes * nodes * 8);
}

void graph_shortest_paths(benchmark::State& state) {
  const Graph graph = grid_graph(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(shortest_paths(graph));
  count(state);
}
BENCHMARK(graph_shortest_paths)->Arg(8)->Arg(32)->Arg(64)->UseRealTime();

void graph_fill(benchmark::State& state) {
  const std::int64_t nodes = state.range(0) * state.range(0);
  for (auto _ : state) {
    std::vector<std::int32_t> pairs(static_cast<std::size_t>(nodes * nodes * 2));
    benchmark::DoNotOptimize(pairs.data());
    benchmark::ClobberMemory();
  }
  count(state);
}
BENCHMARK(graph_fill)->Arg(8)->Arg(32)->Arg(64)->UseRealTime();

}  // namespace
}  // namespace gnomon
