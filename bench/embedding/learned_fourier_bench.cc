// Learned Fourier features, forward and backward, in points per second.
#include "gnomon/embedding/learned_fourier.h"

#include <benchmark/benchmark.h>

#include "testing.h"

namespace gnomon {
namespace {

struct Sample {
  LearnedFourier spec{.axes = 2, .features = 128, .hidden = 64, .width = 256};
  testing::Tensor<float, 2> frequencies, w1, w2;
  testing::Tensor<float, 1> b1, b2;
  testing::Tensor<double, 2> at;

  explicit Sample(std::int64_t points)
      : frequencies(testing::random_tensor<float, 2>({spec.features / 2, spec.axes}, 1)),
        w1(testing::random_tensor<float, 2>({spec.features, spec.hidden}, 2)),
        w2(testing::random_tensor<float, 2>({spec.hidden, spec.width}, 3)),
        b1({spec.hidden}),
        b2({spec.width}),
        at(testing::random_tensor<double, 2>({points, spec.axes}, 4)) {}
  LearnedFourierParameters<float> parameters() {
    return {frequencies.view(), w1.view(), b1.view(), w2.view(), b2.view()};
  }
  LearnedFourierParameters<const float> read() {
    return {frequencies.view(), w1.view(), b1.view(), w2.view(), b2.view()};
  }
};

void learned_fourier(benchmark::State& state) {
  Sample sample(state.range(0));
  testing::Tensor<float, 2> out({state.range(0), sample.spec.width});
  for (auto _ : state) {
    fill(sample.spec, sample.read(), sample.at.view(), out.view());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(learned_fourier)->Arg(256)->Arg(4096)->UseRealTime();

void learned_fourier_backward(benchmark::State& state) {
  Sample sample(state.range(0)), grads(0);
  const auto grad = testing::random_tensor<float, 2>({state.range(0), sample.spec.width}, 5);
  for (auto _ : state) {
    fill_backward<float>(sample.spec, sample.read(), sample.at.view(), grad.view(),
                         grads.parameters());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(learned_fourier_backward)->Arg(256)->Arg(4096)->UseRealTime();

}  // namespace
}  // namespace gnomon
