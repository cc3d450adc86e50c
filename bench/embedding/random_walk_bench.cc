// Sixteen return probabilities of each node of a path. A walk of K steps visits K^2 / 2 arcs,
// with one product and one sum each. Compare with the rate of additions of one core.
#include "gnomon/embedding/random_walk.h"

#include <benchmark/benchmark.h>

namespace gnomon {
namespace {

constexpr std::int64_t steps = 16;

void count(benchmark::State& state) {
  state.SetItemsProcessed(state.iterations() * state.range(0) * steps * steps);
}

void random_walk(benchmark::State& state) {
  const Graph graph = path_graph(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(return_probabilities({.steps = steps}, graph));
  count(state);
}
BENCHMARK(random_walk)->Arg(256)->Arg(4096)->UseRealTime();

// The same number of dependent additions.
void random_walk_roof(benchmark::State& state) {
  for (auto _ : state) {
    double sum = 0;
    for (std::int64_t i = 0; i < state.range(0) * steps * steps; ++i) {
      sum += 0x1p-30;
      benchmark::DoNotOptimize(sum);
    }
  }
  count(state);
}
BENCHMARK(random_walk_roof)->Arg(256)->Arg(4096)->UseRealTime();

}  // namespace
}  // namespace gnomon
