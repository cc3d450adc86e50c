// Conversion of 16-bit elements in kernels: every value, and every rounding.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "gnomon/rotary/cached_keys.h"
#include "testing.h"

namespace gnomon {
namespace element_types_test {

// Each finite value of T, the midpoint to the next value, and the floats next to these; zeros,
// infinities, NaNs, and values that overflow or underflow.
template <typename T>
std::vector<float> floats_around() {
  std::vector<float> all;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto value = static_cast<float>(T::from_bits(static_cast<std::uint16_t>(bits)));
    const auto next = static_cast<float>(T::from_bits(static_cast<std::uint16_t>(bits + 1)));
    all.push_back(value);
    if (!std::isfinite(value)) continue;
    const auto beyond = std::isfinite(next) ? double{next} : 0x1p16 * (value < 0 ? -1 : 1);
    const auto middle = static_cast<float>((double{value} + beyond) / 2);
    for (const float f : {middle, value})
      for (const float side : {-HUGE_VALF, HUGE_VALF}) all.push_back(std::nextafter(f, side));
    all.push_back(middle);
  }
  for (std::uint32_t bits = 1; bits < 0xffff0000u; bits += 65521)
    all.push_back(std::bit_cast<float>(bits));
  return all;
}

template <typename T>
class ElementTypes : public ::testing::Test {};
using Types = ::testing::Types<Half, BFloat16>;
TYPED_TEST_SUITE(ElementTypes, Types);

TYPED_TEST(ElementTypes, FloatsAreRoundedOnceToNearestEven) {
  using T = TypeParam;
  const std::vector<float> from = floats_around<T>();
  const std::ptrdiff_t size = std::ssize(from);
  for (const Isa isa : available_isas()) {
    const ScopedIsa scoped(isa);
    std::vector<T> to(from.size());
    copy_append(View<const float, 3>(from.data(), {1, 1, size}),
                View<T, 3>(to.data(), {1, 1, size}));
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (std::isnan(from[i]))
        ASSERT_TRUE(std::isnan(static_cast<float>(to[i]))) << name(isa) << " " << i;
      else
        ASSERT_EQ(to[i].bits, T(double{from[i]}).bits) << name(isa) << " " << from[i];
    }
  }
}

// A rotation by 0 returns every value unchanged.
TYPED_TEST(ElementTypes, ValuesAreReadExactly) {
  using T = TypeParam;
  for (const Pairing pairing : {Pairing::halves, Pairing::adjacent})
    for (const Isa isa : available_isas()) {
      const ScopedIsa scoped(isa);
      std::vector<T> x;
      for (std::uint32_t bits = 0; bits < 0x10000; ++bits)
        if (const T value = T::from_bits(static_cast<std::uint16_t>(bits));
            std::isfinite(static_cast<float>(value)) && bits != 0x8000)
          x.push_back(value);
      x.resize(x.size() / 8 * 8);
      const std::vector<T> before = x;
      const RotaryTable table(Rotary{.rotary_dim = 8, .pairing = pairing},
                              std::vector<std::int64_t>{0});
      rotate(View<T, 3>(x.data(), {1, std::ssize(x) / 8, 8}), table);
      for (std::size_t i = 0; i < x.size(); ++i)
        ASSERT_EQ(x[i].bits & (before[i].bits & 0x7fff ? 0xffff : 0x7fff), before[i].bits)
            << name(isa) << " " << i;
    }
}

// A NaN of any bits stays a NaN, and the elements next to it are not affected.
TYPED_TEST(ElementTypes, NansComeThrough) {
  using T = TypeParam;
  const auto quiet = std::is_same_v<T, Half> ? 0x7e00 : 0x7fc0, most = 0x7fff;
  for (const Pairing pairing : {Pairing::halves, Pairing::adjacent})
    for (const Isa isa : available_isas()) {
      const ScopedIsa scoped(isa);
      for (const int bits : {quiet, quiet + 1, most, quiet | 0x8000, 0xffff}) {
        std::vector<T> x(160, T(0.5f));
        const RotaryTable table(Rotary{.rotary_dim = 80, .pairing = pairing},
                                std::vector<std::int64_t>{3});
        x[33] = T::from_bits(static_cast<std::uint16_t>(bits));
        rotate(View<T, 3>(x.data(), {1, 2, 80}), table);
        const std::size_t other = pairing == Pairing::halves ? 73 : 32;
        for (std::size_t i = 0; i < x.size(); ++i)
          ASSERT_EQ(std::isnan(static_cast<float>(x[i])), i == 33 || i == other)
              << name(isa) << " " << bits << " " << i;
      }
    }
}

}  // namespace element_types_test
}  // namespace gnomon
