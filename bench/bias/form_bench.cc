// Dense bias matrices against their roof: the same bytes written in place.
#include <benchmark/benchmark.h>

#include <algorithm>

#include "gnomon/bias/alibi.h"
#include "testing.h"

namespace gnomon {
namespace {

constexpr std::int64_t heads_count = 8;

void count(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * heads_count * state.range(0) * state.range(0) *
                          4);
}

void dense_alibi(benchmark::State& state) {
  testing::Tensor<float, 3> out({heads_count, state.range(0), state.range(0)});
  const BiasForm form = lower(Alibi{.heads = heads_count});
  for (auto _ : state) {
    dense(form, 0, out.view());
    benchmark::ClobberMemory();
  }
  count(state);
}
BENCHMARK(dense_alibi)->Arg(128)->Arg(1024);

void dense_strip(benchmark::State& state) {
  testing::Tensor<float, 3> out({heads_count, state.range(0), state.range(0)});
  const BiasForm form =
      strip(Alibi{.heads = heads_count}, -state.range(0), 2 * state.range(0) + 1);
  for (auto _ : state) {
    dense(form, 0, out.view());
    benchmark::ClobberMemory();
  }
  count(state);
}
BENCHMARK(dense_strip)->Arg(128)->Arg(1024);

void dense_roof(benchmark::State& state) {
  testing::Tensor<float, 3> out({heads_count, state.range(0), state.range(0)});
  float value = 0;
  for (auto _ : state) {
    std::fill(out.values.begin(), out.values.end(), value += 1);
    benchmark::ClobberMemory();
  }
  count(state);
}
BENCHMARK(dense_roof)->Arg(128)->Arg(1024);

}  // namespace
}  // namespace gnomon
