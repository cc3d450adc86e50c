// Eight eigenvectors of a path, solved for and in closed form, against the bytes they take
// filled, which is the roof of the closed form.
#include "gnomon/graph/laplacian_vectors.h"

#include <benchmark/benchmark.h>

#include "bench/roof.h"

namespace gnomon {
namespace {

constexpr Laplacian spec{.vectors = 8,
                         .kind = LaplacianKind::combinatorial,
                         .zeros = LaplacianZeros::skip_one,
                         .signs = LaplacianSigns::fixed};

void count(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * state.range(0) * 8 * 8);
}

void laplacian_solved(benchmark::State& state) {
  const Graph graph = path_graph(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(laplacian_vectors(spec, graph));
  count(state);
}
BENCHMARK(laplacian_solved)->Arg(64)->Arg(256)->Arg(4096)->UseRealTime();

void laplacian_of_path(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(path_laplacian_vectors(spec, state.range(0)));
  count(state);
}
BENCHMARK(laplacian_of_path)->Arg(64)->Arg(256)->Arg(4096)->UseRealTime();

void laplacian_roof(benchmark::State& state) {
  std::vector<double> values(static_cast<std::size_t>(state.range(0) * 8));
  for (auto _ : state) {
    roof::fill(values.data(), values.size() * sizeof(double));
    benchmark::ClobberMemory();
  }
  count(state);
}
BENCHMARK(laplacian_roof)->Arg(64)->Arg(256)->Arg(4096)->UseRealTime();

}  // namespace
}  // namespace gnomon
