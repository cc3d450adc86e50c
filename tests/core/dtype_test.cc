#include "gnomon/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace gnomon {
namespace dtype_test {

// Every 16-bit pattern is unchanged after conversion to float and back (NaNs stay NaNs).
template <typename T>
void round_trips() {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const T value = T::from_bits(static_cast<std::uint16_t>(bits));
    const float wide = static_cast<float>(value);
    if (std::isnan(wide))
      EXPECT_TRUE(std::isnan(static_cast<float>(T(static_cast<double>(wide))))) << bits;
    else
      EXPECT_EQ(T(static_cast<double>(wide)).bits, bits);
  }
}
TEST(Half, RoundTripsEveryPattern) { round_trips<Half>(); }
TEST(BFloat16, RoundTripsEveryPattern) { round_trips<BFloat16>(); }

// Numbers between two neighbours: below, at and above the midpoint. A tie is rounded to even.
template <typename T>
void rounds_to_nearest_even(unsigned infinity) {
  for (unsigned bits = 0; bits + 1 < infinity; ++bits) {
    const double low = static_cast<float>(T::from_bits(static_cast<std::uint16_t>(bits)));
    const double high = static_cast<float>(T::from_bits(static_cast<std::uint16_t>(bits + 1)));
    const double middle = (low + high) / 2;
    ASSERT_EQ(T(std::nextafter(middle, low)).bits, bits);
    ASSERT_EQ(T(std::nextafter(middle, high)).bits, bits + 1);
    ASSERT_EQ(T(middle).bits, bits % 2 ? bits + 1 : bits);
    ASSERT_EQ(T(-middle).bits, 0x8000u | (bits % 2 ? bits + 1 : bits));
  }
}
TEST(Half, RoundsToNearestEven) { rounds_to_nearest_even<Half>(0x7c00); }
TEST(BFloat16, RoundsToNearestEven) { rounds_to_nearest_even<BFloat16>(0x7f80); }

TEST(Half, OverflowsToInfinityFromHalfwayPastItsLargest) {
  EXPECT_EQ(Half(65519.999).bits, 0x7bff);
  EXPECT_EQ(Half(65520.0).bits, 0x7c00);
  EXPECT_EQ(Half(-1e300).bits, 0xfc00);
  EXPECT_EQ(Half(std::numeric_limits<double>::infinity()).bits, 0x7c00);
}

TEST(DType, KnowsSizesAndNames) {
  EXPECT_EQ(size_of(dtype_of<BFloat16>), 2u);
  EXPECT_EQ(size_of(dtype_of<double>), 8u);
  EXPECT_EQ(name(dtype_of<Half>), "f16");
}

}  // namespace dtype_test
}  // namespace gnomon
