#include "apps/lab/data/numbers.h"

#include <gtest/gtest.h>

#include <cmath>

#include "apps/lab/data/draws.h"

namespace gnomon::lab {
namespace statistics_test {

// The probability that Student's t is within -x and x, by Simpson's rule.
double student_within(double x, double degrees) {
  const double pi = std::acos(-1.0);
  const double factor = std::exp(std::lgamma((degrees + 1) / 2) - std::lgamma(degrees / 2)) /
                        std::sqrt(degrees * pi);
  const auto density = [&](double t) {
    return factor * std::pow(1 + t * t / degrees, -(degrees + 1) / 2);
  };
  constexpr int pieces = 20000;
  const double step = x / pieces;
  double sum = density(0) + density(x);
  for (int i = 1; i < pieces; ++i) sum += (i % 2 ? 4 : 2) * density(i * step);
  return 2 * sum * step / 3;
}

TEST(Student, Covers95PercentAtEveryNumberOfDegrees) {
  for (const double degrees : {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 9.0, 29.0, 99.0})
    EXPECT_NEAR(student_within(student_95(degrees), degrees), 0.95, 1e-4) << degrees;
  EXPECT_NEAR(student_95(1e9), normal_95, 1e-6);
  // A quantile between whole numbers (Welch) is between theirs.
  for (double degrees = 1; degrees < 8; degrees += 0.25)
    EXPECT_GT(student_95(degrees), student_95(degrees + 0.25)) << degrees;
}

TEST(MeanMargin, CoversTheMeanNineteenTimesInTwenty) {
  Draws draws{11};
  const auto uniform = [&] { return std::ldexp(static_cast<double>(draws.next() >> 11), -53); };
  int covered = 0;
  constexpr int samples = 4000;
  for (int i = 0; i < samples; ++i) {
    std::vector<double> numbers;
    for (int k = 0; k < 3; ++k) {
      double sum = -6;  // approximately normal
      for (int n = 0; n < 12; ++n) sum += uniform();
      numbers.push_back(sum);
    }
    covered += std::abs(mean(numbers)) <= mean_margin(numbers);
  }
  EXPECT_NEAR(static_cast<double>(covered) / samples, 0.95, 0.015);
  EXPECT_EQ(mean_margin({1}), 0);
}

TEST(ShareInterval, IsWilsons) {
  // Roots of (p - share)^2 = z^2 p (1 - p) / n.
  for (const double share : {0.0, 0.1, 0.5, 1.0})
    for (const std::int64_t count : {1, 20, 960}) {
      const auto [low, high] = share_interval(share, count);
      for (const double p : {low, high})
        EXPECT_NEAR((p - share) * (p - share),
                    normal_95 * normal_95 * p * (1 - p) / static_cast<double>(count), 1e-12);
      EXPECT_LE(low, share);
      EXPECT_GE(high, share);
      EXPECT_LT(low, high);
    }
  EXPECT_EQ(share_interval(0.5, 0).low, 0);
}

}  // namespace statistics_test
}  // namespace gnomon::lab
