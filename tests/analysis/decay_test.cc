#include "gnomon/analysis/decay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <limits>

#include "testing.h"

namespace gnomon::analysis {
namespace decay_test {

using ::testing::ElementsAre;
using testing::message_of;
using testing::Tensor;

TEST(MeanByDistance, LooksBackAndLeavesOutTheRest) {
  // Query i at position i + 1 with keys 0 ... 3.
  Tensor<float, 2> scores({2, 4});
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 4; ++j) scores.view()(i, j) = static_cast<float>(10 * i + j);
  scores.view()(1, 0) = -INFINITY;
  const auto means = mean_by_distance(View<const float, 2>(scores.view()), 1);
  ASSERT_EQ(means.size(), 4u);
  EXPECT_EQ(means[0], (1 + 12) / 2.0);
  EXPECT_EQ(means[1], (0 + 11) / 2.0);
  EXPECT_TRUE(std::isnan(means[2]));  // masked
  EXPECT_TRUE(std::isnan(means[3]));  // no pair has this distance
}

// The elements between two rows are not scores.
TEST(MeanByDistance, ReadsTheScoresOfAPartOfATable) {
  const std::array<double, 8> table{1, 2, 100, 100, 3, 4, 100, 100};
  const View<const double, 2> scores(table.data(), {2, 2}, {4, 1});
  EXPECT_THAT(mean_by_distance(scores, 0), ElementsAre((1 + 4) / 2.0, 3));
  EXPECT_TRUE(std::isnan(mean_by_distance(scores, 3)[0]));  // distances of 2 and more
  EXPECT_TRUE(std::isnan(mean_by_distance(scores, 3)[1]));
}

TEST(MeanByDistance, RefusesAnOffsetThatLeaves64Bits) {
  const std::vector<double> one(6);
  const View<const double, 2> scores(one.data(), {2, 3});
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t offset : {most, most - 1, -most, -most - 1})
    EXPECT_NE(message_of([&] { mean_by_distance(scores, offset); }), "") << offset;
  // With these offsets every key is too far back or after its query.
  for (std::int64_t offset : {most - 2, -most + 2})
    for (double mean : mean_by_distance(scores, offset)) EXPECT_TRUE(std::isnan(mean));
}

TEST(Decay, OfALine) {
  const Decay falling = decay(std::vector<double>{5, 3, 1, -1});
  EXPECT_DOUBLE_EQ(falling.rank_correlation, -1);
  EXPECT_DOUBLE_EQ(falling.slope, -2);
  EXPECT_EQ(falling.falling, 1);
  EXPECT_DOUBLE_EQ(decay(std::vector<double>{1, 2, 4, 8}).rank_correlation, 1);
  EXPECT_EQ(decay(std::vector<double>{2, 2, 2}), (Decay{0, 0, 0}));
}

// Ranks 0, 1.5, 1.5, 3 against 0, 1, 2, 3: covariance 4.5, variances 4.5 and 5.
TEST(Decay, TiesTakeTheMeanOfTheirRanks) {
  EXPECT_DOUBLE_EQ(decay(std::vector<double>{1, 2, 2, 3}).rank_correlation,
                   4.5 / std::sqrt(4.5 * 5));
}

TEST(Decay, LeavesOutNaN) {
  const Decay found = decay(std::vector<double>{4, NAN, 2, 1});
  EXPECT_DOUBLE_EQ(found.rank_correlation, -1);
  EXPECT_EQ(found.falling, 1);  // counts the only step with two finite ends
  EXPECT_EQ(message_of([] { decay(std::vector<double>{1, NAN}); }),
            "[decay] there must be scores at two or more distances, got 1");
}

const std::vector<double> frequencies{1, 0.3, 0.01, 0.002};

TEST(RotaryScore, OfOnesIsTheMeanOfCosines) {
  const auto scores = rotary_score_of_ones(frequencies, 50);
  ASSERT_EQ(scores.size(), 50u);
  EXPECT_EQ(scores[0], 1);
  for (int d = 0; d < 50; ++d) {
    long double sum = 0;
    for (double f : frequencies) sum += std::cos(static_cast<long double>(d) * f);
    EXPECT_NEAR(scores[std::size_t(d)], static_cast<double>(sum / 4), 1e-15);
  }
}

TEST(RotaryScore, OfNormalNumbersDoesNotDecay) {
  const auto sample = rotary_score_of_normal(frequencies, 200, 4000);
  for (int d : {0, 1, 50, 199}) {
    EXPECT_NEAR(sample.mean[std::size_t(d)], 0, 0.08);  // 5 deviations of the mean
    EXPECT_NEAR(sample.deviation[std::size_t(d)], 1, 0.08);
  }
  // Of few samples, it is on both sides of 1.
  const auto [least, most] =
      std::ranges::minmax(rotary_score_of_normal(frequencies, 200, 20).deviation);
  EXPECT_LT(least, 0.95);
  EXPECT_GT(most, 1.05);
  EXPECT_EQ(rotary_score_of_normal(frequencies, 5, 3).mean,
            rotary_score_of_normal(frequencies, 5, 3).mean);
  EXPECT_NE(rotary_score_of_normal(frequencies, 5, 3).mean,
            rotary_score_of_normal(frequencies, 5, 3, 2).mean);
}

TEST(RotaryScore, BoundOfRoFormer) {
  const auto bound = rotary_score_bound(frequencies, 30);
  EXPECT_EQ(bound[0], 1);
  for (int d : {1, 7, 29}) {
    std::complex<long double> partial = 0;
    long double sum = 0;
    for (double f : frequencies) {
      partial += std::polar(1.0L, static_cast<long double>(d) * f);
      sum += std::abs(partial);
    }
    EXPECT_NEAR(bound[std::size_t(d)], static_cast<double>(sum / (1 + 2 + 3 + 4)), 1e-15);
  }
}

TEST(RotaryScore, RefusesNothingToLookAt) {
  const std::vector<double> none;
  EXPECT_EQ(message_of([&] { rotary_score_of_ones(none, 5); }),
            "[decay] frequencies must be at least one, got 0");
  EXPECT_EQ(message_of([&] { rotary_score_bound(frequencies, 0); }),
            "[decay] distances must be at least 1, got 0");
  EXPECT_EQ(message_of([&] { rotary_score_of_normal(frequencies, 5, 1); }),
            "[decay] samples must be at least 2, got 1");
}

}  // namespace decay_test
}  // namespace gnomon::analysis
