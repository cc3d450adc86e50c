#include "gnomon/bias/t5.h"

#include <gtest/gtest.h>

#include <cmath>

#include "bias/released.h"
#include "testing.h"

namespace gnomon {
namespace t5_test {

using testing::message_of;
using testing::Tensor;

TEST(T5, BucketsAreThoseOfReleasedModelsAtEveryDistance) {
  const auto released = testing::released_biases();
  const std::int64_t last = released["last_distance"];
  ASSERT_EQ(released["t5"].size(), 3u);
  for (const auto& one : released["t5"]) {
    const T5Bias t5{.heads = 1,
                    .direction = one["bidirectional"].get<bool>() ? T5Direction::bidirectional
                                                                  : T5Direction::causal,
                    .buckets = one["buckets"],
                    .max_distance = one["max_distance"]};
    const auto& runs = one["runs"];
    for (std::size_t run = 0; run < runs.size(); ++run) {
      const std::int64_t begin = runs[run][0];
      const std::int64_t end =
          run + 1 < runs.size() ? runs[run + 1][0].get<std::int64_t>() : last + 1;
      for (std::int64_t distance = begin; distance < end; ++distance)
        ASSERT_EQ(bucket(t5, distance), runs[run][1]) << "distance " << distance;
    }
  }
}

// Matrices of odd and even lengths, for all queries and for the last ones.
TEST(T5, MatricesAreThoseOfReleasedModelsAtEveryLength) {
  const auto released = testing::released_biases();
  for (const auto& one : released["t5"]) {
    const std::int64_t buckets = one["buckets"];
    const T5Bias t5{.heads = 1,
                    .direction = one["bidirectional"].get<bool>() ? T5Direction::bidirectional
                                                                  : T5Direction::causal,
                    .buckets = buckets,
                    .max_distance = one["max_distance"]};
    std::vector<std::int64_t> of_distance;  // distances from -1200 to 1200
    const auto& runs = one["runs"];
    for (std::size_t run = 0; run < runs.size(); ++run)
      of_distance.resize(
          static_cast<std::size_t>(
              run + 1 < runs.size() ? runs[run + 1][0].get<std::int64_t>() + 1200 : 2401),
          runs[run][1].get<std::int64_t>());
    Tensor<float, 2> table({buckets, 1});  // the value of each bucket is its index
    for (std::size_t b = 0; b < table.values.size(); ++b)
      table.values[b] = static_cast<float>(b);
    for (const std::int64_t keys : {1, 2, 31, 64, 129, 300})
      for (const std::int64_t queries : {std::int64_t{1}, (keys + 1) / 2, keys}) {
        Tensor<float, 3> out({1, queries, keys});
        dense(lower(t5, table.view(), 1 - keys, 2 * keys - 1), keys - queries, out.view());
        for (std::int64_t i = 0; i < queries; ++i)
          for (std::int64_t j = 0; j < keys; ++j) {
            const std::int64_t distance = j - (i + keys - queries);
            ASSERT_EQ(
                out.view()(0, i, j),
                static_cast<float>(of_distance[static_cast<std::size_t>(distance + 1200)]))
                << keys << " " << distance;
          }
      }
  }
}

// Boundaries at which the logarithm is a whole number of buckets. Another order of float
// operations moves them.
TEST(T5, BoundariesWhereTheLogarithmIsWhole) {
  const T5Bias t5{.heads = 1, .direction = T5Direction::bidirectional};
  for (const auto& [distance, expected] : {std::pair{7, 7},
                                           {8, 8},
                                           {15, 9},
                                           {16, 10},
                                           {31, 11},
                                           {32, 12},
                                           {63, 13},
                                           {64, 14},
                                           {127, 15},
                                           {128, 15},
                                           {1 << 30, 15}}) {
    EXPECT_EQ(bucket(t5, -distance), expected) << distance;
    EXPECT_EQ(bucket(t5, distance), expected + 16) << distance;
  }
  EXPECT_EQ(bucket(t5, 0), 0);
}

TEST(T5, CausalKeysAheadShareBucketZero) {
  const T5Bias t5{.heads = 1, .direction = T5Direction::causal};
  EXPECT_EQ(bucket(t5, 1), 0);
  EXPECT_EQ(bucket(t5, 4000), 0);
  EXPECT_EQ(bucket(t5, -15), 15);
  EXPECT_EQ(bucket(t5, -(std::int64_t{1} << 40)), 31);
}

// Ranges of near distances, across and far beyond the last bucket, on either side; and an empty
// one.
constexpr std::pair<std::int64_t, std::int64_t> ranges[] = {
    {-40, 45}, {-300, 700}, {100, 50}, {-500, 30},
    {-41, 3},  {40, 3},     {-3, 0},   {-(std::int64_t{1} << 62), 3}};

TEST(T5, StripSpreadsTheTable) {
  for (const auto direction : {T5Direction::causal, T5Direction::bidirectional})
    for (const auto& [first, count] : ranges) {
      const T5Bias t5{.heads = 3, .direction = direction, .buckets = 8, .max_distance = 20};
      const Tensor<float, 2> table = testing::random_tensor<float, 2>({8, 3});
      const StripBias spread = lower(t5, table.view(), first, count);
      ASSERT_EQ(spread.heads, 3);
      ASSERT_EQ(spread.distances(), count);
      for (std::int64_t h = 0; h < 3; ++h)
        for (std::int64_t n = 0; n < count; ++n)
          EXPECT_EQ(spread.values[static_cast<std::size_t>(h * count + n)],
                    double{table.view()(bucket(t5, first + n), h)});
    }
}

TEST(T5, GradientIsTheTransposeOfTheStrip) {
  const T5Bias t5{
      .heads = 2, .direction = T5Direction::bidirectional, .buckets = 12, .max_distance = 30};
  for (const auto& [first, count] : ranges) {
    Tensor<float, 2> grad = testing::random_tensor<float, 2>({12, 2}, 3);
    const Tensor<float, 2> before = grad;
    const std::vector<double> strip_grad =
        testing::random_numbers(static_cast<std::size_t>(2 * count), 4);
    lower_backward(t5, strip_grad, first, count, grad.view());
    for (std::int64_t b = 0; b < 12; ++b)
      for (std::int64_t h = 0; h < 2; ++h) {
        double sum = 0;  // in the order of the distances
        for (std::int64_t n = 0; n < count; ++n)
          if (bucket(t5, first + n) == b)
            sum += strip_grad[static_cast<std::size_t>(h * count + n)];
        EXPECT_EQ(grad.view()(b, h), static_cast<float>(before.view()(b, h) + sum));
      }
  }
}

TEST(T5, RefusesWhatBreaksItsBounds) {
  const auto causal = T5Direction::causal, both = T5Direction::bidirectional;
  EXPECT_EQ(message_of([&] { bucket({.heads = 0, .direction = causal}, 1); }),
            "[t5] heads must be at least 1, got 0");
  EXPECT_EQ(message_of([&] { bucket({.heads = 1}, 1); }),
            "[t5] direction must be causal or bidirectional, got 0");
  EXPECT_EQ(message_of([&] { bucket({.heads = 1, .direction = causal, .buckets = 1}, 1); }),
            "[t5] buckets must be at least 2, got 1");
  EXPECT_EQ(message_of([&] { bucket({.heads = 1, .direction = both, .buckets = 7}, 1); }),
            "[t5] buckets must be even and at least 4 if direction is bidirectional, got 7");
  EXPECT_EQ(message_of([&] {
              bucket({.heads = 1, .direction = causal, .buckets = 32, .max_distance = 16}, 1);
            }),
            "[t5] max_distance must be greater than the number of exact buckets, "
            "16, got 16");
  const Tensor<float, 2> table({32, 2});
  EXPECT_EQ(
      message_of([&] { lower(T5Bias{.heads = 3, .direction = causal}, table.view(), 0, 1); }),
      "[t5] the table must have a column for each head, 3, got 2");
  EXPECT_EQ(message_of([&] {
              lower(T5Bias{.heads = 2, .direction = causal, .buckets = 31}, table.view(), 0, 1);
            }),
            "[t5] the table must have a row for each bucket, 31, got 32");
}

}  // namespace t5_test
}  // namespace gnomon
