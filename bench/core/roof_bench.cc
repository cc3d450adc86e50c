// Memory roofs, against which other benchmarks are compared: touching bytes in place, and
// filling bytes.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

namespace gnomon {
namespace {

void BM_Touch(benchmark::State& state) {
  std::vector<float> x(static_cast<std::size_t>(state.range(0)) / sizeof(float), 1.0f);
  for (auto _ : state) {
    for (float& value : x) value = -value;
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * 2 * state.range(0));
}
BENCHMARK(BM_Touch)->Arg(16 << 10)->Arg(8 << 20)->Arg(128 << 20);

void BM_Fill(benchmark::State& state) {
  std::vector<float> x(static_cast<std::size_t>(state.range(0)) / sizeof(float));
  for (auto _ : state) {
    std::fill(x.begin(), x.end(), 1.0f);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Fill)->Arg(16 << 10)->Arg(8 << 20)->Arg(128 << 20);

}  // namespace
}  // namespace gnomon
