// LayoutLM's three axes: lowering for a page of 512 words, and tiles of 48 queries by 256 keys.
#include "gnomon/bias/layout.h"

#include <benchmark/benchmark.h>

#include "src/bias/tile.h"
#include "testing.h"

namespace gnomon {
namespace {

constexpr std::int64_t heads_count = 12, words = 512, queries = 48, keys = 256;

WordBoxes page() {
  WordBoxes page;
  for (std::int64_t p = 0; p < words; ++p) {
    page.x.push_back(p * 137 % 1000);
    page.y.push_back(p / 10 * 19);
  }
  return page;
}

AxesBias form() {
  const auto text = testing::random_tensor<float, 2>({32, heads_count}, 1);
  const auto sides = testing::random_tensor<float, 2>({64, heads_count}, 2);
  return lower(bias::layoutlm_v3(heads_count, 64), {text.view(), sides.view(), sides.view()},
               page());
}

void layout_lower(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(form());
}
BENCHMARK(layout_lower);

void layout_tile_fill(benchmark::State& state) {
  const AxesBias bias = form();
  const auto prepared = internal::prepare<float>(bias, {0, words - 1}, {0, words - 1});
  const auto query_ids = testing::iota(200, queries), key_ids = testing::iota(10, keys);
  std::vector<float> scores(queries * keys);
  for (auto _ : state) {
    internal::fill(bias, prepared, 3, query_ids, key_ids, scores.data(), keys);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * queries * keys);
}
BENCHMARK(layout_tile_fill);

void layout_tile_gradient(benchmark::State& state) {
  const AxesBias bias = form();
  const auto prepared = internal::prepare<float>(bias, {0, words - 1}, {0, words - 1});
  const auto query_ids = testing::iota(200, queries), key_ids = testing::iota(10, keys);
  const std::vector<float> grad(queries * keys, 0.5f);
  std::vector<double> sums(static_cast<std::size_t>(gradient_size(bias)));
  for (auto _ : state) {
    internal::add_gradient(bias, prepared, 3, query_ids, key_ids, grad.data(), keys,
                           sums.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * queries * keys);
}
BENCHMARK(layout_tile_gradient);

}  // namespace
}  // namespace gnomon
