// Rotation without a table: one token per sequence, each at a different position.
#include "gnomon/rotary/decoding.h"

#include <benchmark/benchmark.h>

#include "testing.h"

namespace gnomon {
namespace {

template <typename T, Pairing pairing>
void decode_step(benchmark::State& state) {
  const std::int64_t batch = state.range(0);
  const RotaryFrequencies plan = lower(Rotary{.rotary_dim = 128, .pairing = pairing});
  const auto at = testing::iota(5000, batch);
  const View<const std::int64_t, 3> positions(at.data(), {1, batch, 1});
  auto q = testing::random_tensor<T, 4>({batch, 1, 32, 128});
  auto k = testing::random_tensor<T, 4>({batch, 1, 8, 128});
  for (auto _ : state) {
    rotate_at(q.view(), k.view(), positions, plan);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * batch);
}
BENCHMARK(decode_step<float, Pairing::halves>)->Arg(1)->Arg(64);
BENCHMARK(decode_step<float, Pairing::adjacent>)->Arg(1)->Arg(64);
BENCHMARK(decode_step<BFloat16, Pairing::halves>)->Arg(1)->Arg(64);

}  // namespace
}  // namespace gnomon
