// Bias matrices against their roofs, the same bytes filled or updated in place; and strips
// against filling a vector of as many doubles.
#include <benchmark/benchmark.h>

#include "bench/roof.h"
#include "gnomon/bias/alibi.h"
#include "gnomon/bias/clipped.h"
#include "gnomon/bias/swin.h"
#include "gnomon/bias/t5.h"
#include "testing.h"

namespace gnomon {
namespace {

constexpr std::int64_t heads_count = 8;

BiasForm form_of(std::string_view name, std::int64_t size) {
  if (name == "slope") return lower(Alibi{.heads = heads_count});
  if (name == "grid") {  // as many columns as rows, or half as many
    std::int64_t width = 1;
    while (4 * width * width <= size) width *= 2;
    const Swin swin{.heads = heads_count, .height = size / width, .width = width};
    return lower(swin, testing::random_tensor<float, 2>({offsets(swin), heads_count}).view());
  }
  if (name == "progressive") {  // FIRE's 33 pieces
    PiecewiseLogBias bias{.heads = heads_count,
                          .c = 0.1,
                          .threshold = static_cast<double>(size) / 4,
                          .epsilon = 1e-6,
                          .knots = {},
                          .offsets = testing::random_numbers(33 * heads_count, 1),
                          .slopes = testing::random_numbers(33 * heads_count, 2)};
    for (int p = 0; p < 33; ++p) bias.knots.push_back(p / 33.0);
    return bias;
  }
  return lower(Alibi{.heads = heads_count}, -size, 2 * size + 1);
}

void count(benchmark::State& state, std::int64_t times_touched) {
  state.SetBytesProcessed(state.iterations() * times_touched * heads_count * state.range(0) *
                          state.range(0) * 4);
}

template <typename Run>
void on_matrix(benchmark::State& state, std::int64_t times_touched, Run run) {
  testing::Tensor<float, 3> matrix({heads_count, state.range(0), state.range(0)});
  for (auto _ : state) {
    run(matrix);
    benchmark::ClobberMemory();
  }
  count(state, times_touched);
}

void form_dense(benchmark::State& state, const char* name) {
  const BiasForm form = form_of(name, state.range(0));
  on_matrix(state, 1, [&](auto& matrix) { dense(form, 0, matrix.view()); });
}
BENCHMARK_CAPTURE(form_dense, slope, "slope")->Arg(128)->Arg(1024);
BENCHMARK_CAPTURE(form_dense, strip, "strip")->Arg(128)->Arg(1024);
BENCHMARK_CAPTURE(form_dense, grid, "grid")->Arg(128)->Arg(1024);
BENCHMARK_CAPTURE(form_dense, progressive, "progressive")->Arg(128)->Arg(1024);

void form_add(benchmark::State& state, const char* name) {
  const BiasForm form = form_of(name, state.range(0));
  on_matrix(state, 2, [&](auto& matrix) { add_bias(matrix.view(), form, 0); });
}
BENCHMARK_CAPTURE(form_add, slope, "slope")->Arg(128)->Arg(1024);
BENCHMARK_CAPTURE(form_add, strip, "strip")->Arg(128)->Arg(1024);
BENCHMARK_CAPTURE(form_add, grid, "grid")->Arg(128)->Arg(1024);
BENCHMARK_CAPTURE(form_add, progressive, "progressive")->Arg(128)->Arg(1024);

void form_fill_roof(benchmark::State& state) {
  on_matrix(state, 1, [](auto& matrix) { roof::fill(matrix.values.data(), matrix.bytes()); });
}
BENCHMARK(form_fill_roof)->Arg(128)->Arg(1024);

void form_touch_roof(benchmark::State& state) {
  on_matrix(state, 2, [](auto& matrix) { roof::touch(matrix.values.data(), matrix.bytes()); });
}
BENCHMARK(form_touch_roof)->Arg(128)->Arg(1024);

template <typename Make>
void on_strips(benchmark::State& state, Make make) {
  for (auto _ : state) {
    auto made = make(state.range(0));
    benchmark::DoNotOptimize(made);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * heads_count * state.range(0) * 8);
}

void strip_alibi(benchmark::State& state) {
  on_strips(state,
            [](std::int64_t n) { return lower(Alibi{.heads = heads_count}, -n / 2, n); });
}
BENCHMARK(strip_alibi)->Arg(4096)->Arg(262'145);

void strip_t5(benchmark::State& state) {
  const testing::Tensor<float, 2> table({32, heads_count}, 1.5f);
  const T5Bias t5{.heads = heads_count, .direction = T5Direction::bidirectional};
  on_strips(state, [&](std::int64_t n) { return lower(t5, table.view(), -n / 2, n); });
}
BENCHMARK(strip_t5)->Arg(4096)->Arg(262'145);

void strip_clipped(benchmark::State& state) {
  const testing::Tensor<float, 2> table({heads_count, 257}, 1.5f);
  const ClippedBias clipped{.heads = heads_count, .left = 128, .right = 128};
  on_strips(state, [&](std::int64_t n) { return lower(clipped, table.view(), -n / 2, n); });
}
BENCHMARK(strip_clipped)->Arg(4096)->Arg(262'145);

void strip_roof(benchmark::State& state) {
  on_strips(state, [](std::int64_t n) {
    return std::vector<double>(static_cast<std::size_t>(heads_count * n), 1.5);
  });
}
BENCHMARK(strip_roof)->Arg(4096)->Arg(262'145);

}  // namespace
}  // namespace gnomon
