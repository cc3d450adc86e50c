// Mean, standard deviation, 95 % confidence intervals, the order of numbers that may be not
// finite, and integers from text.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string_view>
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

// The quantile of the normal distribution for a probability from 0.5 to 1.
double normal_quantile(double probability);

// The quantile of Student's t distribution for a probability from 0.5 to 1. `degrees` of
// freedom: at least 1, need not be an integer. Relative error below 1e-9.
double student_quantile(double probability, double degrees);

inline double student_95(double degrees) { return student_quantile(0.975, degrees); }

// Half of the width of the 95 % confidence interval of the mean, with Student's t. Returns 0
// for fewer than two numbers.
inline double mean_margin(const std::vector<double>& numbers) {
  if (numbers.size() < 2) return 0;
  const auto count = static_cast<double>(numbers.size());
  return student_95(count - 1) * deviation(numbers) / std::sqrt(count);
}

// The integer that is the whole text.
inline std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
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
