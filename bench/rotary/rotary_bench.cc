// Rotation against its roof: the same bytes touched in place.
#include "gnomon/rotary/rotary.h"

#include <benchmark/benchmark.h>

#include "testing.h"

namespace gnomon {
namespace {

constexpr std::int64_t heads = 32, size = 128;

template <typename T, Pairing pairing>
void rotate_tokens(benchmark::State& state) {
  const RotaryTable table({.dim = size, .pairing = pairing}, testing::iota(0, state.range(0)));
  auto x = testing::random_tensor<T, 3>({state.range(0), heads, size});
  for (auto _ : state) {
    rotate(x.view(), table);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(x.bytes()));
}
BENCHMARK(rotate_tokens<float, Pairing::halves>)->Arg(1)->Arg(512)->Arg(8192);
BENCHMARK(rotate_tokens<float, Pairing::adjacent>)->Arg(1)->Arg(512)->Arg(8192);
BENCHMARK(rotate_tokens<Half, Pairing::halves>)->Arg(512);
BENCHMARK(rotate_tokens<BFloat16, Pairing::halves>)->Arg(512);

void rotate_roof(benchmark::State& state) {
  auto x = testing::random_tensor<float, 3>({state.range(0), heads, size});
  for (auto _ : state) {
    for (float& value : x.values) value = -value;
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(x.bytes()));
}
BENCHMARK(rotate_roof)->Arg(1)->Arg(512)->Arg(8192);

}  // namespace
}  // namespace gnomon
