#include "gnomon/io/array.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "testing.h"

namespace gnomon::io {
namespace array_test {

using ::testing::ElementsAre;
using testing::message_of;

TEST(Array, BorrowsWhatIsContiguousAndCopiesTheRest) {
  std::vector<float> values{1, 2, 3, 4, 5, 6};
  const Array whole = Array::of(View<const float, 2>(values.data(), {2, 3}));
  EXPECT_EQ(static_cast<const void*>(whole.bytes().data()), values.data());
  const Array turned = Array::of(View<const float, 2>(values.data(), {3, 2}, {1, 3}));
  EXPECT_NE(static_cast<const void*>(turned.bytes().data()), values.data());
  EXPECT_THAT(turned.to_doubles(), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_EQ(turned.shape(), (Array::Shape{3, 2}));
  EXPECT_EQ(turned.size(), 6);
}

TEST(Array, ViewsAreTypedAndRanked) {
  const std::vector<double> values{1, 2, 3};
  const Array array = Array::of(View<const double, 1>(values.data(), {3}));
  EXPECT_EQ((array.view<double, 1>()(2)), 3);
  EXPECT_EQ(message_of([&] { array.view<float, 1>(); }),
            "[array] must contain f32 with 1 axis, got F64 [3]");
  EXPECT_NE(message_of([&] { array.view<double, 2>(); }), "");
}

TEST(Array, Uint16IsViewedAsBFloat16) {
  const std::vector<std::uint16_t> bits{0x3f80, 0xc000};
  const Array array = Array::of(View<const std::uint16_t, 1>(bits.data(), {2}));
  EXPECT_EQ(static_cast<float>(array.view<BFloat16, 1>()(1)), -2.0f);
}

TEST(Array, ReadsIntegersAndDoublesOfAnyWidth) {
  const std::vector<std::int8_t> small{-128, 127};
  const Array bytes = Array::of(View<const std::int8_t, 1>(small.data(), {2}));
  EXPECT_THAT(bytes.to_integers(), ElementsAre(-128, 127));
  EXPECT_THAT(bytes.to_doubles(), ElementsAre(-128, 127));
  const std::vector<std::uint64_t> large{std::numeric_limits<std::uint64_t>::max()};
  const Array beyond = Array::of(View<const std::uint64_t, 1>(large.data(), {1}));
  EXPECT_NE(message_of([&] { beyond.to_integers(); }), "");
  const std::vector<Half> halves{Half(0.5), Half(-2)};
  const Array half = Array::of(View<const Half, 1>(halves.data(), {2}));
  EXPECT_THAT(half.to_doubles(), ElementsAre(0.5, -2));
  EXPECT_NE(message_of([&] { half.to_integers(); }), "");
}

TEST(Array, RefusesBytesThatAreNotAsManyAsTheShapeSays) {
  const std::vector<std::byte> bytes(7);
  EXPECT_NE(message_of([&] { Array(Element::f32, {2}, bytes); }), "");
  EXPECT_NE(message_of([&] { Array(Element::f32, {-1}, bytes); }), "");
  constexpr std::int64_t huge = std::int64_t{1} << 62;
  EXPECT_NE(message_of([&] { Array(Element::f32, {huge, 8}, bytes); }), "");
}

TEST(Array, ShapesPrintAsLists) {
  EXPECT_EQ(to_string(Array::Shape{2, 3}), "[2, 3]");
  EXPECT_EQ(to_string(Array::Shape{}), "[]");
}

}  // namespace array_test
}  // namespace gnomon::io
