// Normalisation of head vectors in place, and its gradient, compared with touching the same
// bytes.
#include "gnomon/attention/cosine.h"

#include <benchmark/benchmark.h>

#include "bench/roof.h"
#include "testing.h"

namespace gnomon {
namespace {

constexpr std::array<std::ptrdiff_t, 4> shape = {1, 1024, 8, 64};
const std::vector<double> scales(8, 10.0);

void count(benchmark::State& state, std::size_t bytes) {
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}

template <typename T>
void cosine_normalise(benchmark::State& state) {
  testing::Tensor<T, 4> x = testing::random_tensor<T, 4>(shape);
  for (auto _ : state) {
    normalise(x.view(), scales, x.view());
    benchmark::ClobberMemory();
  }
  count(state, 2 * x.bytes());
}
BENCHMARK(cosine_normalise<float>);
BENCHMARK(cosine_normalise<BFloat16>);

void cosine_gradient(benchmark::State& state) {
  const testing::Tensor<float, 4> x = testing::random_tensor<float, 4>(shape);
  testing::Tensor<float, 4> grad = testing::random_tensor<float, 4>(shape, 2);
  std::vector<double> scale_grad(8);
  for (auto _ : state) {
    normalise_backward(x.view(), grad.view(), scales, grad.view(), scale_grad);
    benchmark::ClobberMemory();
  }
  count(state, 3 * x.bytes());
}
BENCHMARK(cosine_gradient);

void cosine_roof(benchmark::State& state) {
  testing::Tensor<float, 4> x(shape);
  for (auto _ : state) {
    roof::touch(x.values.data(), x.bytes());
    benchmark::ClobberMemory();
  }
  count(state, 2 * x.bytes());
}
BENCHMARK(cosine_roof);

}  // namespace
}  // namespace gnomon
