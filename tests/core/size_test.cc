#include "src/core/size.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "gnomon/position/positions.h"
#include "gnomon/view.h"

namespace gnomon {
namespace size_test {

using internal::checked_product;
using internal::checked_sum;
using internal::contains;

template <typename Body>
std::string message(Body&& body) {
  try {
    body();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return {};
}

TEST(Size, MultipliesUnlessTheProductIsTooLarge) {
  EXPECT_EQ(checked_product("a", "b x c", {3, 4, 5}), 60);
  EXPECT_EQ(checked_product("a", "b x c", {3, 0, 5}), 0);
  EXPECT_EQ(checked_product("a", "b", {internal::most_elements}), internal::most_elements);
  EXPECT_EQ(message([] { checked_product("a", "b x c", {1LL << 31, 1LL << 28}); }),
            "[a] b x c must fit in memory, got 2147483648 x 268435456");
  EXPECT_EQ(message([] { checked_product("a", "b x c", {7, 7905747460161236407}); }),
            "[a] b x c must fit in memory, got 7 x 7905747460161236407");
  // Any order is refused, with an extent of 0 too: an index of the other axes would overflow.
  EXPECT_THROW(checked_product("a", "b", {0, 1LL << 40, 1LL << 40}), std::invalid_argument);
  EXPECT_THROW(checked_product("a", "b", {1LL << 40, 1LL << 40, 0}), std::invalid_argument);
  EXPECT_EQ(message([] { checked_product("a", "b x c", {3, -1}); }),
            "[a] b x c must not be negative, got 3 x -1");
}

TEST(Size, AddsUnlessTheSumOverflows) {
  EXPECT_EQ(checked_sum("a", "b + c", {3, -4}), -1);
  EXPECT_EQ(message([] { checked_sum("a", "b + c", {INT64_MAX, 1}); }),
            "[a] b + c must fit 64 bits, got 9223372036854775807 + 1");
}

TEST(Size, ComparesRangesWhoseEndsOverflow) {
  EXPECT_TRUE(contains(-3, 7, -3, 3));
  EXPECT_FALSE(contains(-3, 7, -3, 4));
  EXPECT_FALSE(contains(-3, 7, -4, 3));
  EXPECT_FALSE(contains(0, 0, 0, 0));
  EXPECT_TRUE(contains(INT64_MAX, 5, INT64_MAX, INT64_MAX));
  EXPECT_FALSE(contains(INT64_MAX - 1, 5, INT64_MIN, INT64_MAX));
  EXPECT_FALSE(contains(INT64_MIN, 5, INT64_MIN, INT64_MAX));
  EXPECT_EQ(internal::range_text(-3, 7), "-3 to 3");
  EXPECT_EQ(internal::range_text(INT64_MAX, 7), "9223372036854775807 to 9223372036854775807");
}

TEST(Size, ComparesSizesWithProductsThatOverflow) {
  EXPECT_TRUE(internal::holds(12, 3, 4));
  EXPECT_FALSE(internal::holds(12, 4, 4));
  EXPECT_TRUE(internal::holds(0, 0, 1LL << 31));
  EXPECT_FALSE(internal::holds(0, 0, 1LL << 62));
  EXPECT_FALSE(internal::holds(0, 1LL << 32, 1LL << 32));
  EXPECT_FALSE(internal::holds(1, 7, 7905747460161236407));
  EXPECT_FALSE(internal::holds(12, -3, -4));
}

// 7 x 7905747460161236407 is 3 x 2^64 + 1: modulo 2^64, the size of a buffer of one element.
TEST(Size, PositionsWhoseSizeWrapsAreRefused) {
  const std::int64_t one = 0;
  const View<const std::int64_t, 2> ids(&one, {7, 7905747460161236407}, {0, 0});
  EXPECT_EQ(message([&] { explicit_ids(ids); }),
            "[position] batch x tokens must fit in memory, got 7 x 7905747460161236407");
  EXPECT_THROW(consecutive(7905747460161236407, 0, 7), std::invalid_argument);
  EXPECT_THROW(consecutive(1LL << 62, 0, 0), std::invalid_argument);
}

}  // namespace size_test
}  // namespace gnomon
