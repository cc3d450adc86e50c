// Appending tokens to a segment memory, compared with copying the same bytes: in segments of T,
// and one by one.
#include "gnomon/attention/segment_memory.h"

#include <benchmark/benchmark.h>

#include <cstring>

#include "testing.h"

namespace gnomon {
namespace {

constexpr std::int64_t heads = 8, size = 64;

void segment_memory_append(benchmark::State& state) {
  const std::int64_t count = state.range(0), memory = state.range(1);
  SegmentMemory<float> past({.memory = memory,
                             .segment = count,
                             .heads = heads,
                             .head_dim = size,
                             .value_dim = size});
  const auto k = testing::random_tensor<float, 4>({1, count, heads, size});
  for (auto _ : state) benchmark::DoNotOptimize(past.append(k.view(), k.view()));
  state.SetItemsProcessed(state.iterations() * count);
  state.SetBytesProcessed(state.iterations() * 2 * static_cast<std::int64_t>(k.bytes()));
}
BENCHMARK(segment_memory_append)->Args({1, 512})->Args({1, 4096})->Args({128, 512});

void segment_memory_roof(benchmark::State& state) {
  const std::int64_t count = state.range(0);
  const auto k = testing::random_tensor<float, 4>({1, count, heads, size});
  std::vector<float> store(k.values.size() * 16);
  std::size_t at = 0;
  for (auto _ : state) {
    for (int part = 0; part < 2; ++part) {
      std::memcpy(store.data() + at, k.values.data(), k.bytes());
      at = (at + k.values.size()) % store.size();
    }
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * count);
}
BENCHMARK(segment_memory_roof)->Arg(1)->Arg(128);

}  // namespace
}  // namespace gnomon
