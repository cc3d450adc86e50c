#include "gnomon/bias/form.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "gnomon/parallel.h"
#include "testing.h"

namespace gnomon {
namespace bias_form_test {

using testing::message_of;
using testing::Tensor;

constexpr std::int64_t heads_count = 3, queries = 5, keys = 9, offset = 4;

// Each form, and its expected value, written from its definition.
struct Case {
  BiasForm form;
  std::function<double(std::int64_t h, std::int64_t q, std::int64_t k)> value;
};

std::vector<Case> cases() {
  static const Tensor<float, 4> given =
      testing::random_tensor<float, 4>({1, heads_count, queries, keys}, 5);
  StripBias strip{
      .heads = heads_count, .min_distance = -8, .values = testing::random_numbers(3 * 13)};
  GridBias grid{.heads = heads_count,
                .height = 3,
                .width = 3,
                .leading = 0,
                .values = testing::random_numbers(3 * 25, 2)};
  return {
      {NoBias{}, [](auto...) { return 0.0; }},
      {SlopeBias{{0.5, 0.25, 2}},
       [](auto h, auto q, auto k) {
         const double slope[] = {0.5, 0.25, 2};
         return -slope[h] * std::fabs(static_cast<double>(k - (q + offset)));
       }},
      {strip,
       [strip](auto h, auto q, auto k) {
         return strip.values[static_cast<std::size_t>(h * 13 + (k - (q + offset)) + 8)];
       }},
      {DenseBias{given.view()},
       [](auto h, auto q, auto k) { return static_cast<double>(given.view()(0, h, q, k)); }},
      {grid, [grid](auto h, auto q, auto k) {
         const auto row = (q + offset) / 3 - k / 3, column = (q + offset) % 3 - k % 3;
         return grid.values[static_cast<std::size_t>(h * 25 + (row + 2) * 5 + column + 2)];
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

// An additive mask hides keys with -infinity.
TEST(BiasForm, DenseCopiesMinusInfinity) {
  constexpr float hidden = -std::numeric_limits<float>::infinity();
  Tensor<float, 4> mask({1, 2, 5, 21});
  for (std::size_t n = 0; n < mask.values.size(); n += 3) mask.values[n] = hidden;
  Tensor<float, 3> out({2, 5, 21}), scores({2, 5, 21}, 2.f);
  dense(DenseBias{mask.view()}, 0, out.view());
  add_bias(scores.view(), DenseBias{mask.view()}, 0);
  EXPECT_EQ(out.values, mask.values);
  for (std::size_t n = 0; n < mask.values.size(); ++n)
    EXPECT_EQ(scores.values[n], n % 3 ? 2.f : hidden);
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

// Matrices longer than one block, and one query of many heads; contiguous, unaligned, strided
// and reversed. Elements outside the matrix must not change.
TEST(BiasForm, LargeMatricesAreTheDefinitionInEveryLayout) {
  struct Size {
    std::int64_t h, q, k, offset;
  };
  const double inf = std::numeric_limits<double>::infinity();
  for (const Isa isa : available_isas()) {
    const ScopedIsa scope(isa);
    for (const auto& [h, q, k, offset] :
         {Size{2, 70, 333, 100}, {1, 17, 2100, 2080}, {37, 1, 19, 18}, {3, 2, 4099, 0}}) {
      const std::int64_t first = -(offset + q) - 2, count = q + k + 5;
      StripBias strip{.heads = h,
                      .min_distance = first,
                      .values = testing::random_numbers(static_cast<std::size_t>(h * count))};
      strip.values[7] = -inf;
      SlopeBias slope;
      for (std::int64_t i = 0; i < h; ++i) slope.slopes.push_back(0.3 + 0.01 * double(i));
      const Tensor<float, 4> given = testing::random_tensor<float, 4>({1, h, q, k}, 5);
      const View<const float, 4> turned(&given.view()(0, 0, 0, k - 1), {1, h, q, k},
                                        {h * q * k, q * k, k, -1});
      const std::vector<BiasForm> forms{NoBias{}, slope, strip, DenseBias{given.view()},
                                        DenseBias{turned}};
      const auto value = [&](std::size_t form, std::int64_t i, std::int64_t j,
                             std::int64_t key) -> double {
        const std::int64_t distance = key - j - offset;
        switch (form) {
          case 0:
            return 0;
          case 1:
            return -slope.slopes[std::size_t(i)] * std::fabs(double(distance));
          case 2:
            return strip.values[std::size_t(i * count + distance - first)];
          case 3:
            return given.view()(0, i, j, key);
          default:
            return given.view()(0, i, j, k - 1 - key);
        }
      };
      const auto wide = h * q * (2 * k + 3) + 1;
      for (std::size_t form = 0; form < forms.size(); ++form)
        for (const auto& [begin, step] :
             {std::pair{std::int64_t{0}, std::int64_t{1}}, {1, 2}, {2 * k, -1}}) {
          Tensor<float, 1> field({wide}, 7.0f), sums({wide}, 7.0f);
          Tensor<double, 1> doubles({wide}, 7.0);
          const auto view = [&]<typename T>(Tensor<T, 1>& of) {
            return View<T, 3>(of.values.data() + begin, {h, q, k},
                              {q * (2 * k + 3), 2 * k + 3, step});
          };
          dense(forms[form], offset, view(field));
          dense(forms[form], offset, view(doubles));
          add_bias(view(sums), forms[form], offset);
          for (std::int64_t i = 0; i < h; ++i)
            for (std::int64_t j = 0; j < q; ++j)
              for (std::int64_t key = 0; key < k; ++key) {
                const double expected = value(form, i, j, key);
                ASSERT_EQ(view(field)(i, j, key), static_cast<float>(expected)) << form;
                ASSERT_EQ(view(doubles)(i, j, key), expected) << form;
                ASSERT_EQ(view(sums)(i, j, key), static_cast<float>(7.0 + expected)) << form;
                view(field)(i, j, key) = view(sums)(i, j, key) = 7.0f;
                view(doubles)(i, j, key) = 7.0;
              }
          EXPECT_EQ(field.values, (Tensor<float, 1>({wide}, 7.0f).values));
          EXPECT_EQ(sums.values, field.values);
          EXPECT_EQ(doubles.values, (Tensor<double, 1>({wide}, 7.0).values));
        }
    }
  }
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
  StripBias strip{
      .heads = 2, .min_distance = -999, .values = testing::random_numbers(2 * 1999)};
  const Tensor<float, 3> scores = testing::random_tensor<float, 3>({2, 1000, 100});
  set_threads(1);
  Tensor<double, 3> one({2, 1000, 100}), many({2, 1000, 100});
  Tensor<float, 3> one_sum = scores;
  dense(strip, 0, one.view());
  add_bias(one_sum.view(), strip, 0);
  for (int count : {2, 7}) {
    set_threads(count);
    Tensor<float, 3> sum = scores;
    dense(strip, 0, many.view());
    add_bias(sum.view(), strip, 0);
    EXPECT_EQ(one.values, many.values);
    EXPECT_EQ(one_sum.values, sum.values);
  }
  set_threads(before);
}

TEST(BiasForm, KnowsItsHeads) {
  const auto all = cases();
  EXPECT_EQ(heads(all[0].form), 0);
  for (std::size_t i = 1; i < all.size(); ++i) EXPECT_EQ(heads(all[i].form), heads_count);
}

TEST(BiasForm, KnowsItsNumbers) {
  const std::int64_t expected[] = {0, 1, 13, 0, 25};
  const auto all = cases();
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(gradient_size(all[i].form), expected[i]);
  EXPECT_EQ(
      gradient_size(PiecewiseLogBias{
          .heads = 1, .c = 1, .threshold = 1, .knots = {0, 1}, .offsets = {}, .slopes = {}}),
      6);
}

TEST(BiasForm, RefusesWhatDoesNotFit) {
  Tensor<float, 3> out({2, queries, keys}), wide({heads_count, queries, keys + 1});
  const auto all = cases();
  EXPECT_EQ(message_of([&] { dense(all[1].form, offset, out.view()); }),
            "[bias] the matrix must have the heads of the bias, 3, got 2");
  EXPECT_EQ(message_of([&] { dense(all[2].form, offset, wide.view()); }),
            "[bias] the strip must cover distances -8 to 5, got -8 to 4");
  EXPECT_EQ(message_of([&] { add_bias(wide.view(), all[3].form, offset); }),
            "[bias] the dense bias must be [B, H, 5, 10], got [1, 3, 5, 9]");
  EXPECT_EQ(message_of([&] { dense(all[4].form, offset, wide.view()); }),
            "[bias] positions on the grid must be 0 to 8, got 9");
  EXPECT_EQ(message_of([&] { dense(all[4].form, offset + 1, wide.view()); }),
            "[bias] positions on the grid must be 0 to 8, got 9");
}

TEST(BiasForm, EmptyMatricesAreFine) {
  Tensor<float, 3> none({heads_count, 0, keys});
  for (const Case& one : cases())
    EXPECT_EQ(message_of([&] { dense(one.form, offset, none.view()); }), "");
}

}  // namespace bias_form_test
}  // namespace gnomon
