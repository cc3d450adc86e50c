// WavLM's gates and their gradient, 12 heads, D = 64, by the bytes of x. Argument: tokens.
#include "gnomon/bias/wavlm.h"

#include <benchmark/benchmark.h>

#include "testing.h"

namespace gnomon {
namespace {

struct Case {
  WavLm wavlm{.head_dim = 64};
  testing::Tensor<float, 2> weight = testing::random_tensor<float, 2>({8, 64}, 1);
  testing::Tensor<float, 1> bias{{8}}, constant{{12}, 1.0f};
  testing::Tensor<float, 3> x, gates;

  explicit Case(std::int64_t tokens)
      : x(testing::random_tensor<float, 3>({1, tokens, 768}, 2)), gates({1, 12, tokens}, 1.0f) {
    wavlm.t5.heads = 12;
  }
  WavLmGate<const float> read() const { return {weight.view(), bias.view(), constant.view()}; }
};

void wavlm_gates(benchmark::State& state) {
  Case of(state.range(0));
  for (auto _ : state) {
    gates<float>(of.wavlm, of.read(), of.x.view(), of.gates.view());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(of.x.bytes()));
}
BENCHMARK(wavlm_gates)->Arg(1024);

void wavlm_gradient(benchmark::State& state) {
  Case of(state.range(0)), to(state.range(0));
  const Case& read = of;
  for (auto _ : state) {
    gates_backward<float>(of.wavlm, of.read(), read.x.view(), read.gates.view(), to.x.view(),
                          {to.weight.view(), to.bias.view(), to.constant.view()});
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(of.x.bytes()));
}
BENCHMARK(wavlm_gradient)->Arg(1024);

}  // namespace
}  // namespace gnomon
