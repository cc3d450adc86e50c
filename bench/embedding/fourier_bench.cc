// Fourier features, in waves per second. A wave is one sine and one cosine.
#include "gnomon/embedding/fourier.h"

#include <benchmark/benchmark.h>

#include "testing.h"

namespace gnomon {
namespace {

void fill_features(benchmark::State& state, const Fourier& fourier) {
  const std::int64_t points = state.range(0), count = features(fourier);
  const auto at = testing::random_tensor<double, 2>({points, fourier.axes});
  testing::Tensor<float, 2> out({points, count});
  for (auto _ : state) {
    fill(fourier, View<const double, 2>(at.view()), out.view());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * points * (count / 2));
}

void fourier_perceiver_image(benchmark::State& state) {
  fill_features(state, fourier_perceiver(std::vector<double>{224, 224}, 64));
}
BENCHMARK(fourier_perceiver_image)->Arg(2048)->UseRealTime();

void fourier_nerf_points(benchmark::State& state) { fill_features(state, fourier_nerf(3, 10)); }
BENCHMARK(fourier_nerf_points)->Arg(2048)->UseRealTime();

void fourier_gaussian_image(benchmark::State& state) {
  fill_features(state, fourier_gaussian(2, 256, 10));
}
BENCHMARK(fourier_gaussian_image)->Arg(2048)->UseRealTime();

}  // namespace
}  // namespace gnomon
