// Tiles of 48 queries by 256 keys, as attention fills them, against the same bytes filled. On
// its diagonal a progressive bias uses most of its pieces; far from it a row uses one or two.
#include <benchmark/benchmark.h>

#include "bench/roof.h"
#include "src/bias/tile.h"
#include "testing.h"

namespace gnomon {
namespace {

constexpr std::int64_t queries = 48, keys = 256, positions = 2048;

PiecewiseLogBias progressive() {  // FIRE's 33 pieces
  PiecewiseLogBias bias{.heads = 1,
                        .c = 0.1,
                        .threshold = 512,
                        .epsilon = 1e-6,
                        .knots = {},
                        .offsets = testing::random_numbers(33, 1),
                        .slopes = testing::random_numbers(33, 2)};
  for (int p = 0; p < 33; ++p) bias.knots.push_back(p / 33.0);
  return bias;
}
GridBias grid(std::int64_t side) {
  GridBias bias{.heads = 1, .height = side, .width = side, .leading = 0, .values = {}};
  bias.values = testing::random_numbers(static_cast<std::size_t>(bias.offsets()));
  return bias;
}

struct Tile {
  std::vector<std::int64_t> query_ids, key_ids;
  std::vector<float> scores = std::vector<float>(queries * keys, 0.5f);

  Tile(std::int64_t query, std::int64_t key, std::int64_t end)
      : query_ids(testing::iota(query, std::min(queries, end - query))),
        key_ids(testing::iota(key, std::min(keys, end - key))) {}
  std::int64_t size() const {
    return static_cast<std::int64_t>(query_ids.size() * key_ids.size());
  }
};

void count(benchmark::State& state, const Tile& tile) {
  state.SetItemsProcessed(state.iterations() * tile.size());
}

template <typename Form>
void fill_tile(benchmark::State& state, const Form& form, Tile tile, std::int64_t end) {
  const auto prepared = internal::prepare<float>(form, {0, end - 1}, {0, end - 1});
  for (auto _ : state) {
    internal::fill(form, prepared, 0, tile.query_ids, tile.key_ids, tile.scores.data(), keys);
    benchmark::ClobberMemory();
  }
  count(state, tile);
}

template <typename Form>
void sum_tile(benchmark::State& state, const Form& form, const Tile& tile, std::int64_t end) {
  const auto prepared = internal::prepare<float>(form, {0, end - 1}, {0, end - 1});
  std::vector<double> sums(static_cast<std::size_t>(gradient_size(form)));
  for (auto _ : state) {
    internal::add_gradient(form, prepared, 0, tile.query_ids, tile.key_ids, tile.scores.data(),
                           keys, sums.data());
    benchmark::ClobberMemory();
  }
  count(state, tile);
}

// Argument: the first key. The queries are 2000 to 2047.
void tile_progressive_fill(benchmark::State& state) {
  fill_tile(state, progressive(), Tile(2000, state.range(0), positions), positions);
}
BENCHMARK(tile_progressive_fill)->Arg(1792)->Arg(1024)->Arg(0);

void tile_progressive_gradient(benchmark::State& state) {
  sum_tile(state, progressive(), Tile(2000, state.range(0), positions), positions);
}
BENCHMARK(tile_progressive_gradient)->Arg(1792)->Arg(1024)->Arg(0);

// Argument: the height and width of the window.
void tile_grid_fill(benchmark::State& state) {
  const std::int64_t side = state.range(0), end = side * side;
  fill_tile(state, grid(side), Tile(0, 0, end), end);
}
BENCHMARK(tile_grid_fill)->Arg(7)->Arg(14)->Arg(32);

void tile_grid_gradient(benchmark::State& state) {
  const std::int64_t side = state.range(0), end = side * side;
  sum_tile(state, grid(side), Tile(0, 0, end), end);
}
BENCHMARK(tile_grid_gradient)->Arg(7)->Arg(14)->Arg(32);

void tile_roof(benchmark::State& state) {
  Tile tile(0, 0, positions);
  for (auto _ : state) {
    roof::fill(tile.scores.data(), tile.scores.size() * sizeof(float));
    benchmark::ClobberMemory();
  }
  count(state, tile);
}
BENCHMARK(tile_roof);

void tile_prepare(benchmark::State& state) {
  const PiecewiseLogBias form = progressive();
  const std::int64_t last = state.range(0) - 1;
  for (auto _ : state)
    benchmark::DoNotOptimize(internal::prepare<float>(form, {0, last}, {0, last}));
}
BENCHMARK(tile_prepare)->Arg(2048)->Arg(32'768);

}  // namespace
}  // namespace gnomon
