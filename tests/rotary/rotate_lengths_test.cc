// Heads of every length up to more than two vectors, whose pairs do not fill whole blocks.
#include <gtest/gtest.h>

#include "gnomon/isa.h"
#include "gnomon/rotary/cached_keys.h"
#include "gnomon/rotary/rotary.h"
#include "rotary/rotated.h"
#include "testing.h"

namespace gnomon {
namespace rotate_lengths_test {

using testing::expect_rotated;
using testing::GuardedHeads;
using testing::same_bits;

constexpr std::ptrdiff_t tokens = 3, heads = 2;
constexpr std::int64_t first_position = 1000;

template <typename T>
class RotateLengths : public ::testing::Test {};
using Types = ::testing::Types<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(RotateLengths, Types);

template <typename T>
void check(const Rotary& rotary) {
  const RotaryFrequencies frequencies = lower(rotary);
  const RotaryTable table(frequencies, testing::iota(first_position, tokens));
  const auto angle = [&](std::int64_t, std::int64_t t, std::size_t i) {
    return std::pair(static_cast<long double>(first_position + t) * frequencies.inv_freq[i],
                     1.0L);
  };
  const std::array<std::ptrdiff_t, 4> shape{1, tokens, heads, rotary.rotary_dim};
  const GuardedHeads<T> before(shape);
  GuardedHeads<T> x = before, out(shape, 4);
  const GuardedHeads<T> out_before = out;
  rotate(x.view(), table);
  const View<const T, 4> rotated = x.view();
  expect_rotated<T, T>(frequencies, before.view(), rotated, angle);
  EXPECT_TRUE(x.intact(before)) << "in place";
  rotate(before.view(), table, Direction::forward, out.view());
  EXPECT_TRUE(out.intact(out_before)) << "out of place";
  for (std::ptrdiff_t t = 0; t < tokens; ++t)
    for (std::ptrdiff_t h = 0; h < heads; ++h)
      for (std::ptrdiff_t d = 0; d < rotary.rotary_dim; ++d)
        ASSERT_EQ(testing::as_double(out.view()(0, t, h, d)),
                  testing::as_double(x.view()(0, t, h, d)));
}

TYPED_TEST(RotateLengths, AreWithinTheBoundAndTouchNothingElse) {
  for (const Isa isa : available_isas()) {
    const ScopedIsa scoped(isa);
    for (const Pairing pairing : {Pairing::halves, Pairing::adjacent})
      for (std::int64_t dim = 2; dim <= 140; dim += 2) {
        SCOPED_TRACE(std::string(name(isa)) + " " + std::to_string(static_cast<int>(pairing)) +
                     " " + std::to_string(dim));
        check<TypeParam>({.rotary_dim = dim, .pairing = pairing});
        if (this->HasFatalFailure()) return;
      }
  }
}

}  // namespace rotate_lengths_test
}  // namespace gnomon
