// The dynamic position bias and its gradient, with two layers of 128 hidden units. Argument:
// tokens of the text.
#include "gnomon/bias/dynamic.h"

#include <benchmark/benchmark.h>

#include "testing.h"

namespace gnomon {
namespace {

constexpr std::int64_t heads_count = 8, hidden = 128;

struct Layers {
  testing::Tensor<float, 2> w1 = testing::random_tensor<float, 2>({hidden, 1}, 1),
                            w2 = testing::random_tensor<float, 2>({hidden, hidden}, 2),
                            w3 = testing::random_tensor<float, 2>({heads_count, hidden}, 3);
  testing::Tensor<float, 1> b1{{hidden}}, b2{{hidden}}, b3{{heads_count}};

  std::vector<DynamicLayer<float>> views() {
    return {{w1.view(), b1.view()}, {w2.view(), b2.view()}, {w3.view(), b3.view()}};
  }
  std::vector<DynamicLayer<const float>> read() const {
    return {{w1.view(), b1.view()}, {w2.view(), b2.view()}, {w3.view(), b3.view()}};
  }
};
constexpr DynamicBias dynamic{
    .heads = heads_count, .hidden = hidden, .scale = DynamicScale::logarithmic};

void dynamic_strip(benchmark::State& state) {
  const std::int64_t length = state.range(0);
  const Layers layers;
  for (auto _ : state)
    benchmark::DoNotOptimize(lower(dynamic, layers.read(), 1 - length, 2 * length - 1));
  state.SetItemsProcessed(state.iterations() * (2 * length - 1));
}
BENCHMARK(dynamic_strip)->Arg(1024)->Arg(16'384);

void dynamic_gradient(benchmark::State& state) {
  const std::int64_t length = state.range(0), count = 2 * length - 1;
  const Layers layers;
  Layers grads;
  const auto grad = testing::random_numbers(static_cast<std::size_t>(heads_count * count));
  for (auto _ : state) {
    lower_backward(dynamic, layers.read(), grad, 1 - length, count, grads.views());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * count);
}
BENCHMARK(dynamic_gradient)->Arg(1024);

}  // namespace
}  // namespace gnomon
