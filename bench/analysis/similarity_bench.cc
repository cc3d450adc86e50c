// Similarity of every two positions; its work is that of a symmetric matrix product in double.
#include "gnomon/analysis/similarity.h"

#include <benchmark/benchmark.h>

#include "testing.h"

namespace gnomon {
namespace {

void similarity_cosine(benchmark::State& state) {
  const auto table = testing::random_tensor<float, 2>({state.range(0), 128});
  testing::Tensor<double, 2> out({state.range(0), state.range(0)});
  for (auto _ : state) {
    analysis::similarity_matrix(View<const float, 2>(table.view()),
                                analysis::Similarity::cosine, out.view());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0) * state.range(0) * 128);
}
BENCHMARK(similarity_cosine)->Arg(128)->Arg(1024);

}  // namespace
}  // namespace gnomon
