// Position ids compared with their roof: writing 12 bytes per token.
#include "gnomon/position/positions.h"

#include <benchmark/benchmark.h>

namespace gnomon {
namespace {

void consecutive_ids(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(consecutive(state.range(0), 7, 8));
  state.SetBytesProcessed(state.iterations() * state.range(0) * 8 * 12);
}
BENCHMARK(consecutive_ids)->Arg(1)->Arg(512)->Arg(8192);

}  // namespace
}  // namespace gnomon
