#include "gnomon/attention/differential.h"

#include <gtest/gtest.h>

#include <cmath>

#include "testing.h"

namespace gnomon {
namespace differential_test {

using testing::as_double;
using testing::half_ulp;
using testing::message_of;

constexpr DifferentialHeads example{.lambda = 0.7, .lambda_init = 0.4, .epsilon = 1e-3};

// The combination of the paper for one pair of heads, in long double.
std::vector<long double> naive_combination(const std::vector<long double>& o1,
                                           const std::vector<long double>& o2,
                                           const DifferentialHeads& differential) {
  std::vector<long double> out;
  long double squares = 0;
  for (std::size_t d = 0; d < o1.size(); ++d) {
    out.push_back(o1[d] - static_cast<long double>(differential.lambda) * o2[d]);
    squares += out.back() * out.back();
  }
  for (long double& one : out)
    one *= (1 - static_cast<long double>(differential.lambda_init)) /
           std::sqrt(squares / static_cast<long double>(o1.size()) + differential.epsilon);
  return out;
}

template <typename T>
void check_combination() {
  const auto x = testing::random_tensor<T, 4>({2, 3, 4, 6});
  testing::Tensor<T, 4> y({2, 3, 2, 6});
  combine_heads(x.view(), example, y.view());
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t t = 0; t < 3; ++t)
      for (std::int64_t h = 0; h < 2; ++h) {
        std::vector<long double> o1, o2;
        for (std::int64_t d = 0; d < 6; ++d) {
          o1.push_back(as_double(x.view()(b, t, h, d)));
          o2.push_back(as_double(x.view()(b, t, h + 2, d)));
        }
        const auto wanted = naive_combination(o1, o2, example);
        for (std::int64_t d = 0; d < 6; ++d) {
          const auto exact = static_cast<double>(wanted[static_cast<std::size_t>(d)]);
          ASSERT_NEAR(as_double(y.view()(b, t, h, d)), exact,
                      (half_ulp<T> + 0x1p-44) * std::fabs(exact) + 1e-7 * (sizeof(T) == 2));
        }
      }
}

TEST(DifferentialHeads, EqualTheFormulaOfThePaper) {
  check_combination<float>();
  check_combination<double>();
  check_combination<Half>();
  check_combination<BFloat16>();
  EXPECT_NEAR(differential_lambda(0), 0.2, 1e-15);
  EXPECT_NEAR(differential_lambda(3), 0.8 - 0.6 * std::exp(-0.9), 1e-15);
}

TEST(DifferentialHeads, ValuesArePairsOfKeyHeads) {
  const auto v = testing::random_tensor<float, 4>({2, 3, 4, 5});
  testing::Tensor<float, 4> wide({2, 3, 4, 10});
  differential_values(v.view(), wide.view());
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t t = 0; t < 3; ++t)
      for (std::int64_t j = 0; j < 4; ++j)
        for (std::int64_t d = 0; d < 10; ++d)
          ASSERT_EQ(wide.view()(b, t, j, d), v.view()(b, t, j % 2 + (d < 5 ? 0 : 2), d % 5));
}

TEST(DifferentialHeads, GradientsAreFiniteDifferences) {
  auto x = testing::random_tensor<double, 4>({2, 3, 4, 6}, 1);
  const auto dy = testing::random_tensor<double, 4>({2, 3, 2, 6}, 2);
  const auto loss = [&](const DifferentialHeads& differential) {
    testing::Tensor<double, 4> y({2, 3, 2, 6});
    combine_heads(x.view(), differential, y.view());
    double sum = 0;
    for (std::size_t i = 0; i < y.values.size(); ++i) sum += y.values[i] * dy.values[i];
    return sum;
  };
  testing::Tensor<double, 4> dx({2, 3, 4, 6});
  const double lambda = combine_heads_backward(x.view(), dy.view(), example, dx.view());
  constexpr double step = 1e-5;
  for (std::size_t i = 0; i < x.values.size(); i += 7) {
    const double kept = x.values[i];
    x.values[i] = kept + step;
    const double above = loss(example);
    x.values[i] = kept - step;
    const double below = loss(example);
    x.values[i] = kept;
    ASSERT_NEAR(dx.values[i], (above - below) / (2 * step), 1e-8);
  }
  DifferentialHeads above = example, below = example;
  above.lambda += step, below.lambda -= step;
  EXPECT_NEAR(lambda, (loss(above) - loss(below)) / (2 * step), 1e-8);
}

TEST(DifferentialHeads, RefuseWhatTheyCannotCombine) {
  testing::Tensor<float, 4> odd({1, 2, 3, 4}), four({1, 2, 4, 4});
  EXPECT_EQ(message_of([&] { combine_heads(odd.view(), example, four.view()); }),
            "[differential] heads must be even, got 3");
  EXPECT_EQ(message_of([&] { combine_heads(four.view(), example, odd.view()); }),
            "[differential] out must have half of the heads, got 3 heads of 4");
  EXPECT_EQ(message_of([&] { combine_heads(four.view(), {.epsilon = 0}, four.view()); }),
            "[differential] epsilon must be finite and positive, got 0");
  EXPECT_EQ(message_of([&] { differential_values(odd.view(), four.view()); }),
            "[differential] key heads must be even, got 3");
  EXPECT_EQ(message_of([&] { differential_lambda(-1); }),
            "[differential] layer must not be negative, got -1");
}

}  // namespace differential_test
}  // namespace gnomon
