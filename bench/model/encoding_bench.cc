// Cost of lowering an encoding: once for each length, or in each step of training.
#include "gnomon/model/encoding.h"

#include <benchmark/benchmark.h>

#include "testing.h"

namespace gnomon {
namespace {

void lower_encoding(benchmark::State& state) {
  const model::EncodingInfo& info =
      model::encodings()[static_cast<std::size_t>(state.range(0))];
  const model::Encoding encoding = info.usual({.width = 512, .heads = 8, .length = 2048});
  std::vector<testing::Tensor<float, 2>> tensors;
  std::vector<View<const float, 2>> values;
  for (const model::Parameter& one : model::parameters(encoding))
    tensors.push_back(testing::random_tensor<float, 2>({one.rows, one.columns}));
  for (const auto& tensor : tensors) values.emplace_back(tensor.view());
  for (auto _ : state) benchmark::DoNotOptimize(model::lower(encoding, {2048, 2048}, values));
  state.SetLabel(std::string(info.name));
}
BENCHMARK(lower_encoding)->DenseRange(0, 6);

}  // namespace
}  // namespace gnomon
