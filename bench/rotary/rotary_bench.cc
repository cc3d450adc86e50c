// Rotation of queries and keys compared with its roof: updating the same bytes in place.
#include "gnomon/rotary/rotary.h"

#include <benchmark/benchmark.h>

#include "bench/roof.h"
#include "testing.h"

namespace gnomon {
namespace {

constexpr std::int64_t query_heads = 32, key_heads = 8, size = 128;

template <typename T>
View<T, 4> heads_of(testing::Tensor<T, 1>& memory, std::int64_t tokens, std::int64_t first,
                    std::int64_t heads, bool by_head) {
  T* const data = memory.values.data() + first * tokens * size;
  if (by_head) return {data, {1, tokens, heads, size}, {0, size, tokens * size, 1}};
  return {data, {1, tokens, heads, size}};
}

template <typename T, Pairing pairing, bool by_head = false, bool backward = false>
void rotate_tokens(benchmark::State& state) {
  const std::int64_t tokens = state.range(0);
  const RotaryTable table(Rotary{.rotary_dim = size, .pairing = pairing},
                          testing::iota(0, tokens));
  auto memory = testing::random_tensor<T, 1>({tokens * (query_heads + key_heads) * size});
  const auto q = heads_of<T>(memory, tokens, 0, query_heads, by_head);
  const auto k = heads_of<T>(memory, tokens, query_heads, key_heads, by_head);
  for (auto _ : state) {
    rotate(q, k, table, backward ? Direction::inverse : Direction::forward);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(memory.bytes()));
}
BENCHMARK(rotate_tokens<float, Pairing::halves>)->Arg(1)->Arg(512)->Arg(4096);
BENCHMARK(rotate_tokens<float, Pairing::adjacent>)->Arg(1)->Arg(512)->Arg(4096);
BENCHMARK(rotate_tokens<float, Pairing::halves, true>)->Arg(4096);
BENCHMARK(rotate_tokens<float, Pairing::halves, false, true>)->Arg(4096);
BENCHMARK(rotate_tokens<Half, Pairing::halves>)->Arg(1)->Arg(512)->Arg(4096);
BENCHMARK(rotate_tokens<BFloat16, Pairing::halves>)->Arg(1)->Arg(512)->Arg(4096);
BENCHMARK(rotate_tokens<BFloat16, Pairing::halves, true>)->Arg(4096);

template <typename T>
void rotate_roof(benchmark::State& state) {
  auto memory =
      testing::random_tensor<T, 1>({state.range(0) * (query_heads + key_heads) * size});
  for (auto _ : state) {
    roof::touch(memory.values.data(), memory.bytes());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(memory.bytes()));
}
BENCHMARK(rotate_roof<float>)->Arg(1)->Arg(512)->Arg(4096);
BENCHMARK(rotate_roof<BFloat16>)->Arg(1)->Arg(512)->Arg(4096);

}  // namespace
}  // namespace gnomon
