// Tables of cos and sin, compared with their roof: filling the same bytes with the widest
// stores. Divide a row's bytes_per_second by that of angles_roof at the same size, in one run
// with --benchmark_enable_random_interleaving.
#include "gnomon/angles.h"

#include <benchmark/benchmark.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "bench/roof.h"
#include "gnomon/parallel.h"
#include "src/core/angles.h"
#include "src/core/memory.h"
#include "testing.h"

namespace gnomon {
namespace {

constexpr std::int64_t pairs = 64;

// Tokens and threads: one token, a prompt, a table that fits in the last-level cache, the
// longest table.
void sizes(benchmark::internal::Benchmark* one) {
  one->Args({1, 1})->Args({512, 1});
  for (const int threads : {1, 2}) one->Args({8192, threads})->Args({131'072, threads});
  one->UseRealTime();
}

std::vector<double> frequencies() {
  std::vector<double> all;
  for (std::int64_t i = 0; i < pairs; ++i)
    all.push_back(std::pow(1e4, -static_cast<double>(i) / pairs));
  return all;
}

// Memory allocated like that of tables, already touched.
template <typename T>
struct Field {
  T* values;
  std::size_t bytes;
  explicit Field(std::int64_t tokens)
      : bytes(static_cast<std::size_t>(2 * tokens * pairs) * sizeof(T)) {
    values = static_cast<T*>(internal::allocate_long(bytes));
    std::memset(static_cast<void*>(values), 0, bytes);
  }
  Field(const Field&) = delete;
  Field& operator=(const Field&) = delete;
  ~Field() { std::free(values); }
};

template <typename Run>
void on_threads(benchmark::State& state, std::size_t bytes, Run run) {
  const int before = threads();
  set_threads(static_cast<int>(state.range(1)));
  for (auto _ : state) {
    run();
    benchmark::ClobberMemory();
  }
  set_threads(before);
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}

// Cosines and sines separate, as in a rotary table.
template <typename T>
void angles_apart(benchmark::State& state) {
  const std::int64_t tokens = state.range(0);
  const auto positions = testing::iota(0, tokens);
  const auto all = frequencies();
  const Field<T> out(tokens);
  const View<T, 2> cosines(out.values, {tokens, pairs});
  const View<T, 2> sines(out.values + tokens * pairs, {tokens, pairs});
  on_threads(state, out.bytes, [&] {
    fill_cos_sin(std::span<const std::int64_t>(positions), std::span<const double>(all),
                 cosines, sines);
  });
}
BENCHMARK(angles_apart<float>)->Apply(sizes);
BENCHMARK(angles_apart<Half>)->Apply(sizes);
BENCHMARK(angles_apart<BFloat16>)->Apply(sizes);
BENCHMARK(angles_apart<double>)->Apply(sizes);

// sin cos sin cos ..., as in a sinusoidal table.
template <typename T>
void angles_interleaved(benchmark::State& state) {
  const std::int64_t tokens = state.range(0);
  const auto positions = testing::iota(0, tokens);
  const auto all = frequencies();
  const Field<T> out(tokens);
  const View<T, 2> sines(out.values, {tokens, pairs}, {2 * pairs, 2});
  const View<T, 2> cosines(out.values + 1, {tokens, pairs}, {2 * pairs, 2});
  on_threads(state, out.bytes, [&] {
    fill_cos_sin(std::span<const std::int64_t>(positions), std::span<const double>(all),
                 cosines, sines);
  });
}
BENCHMARK(angles_interleaved<float>)->Apply(sizes);
BENCHMARK(angles_interleaved<Half>)->Apply(sizes);
BENCHMARK(angles_interleaved<BFloat16>)->Apply(sizes);

// One token without a table: the cost in a decoding step.
void angles_pair(benchmark::State& state) {
  const auto all = frequencies();
  std::array<float, pairs> cosines, sines;
  std::int64_t position = 70'000;
  for (auto _ : state) {
    internal::pair_angles()(&position, 0, all.data(), pairs, 1.0, cosines.data(), sines.data());
    benchmark::ClobberMemory();
    ++position;
  }
}
BENCHMARK(angles_pair);

template <typename T>
void angles_roof(benchmark::State& state) {
  const Field<T> out(state.range(0));
  on_threads(state, out.bytes, [&] { roof::fill(out.values, out.bytes); });
}
BENCHMARK(angles_roof<float>)->Apply(sizes);
BENCHMARK(angles_roof<Half>)->Apply(sizes);
BENCHMARK(angles_roof<double>)->Apply(sizes);

}  // namespace
}  // namespace gnomon
