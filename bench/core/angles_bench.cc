// Tables of cos and sin against their roof: the same bytes filled.
#include "gnomon/angles.h"

#include <benchmark/benchmark.h>

#include <algorithm>

#include "testing.h"

namespace gnomon {
namespace {

constexpr std::int64_t pairs = 64;

void angles_exact(benchmark::State& state) {
  const auto positions = testing::iota(0, state.range(0));
  const std::vector<double> frequencies(pairs, 0.37);
  testing::Tensor<float, 2> cosines({state.range(0), pairs}), sines({state.range(0), pairs});
  for (auto _ : state) {
    fill_cos_sin(std::span<const std::int64_t>(positions), std::span<const double>(frequencies),
                 cosines.view(), sines.view());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * 2 * static_cast<std::int64_t>(cosines.bytes()));
}
BENCHMARK(angles_exact)->Arg(1)->Arg(512)->Arg(8192);

void angles_roof(benchmark::State& state) {
  testing::Tensor<float, 2> both({2 * state.range(0), pairs});
  float value = 0;
  for (auto _ : state) {
    std::fill(both.values.begin(), both.values.end(), value += 1);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(both.bytes()));
}
BENCHMARK(angles_roof)->Arg(1)->Arg(512)->Arg(8192);

}  // namespace
}  // namespace gnomon
