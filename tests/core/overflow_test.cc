#include "src/core/overflow.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

namespace gnomon::overflow_test {

using Wide = __int128;

// Every pair of interesting numbers, compared with the exact result of 128 bits.
template <typename T>
void expect_exact() {
  constexpr T least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
  std::vector<T> numbers;
  for (const T base : {least, static_cast<T>(least / 2), T{0}, static_cast<T>(most / 2), most,
                       static_cast<T>(T{1} << (4 * sizeof(T)))})
    for (int step = -3; step <= 3; ++step) {
      const Wide number = static_cast<Wide>(base) + step;
      if (number >= least && number <= most) numbers.push_back(static_cast<T>(number));
    }
  for (const T a : numbers)
    for (const T b : numbers) {
      const Wide sum = static_cast<Wide>(a) + b;
      // A product of two numbers without sign may need all 128 bits.
      const auto product =
          static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b);
      const bool product_fits =
          std::is_signed_v<T>
              ? static_cast<Wide>(product) >= least && static_cast<Wide>(product) <= most
              : product <= static_cast<unsigned __int128>(most);
      T got = 1, expected = static_cast<T>(sum);
      EXPECT_EQ(internal::portable_add_overflow(a, b, &got), sum < least || sum > most);
      EXPECT_EQ(got, expected);
      EXPECT_EQ(internal::add_overflow(a, b, &got), sum < least || sum > most);
      EXPECT_EQ(got, expected);
      expected = static_cast<T>(product);
      EXPECT_EQ(internal::portable_multiply_overflow(a, b, &got), !product_fits);
      EXPECT_EQ(got, expected);
      EXPECT_EQ(internal::multiply_overflow(a, b, &got), !product_fits);
      EXPECT_EQ(got, expected);
    }
}

TEST(Overflow, IsThatOfExactResults) {
  expect_exact<std::int32_t>();
  expect_exact<std::uint32_t>();
  expect_exact<std::int64_t>();
  expect_exact<std::uint64_t>();
}

TEST(Overflow, ResultMayBeAnArgument) {
  std::int64_t number = 7;
  EXPECT_FALSE(internal::multiply_overflow(number, 6, &number));
  EXPECT_FALSE(internal::add_overflow(number, -2, &number));
  EXPECT_EQ(number, 40);
}

}  // namespace gnomon::overflow_test
