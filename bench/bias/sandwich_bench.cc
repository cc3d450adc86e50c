// The strip of Sandwich: 64 sines per distance for any number of heads. Argument: tokens.
#include "gnomon/bias/sandwich.h"

#include <benchmark/benchmark.h>

namespace gnomon {
namespace {

void sandwich_strip(benchmark::State& state) {
  const std::int64_t length = state.range(0);
  for (auto _ : state)
    benchmark::DoNotOptimize(lower(Sandwich{.heads = 8}, 1 - length, 2 * length - 1));
  state.SetItemsProcessed(state.iterations() * (2 * length - 1));
}
BENCHMARK(sandwich_strip)->Arg(1024)->Arg(16'384);

}  // namespace
}  // namespace gnomon
