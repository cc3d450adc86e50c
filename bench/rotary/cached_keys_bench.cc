// Functions on cached keys compared with rotation of the same keys in place: 8 heads of 128.
#include "gnomon/rotary/cached_keys.h"

#include <benchmark/benchmark.h>

#include "testing.h"

namespace gnomon {
namespace {

constexpr std::int64_t heads = 8, size = 128;

RotaryFrequencies plain() {
  return lower(Rotary{.rotary_dim = size, .pairing = Pairing::halves});
}

template <typename U>
void cached_rotate(benchmark::State& state) {
  const std::int64_t tokens = state.range(0);
  const RotaryTable table(plain(), testing::iota(0, tokens));
  auto keys = testing::random_tensor<U, 3>({tokens, heads, size});
  for (auto _ : state) {
    rotate(keys.view(), table);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * tokens);
}

template <typename T, typename U>
void cached_append(benchmark::State& state) {
  const std::int64_t tokens = state.range(0);
  const RotaryTable table(plain(), testing::iota(0, tokens));
  const auto k = testing::random_tensor<T, 3>({tokens, heads, size});
  testing::Tensor<U, 3> slot({tokens, heads, size});
  for (auto _ : state) {
    rotate_append(k.view(), table, slot.view());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * tokens);
}

template <typename U>
void cached_shift(benchmark::State& state) {
  const std::int64_t tokens = state.range(0);
  const RotaryFrequencies frequencies = plain();
  auto keys = testing::random_tensor<U, 3>({tokens, heads, size});
  for (auto _ : state) {
    shift_keys(keys.view(), frequencies, -1);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * tokens);
}

template <typename U>
void cached_rerotate(benchmark::State& state) {
  const std::int64_t tokens = state.range(0);
  const RotaryFrequencies from = plain();
  RotaryFrequencies to = from;
  for (double& f : to.inv_freq) f *= 0.5;
  auto keys = testing::random_tensor<U, 3>({tokens, heads, size});
  const Positions positions = consecutive(tokens);
  for (auto _ : state) {
    rerotate_keys(keys.view(), from, to, positions);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * tokens);
}

BENCHMARK(cached_rotate<float>)->Arg(1)->Arg(8192);
BENCHMARK(cached_append<float, float>)->Arg(1)->Arg(8192);
BENCHMARK(cached_shift<float>)->Arg(8192);
BENCHMARK(cached_rerotate<float>)->Arg(8192);
BENCHMARK(cached_rotate<Half>)->Arg(1)->Arg(8192);
BENCHMARK(cached_append<Half, Half>)->Arg(1)->Arg(8192);
BENCHMARK(cached_append<float, Half>)->Arg(1)->Arg(8192);
BENCHMARK(cached_shift<Half>)->Arg(8192);
BENCHMARK(cached_rerotate<Half>)->Arg(8192);
BENCHMARK(cached_rotate<BFloat16>)->Arg(1)->Arg(8192);
BENCHMARK(cached_append<float, BFloat16>)->Arg(1)->Arg(8192);
BENCHMARK(cached_shift<BFloat16>)->Arg(8192);

}  // namespace
}  // namespace gnomon
