#include "gnomon/analysis/properties.h"

#include <gtest/gtest.h>

#include <cmath>

#include "testing.h"

namespace gnomon::analysis {
namespace properties_test {

using testing::message_of;
using testing::Tensor;

template <typename T>
View<const T, 2> read(const Tensor<T, 2>& tensor) {
  return tensor.view();
}

Tensor<double, 2> filled(std::ptrdiff_t rows, std::ptrdiff_t columns,
                         double (*value)(std::ptrdiff_t, std::ptrdiff_t)) {
  Tensor<double, 2> tensor({rows, columns});
  for (std::ptrdiff_t i = 0; i < rows; ++i)
    for (std::ptrdiff_t j = 0; j < columns; ++j) tensor.view()(i, j) = value(i, j);
  return tensor;
}

TEST(Uniqueness, FindsTheNearestTwoRows) {
  auto table = filled(6, 2, [](auto i, auto j) { return j ? 0.0 : 10.0 * double(i * i); });
  table.view()(4, 0) = 91;  // next to row 3 at 90
  const Uniqueness found = uniqueness(read(table));
  EXPECT_EQ(found.first, 3);
  EXPECT_EQ(found.second, 4);
  EXPECT_DOUBLE_EQ(found.distance, 1);
  const double mean_square = (0 + 100 + 1600 + 8100 + 91 * 91 + 62500) / 6.0;
  EXPECT_DOUBLE_EQ(found.separation, 1 / std::sqrt(mean_square));
}

// 2 heads, 6 keys; the last query attends with these weights.
Tensor<double, 2> six_weights() {
  return filled(2, 6, [](auto h, auto j) {
    constexpr double weights[2][6] = {{0.1, 0.2, 0.3, 0.1, 0.1, 0.2},
                                      {0, 0.5, 0, 0.25, 0, 0.25}};
    return weights[h][j];
  });
}

TEST(Beyond, CountsFarKeysAndNewDistances) {
  const auto weights = six_weights();
  // Distances 0 to 5 have the rows 0, 1, 2, 2, 7, 1: from 3 on, only that of 4 is new.
  const auto rows = filled(6, 1, [](auto t, auto) {
    constexpr double values[] = {0, 1, 2, 2, 7, 1};
    return values[t];
  });
  const Beyond found = beyond(read(weights), read(rows), RowsOf::distances, 3);
  EXPECT_DOUBLE_EQ(found.far, (0.1 + 0.2 + 0.3 + 0 + 0.5 + 0) / 2);  // keys 0, 1, 2
  EXPECT_DOUBLE_EQ(found.unseen, (0.2 + 0.5) / 2);                   // key 1
  EXPECT_DOUBLE_EQ(found.share(), (found.far + found.unseen) / 2);
}

TEST(Beyond, ANewPositionOfTheQueryIsNewForEveryKey) {
  const auto weights = six_weights();
  auto rows = filled(6, 2, [](auto t, auto c) { return double(t < 3 ? t : 2 - c); });
  rows.view()(5, 0) = 9;
  EXPECT_DOUBLE_EQ(beyond(read(weights), read(rows), RowsOf::positions, 3).unseen, 1);
  // The query has the row of position 0; keys 3 and 4 are new.
  rows.view()(5, 0) = rows.view()(5, 1) = 0;
  EXPECT_DOUBLE_EQ(beyond(read(weights), read(rows), RowsOf::positions, 3).unseen,
                   (0.1 + 0.1 + 0.25) / 2);
}

TEST(Beyond, NoValuesAreNotNewAndMistakesAreRefused) {
  const auto weights = six_weights();
  const Tensor<double, 2> none({6, 0}), short_table({5, 1});
  const Beyond found = beyond(read(weights), read(none), RowsOf::distances, 4);
  EXPECT_EQ(found.unseen, 0);
  EXPECT_DOUBLE_EQ(found.far, (0.1 + 0.2 + 0 + 0.5) / 2);
  EXPECT_EQ(message_of([&] { beyond(read(weights), read(none), RowsOf{}, 4); }),
            "[beyond] rows must be those of positions or distances, got 0");
  EXPECT_EQ(message_of([&] { beyond(read(weights), read(short_table), RowsOf::distances, 4); }),
            "[beyond] the table must have a row for each of 6 keys, got 5");
  EXPECT_EQ(message_of([&] { beyond(read(weights), read(none), RowsOf::distances, 7); }),
            "[beyond] trained must be from 2 to the number of keys, 6, got 7");
}

TEST(Uniqueness, EqualRowsAreAtZeroAndTheFirstAreNamed) {
  const auto table = filled(7, 3, [](auto i, auto j) { return double(i % 3 + j); });
  EXPECT_EQ(uniqueness(read(table)), (Uniqueness{0, 0, 0, 3}));
  const Tensor<float, 2> nothing({4, 0});
  EXPECT_EQ(uniqueness(read(nothing)).separation, 0);
}

TEST(Uniqueness, RefusesOneRowAndWhatIsNotFinite) {
  const Tensor<float, 2> one({1, 3});
  EXPECT_EQ(message_of([&] { uniqueness(read(one)); }),
            "[uniqueness] the table must have at least 2 rows, got 1");
  Tensor<float, 2> table({2, 2});
  table.view()(1, 0) = NAN;
  EXPECT_EQ(message_of([&] { uniqueness(read(table)); }),
            "[uniqueness] entries must be finite, got NaN in row 1");
  table.view()(1, 0) = -INFINITY;
  EXPECT_EQ(message_of([&] { uniqueness(read(table)); }),
            "[uniqueness] entries must be finite, got infinity in row 1");
}

TEST(Relativity, DiagonalsOfEqualNumbersGiveZero) {
  const auto toeplitz = filled(5, 8, [](auto i, auto j) { return std::sin(double(j - i)); });
  EXPECT_EQ(relativity(read(toeplitz)), Relativity{});
}

// 0.1 is not a binary fraction: the sum of n of them, divided by n, often differs from 0.1.
TEST(Relativity, RoundingOfTheMeanIsNoDeviation) {
  for (std::ptrdiff_t n : {1, 2, 3, 6, 7, 64}) {
    const auto constant = filled(n, n, [](auto, auto) { return 0.1; });
    EXPECT_EQ(relativity(read(constant)), Relativity{}) << n;
    const auto far = filled(n, n, [](auto i, auto j) { return 1e6 + 0.1 * double(j - i); });
    EXPECT_EQ(relativity(read(far)), Relativity{}) << n;
  }
}

TEST(Relativity, MeasuresWhatTheDistanceDoesNotExplain) {
  // Scores that depend on the query only: each diagonal of a 2 x 2 matrix except the corners
  // contains 0 and 1.
  const auto rows = filled(2, 2, [](auto i, auto) { return double(i); });
  const Relativity found = relativity(read(rows));
  EXPECT_DOUBLE_EQ(found.deviation, 0.5);
  EXPECT_EQ(found.query, 0);
  EXPECT_EQ(found.key, 0);
  // The total variance is 4 (1/2)^2 = 1, of which the diagonal leaves 2 (1/2)^2.
  EXPECT_DOUBLE_EQ(found.explained, 0.5);
}

TEST(Relativity, LeavesOutWhatAMaskHides) {
  auto scores = filled(6, 6, [](auto i, auto j) { return double(j - i); });
  for (std::ptrdiff_t i = 0; i < 6; ++i)
    for (std::ptrdiff_t j = i + 1; j < 6; ++j) scores.view()(i, j) = -INFINITY;
  EXPECT_EQ(relativity(read(scores)).deviation, 0);
}

TEST(Extrapolation, NothingPastTheTrainedLengthIsNothing) {
  const auto table = filled(8, 2, [](auto i, auto) { return double(i); });
  EXPECT_EQ(extrapolation(read(table), 8), Extrapolation{});
}

TEST(Extrapolation, ALineLeavesItsRangeEvenly) {
  // Trained on positions 0 ... 4, evaluated up to 12.
  const auto table = filled(13, 1, [](auto i, auto) { return double(i); });
  const Extrapolation found = extrapolation(read(table), 5);
  EXPECT_EQ(found.past, 8);
  EXPECT_DOUBLE_EQ(found.excess, 8.0 / 4);
  EXPECT_DOUBLE_EQ(found.jump, 1);
  EXPECT_DOUBLE_EQ(found.novelty, 8);
}

TEST(Extrapolation, WhatComesRoundAgainIsNothingNew) {
  const auto table = filled(12, 2, [](auto i, auto j) { return double((i + j) % 4); });
  const Extrapolation found = extrapolation(read(table), 8);
  EXPECT_EQ(found.excess, 0);
  EXPECT_EQ(found.jump, 1);
  EXPECT_EQ(found.novelty, 0);
}

TEST(Extrapolation, AConstantThatMovesIsInfinitelyNew) {
  auto table = filled(6, 1, [](auto, auto) { return 1.0; });
  table.view()(5, 0) = 2;
  const Extrapolation found = extrapolation(read(table), 4);
  EXPECT_EQ(found.excess, INFINITY);
  EXPECT_EQ(found.jump, INFINITY);
  EXPECT_EQ(found.novelty, INFINITY);
}

TEST(Extrapolation, RefusesLengthsThatDoNotFit) {
  const Tensor<double, 2> table({6, 1});
  EXPECT_EQ(message_of([&] { extrapolation(read(table), 1); }),
            "[extrapolation] trained must be from 2 to the table's rows, 6, got 1");
  EXPECT_NE(message_of([&] { extrapolation(read(table), 7); }), "");
}

TEST(Extrapolation, RefusesWhatIsNotFinite) {
  Tensor<double, 2> table({6, 2});
  table.view()(4, 1) = NAN;
  EXPECT_EQ(message_of([&] { extrapolation(read(table), 3); }),
            "[extrapolation] entries must be finite, got NaN in row 4");
}

}  // namespace properties_test
}  // namespace gnomon::analysis
