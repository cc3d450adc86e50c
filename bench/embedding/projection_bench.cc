// Features times a trained matrix, and its gradient, in multiply-adds in double per second.
#include "gnomon/embedding/projection.h"

#include <benchmark/benchmark.h>

#include "testing.h"

namespace gnomon {
namespace {

void shapes(benchmark::internal::Benchmark* one) {  // tokens, features, channels
  one->Args({128, 129, 128})->Args({2048, 129, 512})->Args({2048, 512, 512});
}

void count(benchmark::State& state) {
  state.counters["madd/s"] =
      benchmark::Counter(static_cast<double>(state.range(0) * state.range(1) * state.range(2)),
                         benchmark::Counter::kIsIterationInvariantRate);
}

void projection(benchmark::State& state) {
  const auto features = testing::random_tensor<double, 2>({state.range(0), state.range(1)});
  const auto weights = testing::random_tensor<float, 2>({state.range(1), state.range(2)});
  testing::Tensor<float, 2> out({state.range(0), state.range(2)});
  for (auto _ : state) {
    project<float>(features.view(), weights.view(), out.view());
    benchmark::ClobberMemory();
  }
  count(state);
}
BENCHMARK(projection)->Apply(shapes)->UseRealTime();

void projection_backward(benchmark::State& state) {
  const auto features = testing::random_tensor<double, 2>({state.range(0), state.range(1)});
  const auto grad = testing::random_tensor<float, 2>({state.range(0), state.range(2)});
  testing::Tensor<float, 2> weights({state.range(1), state.range(2)});
  for (auto _ : state) {
    project_backward<float>(features.view(), grad.view(), weights.view());
    benchmark::ClobberMemory();
  }
  count(state);
}
BENCHMARK(projection_backward)->Apply(shapes)->UseRealTime();

}  // namespace
}  // namespace gnomon
