#include "src/bias/tile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "gnomon/parallel.h"
#include "testing.h"

namespace gnomon {
namespace tile_test {

using internal::IdRange;
using internal::Ids;
using testing::message_of;

using Numbers = std::vector<std::int64_t>;

IdRange range_of(const Numbers& ids) {
  const auto [least, most] = std::minmax_element(ids.begin(), ids.end());
  return {*least, *most};
}

PiecewiseLogBias piecewise_log(std::int64_t heads, std::int64_t pieces, double threshold) {
  PiecewiseLogBias bias{.heads = heads,
                        .c = 0.3,
                        .threshold = threshold,
                        .epsilon = 1e-6,
                        .knots = {0},
                        .offsets = {},
                        .slopes = {}};
  for (std::int64_t p = 1; p < pieces; ++p)
    bias.knots.push_back(1.1 * static_cast<double>(p) / static_cast<double>(pieces));
  const auto slopes = testing::random_numbers(static_cast<std::size_t>(heads * pieces), 3);
  for (std::int64_t h = 0; h < heads; ++h) {
    double value = 0.2 * static_cast<double>(h);  // continuous at the knots
    for (std::int64_t p = 0; p < pieces; ++p) {
      const auto n = static_cast<std::size_t>(h * pieces + p);
      bias.slopes.push_back(slopes[n]);
      bias.offsets.push_back(value - slopes[n] * bias.knots[static_cast<std::size_t>(p)]);
      if (p + 1 < pieces)
        value = bias.offsets.back() + slopes[n] * bias.knots[static_cast<std::size_t>(p + 1)];
    }
  }
  return bias;
}

// The formula of form.h, and its derivatives.
struct Exact {
  std::size_t piece;
  double x, value, by_c, by_threshold, size;
};
Exact exact(const PiecewiseLogBias& form, std::int64_t h, std::int64_t query,
            std::int64_t key) {
  const auto psi = [&](double n) { return std::log(form.c * n + 1); };
  const double distance = std::fabs(static_cast<double>(query) - static_cast<double>(key));
  const double own = std::max(form.threshold, static_cast<double>(query));
  const double whole = psi(own) + form.epsilon;
  Exact e{};
  e.x = psi(distance) / whole;
  while (e.piece + 1 < form.knots.size() && form.knots[e.piece + 1] <= e.x) ++e.piece;
  const auto n = static_cast<std::size_t>(h) * form.knots.size() + e.piece;
  const double slope = form.slopes[n];
  e.value = form.offsets[n] + slope * e.x;
  e.size = std::fabs(form.offsets[n]) + std::fabs(slope * e.x);
  e.by_c = slope * (distance / (form.c * distance + 1) / whole -
                    e.x / whole * own / (form.c * own + 1));
  e.by_threshold = static_cast<double>(query) < form.threshold
                       ? -slope * e.x / whole * form.c / (form.c * form.threshold + 1)
                       : 0;
  return e;
}

// Sets of positions: consecutive from any start, packed, descending, scattered, single.
struct Tile {
  Numbers queries, keys;
};
std::vector<Tile> tiles() {
  Numbers packed, back, scattered;
  for (std::int64_t i = 0; i < 90; ++i) packed.push_back(i % 37);
  for (std::int64_t i = 0; i < 70; ++i) back.push_back(90 - i);
  for (std::int64_t i = 0; i < 60; ++i) scattered.push_back((i * i * 7919) % 211 - 60);
  const auto run = [](std::int64_t first, std::int64_t count) {
    return testing::iota(first, count);
  };
  return {{run(0, 48), run(0, 256)},
          {run(300, 48), run(17, 255)},
          {run(20, 31), run(0, 90)},
          {run(5, 3), run(100, 70)},
          {run(4000, 2), run(0, 77)},
          {run(-9, 20), run(-9, 20)},
          {packed, packed},
          {back, run(0, 100)},
          {run(0, 100), back},
          {scattered, scattered},
          {run(77, 1), run(0, 333)},
          {run(77, 5), run(77, 1)},
          {{0}, {0}},
          {{0, std::int64_t{1} << 40, 7}, {3, 5, std::int64_t{1} << 40}}};
}

template <typename A>
constexpr double bound = std::is_same_v<A, double> ? 0x1p-50 : 0x1p-22;

// Checks for each ISA and type: values are within the error bound, nothing is written outside
// the rows, and the gradient of each value is correct.
template <typename A>
void piecewise_log_tiles() {
  for (const auto& [pieces, threshold] :
       {std::pair{1, 30.0}, {2, 0.5}, {9, 1000.0}, {33, 25.5}}) {
    const PiecewiseLogBias form = piecewise_log(2, pieces, threshold);
    for (const Tile& tile : tiles()) {
      const auto prepared =
          internal::prepare<A>(form, range_of(tile.queries), range_of(tile.keys));
      const auto rows = static_cast<std::int64_t>(tile.queries.size());
      const auto keys = static_cast<std::int64_t>(tile.keys.size());
      for (const std::int64_t gap : {0, 5}) {
        const std::int64_t stride = keys + gap, h = gap ? 1 : 0;
        std::vector<A> out(static_cast<std::size_t>(rows * stride + 1), A(77));
        internal::fill(form, prepared, h, Ids(tile.queries), Ids(tile.keys), out.data(),
                       stride);
        const auto numbers =
            testing::random_numbers(static_cast<std::size_t>(rows * stride), 9);
        const std::vector<A> grad(numbers.begin(), numbers.end());
        const auto width = static_cast<std::size_t>(gnomon::gradient_size(form));
        std::vector<double> sums(width, 1.0), expected(width, 1.0), sizes(width, 1.0);
        internal::add_gradient(form, prepared, h, Ids(tile.queries), Ids(tile.keys),
                               grad.data(), stride, sums.data());
        const auto add = [&](std::size_t n, double g, double by) {
          expected[n] += g * by;
          sizes[n] += std::fabs(g * by);
        };
        for (std::int64_t i = 0; i < rows; ++i)
          for (std::int64_t j = 0; j < stride; ++j) {
            const auto at = static_cast<std::size_t>(i * stride + j);
            if (j >= keys) {
              ASSERT_EQ(out[at], A(77));
              continue;
            }
            const Exact e = exact(form, h, tile.queries[static_cast<std::size_t>(i)],
                                  tile.keys[static_cast<std::size_t>(j)]);
            ASSERT_NEAR(out[at], e.value, bound<A> * e.size + 1e-15)
                << pieces << " pieces, query " << tile.queries[static_cast<std::size_t>(i)]
                << ", key " << tile.keys[static_cast<std::size_t>(j)];
            const auto g = static_cast<double>(grad[at]);
            const auto count = static_cast<std::size_t>(pieces);
            add(e.piece, g, 1);
            add(count + e.piece, g, e.x);
            add(2 * count, g, e.by_c);
            add(2 * count + 1, g, e.by_threshold);
          }
        EXPECT_EQ(out.back(), A(77));
        const double tolerance = std::is_same_v<A, double> ? 1e-13 : 3e-6;
        for (std::size_t n = 0; n < width; ++n)
          EXPECT_NEAR(sums[n], expected[n], tolerance * sizes[n]) << pieces << ", " << n;
      }
    }
  }
}

TEST(BiasTile, PiecewiseLogValuesAndGradients) {
  for (const Isa isa : available_isas()) {
    const ScopedIsa scope(isa);
    piecewise_log_tiles<float>();
    piecewise_log_tiles<double>();
  }
}

// Required for decoding token by token.
TEST(BiasTile, ARowHasTheSameBitsWhateverIsBesideIt) {
  const PiecewiseLogBias form = piecewise_log(1, 33, 60.5);
  const Numbers queries = testing::iota(20, 90), keys = testing::iota(0, 110);
  for (const Isa isa : available_isas()) {
    const ScopedIsa scope(isa);
    const auto prepared = internal::prepare<float>(form, {20, 109}, {0, 109});
    std::vector<float> whole(90 * 110), one(110);
    internal::fill(form, prepared, 0, Ids(queries), Ids(keys), whole.data(), 110);
    for (std::int64_t i = 0; i < 90; ++i) {
      const std::int64_t query = 20 + i;
      const auto alone = internal::prepare<float>(form, {query, query}, {0, 109});
      internal::fill(form, alone, 0, Ids(&query, 1), Ids(keys), one.data(), 110);
      for (std::size_t j = 0; j < 110; ++j)
        ASSERT_EQ(one[j], whole[static_cast<std::size_t>(i) * 110 + j]) << i << ", " << j;
    }
  }
}

TEST(BiasTile, ValuesComeInAnyUnit) {
  const double log2_of_e = 1.4426950408889634;
  const Numbers ids = testing::iota(0, 9), far = {0, std::int64_t{1} << 40};
  const PiecewiseLogBias form = piecewise_log(1, 5, 4.5);
  const auto compare = [&](const auto& of, const Numbers& at) {
    const auto one = internal::prepare<double>(of, range_of(at), range_of(at));
    const auto other = internal::prepare<double>(of, range_of(at), range_of(at), log2_of_e);
    const auto side = static_cast<std::int64_t>(at.size());
    std::vector<double> a(at.size() * at.size()), b = a;
    internal::fill(of, one, 0, Ids(at), Ids(at), a.data(), side);
    internal::fill(of, other, 0, Ids(at), Ids(at), b.data(), side);
    for (std::size_t n = 0; n < a.size(); ++n)
      EXPECT_NEAR(b[n], log2_of_e * a[n], 1e-14 * (1 + std::fabs(a[n])));
  };
  compare(form, ids);
  compare(form, far);
  compare(GridBias{.heads = 1,
                   .height = 3,
                   .width = 3,
                   .leading = 0,
                   .values = testing::random_numbers(25)},
          ids);
}

template <typename A>
void grid_tiles(std::int64_t height, std::int64_t width, std::int64_t leading) {
  GridBias form{.heads = 2, .height = height, .width = width, .leading = leading, .values = {}};
  form.values = testing::random_numbers(static_cast<std::size_t>(2 * form.offsets()), 3);
  const std::int64_t side = form.positions(), count = form.offsets();
  Numbers shuffled;
  for (std::int64_t i = 0; i < side; ++i) shuffled.push_back(i * 5 % side);
  const std::vector<Tile> tiles = {
      {testing::iota(0, side), testing::iota(0, side)},
      {testing::iota(side / 2, side - side / 2), testing::iota(0, side)},
      {testing::iota(0, side), testing::iota(side / 3, side - side / 3)},
      {shuffled, shuffled},
      {{0}, {side - 1}},
      {{-1, 0, side}, {side, side - 1, -5, 0}}};  // padding may be anywhere
  for (const Tile& tile : tiles) {
    const auto prepared = internal::prepare<A>(form, {0, side - 1}, {0, side - 1});
    const auto rows = static_cast<std::int64_t>(tile.queries.size());
    const auto keys = static_cast<std::int64_t>(tile.keys.size());
    for (const std::int64_t gap : {0, 3}) {
      const std::int64_t stride = keys + gap, h = gap ? 1 : 0;
      std::vector<A> out(static_cast<std::size_t>(rows * stride + 1), A(77));
      internal::fill(form, prepared, h, Ids(tile.queries), Ids(tile.keys), out.data(), stride);
      const auto numbers = testing::random_numbers(static_cast<std::size_t>(rows * stride), 9);
      const std::vector<A> grad(numbers.begin(), numbers.end());
      std::vector<double> sums(static_cast<std::size_t>(count), 1.0), expected = sums;
      internal::add_gradient(form, prepared, h, Ids(tile.queries), Ids(tile.keys), grad.data(),
                             stride, sums.data());
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < stride; ++j) {
          const auto at = static_cast<std::size_t>(i * stride + j);
          if (j >= keys) {
            ASSERT_EQ(out[at], A(77));
            continue;
          }
          const std::int64_t query = tile.queries[static_cast<std::size_t>(i)];
          const std::int64_t key = tile.keys[static_cast<std::size_t>(j)];
          if (std::min(query, key) < 0 || std::max(query, key) >= side) {
            ASSERT_EQ(out[at], A(0));
            continue;
          }
          std::int64_t n;
          if (query < leading || key < leading) {
            n = count - (query >= leading ? 2 : key >= leading ? 3 : 1);
          } else {
            const std::int64_t a = query - leading, b = key - leading;
            n = (a / width - b / width + height - 1) * (2 * width - 1) + a % width - b % width +
                width - 1;
          }
          ASSERT_EQ(out[at],
                    static_cast<A>(form.values[static_cast<std::size_t>(h * count + n)]));
          expected[static_cast<std::size_t>(n)] += static_cast<double>(grad[at]);
        }
      EXPECT_EQ(out.back(), A(77));
      for (std::size_t n = 0; n < sums.size(); ++n)
        EXPECT_NEAR(sums[n], expected[n], 1e-12) << n;
    }
  }
}

TEST(BiasTile, GridValuesAndGradients) {
  for (const Isa isa : available_isas()) {
    const ScopedIsa scope(isa);
    for (const auto& [height, width] :
         {std::pair{7, 7}, {12, 12}, {1, 1}, {3, 20}, {20, 3}, {2, 40}})
      for (const std::int64_t leading : {0, 1}) {
        grid_tiles<float>(height, width, leading);
        grid_tiles<double>(height, width, leading);
      }
  }
}

TEST(BiasTile, PreparedTheSameForAnyNumberOfThreads) {
  const PiecewiseLogBias form = piecewise_log(1, 12, 100);
  const int before = threads();
  set_threads(1);
  const auto one = internal::prepare<float>(form, {10, 9000}, {0, 9000});
  for (const int count : {2, 7}) {
    set_threads(count);
    const auto many = internal::prepare<float>(form, {10, 9000}, {0, 9000});
    EXPECT_EQ(one.warped, many.warped);
    EXPECT_EQ(one.by_c, many.by_c);
    EXPECT_EQ(one.scale, many.scale);
    EXPECT_EQ(one.ends, many.ends);
  }
  set_threads(before);
}

TEST(BiasTile, RefusesNumbersThatDoNotFit) {
  const auto says = [](const BiasForm& form) {
    return message_of([&] { internal::check_form(form); });
  };
  GridBias grid{.heads = 2, .height = 2, .width = 2, .leading = 0, .values = {}};
  EXPECT_EQ(says(grid), "[bias] a grid's numbers, heads x offsets, must be 18, got 0");
  grid.values.resize(18);
  EXPECT_EQ(says(grid), "");
  EXPECT_EQ(message_of([&] { internal::check_ids(grid, {0, 4}); }),
            "[bias] positions on the grid must be 0 to 3, got 4");
  EXPECT_EQ(message_of([&] { internal::check_ids(grid, {-1, 3}); }),
            "[bias] positions on the grid must be 0 to 3, got -1");
  grid.leading = 2;
  EXPECT_EQ(says(grid), "[bias] class tokens of a grid must be 0 or 1, got 2");
  grid.height = 0;
  EXPECT_EQ(says(grid), "[bias] height of a grid must be 1 to 32767, got 0");
  PiecewiseLogBias bias = piecewise_log(2, 3, 10);
  EXPECT_EQ(says(bias), "");
  bias.slopes.pop_back();
  EXPECT_EQ(says(bias), "[bias] slopes, heads x pieces, must be 6, got 5");
  bias.knots[2] = bias.knots[1];
  EXPECT_EQ(says(bias).substr(0, 40), "[bias] knots must be strictly increasing");
  bias.knots[0] = 0.1;
  EXPECT_EQ(says(bias), "[bias] the first knot must be 0, got 0.1");
  bias.threshold = 0;
  EXPECT_EQ(says(bias), "[bias] threshold must be positive and finite, got 0");
  bias.c = -1;
  EXPECT_EQ(says(bias), "[bias] c must be positive and finite, got -1");
}

}  // namespace tile_test
}  // namespace gnomon
