// Swin v2's network over the offsets of a square window, and its gradient. Argument: rows.
#include "gnomon/bias/swin_v2.h"

#include <benchmark/benchmark.h>

#include "testing.h"

namespace gnomon {
namespace {

struct Parts {
  testing::Tensor<float, 2> w1 = testing::random_tensor<float, 2>({512, 2}, 1),
                            w2 = testing::random_tensor<float, 2>({8, 512}, 2);
  testing::Tensor<float, 1> b1 = testing::random_tensor<float, 1>({512}, 3);

  SwinV2Parameters<float> views() { return {w1.view(), b1.view(), w2.view()}; }
  SwinV2Parameters<const float> read() const { return {w1.view(), b1.view(), w2.view()}; }
};

void swin_v2_lower(benchmark::State& state) {
  const SwinV2 swin{.heads = 8, .height = state.range(0), .width = state.range(0)};
  const Parts parts;
  for (auto _ : state) benchmark::DoNotOptimize(lower(swin, parts.read()));
  state.SetItemsProcessed(state.iterations() * lower(swin, parts.read()).offsets());
}
BENCHMARK(swin_v2_lower)->Arg(8)->Arg(16)->Arg(24);

void swin_v2_gradient(benchmark::State& state) {
  const SwinV2 swin{.heads = 8, .height = state.range(0), .width = state.range(0)};
  const Parts parts;
  Parts grads;
  const GridBias grid = lower(swin, parts.read());
  for (auto _ : state) {
    lower_backward(swin, parts.read(), grid.values, grads.views());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * grid.offsets());
}
BENCHMARK(swin_v2_gradient)->Arg(8)->Arg(16);

}  // namespace
}  // namespace gnomon
