#include <gtest/gtest.h>

#include <algorithm>

#include "gnomon/bias/form.h"
#include "src/bias/tile.h"
#include "testing.h"

namespace gnomon {
namespace axes_test {

using internal::Ids;
using testing::message_of;

using Numbers = std::vector<std::int64_t>;

// Three axes: the text, the columns of a page and its lines.
AxesBias axes(std::int64_t heads, std::int64_t positions, std::int64_t width) {
  AxesBias bias{.heads = heads, .axes = {}};
  const auto add = [&](Numbers coordinates, std::int64_t first, std::int64_t count) {
    bias.axes.push_back({first,
                         testing::random_numbers(static_cast<std::size_t>(heads * count),
                                                 static_cast<unsigned>(count)),
                         std::move(coordinates)});
  };
  Numbers x, y;
  for (std::int64_t p = 0; p < positions; ++p)
    x.push_back(100 - 7 * (p % width)), y.push_back(p / width);
  add({}, -positions, 2 * positions);
  add(x, -7 * width, 14 * width + 1);
  add(y, -positions, 2 * positions + 5);
  return bias;
}

template <typename A>
void tiles() {
  constexpr std::int64_t positions = 300;
  const AxesBias form = axes(2, positions, 17);
  Numbers shuffled;
  for (std::int64_t i = 0; i < positions; ++i) shuffled.push_back(i * 7 % positions);
  const std::pair<Numbers, Numbers> tiles[] = {
      {testing::iota(0, 48), testing::iota(0, positions)},
      {testing::iota(250, 50), testing::iota(33, 257)},
      {shuffled, shuffled},
      {{0}, {positions - 1}},
      {{5, -1, positions}, {-3, 5, positions}},
      {{3}, {}}};
  for (const auto& [queries, keys] : tiles)
    for (const std::int64_t gap : {0, 3}) {
      const std::int64_t stride = std::ssize(keys) + gap, h = gap ? 1 : 0;
      const auto prepared = internal::prepare<A>(form, {}, {}, gap ? 2.0 : 1.0);
      const auto all = queries.size() * static_cast<std::size_t>(stride);
      std::vector<A> out(all + 1, A(77));
      internal::fill(form, prepared, h, Ids(queries), Ids(keys), out.data(), stride);
      const auto random = testing::random_numbers(all, 9);
      const std::vector<A> grad(random.begin(), random.end());
      std::vector<double> sums(static_cast<std::size_t>(form.distances()), 1.0),
          expected = sums;
      internal::add_gradient(form, prepared, h, Ids(queries), Ids(keys), grad.data(), stride,
                             sums.data());
      for (std::size_t i = 0; i < queries.size(); ++i)
        for (std::size_t j = 0; j < static_cast<std::size_t>(stride); ++j) {
          const std::size_t at = i * static_cast<std::size_t>(stride) + j;
          if (j >= keys.size()) {
            ASSERT_EQ(out[at], A(77));
            continue;
          }
          const std::int64_t query = queries[i], key = keys[j];
          double sum = 0;
          std::int64_t before = 0;
          for (std::size_t a = 0; a < 3; before += form.distances(a++)) {
            const auto& axis = form.axes[a];
            std::int64_t from = query, to = key;
            if (a > 0) {
              if (std::min(query, key) < 0 || std::max(query, key) >= positions) continue;
              from = axis.coordinates[static_cast<std::size_t>(query)];
              to = axis.coordinates[static_cast<std::size_t>(key)];
            }
            const std::int64_t column = to - from - axis.min_distance;
            if (column < 0 || column >= form.distances(a)) continue;
            sum += axis.values[static_cast<std::size_t>(h * form.distances(a) + column)];
            expected[static_cast<std::size_t>(before + column)] +=
                static_cast<double>(grad[at]);
          }
          ASSERT_EQ(out[at], static_cast<A>((gap ? 2.0 : 1.0) * sum));
        }
      EXPECT_EQ(out.back(), A(77));
      for (std::size_t n = 0; n < sums.size(); ++n)
        ASSERT_NEAR(sums[n], expected[n], 1e-12) << n;
    }
}

TEST(BiasAxes, ValuesAndGradientsOfTiles) {
  tiles<float>();
  tiles<double>();
}

TEST(BiasAxes, MatricesAreTheSum) {
  const AxesBias form = axes(2, 20, 6);
  EXPECT_EQ(heads(form), 2);
  EXPECT_EQ(gradient_size(form), 40 + 85 + 45);
  testing::Tensor<double, 3> out({2, 6, 20});
  dense(form, 9, out.view());
  testing::Tensor<float, 3> scores({2, 6, 20}, 1.0f);
  add_bias(scores.view(), form, 9);
  for (std::int64_t h = 0; h < 2; ++h)
    for (std::int64_t q = 0; q < 6; ++q)
      for (std::int64_t k = 0; k < 20; ++k) {
        const std::int64_t i = q + 9;
        const auto at = [&](std::size_t a, std::int64_t column) {
          return form.axes[a].values[static_cast<std::size_t>(h * form.distances(a) + column)];
        };
        const double expected =
            at(0, k - i + 20) + at(1, 7 * (i % 6 - k % 6) + 42) + at(2, k / 6 - i / 6 + 20);
        EXPECT_EQ(out.view()(h, q, k), expected);
        EXPECT_EQ(scores.view()(h, q, k), static_cast<float>(1 + expected));
      }
}

TEST(BiasAxes, RefusesNumbersThatDoNotFit) {
  const auto says = [](const BiasForm& form) {
    return message_of([&] { internal::check_form(form); });
  };
  AxesBias form = axes(2, 20, 6);
  EXPECT_EQ(says(form), "");
  EXPECT_EQ(message_of([&] { internal::check_ids(form, {0, 20}); }),
            "[bias] positions with coordinates must be 0 to 19, got 20");
  testing::Tensor<double, 3> out({2, 4, 21});
  EXPECT_EQ(message_of([&] { dense(form, 0, out.view()); }),
            "[bias] positions with coordinates must be 0 to 19, got 20");
  form.axes[0].min_distance = 0;
  testing::Tensor<double, 3> less({2, 4, 4});
  EXPECT_EQ(message_of([&] { dense(form, 0, less.view()); }),
            "[bias] the strip must cover distances -3 to 3, got 0 to 39");
  form = axes(2, 20, 6), form.axes[1].values.resize(2 * 60);
  EXPECT_EQ(says(form),
            "[bias] the strip of an axis must cover distances -35 to 35, got -42 to 17");
  form = axes(2, 20, 6), form.axes[2].values.pop_back();
  EXPECT_EQ(says(form), "[bias] an axis's numbers, heads x distances, must be 88, got 89");
  form = axes(2, 20, 6), form.axes[2].coordinates.pop_back();
  EXPECT_EQ(says(form), "[bias] coordinates of an axis must be 20, got 19");
  form = axes(2, 20, 6), form.axes[2].coordinates[4] = std::int64_t{1} << 40;
  EXPECT_EQ(says(form),
            "[bias] coordinates must be at most 2^31 in magnitude, got 1099511627776");
  form.axes.clear();
  EXPECT_EQ(says(form), "[bias] axes must be 1 to 8, got 0");
}

}  // namespace axes_test
}  // namespace gnomon
