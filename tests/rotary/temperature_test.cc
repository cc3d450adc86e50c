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
  testing::Tensor<float, 4> q({2, 3, 1, 2});
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
