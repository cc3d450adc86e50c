#include "gnomon/bias/form.h"

#include <gtest/gtest.h>

#include <cmath>

#include "gnomon/parallel.h"
#include "testing.h"

namespace gnomon {
namespace {

using testing::message_of;
using testing::Tensor;

constexpr std::int64_t heads_count = 3, queries = 5, keys = 9, offset = 4;

// Each form, and the value it must give, written from its definition.
struct Case {
  BiasForm form;
  std::function<double(std::int64_t h, std::int64_t q, std::int64_t k)> value;
};

std::vector<Case> cases() {
  static const Tensor<float, 4> given =
      testing::random_tensor<float, 4>({1, heads_count, queries, keys}, 5);
  StripBias strip{.heads = heads_count, .first = -8, .values = testing::random_numbers(3 * 13)};
  return {{NoBias{}, [](auto...) { return 0.0; }},
          {SlopeBias{{0.5, 0.25, 2}},
           [](auto h, auto q, auto k) {
             const double slope[] = {0.5, 0.25, 2};
             return -slope[h] * std::fabs(static_cast<double>(k - (q + offset)));
           }},
          {strip,
           [strip](auto h, auto q, auto k) {
             return strip.values[static_cast<std::size_t>(h * 13 + (k - (q + offset)) + 8)];
           }},
          {DenseBias{given.view()}, [](auto h, auto q, auto k) {
             return static_cast<double>(given.view()(0, h, q, k));
           }}};
}

TEST(BiasForm, DenseIsTheDefinition) {
  for (const Case& one : cases()) {
    Tensor<double, 3> out({heads_count, queries, keys});
    Tensor<float, 3> single({heads_count, queries, keys});
    dense(one.form, offset, out.view());
    dense(one.form, offset, single.view());
    for (std::int64_t h = 0; h < heads_count; ++h)
      for (std::int64_t q = 0; q < queries; ++q)
        for (std::int64_t k = 0; k < keys; ++k) {
          EXPECT_EQ(out.view()(h, q, k), one.value(h, q, k));
          EXPECT_EQ(single.view()(h, q, k), static_cast<float>(one.value(h, q, k)));
        }
  }
}

TEST(BiasForm, AddingIsOneRoundingOfTheSum) {
  for (const Case& one : cases()) {
    Tensor<float, 3> scores = testing::random_tensor<float, 3>({heads_count, queries, keys});
    const Tensor<float, 3> before = scores;
    add_bias(scores.view(), one.form, offset);
    for (std::int64_t h = 0; h < heads_count; ++h)
      for (std::int64_t q = 0; q < queries; ++q)
        for (std::int64_t k = 0; k < keys; ++k)
          EXPECT_EQ(scores.view()(h, q, k),
                    static_cast<float>(before.view()(h, q, k) + one.value(h, q, k)));
  }
}

TEST(BiasForm, StridedOutputIsWrittenInPlace) {
  Tensor<float, 3> transposed({keys, queries, heads_count});
  const View<float, 3> out(transposed.values.data(), {heads_count, queries, keys},
                           {1, heads_count, queries * heads_count});
  const Case one = cases()[2];
  dense(one.form, offset, out);
  EXPECT_EQ(transposed.view()(8, 4, 2), static_cast<float>(one.value(2, 4, 8)));
}

TEST(BiasForm, GradientSumsEqualDistances) {
  const Tensor<float, 3> grad = testing::random_tensor<float, 3>({heads_count, queries, keys});
  const auto all = cases();
  const BiasGradient slope = add_bias_backward(grad.view(), all[1].form, offset);
  const BiasGradient strip = add_bias_backward(grad.view(), all[2].form, offset);
  ASSERT_EQ(slope.values.size(), 3u);
  ASSERT_EQ(strip.values.size(), 3u * 13);
  for (std::int64_t h = 0; h < heads_count; ++h) {
    long double by_slope = 0;
    std::vector<long double> by_distance(13);
    for (std::int64_t q = 0; q < queries; ++q)
      for (std::int64_t k = 0; k < keys; ++k) {
        const std::int64_t distance = k - q - offset;
        by_slope -= grad.view()(h, q, k) * std::fabs(static_cast<long double>(distance));
        by_distance[static_cast<std::size_t>(distance + 8)] += grad.view()(h, q, k);
      }
    EXPECT_NEAR(slope.values[static_cast<std::size_t>(h)], static_cast<double>(by_slope),
                1e-12);
    for (std::size_t n = 0; n < 13; ++n)
      EXPECT_NEAR(strip.values[static_cast<std::size_t>(h) * 13 + n],
                  static_cast<double>(by_distance[n]), 1e-13);
  }
  EXPECT_TRUE(add_bias_backward(grad.view(), NoBias{}, offset).values.empty());
}

TEST(BiasForm, TheSameBitsForAnyNumberOfThreads) {
  const int before = threads();
  StripBias strip{.heads = 2, .first = -99, .values = testing::random_numbers(2 * 199)};
  Tensor<double, 3> one({2, 100, 100}), many({2, 100, 100});
  set_threads(1);
  dense(strip, 0, one.view());
  for (int count : {2, 7}) {
    set_threads(count);
    dense(strip, 0, many.view());
    EXPECT_EQ(one.values, many.values);
  }
  set_threads(before);
}

TEST(BiasForm, KnowsItsHeads) {
  const auto all = cases();
  EXPECT_EQ(heads(all[0].form), 0);
  for (std::size_t i = 1; i < all.size(); ++i) EXPECT_EQ(heads(all[i].form), heads_count);
}

TEST(BiasForm, RefusesWhatDoesNotFit) {
  Tensor<float, 3> out({2, queries, keys}), wide({heads_count, queries, keys + 1});
  const auto all = cases();
  EXPECT_EQ(message_of([&] { dense(all[1].form, offset, out.view()); }),
            "[bias] the matrix must have the heads of the bias, 3, got 2");
  EXPECT_EQ(message_of([&] { dense(all[2].form, offset, wide.view()); }),
            "[bias] the strip must reach distances -8 to 5, got -8 to 4");
  EXPECT_EQ(message_of([&] { add_bias(wide.view(), all[3].form, offset); }),
            "[bias] the dense bias must be [B, H, 5, 10], got [1, 3, 5, 9]");
}

TEST(BiasForm, EmptyMatricesAreFine) {
  Tensor<float, 3> none({heads_count, 0, keys});
  for (const Case& one : cases())
    EXPECT_EQ(message_of([&] { dense(one.form, offset, none.view()); }), "");
}

}  // namespace
}  // namespace gnomon
