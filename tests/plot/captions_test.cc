#include "gnomon/plot/captions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "testing.h"

namespace gnomon::plot {
namespace captions_test {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t n = 32;

template <typename Value>
Matrix square(Value&& value) {
  Matrix matrix(n, n, {});
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) matrix.values.push_back(value(i, j));
  return matrix;
}
double by_distance(std::int64_t i, std::int64_t j) {
  return 1 / (1.0 + std::abs(static_cast<double>(i - j)));
}

TEST(Captions, ASimilarityThatFallsIsCalledSo) {
  EXPECT_EQ(similarity_caption(square(by_distance)),
            "Values from 0.0312 (dark) to 1 (yellow). Pairs at equal distance have equal "
            "similarity. Of two distances, the shorter one has the higher mean similarity in "
            "all pairs. Mean similarity: 0.5 at distance 1, 0.0312 at distance 31.");
}

TEST(Captions, ARandomOrReversedSimilarityIsNotCalledSmooth) {
  const auto numbers = testing::random_numbers(n * n);
  const std::string random = similarity_caption(square([&](std::int64_t i, std::int64_t j) {
    return i == j ? 1 : numbers[static_cast<std::size_t>(std::min(i, j) * n + std::max(i, j))];
  }));
  EXPECT_THAT(random, AllOf(HasSubstr("Pairs at equal distance differ by up to"),
                            HasSubstr("the shorter one has the higher mean similarity in"),
                            Not(HasSubstr("all pairs"))));
  const std::size_t at = random.find("similarity in ");
  EXPECT_NEAR(std::stod(random.substr(at + 14)), 50, 15) << random;
  const std::string reversed = similarity_caption(
      square([](std::int64_t i, std::int64_t j) { return -by_distance(i, j); }));
  EXPECT_THAT(reversed, HasSubstr("Of two distances, the longer one has the higher mean "
                                  "similarity in all pairs."));
  EXPECT_EQ(similarity_caption(square([](auto, auto) { return 2.0; })), "All values are 2.");
  EXPECT_EQ(similarity_caption(Matrix(1, 1, {nan})), "No value is finite.");
  // One pair that differs is enough.
  EXPECT_THAT(similarity_caption(square([](std::int64_t i, std::int64_t j) {
                return by_distance(i, j) + (i == 3 && j == 5 ? 0.01 : 0);
              })),
              HasSubstr("differ by up to 0.01."));
}

TEST(Captions, ATableCountsItsSigns) {
  Matrix table(5, 4, {});
  for (int r = 0; r < 5; ++r)
    for (const double value : {r % 2 ? -1.0 : 1.0, 1.0, 0.5, 2.0})
      table.values.push_back(value);
  EXPECT_EQ(table_caption(table),
            "One row per position, one column per channel; values from -1 to 2. From the first "
            "row to the last, a channel changes its sign 4 times in the first quarter of the "
            "channels and 0 times in the last quarter (means).");
  // The changes between positions that are left out are unknown.
  EXPECT_EQ(table_caption(table, 2, 3),
            "One row for each of the positions 0, 2, 4, ..., one column for each of the "
            "channels 0, 3, 6, ...; values from -1 to 2.");
  EXPECT_THROW(table_caption(table, 0), std::invalid_argument);
  EXPECT_THROW(table_caption(table, 1, 0), std::invalid_argument);
}

TEST(Captions, ABiasThatIsNotFiniteIsNotConstant) {
  const BiasPicture bias{.distances = {0, 1, 2},
                         .values = Matrix(3, 3, {0, -1, -2, nan, nan, nan, 1, 1, 1})};
  EXPECT_THAT(bias_caption(bias),
              EndsWith("With the distance, it never rises in 1 of 3 heads, is constant in 1, "
                       "has values that are not finite in 1."));
}

TEST(Captions, RoundingIsNoOrder) {
  const auto numbers = testing::random_numbers(n * n);
  const auto noise = [&](std::int64_t i, std::int64_t j) {
    return 1e-15 * numbers[static_cast<std::size_t>(i * n + j)];
  };
  EXPECT_EQ(similarity_caption(
                square([&](std::int64_t i, std::int64_t j) { return 1 + noise(i, j); })),
            "All values are 1.");
  // All distances beyond 0 are equal up to rounding: neither is more similar.
  EXPECT_THAT(similarity_caption(square([&](std::int64_t i, std::int64_t j) {
                return (i == j ? 1 : 0.5) + noise(i, j);
              })),
              HasSubstr("in 0 % of the pairs, the longer one in 0 %."));
}

TEST(Captions, DistancesAreThoseOfPositionsIfSomeAreLeftOut) {
  const std::string caption = similarity_caption(square(by_distance), 2);
  EXPECT_THAT(caption, EndsWith("Mean similarity: 0.5 at distance 2, 0.0312 at distance 62."));
  EXPECT_THROW(similarity_caption(square(by_distance), 0), std::invalid_argument);
}

TEST(Captions, AGridCountsPairsOfCells) {
  GridPicture picture{.height = 1, .width = 5, .chosen = {{.similarity = {1, .8, .6, .4, .2}}}};
  const std::string things = "Of two cells at unequal distances from the marked cell, ";
  EXPECT_THAT(grid_caption(picture),
              EndsWith(things + "the nearer one is more similar in all pairs."));
  picture.chosen[0].similarity = {1, .2, .4, .6, .8};
  EXPECT_THAT(grid_caption(picture),
              EndsWith(things + "the farther one is more similar in all pairs."));
  picture.chosen[0].similarity = {1, .8, .4, .2, .6};
  EXPECT_THAT(grid_caption(picture),
              EndsWith("the nearer one is more similar in 66.7 % of the pairs, the farther one "
                       "in 33.3 %."));
  picture.chosen[0].similarity = {1, .8, nan, .8, .2};
  EXPECT_THAT(grid_caption(picture),
              EndsWith("in 66.7 % of the pairs, the farther one in 0 %."));
  picture.chosen[0].similarity = {1, nan, nan, nan, .2};
  EXPECT_THAT(grid_caption(picture), EndsWith("to yellow (largest)."));
}

// Every pair of cells, compared directly.
TEST(Captions, TheSharesOfAGridAreThoseOfAllPairs) {
  const std::int64_t height = 5, width = 7;
  GridPicture picture{.height = height, .width = width, .chosen = {}};
  std::int64_t pairs = 0, nearer = 0;
  for (const std::int64_t chosen : {0, 17}) {
    auto similarity =
        testing::random_numbers(height * width, static_cast<unsigned>(chosen + 1));
    for (std::size_t i = 0; i < similarity.size(); i += 3) similarity[i] = 0.25;  // ties
    const auto distance = [&](std::int64_t cell) {
      const std::int64_t y = cell / width - chosen / width, x = cell % width - chosen % width;
      return y * y + x * x;
    };
    for (std::int64_t a = 0; a < height * width; ++a)
      for (std::int64_t b = 0; b < height * width; ++b)
        if (distance(a) > 0 && distance(a) < distance(b)) {
          ++pairs;
          nearer +=
              similarity[static_cast<std::size_t>(a)] > similarity[static_cast<std::size_t>(b)];
        }
    picture.chosen.push_back(
        {.y = chosen / width, .x = chosen % width, .similarity = similarity});
  }
  const std::string caption = grid_caption(picture);
  const std::size_t at = caption.find("similar in ");
  ASSERT_NE(at, caption.npos) << caption;
  EXPECT_NEAR(std::stod(caption.substr(at + 11)),
              100 * static_cast<double>(nearer) / static_cast<double>(pairs), 0.06);
}

TEST(Captions, ACurveThatRisesIsNotSaidToFall) {
  EXPECT_EQ(
      curve_caption("ones", {0, 1, 2, 3, 4, 5}, {1, .9, .8, .7, .6, .5}),
      "ones: 1 at distance 0, 0.9 at distance 1, 0.5 at distance 5; it falls at each step.");
  EXPECT_THAT(curve_caption("ones", {0, 1, 2, 3}, {1, .9, .95, .7}),
              EndsWith("; it does not fall at each step."));
  EXPECT_EQ(curve_caption("x", {}, {}), "x: no values.");
}

TEST(Captions, ABiasOfEachKind) {
  EXPECT_EQ(
      bias_caption(
          {.distances = {0, 1, 2}, .values = {4, 3, {0, -1, -2, 0, 1, 1, 5, 5, 5, 0, 2, 1}}}),
      "The value that each head adds to the score of a key, from -2 to 5. With the "
      "distance, it never rises in 1 of 4 heads, never falls in 1, is constant in 1, rises "
      "and falls in 1.");
}

TEST(Captions, ABiasNamesOnlyTheKindsThatOccur) {
  EXPECT_EQ(
      bias_caption({.distances = {0, 1, 2}, .values = {1, 3, {0, 1, 0}}}),
      "The value that each head adds to the score of a key, from 0 to 1. With the distance, "
      "it rises and falls in 1 of 1 heads.");
}

TEST(Captions, AChangeIsMeasured) {
  EXPECT_EQ(change_caption({2, 2, {0, 1, nan, -1}}, {2, 2, {0, 3, 5, -2}}),
            "Values are -1 to 1 before and -2 to 5 after; "
            "they change by 1 on average and by 2 at most.");
  EXPECT_EQ(change_caption({1, 2, {0, 1}}, {1, 2, {0, 1}}), "No value changes.");
  EXPECT_EQ(change_caption({1, 1, {nan}}, {1, 1, {0}}), "No value is finite before and after.");
  EXPECT_THROW(change_caption({1, 2, {0, 1}}, {2, 1, {0, 1}}), std::invalid_argument);
}

TEST(Captions, WeightsThatDoNotSumToOneAreNotSaidTo) {
  EXPECT_EQ(attention_caption(
                {.without = {2, 2, {1, nan, .5, .5}}, .with = {2, 2, {1, nan, .25, .75}}}),
            "The largest difference of a weight is 0.25. Each row sums to 1.");
  EXPECT_EQ(attention_caption({.without = {1, 2, {1, 1}}, .with = {1, 2, {1, 1}}}),
            "The largest difference of a weight is 0.");
  for (const auto& [error, claimed] : {std::pair{9e-6, true}, std::pair{1.1e-5, false}})
    for (const double sum : {1 + error, 1 - error})
      EXPECT_EQ(attention_caption({.without = {1, 2, {1, 0}}, .with = {1, 2, {sum, 0}}})
                    .ends_with("Each row sums to 1."),
                claimed)
          << sum;
}

}  // namespace captions_test
}  // namespace gnomon::plot
