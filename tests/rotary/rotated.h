// Helpers for tests of cached keys: the exact rotation, and a cache with elements around it.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "gnomon/rotary/rotary.h"
#include "testing.h"

namespace gnomon::testing {

// Returns the expected angle and factor of a pair of a token.
using RotationOf = std::function<std::pair<long double, long double>(
    std::int64_t b, std::int64_t t, std::size_t pair)>;

// Checks the bound of the header, m (|a| + |b|) 3 2^-24, with one more rounding for 16-bit U.
template <typename T, typename U>
void expect_rotated(const RotaryFrequencies& s, View<const T, 4> before, View<const U, 4> after,
                    const RotationOf& rotation) {
  const std::int64_t pairs = std::ssize(s.inv_freq);
  for (std::int64_t b = 0; b < before.extent(0); ++b)
    for (std::int64_t t = 0; t < before.extent(1); ++t) {
      std::vector<bool> is_rotated(static_cast<std::size_t>(before.extent(3)));
      for (std::int64_t i = 0; i < pairs; ++i) {
        const auto [angle, m] = rotation(b, t, static_cast<std::size_t>(i));
        const bool halves = s.pairing == Pairing::halves;
        const std::int64_t x = s.head_offset + (halves ? i : 2 * i);
        const std::int64_t y = s.head_offset + (halves ? i + pairs : 2 * i + 1);
        is_rotated[std::size_t(x)] = is_rotated[std::size_t(y)] = true;
        const long double c = m * std::cos(angle), n = m * std::sin(angle);
        for (std::int64_t h = 0; h < before.extent(2); ++h) {
          const double p = as_double(before(b, t, h, x)), q = as_double(before(b, t, h, y));
          const auto left = static_cast<double>(p * c - q * n);
          const auto right = static_cast<double>(p * n + q * c);
          const double sum =
              3 * 0x1p-24 * static_cast<double>(std::fabs(m)) * (std::fabs(p) + std::fabs(q));
          const double rounding = sizeof(U) == 2 ? half_ulp<U> : 0.0;
          const double least = std::is_same_v<U, Half> ? 0x1p-25 : 0.0;  // rounds subnormals
          ASSERT_NEAR(as_double(after(b, t, h, x)), left,
                      sum + rounding * (std::fabs(left) + sum) + least)
              << b << " " << t << " " << h << " pair " << i;
          ASSERT_NEAR(as_double(after(b, t, h, y)), right,
                      sum + rounding * (std::fabs(right) + sum) + least)
              << b << " " << t << " " << h << " pair " << i;
        }
      }
      for (std::int64_t h = 0; h < before.extent(2); ++h)
        for (std::int64_t d = 0; d < before.extent(3); ++d)
          if (!is_rotated[std::size_t(d)]) {
            ASSERT_EQ(as_double(after(b, t, h, d)),
                      as_double(static_cast<U>(as_double(before(b, t, h, d)))));
          }
    }
}

template <typename T>
bool same_bits(const std::vector<T>& one, const std::vector<T>& other) {
  return one.size() == other.size() &&
         std::memcmp(one.data(), other.data(), one.size() * sizeof(T)) == 0;
}

// Rows of a cache, with other elements before and after them and next to every head.
template <typename T>
struct GuardedHeads {
  std::array<std::ptrdiff_t, 4> shape;
  Tensor<T, 4> all;

  explicit GuardedHeads(std::array<std::ptrdiff_t, 4> shape, unsigned seed = 3)
      : shape(shape),
        all(random_tensor<T, 4>({shape[0], shape[1] + 3, shape[2], shape[3] + 1}, seed)) {}
  View<T, 4> view() {
    auto whole = all.view();
    return View<T, 4>(&whole(0, 2, 0, 1), shape, whole.strides());
  }
  View<const T, 4> view() const { return const_cast<GuardedHeads*>(this)->view(); }
  // Whether all elements outside the view are as in `before`.
  bool intact(const GuardedHeads& before) const {
    GuardedHeads copy = before;
    for (std::ptrdiff_t b = 0; b < shape[0]; ++b)
      for (std::ptrdiff_t t = 0; t < shape[1]; ++t)
        for (std::ptrdiff_t h = 0; h < shape[2]; ++h)
          for (std::ptrdiff_t d = 0; d < shape[3]; ++d)
            copy.view()(b, t, h, d) = view()(b, t, h, d);
    return same_bits(copy.all.values, all.values);
  }
};

}  // namespace gnomon::testing
