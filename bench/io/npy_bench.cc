// Reading and writing `.npy` compared with their roof, the same bytes copied in memory.
#include "gnomon/io/npy.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "testing.h"

namespace gnomon {
namespace {

constexpr std::int64_t rows = 4096, columns = 1024;

std::filesystem::path place() {
  return std::filesystem::temp_directory_path() / "gnomon-bench.npy";
}

void npy_write(benchmark::State& state) {
  const testing::Tensor<float, 2> tensor({rows, columns}, 1.0f);
  for (auto _ : state) io::write_npy(place(), tensor.view());
  std::filesystem::remove(place());
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(tensor.bytes()));
}
BENCHMARK(npy_write);

void npy_read_and_sum(benchmark::State& state) {
  const testing::Tensor<float, 2> tensor({rows, columns}, 1.0f);
  io::write_npy(place(), tensor.view());
  for (auto _ : state) {
    const io::Array array = io::read_npy(place());
    const auto view = array.view<float, 2>();
    benchmark::DoNotOptimize(std::accumulate(view.data(), view.data() + view.size(), 0.0f));
  }
  std::filesystem::remove(place());
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(tensor.bytes()));
}
BENCHMARK(npy_read_and_sum);

void npy_roof(benchmark::State& state) {
  const testing::Tensor<float, 2> from({rows, columns}, 1.0f);
  testing::Tensor<float, 2> to({rows, columns});
  for (auto _ : state) {
    std::copy(from.values.begin(), from.values.end(), to.values.begin());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(from.bytes()));
}
BENCHMARK(npy_roof);

}  // namespace
}  // namespace gnomon
