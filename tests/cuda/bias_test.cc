#include "gnomon/cuda/bias.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "gnomon/bias/fire.h"
#include "naive/bias.h"
#include "testing.h"

namespace gnomon {
namespace cuda_bias_test {

using std::int64_t;
using testing::naive_bias;
using testing::random_numbers;

std::vector<float> floats(const std::vector<double>& numbers) {
  return {numbers.begin(), numbers.end()};
}

TEST(CudaBias, OfASlopeEqualsTheOracle) {
  const SlopeBias form{random_numbers(3)};
  const std::vector<float> slopes = floats(form.slopes);
  const cuda::SlopeView view{slopes.data(), 3};
  for (int h = 0; h < 3; ++h)
    for (const int64_t query : {0, 5, 1000, 16'777'217})
      for (const int64_t key : {0, 4, 5, 6, 999, 100'000'001}) {
        const double want = naive_bias(form, h, query, key);
        EXPECT_NEAR(bias(view, h, query, key), want, 0x1p-22 * std::fabs(want));
      }
}

TEST(CudaBias, OfAStripIsExactAndNaNOutside) {
  const StripBias form{2, -3, random_numbers(16)};
  const std::vector<float> values = floats(form.values);
  const cuda::StripView view{values.data(), -3, 8, 2};
  for (int h = 0; h < 2; ++h)
    for (int64_t distance = -10; distance < 12; ++distance) {
      const float got = bias(view, h, 100, 100 + distance);
      if (distance >= -3 && distance < 5)
        EXPECT_EQ(got, static_cast<float>(naive_bias(form, h, 100, 100 + distance)));
      else
        EXPECT_TRUE(std::isnan(got)) << distance;
    }
  EXPECT_TRUE(std::isnan(bias(view, 0, int64_t{1} << 60, 0)));
}

TEST(CudaBias, OfAGridIsExactAndNaNOutside) {
  for (const int leading : {0, 1}) {
    GridBias form{2, 3, 4, leading, {}};
    form.values = random_numbers(static_cast<std::size_t>(2 * form.offsets()));
    const std::vector<float> values = floats(form.values);
    const cuda::GridView view{values.data(), 3, 4, leading, 2};
    EXPECT_EQ(offsets(view), form.offsets());
    for (int h = 0; h < 2; ++h)
      for (int64_t query = -1; query <= form.positions(); ++query)
        for (int64_t key = -1; key <= form.positions(); ++key) {
          const float got = bias(view, h, query, key);
          if (std::min(query, key) < 0 || std::max(query, key) == form.positions())
            EXPECT_TRUE(std::isnan(got)) << query << " " << key;
          else
            EXPECT_EQ(got, static_cast<float>(naive_bias(form, h, query, key)))
                << query << " " << key;
        }
  }
}

// FIRE: continuous, so the piece of an x at a knot does not matter.
TEST(CudaBias, OfPiecesEqualsTheOracle) {
  constexpr int64_t heads = 2, hidden = 8;
  const std::vector<float> w1 = floats(random_numbers(hidden, 1)),
                           w2 = floats(random_numbers(heads * hidden, 3)),
                           b2 = floats(random_numbers(heads, 4));
  std::vector<float> b1;  // a knot at each multiple of 0.11
  for (const float w : w1) b1.push_back(-w * 0.11f * static_cast<float>(b1.size() + 1));
  const float c = 0.1f, multiplier = 1;
  const PiecewiseLogBias form =
      lower(Fire{.heads = heads, .hidden = hidden, .threshold = 100},
            FireParameters<const float>{.w1 = {w1.data(), {hidden}},
                                        .b1 = {b1.data(), {hidden}},
                                        .w2 = {w2.data(), {heads, hidden}},
                                        .b2 = {b2.data(), {heads}},
                                        .c = {&c, {1}},
                                        .multiplier = {&multiplier, {1}}});
  ASSERT_EQ(form.pieces(), 9);
  const std::vector<float> knots = floats(form.knots), constant = floats(form.offsets),
                           slopes = floats(form.slopes);
  const cuda::PiecewiseLogView view{knots.data(),
                                    constant.data(),
                                    slopes.data(),
                                    static_cast<std::int32_t>(form.pieces()),
                                    static_cast<float>(form.c),
                                    static_cast<float>(form.threshold),
                                    static_cast<float>(form.epsilon),
                                    2};
  double greatest = 1;  // |offset| + |slope x|; x can exceed 1 for future keys
  for (std::size_t i = 0; i < form.slopes.size(); ++i)
    greatest = std::max(greatest, std::fabs(form.offsets[i]) + 3 * std::fabs(form.slopes[i]));
  for (int h = 0; h < heads; ++h)
    for (int64_t query = 0; query < 400; query += 7)
      for (int64_t key = 0; key < 700; key += 3)
        ASSERT_NEAR(bias(view, h, query, key), naive_bias(form, h, query, key),
                    0x1p-20 * greatest)
            << query << " " << key;
}

TEST(CudaBias, FindsThePieceOfAKnot) {
  const std::vector<float> knots = {0, 0.25f, 0.5f, 0.75f};
  const cuda::PiecewiseLogView view{knots.data(), nullptr, nullptr, 4, 0.1f, 1, 0, 1};
  EXPECT_EQ(piece_of(view, -1), 0);
  for (std::int32_t p = 0; p < 4; ++p) {
    EXPECT_EQ(piece_of(view, knots[static_cast<std::size_t>(p)]), p);
    EXPECT_EQ(piece_of(view, knots[static_cast<std::size_t>(p)] + 0.1f), p);
  }
  EXPECT_EQ(piece_of(view, 9), 3);
}

}  // namespace cuda_bias_test
}  // namespace gnomon
