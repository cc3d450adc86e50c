// Axial tables: gather and gradient, in bytes of the gathered table per second.
#include "gnomon/embedding/axial.h"

#include <benchmark/benchmark.h>

#include "testing.h"

namespace gnomon {
namespace {

const AxialLearned reformer{
    .join = AxisJoin::concatenated, .rows = {64, 64}, .widths = {128, 384}};

void count(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * state.range(0) * width(reformer) *
                          static_cast<std::int64_t>(sizeof(float)));
}

void axial_gather(benchmark::State& state) {
  const auto first = testing::random_tensor<float, 2>({64, 128}, 1);
  const auto second = testing::random_tensor<float, 2>({64, 384}, 2);
  const View<const float, 2> tables[] = {first.view(), second.view()};
  const auto positions = testing::iota(0, state.range(0));
  testing::Tensor<float, 2> out({state.range(0), width(reformer)});
  for (auto _ : state) {
    fill<float>(reformer, tables, positions, out.view());
    benchmark::ClobberMemory();
  }
  count(state);
}
BENCHMARK(axial_gather)->Arg(256)->Arg(4096)->UseRealTime();

void axial_backward(benchmark::State& state) {
  testing::Tensor<float, 2> first({64, 128}), second({64, 384});
  const View<float, 2> tables[] = {first.view(), second.view()};
  const auto positions = testing::iota(0, state.range(0));
  const auto grad = testing::random_tensor<float, 2>({state.range(0), width(reformer)});
  for (auto _ : state) {
    fill_backward<float>(reformer, grad.view(), positions, tables);
    benchmark::ClobberMemory();
  }
  count(state);
}
BENCHMARK(axial_backward)->Arg(256)->Arg(4096)->UseRealTime();

}  // namespace
}  // namespace gnomon
