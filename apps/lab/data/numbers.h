// Mean, standard deviation, 95 % confidence intervals, and the order of numbers that may be not
// finite.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace gnomon::lab {

// Bits per nat: losses are reported in bits.
constexpr double bits_per_nat = 1.4426950408889634;

// The order of all rankings by a number whose lowest value is the best: a number that is not
// finite comes after every finite one.
inline bool is_lower(double a, double b) {
  return std::isfinite(a) && (!std::isfinite(b) || a < b);
}
// The same if the highest value is the best.
inline bool is_higher(double a, double b) { return is_lower(-a, -b); }

// Returns 0 for no numbers.
inline double mean(const std::vector<double>& numbers) {
  if (numbers.empty()) return 0;
  return std::accumulate(numbers.begin(), numbers.end(), 0.0) /
         static_cast<double>(numbers.size());
}

// The standard deviation of a sample. Returns 0 for fewer than two numbers.
inline double deviation(const std::vector<double>& numbers) {
  if (numbers.size() < 2) return 0;
  const double middle = mean(numbers);
  double sum = 0;
  for (double number : numbers) sum += (number - middle) * (number - middle);
  return std::sqrt(sum / static_cast<double>(numbers.size() - 1));
}

// The 97.5 % quantile of the normal distribution.
constexpr double normal_95 = 1.959963985;

// The quantile for the best of `count` numbers: with it, all intervals together have a
// confidence of at least 95 % (Bonferroni).
inline double normal_95_of(std::size_t count) {
  const double tail = 0.025 / static_cast<double>(std::max<std::size_t>(1, count));
  double low = 0, high = 10;
  for (int i = 0; i < 60; ++i) {
    const double z = 0.5 * (low + high);
    (0.5 * std::erfc(z / std::sqrt(2.0)) > tail ? low : high) = z;
  }
  return high;
}

// The 97.5 % quantile of Student's t distribution. `degrees` of freedom: at least 1, need not
// be an integer. Relative error below 1e-3 for integers (from 5 on: the expansion of Fisher and
// Cornish, Abramowitz and Stegun 26.7.5).
inline double student_95(double degrees) {
  constexpr double exact[] = {12.7062, 4.3027, 3.1824, 2.7764, 2.5706};
  if (degrees < 5) {
    const double at = std::max(1.0, degrees) - 1;
    const auto i = static_cast<std::size_t>(at);
    return std::lerp(exact[i], exact[i + 1], at - static_cast<double>(i));
  }
  constexpr double z = normal_95, z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z,
                   z9 = z7 * z * z;
  const double n = degrees;
  return z + (z3 + z) / (4 * n) + (5 * z5 + 16 * z3 + 3 * z) / (96 * n * n) +
         (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * n * n * n) +
         (79 * z9 + 776 * z7 + 1482 * z5 - 1920 * z3 - 945 * z) / (92160 * n * n * n * n);
}

// Half of the width of the 95 % confidence interval of the mean, with Student's t. Returns 0
// for fewer than two numbers.
inline double mean_margin(const std::vector<double>& numbers) {
  if (numbers.size() < 2) return 0;
  const auto count = static_cast<double>(numbers.size());
  return student_95(count - 1) * deviation(numbers) / std::sqrt(count);
}

struct Interval {
  double low = 0, high = 0;
};

// The 95 % confidence interval of a share of `count` examples (Wilson 1927). For a mean of
// numbers from 0 to 1, whose variance is at most that of a share, the interval is at least as
// wide as necessary.
inline Interval share_interval(double share, std::int64_t count, double z = normal_95) {
  if (count < 1) return {0, 1};
  const auto n = static_cast<double>(count);
  const double z2 = z * z, middle = (share + z2 / (2 * n)) / (1 + z2 / n);
  const double half = z / (1 + z2 / n) * std::sqrt(share * (1 - share) / n + z2 / (4 * n * n));
  return {std::clamp(middle - half, 0.0, share), std::clamp(middle + half, share, 1.0)};
}

}  // namespace gnomon::lab
