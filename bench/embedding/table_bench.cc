// Adding a table is memory-bound. Compare it with table_touch, which touches the same bytes of
// x in place, and the gradient with table_read, which sums the same bytes.
#include <benchmark/benchmark.h>

#include <bit>
#include <string>

#include "bench/roof.h"
#include "gnomon/embedding/table.h"
#include "gnomon/isa.h"
#include "testing.h"

namespace gnomon {
namespace {

using testing::Tensor;

constexpr std::int64_t channels = 1024;

// Batch [B, T]: one decoded token, a prompt that fits in cache, one that does not.
void shapes(benchmark::internal::Benchmark* one) {
  one->Args({1, 1})->Args({1, 128})->Args({8, 2048});
}

template <typename T>
Tensor<T, 3> zeros(const benchmark::State& state) {
  return Tensor<T, 3>({state.range(0), state.range(1), channels});
}

std::vector<std::int64_t> backwards(const benchmark::State& state) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(state.range(0) * state.range(1)));
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i] = state.range(1) - 1 - static_cast<std::int64_t>(i) % state.range(1);
  return rows;
}

template <typename T>
void count(benchmark::State& state, std::int64_t times_touched) {
  state.SetBytesProcessed(state.iterations() * times_touched * state.range(0) * state.range(1) *
                          channels * static_cast<std::int64_t>(sizeof(T)));
}

template <typename T>
void table_add(benchmark::State& state, Isa isa) {
  const ScopedIsa scope(isa);
  auto x = zeros<T>(state);
  const Tensor<float, 2> table({state.range(1), channels}, 0.0f);  // zero, so that x does not
                                                                   // overflow
  for (auto _ : state) {
    add_table(x.view(), table.view());
    benchmark::ClobberMemory();
  }
  count<T>(state, 2);
}

template <typename T>
void table_add_rows(benchmark::State& state, Isa isa) {
  const ScopedIsa scope(isa);
  auto x = zeros<T>(state);
  const Tensor<float, 2> table({state.range(1), channels}, 0.0f);
  const auto rows = backwards(state);
  const View<const std::int64_t, 2> view(rows.data(), {state.range(0), state.range(1)});
  for (auto _ : state) {
    add_rows(x.view(), table.view(), view);
    benchmark::ClobberMemory();
  }
  count<T>(state, 2);
}

template <typename T>
void table_add_backward(benchmark::State& state, Isa isa) {
  const ScopedIsa scope(isa);
  const auto grad = zeros<T>(state);
  Tensor<float, 2> sums({state.range(1), channels});
  for (auto _ : state) {
    add_table_backward(grad.view(), 1, sums.view());
    benchmark::ClobberMemory();
  }
  count<T>(state, 1);
}

template <typename T>
void table_add_rows_backward(benchmark::State& state, Isa isa) {
  const ScopedIsa scope(isa);
  const auto grad = zeros<T>(state);
  const auto rows = backwards(state);
  const View<const std::int64_t, 2> view(rows.data(), {state.range(0), state.range(1)});
  Tensor<float, 2> sums({state.range(1), channels});
  for (auto _ : state) {
    add_rows_backward(grad.view(), view, sums.view());
    benchmark::ClobberMemory();
  }
  count<T>(state, 1);
}

void table_touch(benchmark::State& state) {
  auto x = zeros<float>(state);
  for (auto _ : state) {
    roof::touch(x.values.data(), x.bytes());
    benchmark::ClobberMemory();
  }
  count<float>(state, 2);
}
BENCHMARK(table_touch)->Apply(shapes);

void table_read(benchmark::State& state) {
  const auto x = zeros<float>(state);
  for (auto _ : state) {
    std::uint32_t all = 0;  // bits, which a compiler may combine in any order
    for (const float& value : x.values) all |= std::bit_cast<std::uint32_t>(value);
    benchmark::DoNotOptimize(all);
    benchmark::ClobberMemory();
  }
  count<float>(state, 1);
}
BENCHMARK(table_read)->Apply(shapes);

template <typename T>
void enrol(Isa isa) {
  std::string end = "/";
  end.append(name(isa)).append("/").append(name(dtype_of<T>));
  const auto enrol_one = [&](const char* what, void (*run)(benchmark::State&, Isa)) {
    shapes(benchmark::RegisterBenchmark((what + end).c_str(), run, isa));
  };
  enrol_one("table_add", table_add<T>);
  enrol_one("table_add_rows", table_add_rows<T>);
  enrol_one("table_add_backward", table_add_backward<T>);
  enrol_one("table_add_rows_backward", table_add_rows_backward<T>);
}

[[maybe_unused]] const bool enrolled = [] {
  for (const Isa isa : available_isas()) {
    enrol<float>(isa);
    enrol<Half>(isa);
    enrol<BFloat16>(isa);
    enrol<double>(isa);
  }
  return true;
}();

}  // namespace
}  // namespace gnomon
