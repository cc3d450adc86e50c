// The error bounds of attention.h, and checks of results against them.
#pragma once

#include <gtest/gtest.h>

#include "attention/oracle.h"

namespace gnomon::testing {

inline double greatest(const std::vector<double>& numbers) {
  double most = 0;
  for (double number : numbers) most = std::max(most, std::abs(number));
  return most;
}

// The bound on the error of `exact`, for values of magnitude up to `most`. weights: whether
// they may be rounded to bfloat16.
template <typename T>
double bound_at(double exact, double most, bool weights) {
  if (std::is_same_v<T, double>) return 0x1p-46 * most;
  const double sums = (0x1p-17 + (weights ? 0x1p-8 : 0)) * most;
  return std::is_same_v<T, float> ? sums
                                  : sums + half_ulp<T> * (std::abs(exact) + sums) + 0x1p-25;
}
// The same for any result.
template <typename T>
double bound(double most, bool weights = std::is_same_v<T, BFloat16>) {
  return bound_at<T>(most, most, weights);
}

template <typename T>
void expect_within_bounds(const Tensor<double, 4>& out, const Tensor<Accumulator<T>, 3>& lse,
                          const AttentionOracle& exact, double most,
                          bool weights = std::is_same_v<T, BFloat16>) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  double worst = 0, worst_lse = 0;  // worst: relative to its bound
  for (std::size_t i = 0; i < out.values.size(); ++i) {
    const double of = exact.out.values[i], limit = bound_at<T>(of, most, weights);
    const double error = out.values[i] == of ? 0 : std::abs(out.values[i] - of) / limit;
    worst = error <= worst ? worst : error;  // keeps NaN
  }
  for (std::size_t i = 0; i < lse.values.size(); ++i) {
    const double value = static_cast<double>(lse.values[i]);
    if (exact.lse.values[i] == -infinity) {
      EXPECT_EQ(value, -infinity);
      continue;
    }
    const double error =
        std::abs(value - exact.lse.values[i]) / std::max(1.0, std::abs(exact.lse.values[i]));
    worst_lse = error <= worst_lse ? worst_lse : error;
  }
  EXPECT_LE(worst, 1);
  EXPECT_LE(worst_lse, (std::is_same_v<T, double> ? 0x1p-46 : 0x1p-18));
}

inline double worst(const std::vector<double>& got, const std::vector<double>& exact) {
  EXPECT_EQ(got.size(), exact.size());
  double most = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(got[i] - exact[i]);
    most = error <= most ? most : error;  // keeps NaN
  }
  return most;
}

// Returns the greatest length of a head vector.
inline double longest(const Tensor<double, 4>& x) {
  double most = 0;
  const auto size = static_cast<std::size_t>(x.extents[3]);
  for (std::size_t i = 0; i < x.values.size(); i += size) {
    double square = 0;
    for (std::size_t d = 0; d < size; ++d) square += x.values[i + d] * x.values[i + d];
    most = std::max(most, std::sqrt(square));
  }
  return most;
}

// Returns the greatest sum of softmax weights, over all queries, of one key of a key head.
inline double heaviest(const AttentionCase& c, const Tensor<double, 4>& weights) {
  double most = 1;
  const std::int64_t group = c.heads / c.key_heads;
  for (std::int64_t b = 0; b < c.batch; ++b)
    for (std::int64_t g = 0; g < c.key_heads; ++g)
      for (std::int64_t j = 0; j < c.keys; ++j) {
        double sum = 0;
        for (std::int64_t h = g * group; h < (g + 1) * group; ++h)
          for (std::int64_t i = 0; i < c.queries; ++i) sum += weights.view()(b, h, i, j);
        most = std::max(most, sum);
      }
  return most;
}

}  // namespace gnomon::testing
