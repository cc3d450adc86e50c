// New keys into an 8-bit KV cache.
#include "gnomon/rotary/int8_keys.h"

#include <benchmark/benchmark.h>

#include "testing.h"

namespace gnomon {
namespace {

template <typename T>
void int8_append(benchmark::State& state) {
  const std::int64_t tokens = state.range(0);
  const RotaryTable table({.rotary_dim = 128, .pairing = Pairing::halves},
                          testing::iota(0, tokens));
  const auto k = testing::random_tensor<T, 3>({tokens, 8, 128});
  testing::Tensor<std::int8_t, 3> slot({tokens, 8, 128});
  testing::Tensor<float, 2> scales({tokens, 8});
  for (auto _ : state) {
    rotate_append(k.view(), table, slot.view(), scales.view());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() *
                          static_cast<std::int64_t>(k.bytes() + slot.bytes()));
}
BENCHMARK(int8_append<float>)->Arg(1)->Arg(4096);
BENCHMARK(int8_append<BFloat16>)->Arg(1)->Arg(4096);

}  // namespace
}  // namespace gnomon
