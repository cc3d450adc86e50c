// Gradients that were added to arrays of ones, compared with finite differences.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <vector>

namespace gnomon::testing {

// Expects grad - 1 to be the gradient of `loss` by `values`, which it moves and restores.
// Differences of fourth order.
template <typename Loss>
void expect_added_gradient(std::vector<float>& values, const std::vector<float>& grad,
                           const Loss& loss) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float before = values[i], step = 0x1p-8f;
    const auto at = [&](float steps) {
      values[i] = before + steps * step;
      const long double value = loss();
      values[i] = before;
      return value;
    };
    const auto slope = static_cast<double>((8 * (at(1) - at(-1)) - (at(2) - at(-2))) /
                                           (12 * static_cast<long double>(step)));
    ASSERT_NEAR(double{grad[i]} - 1, slope, 3e-6 * (1 + std::fabs(slope))) << i;
  }
}

}  // namespace gnomon::testing
