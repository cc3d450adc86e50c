// V-JEPA 2's rotary encoding of one clip: 8 x 16 x 16 tokens of 16 heads. For the roof see
// rotary_bench.
#include "gnomon/rotary/vjepa2.h"

#include <benchmark/benchmark.h>

#include "testing.h"

namespace gnomon {
namespace {

template <typename T>
void rotate_clip(benchmark::State& state) {
  const Vjepa2Table table({.head_dim = 64}, grid(8, 16, 16));
  auto x = testing::random_tensor<T, 3>({table.tokens(), 16, 64});
  for (auto _ : state) {
    rotate(x.view(), table);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(x.bytes()));
}
BENCHMARK(rotate_clip<float>);
BENCHMARK(rotate_clip<BFloat16>);

}  // namespace
}  // namespace gnomon
