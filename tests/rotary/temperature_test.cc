#include "gnomon/rotary/temperature.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "gnomon/parallel.h"
#include "testing.h"

namespace gnomon {
namespace temperature_test {

using testing::as_double;
using testing::half_ulp;
using testing::message_of;

// Factor from the formula, with the division and its floor in long double.
double expected_factor(double beta, long double length, long double shift,
                       std::int64_t position) {
  const long double steps = std::floor((static_cast<long double>(position) + shift) / length);
  return static_cast<double>(1.0L + static_cast<long double>(beta) * std::log(1.0L + steps));
}

TEST(QueryTemperature, Llama4StepsOnePositionEarlierThanMinistral) {
  const QueryTemperature llama4 = llama4_temperature();
  EXPECT_EQ(llama4, (QueryTemperature{.beta = 0.1, .length = 8192, .shift = 1}));
  EXPECT_EQ(query_scale(llama4, 8190), 1.0);
  EXPECT_NEAR(query_scale(llama4, 8191), 1 + 0.1 * 0.6931471805599453, 1e-15);
  EXPECT_NEAR(query_scale(llama4, 3 * 8192 - 1), 1 + 0.1 * 1.3862943611198906, 1e-15);

  const QueryTemperature ministral3 = ministral3_temperature(0.1, 16384);
  EXPECT_EQ(ministral3, (QueryTemperature{.beta = 0.1, .length = 16384, .shift = 0}));
  EXPECT_EQ(query_scale(ministral3, 16383), 1.0);
  EXPECT_NEAR(query_scale(ministral3, 16384), 1.0693147180559945, 1e-15);
  EXPECT_NEAR(query_scale(ministral3, 131072), 1.2197224577336219, 1e-15);
}

TEST(QueryTemperature, FactorsAreWithinTwoUlps) {
  for (const QueryTemperature& one :
       {llama4_temperature(), ministral3_temperature(0.1, 16384), QueryTemperature{2.5, 7, 3}})
    for (std::int64_t position : {0, 1, 6, 8191, 8192, 100000, 1 << 30})
      EXPECT_NEAR(query_scale(one, position),
                  expected_factor(one.beta, static_cast<long double>(one.length),
                                  static_cast<long double>(one.shift), position),
                  0x1p-51 * query_scale(one, position));
}

// transformers' own functions at positions 0, 2047, 100000 and 1000000, in float32: Beam's
// compute_attention_scaling, Inkling 2's tau with a floor of 128000, and
// MistralLarge4TextSoftmaxScaling with the scales 0.25 and -0.5 and the biases 1 and 2.
TEST(QueryTemperature, EqualsTheCodeOfTheModels) {
  const std::int64_t positions[] = {0, 2047, 100'000, 1'000'000};
  const double beam[] = {1.00004888, 1.07177341, 1.47825003, 1.85761583};
  const double inkling[] = {1, 1, 1, 1.20557261};
  const double large4[2][4] = {{1, 2.90615463, 3.87823391, 4.45387793},
                               {2, -1.8123095, -3.75646782, -4.90775585}};
  const QueryTemperature heads = mistral_large4_temperature({0.25, -0.5}, {1, 2});
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(query_scale(beam_temperature(), positions[i]), beam[i], 2e-7);
    EXPECT_NEAR(query_scale(inkling_temperature(128'000), positions[i]), inkling[i], 2e-7);
    for (const std::int64_t head : {0, 1})
      EXPECT_NEAR(query_scale(heads, positions[i], head), large4[head][i], 1e-6);
  }
}

// Each head has its own factor, in every type; and the gradients of its parameters, from the
// definition.
TEST(QueryTemperature, ScalesHeadsByTheirOwnParameters) {
  const QueryTemperature heads = mistral_large4_temperature({0.25, -0.5, 1.5}, {1, 2, -1});
  const std::vector<std::uint8_t> mask{0, 1, 1, 1, 1, 1, 1, 1};
  const Positions positions =
      from_padding_mask(View<const std::uint8_t, 2>(mask.data(), {2, 4}), -5);
  const auto factor = [&](std::int64_t token, std::int64_t head) {
    if (mask[std::size_t(token)] == 0) return 1.0;
    const auto n = static_cast<double>(positions.ids[std::size_t(token)] + 1);
    return heads.slopes[std::size_t(head)] * std::log(n) + heads.offsets[std::size_t(head)];
  };
  const auto x = testing::random_tensor<double, 4>({2, 4, 3, 5}, 1);
  const auto dy = testing::random_tensor<double, 4>({2, 4, 3, 5}, 2);
  auto y = x;
  scale_queries(y.view(), heads, positions);
  std::vector<double> slopes{10, 0, 0}, offsets{0, 20, 0}, wanted(6);
  wanted[0] = 10, wanted[4] = 20;
  for (std::int64_t token = 0; token < 8; ++token)
    for (std::int64_t h = 0; h < 3; ++h)
      for (std::int64_t d = 0; d < 5; ++d) {
        const double in = x.view()(token / 4, token % 4, h, d);
        ASSERT_NEAR(y.view()(token / 4, token % 4, h, d), in * factor(token, h), 1e-14);
        if (mask[std::size_t(token)] == 0) continue;
        const double product = in * dy.view()(token / 4, token % 4, h, d);
        wanted[std::size_t(h)] +=
            product * std::log(static_cast<double>(positions.ids[std::size_t(token)] + 1));
        wanted[std::size_t(3 + h)] += product;
      }
  query_scale_backward(x.view(), dy.view(), heads, positions, slopes, offsets);
  for (std::size_t h = 0; h < 3; ++h) {
    EXPECT_NEAR(slopes[h], wanted[h], 1e-13);
    EXPECT_NEAR(offsets[h], wanted[3 + h], 1e-13);
  }
}

template <typename T>
void check_scaling() {
  const QueryTemperature temperature{.beta = 0.7, .length = 3, .shift = 1};
  const std::vector<std::int64_t> ids{0, 1, 2, 8, 100, 7};
  Positions positions = explicit_ids(View<const std::int64_t, 2>(ids.data(), {2, 3}));
  const double least = std::is_same_v<T, Half> ? 0x1p-25 : 0.0;  // rounds subnormals
  // A head inside a wider row, and every other head.
  const auto before = testing::random_tensor<T, 4>({2, 3, 4, 303});
  auto after = before;
  scale_queries(View<T, 4>(after.values.data(), {2, 3, 2, 300}, {3636, 1212, 606, 1}),
                temperature, positions);
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t t = 0; t < 3; ++t)
      for (std::int64_t h = 0; h < 4; ++h)
        for (std::int64_t d = 0; d < 303; ++d) {
          const double x = as_double(before.view()(b, t, h, d));
          const double by = h % 2 == 0 && d < 300
                                ? expected_factor(0.7, 3, 1, ids[std::size_t(b * 3 + t)])
                                : 1.0;
          ASSERT_NEAR(
              as_double(after.view()(b, t, h, d)), x * by,
              (half_ulp<T> + (sizeof(T) == 2 ? 0x1p-22 : 0x1p-51)) * std::fabs(x * by) + least);
        }
}

TEST(QueryTemperature, ScalesEveryTypeOnEveryIsaAndTouchesNothingElse) {
  for (Isa isa : available_isas()) {
    SCOPED_TRACE(name(isa));
    const ScopedIsa scoped(isa);
    check_scaling<float>();
    check_scaling<double>();
    check_scaling<Half>();
    check_scaling<BFloat16>();
  }
}

TEST(QueryTemperature, PaddingIsLeftAloneAndARowIsShared) {
  const std::vector<std::uint8_t> mask{0, 1, 1};
  // The id of padding would throw if it were read.
  const Positions positions =
      from_padding_mask(View<const std::uint8_t, 2>(mask.data(), {1, 3}), -5);
  const QueryTemperature temperature{.beta = 1, .length = 1, .shift = 0};
  testing::Tensor<double, 4> q({2, 3, 1, 1}, 1.0);
  scale_queries(q.view(), temperature, positions);
  for (std::int64_t b = 0; b < 2; ++b) {
    EXPECT_EQ(q.view()(b, 0, 0, 0), 1.0);
    EXPECT_EQ(q.view()(b, 1, 0, 0), 1.0);
    EXPECT_NEAR(q.view()(b, 2, 0, 0), 1 + std::log(2.0), 1e-15);
  }
}

// <S x, y> = <x, S' y>.
TEST(QueryTemperature, BackwardIsTheTranspose) {
  const QueryTemperature temperature{.beta = 0.3, .length = 2, .shift = 0};
  const Positions positions = consecutive(6, 5);
  const auto x = testing::random_tensor<double, 3>({6, 2, 4}, 1);
  const auto y = testing::random_tensor<double, 3>({6, 2, 4}, 2);
  auto forward = x, backward = y;
  scale_queries(forward.view(), temperature, positions);
  scale_queries(backward.view(), temperature, positions);
  double left = 0, right = 0;
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    left += forward.values[i] * y.values[i];
    right += x.values[i] * backward.values[i];
  }
  EXPECT_NEAR(left, right, 1e-13);
}

TEST(QueryTemperature, TheSameBitsForAnyNumberOfThreads) {
  const int before = threads();
  const auto x = testing::random_tensor<Half, 3>({600, 8, 32});
  const QueryTemperature temperature{.beta = 0.1, .length = 16, .shift = 1};
  set_threads(1);
  auto one = x;
  scale_queries(one.view(), temperature, consecutive(600));
  for (int count : {2, 7}) {
    set_threads(count);
    auto many = x;
    scale_queries(many.view(), temperature, consecutive(600));
    EXPECT_EQ(one.values, many.values);
  }
  set_threads(before);
}

TEST(QueryTemperature, RefusesWhatItCannotMean) {
  const QueryTemperature fine{.beta = 0.1, .length = 4, .shift = 0};
  EXPECT_EQ(message_of([&] { query_scale({.beta = -1, .length = 4, .shift = 0}, 0); }),
            "[temperature] beta must be finite and not negative, got -1");
  EXPECT_EQ(message_of([&] { query_scale({}, 0); }),
            "[temperature] length must be at least 1, got 0");
  EXPECT_EQ(message_of([&] { query_scale(fine, -2); }),
            "[temperature] position + shift must not be negative, got -2");
  EXPECT_EQ(message_of([&] {
              query_scale({.beta = 0.1, .length = 4, .shift = 1},
                          std::numeric_limits<std::int64_t>::max());
            }),
            "[temperature] position + shift must fit in 64 bits; position, "
            "got 9223372036854775807");
  EXPECT_EQ(message_of([&] { query_scale({.length = 1, .form = TemperatureForm{}}, 0); }),
            "[temperature] form must be floored_log, clipped_log, power or head_log, got 0");
  EXPECT_EQ(message_of([&] { query_scale(mistral_large4_temperature({}, {}), 0); }),
            "[temperature] head_log must have a slope and an offset for each head, got 0");
  EXPECT_EQ(message_of([&] { query_scale({.length = 1, .slopes = {1}, .offsets = {1}}, 0); }),
            "[temperature] slopes and offsets must be empty, except of head_log, got 1");
  const QueryTemperature heads = mistral_large4_temperature({1, 2}, {1, 2});
  EXPECT_EQ(message_of([&] { query_scale(heads, -1); }),
            "[temperature] position + shift must be at least 1, got 0");
  EXPECT_EQ(message_of([&] { query_scale(heads, 0, 2); }),
            "[temperature] head must be one of 2, got 2");
  testing::Tensor<float, 4> q({2, 3, 1, 2});
  EXPECT_EQ(message_of([&] { scale_queries(q.view(), heads, consecutive(3)); }),
            "[temperature] q must have the heads of the spec, 2, got 1");
  std::vector<double> one(1);
  EXPECT_EQ(message_of([&] {
              query_scale_backward(q.view(), q.view(), fine, consecutive(3), one, one);
            }),
            "[temperature] form must be head_log to have a gradient, got 1");
  EXPECT_EQ(message_of([&] {
              query_scale_backward(q.view(), q.view(), heads, consecutive(3), one, one);
            }),
            "[temperature] gradients must have 2 heads, got 1");
  EXPECT_EQ(message_of([&] { scale_queries(q.view(), fine, consecutive(4)); }),
            "[temperature] q must have the number of positions, 4 tokens, got 3");
  EXPECT_EQ(message_of([&] { scale_queries(q.view(), fine, consecutive(3, 0, 3)); }),
            "[temperature] q must have the number of positions, 3 rows, got 2");
  EXPECT_EQ(message_of([&] {
              scale_queries(View<float, 3>(q.values.data(), {3, 1, 2}, {4, 4, 2}), fine,
                            consecutive(3));
            }),
            "[temperature] the elements of a head must be contiguous: stride 1, got 2");
  testing::Tensor<float, 4> none({0, 0, 1, 2});
  scale_queries(none.view(), fine, consecutive(0));
}

}  // namespace temperature_test
}  // namespace gnomon
