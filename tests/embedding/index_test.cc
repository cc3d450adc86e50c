#include "gnomon/embedding/index.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "testing.h"

namespace gnomon {
namespace index_test {

using testing::message_of;

constexpr auto all = IndexChannels::all;
constexpr auto first = IndexChannels::first;
const std::vector<std::int64_t> positions{0, 1, 2, 17, 511, 16'777'217, -4};

// Half an ulp of a float, and the quotient's rounding to double.
long double bound(long double value) {
  return std::fabs(value) * (0x1p-24L + 0x1p-53L) + std::numeric_limits<float>::denorm_min();
}

TEST(IndexTable, AddsTheFormulaToTheChannels) {
  for (const std::int64_t length : {0, 2, 3, 512})
    for (const IndexChannels channels : {all, first}) {
      const bool raw = length == 0;
      const EmbeddingTable table =
          lower(Index{.width = 5,
                      .unit = raw ? IndexUnit::raw : IndexUnit::normalised,
                      .channels = channels,
                      .length = length},
                positions);
      ASSERT_EQ(table.view().extents(), (std::array<std::ptrdiff_t, 2>{7, 5}));
      for (std::size_t t = 0; t < positions.size(); ++t)
        for (std::int64_t c = 0; c < 5; ++c) {
          const long double value = channels == first && c > 0 ? 0
                                    : raw ? static_cast<long double>(positions[t])
                                          : static_cast<long double>(positions[t]) /
                                                static_cast<long double>(length - 1);
          EXPECT_LE(std::fabs(table.view()(t, c) - value), bound(value))
              << "length " << length << " t " << t << " c " << c;
        }
    }
}

// A raw index ignores the length, and a normalised one changes with it.
TEST(IndexTable, TheStepOfTheNormalisedIndexDependsOnTheLength) {
  const std::vector<std::int64_t> one{1};
  const auto step = [&](IndexUnit unit, std::int64_t length) {
    return lower(Index{.width = 1, .unit = unit, .channels = all, .length = length}, one)
        .values[0];
  };
  EXPECT_EQ(step(IndexUnit::raw, 64), step(IndexUnit::raw, 128));
  EXPECT_EQ(step(IndexUnit::normalised, 65), 1.0f / 64);
  EXPECT_EQ(step(IndexUnit::normalised, 129), 1.0f / 128);
}

TEST(IndexTable, NoPositionsGiveNoRows) {
  EXPECT_EQ(lower(Index{.width = 6, .unit = IndexUnit::raw, .channels = all}, {}),
            (EmbeddingTable{0, 6, {}}));
}

TEST(IndexTable, RefusesASpecThatBreaksItsBounds) {
  const auto refusal = [](const Index& index) {
    return message_of([&] { lower(index, positions); });
  };
  EXPECT_EQ(refusal({.unit = IndexUnit::raw, .channels = all}),
            "[index] width must be at least 1, got 0");
  EXPECT_EQ(refusal({.width = 2, .channels = all}),
            "[index] unit must be raw or normalised, got 0");
  EXPECT_EQ(refusal({.width = 2, .unit = IndexUnit::raw}),
            "[index] channels must be all or first, got 0");
  EXPECT_EQ(refusal({.width = 2, .unit = IndexUnit::normalised, .channels = all, .length = 1}),
            "[index] length must be at least 2 if unit is normalised, got 1");
}

}  // namespace index_test
}  // namespace gnomon
