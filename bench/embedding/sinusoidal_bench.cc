// Sinusoidal tables compared with their roof, the same bytes written in place. `error` is the
// largest error against long double, beyond half an ulp of rounding, in units of 2^-46.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "bench/roof.h"
#include "gnomon/embedding/sinusoidal.h"
#include "testing.h"

namespace gnomon {
namespace {

using testing::Tensor;

constexpr std::int64_t channels = 768;

template <typename T>
void count(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * state.range(0) * channels *
                          static_cast<std::int64_t>(sizeof(T)));
}

// The first and the last rows of an interleaved table.
template <typename P, typename T>
double error_of(const Sinusoidal& spec, const std::vector<P>& positions,
                const Tensor<T, 2>& out) {
  const std::vector<double> f = frequencies(spec);
  long double worst = 0;
  for (const std::size_t t : {std::size_t{0}, positions.size() - 1})
    for (std::int64_t c = 0; c < channels; ++c) {
      const long double angle = static_cast<long double>(positions[t]) *
                                static_cast<long double>(f[static_cast<std::size_t>(c / 2)]);
      const long double value = c % 2 ? std::cos(angle) : std::sin(angle);
      worst = std::max(worst, std::fabs(testing::as_double(out.view()(t, c)) - value) -
                                  testing::half_ulp<T> * std::fabs(value));
    }
  return static_cast<double>(worst) * 0x1p46;
}

template <typename P, typename T>
void fill_table(benchmark::State& state, const std::vector<P>& positions) {
  const Sinusoidal spec{.width = channels, .recipe = SinusoidalRecipe::interleaved};
  Tensor<T, 2> out({state.range(0), channels});
  for (auto _ : state) {
    fill(spec, std::span<const P>(positions), out.view());
    benchmark::ClobberMemory();
  }
  count<T>(state);
  state.counters["error"] = error_of(spec, positions, out);
}

// 0, 1, 2, ...: a prompt.
template <typename T>
void sinusoidal_run(benchmark::State& state) {
  fill_table<std::int64_t, T>(state, testing::iota(0, state.range(0)));
}
BENCHMARK(sinusoidal_run<float>)->Arg(1)->Arg(128)->Arg(4096);
BENCHMARK(sinusoidal_run<double>)->Arg(128);
BENCHMARK(sinusoidal_run<Half>)->Arg(128);
BENCHMARK(sinusoidal_run<BFloat16>)->Arg(128);

// Irregular positions, which have no common step.
void sinusoidal_scattered(benchmark::State& state) {
  std::vector<std::int64_t> positions;
  for (std::int64_t t = 0; t < state.range(0); ++t) positions.push_back(t * 7919 % 131'072);
  fill_table<std::int64_t, float>(state, positions);
}
BENCHMARK(sinusoidal_scattered)->Arg(128)->Arg(4096);

// Diffusion: a batch of continuous timesteps.
void sinusoidal_timesteps(benchmark::State& state) {
  std::vector<double> positions;
  for (std::int64_t t = 0; t < state.range(0); ++t)
    positions.push_back(0.37 * static_cast<double>(t));
  fill_table<double, float>(state, positions);
}
BENCHMARK(sinusoidal_timesteps)->Arg(1)->Arg(128);

void sinusoidal_roof(benchmark::State& state) {
  Tensor<float, 2> out({state.range(0), channels});
  for (auto _ : state) {
    roof::fill(out.values.data(), out.bytes());
    benchmark::ClobberMemory();
  }
  count<float>(state);
}
BENCHMARK(sinusoidal_roof)->Arg(1)->Arg(128)->Arg(4096);

}  // namespace
}  // namespace gnomon
