// The bounds of attention.h, and whether what a call gave keeps them.
#pragma once

#include <gtest/gtest.h>

#include "attention/oracle.h"

namespace gnomon::testing {

inline double greatest(const std::vector<double>& numbers) {
  double most = 0;
  for (double number : numbers) most = std::max(most, std::abs(number));
  return most;
}

// On |out - exact| for values up to `most`.
template <typename T>
double bound(double most) {
  if (std::is_same_v<T, double>) return 0x1p-46 * most;
  const double sums = 0x1p-17 * most;
  return std::is_same_v<T, float> ? sums : sums + half_ulp<T> * (most + sums) + 0x1p-25;
}

template <typename T>
void expect_within_bounds(const Tensor<double, 4>& out, const Tensor<Accumulator<T>, 3>& lse,
                          const AttentionOracle& exact, double most) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  double worst = 0, worst_lse = 0;
  for (std::size_t i = 0; i < out.values.size(); ++i) {
    const double error = std::abs(out.values[i] - exact.out.values[i]);
    worst = error <= worst ? worst : error;  // NaN stays
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
  EXPECT_LE(worst, bound<T>(most));
  EXPECT_LE(worst_lse, (std::is_same_v<T, double> ? 0x1p-46 : 0x1p-18));
}

}  // namespace gnomon::testing
