// The strip of KERPLE and its gradient: one power or logarithm per value. Argument: tokens of
// the text.
#include "gnomon/bias/kerple.h"

#include <benchmark/benchmark.h>

#include "testing.h"

namespace gnomon {
namespace {

constexpr std::int64_t heads_count = 8;

void kerple_strip(benchmark::State& state, KerpleKernel kernel) {
  const Kerple kerple{.heads = heads_count, .kernel = kernel};
  const testing::Tensor<float, 1> rates({heads_count}, 0.7f);
  const std::int64_t length = state.range(0);
  for (auto _ : state)
    benchmark::DoNotOptimize(
        lower(kerple, {rates.view(), rates.view()}, 1 - length, 2 * length - 1));
  state.SetItemsProcessed(state.iterations() * heads_count * (2 * length - 1));
}
BENCHMARK_CAPTURE(kerple_strip, power, KerpleKernel::power)->Arg(1024)->Arg(16'384);
BENCHMARK_CAPTURE(kerple_strip, logarithmic, KerpleKernel::logarithmic)->Arg(1024)->Arg(16'384);

void kerple_gradient(benchmark::State& state, KerpleKernel kernel) {
  const Kerple kerple{.heads = heads_count, .kernel = kernel};
  const testing::Tensor<float, 1> rates({heads_count}, 0.7f);
  testing::Tensor<float, 1> r1({heads_count}), r2({heads_count});
  const std::int64_t length = state.range(0), count = 2 * length - 1;
  const auto grad = testing::random_numbers(static_cast<std::size_t>(heads_count * count));
  for (auto _ : state) {
    lower_backward(kerple, {rates.view(), rates.view()}, grad, 1 - length, count,
                   {r1.view(), r2.view()});
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * heads_count * count);
}
BENCHMARK_CAPTURE(kerple_gradient, power, KerpleKernel::power)->Arg(1024);
BENCHMARK_CAPTURE(kerple_gradient, logarithmic, KerpleKernel::logarithmic)->Arg(1024);

}  // namespace
}  // namespace gnomon
