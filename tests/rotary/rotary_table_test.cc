// Rotary tables: sharing between copies, and axes in any order.
#include <gtest/gtest.h>

#include "gnomon/parallel.h"
#include "gnomon/rotary/rotary.h"
#include "testing.h"

namespace gnomon {
namespace rotary_table_test {

using testing::iota;

RotaryFrequencies frequencies_of(std::int64_t pairs) {
  return lower(Rotary{.rotary_dim = 2 * pairs, .pairing = Pairing::halves, .base = 1e6});
}

Positions row_of(std::vector<std::int64_t> ids) {
  Positions positions;
  positions.batch = 1;
  positions.tokens = std::ssize(ids);
  positions.ids = std::move(ids);
  return positions;
}

TEST(RotaryTable, CopiesShareTheirEntries) {
  auto table = std::make_unique<RotaryTable>(frequencies_of(8), iota(0, 5));
  const RotaryTable copy = *table;
  EXPECT_EQ(copy.cos().data(), table->cos().data());
  const float entry = table->sin()(0, 3, 1);
  table.reset();
  EXPECT_EQ(copy.sin()(0, 3, 1), entry);
}

TEST(RotaryTable, EntriesAreThoseOfTheAngles) {
  for (const std::int64_t tokens : {0, 1, 3, 70, 9000})  // the last in huge pages
    for (const std::int64_t pairs : {1, 40, 64}) {
      const RotaryFrequencies frequencies = frequencies_of(pairs);
      const auto positions = iota(131'000, tokens);
      const RotaryTable table(frequencies, positions);
      testing::Tensor<float, 2> cosines({tokens, pairs}), sines({tokens, pairs});
      fill_cos_sin(std::span<const std::int64_t>(positions),
                   std::span<const double>(frequencies.inv_freq), cosines.view(), sines.view());
      const auto all = [](View<const float, 3> view) {
        return std::vector<float>(view.data(), view.data() + view.size());
      };
      EXPECT_EQ(all(table.cos()), cosines.values);
      EXPECT_EQ(all(table.sin()), sines.values);
    }
}

// Sections; interleaved with a remainder; descending; one pair each; an axis without pairs.
TEST(RotaryTable, OfStoredEntriesHasTheirBits) {
  const Positions positions = explicit_ids(std::vector<std::int64_t>{3, 1, 900});
  const RotaryFrequencies frequencies =
      lower(Rotary{.rotary_dim = 6, .pairing = Pairing::adjacent});
  const RotaryTable table(frequencies, positions);
  const RotaryTable stored(frequencies, table.cos(), table.sin());
  EXPECT_EQ(stored.frequencies(), frequencies);
  EXPECT_NE(stored.cos().data(), table.cos().data());
  ASSERT_EQ(stored.cos().extents(), table.cos().extents());
  for (std::ptrdiff_t t = 0; t < 3; ++t)
    for (std::ptrdiff_t i = 0; i < 3; ++i) {
      EXPECT_EQ(stored.cos()(0, t, i), table.cos()(0, t, i));
      EXPECT_EQ(stored.sin()(0, t, i), table.sin()(0, t, i));
    }
  EXPECT_EQ(testing::message_of(
                [&] { RotaryTable(frequencies, table.cos(), table.sin().slice(1, 0, 2)); }),
            "[rotary] sin must have the shape of cos, [1, 3, 3], got [1, 2, 3]");
  EXPECT_EQ(testing::message_of([&] {
              RotaryTable(lower(Rotary{.rotary_dim = 4, .pairing = Pairing::halves}),
                          table.cos(), table.sin());
            }),
            "[rotary] cos must have a column for each of 2 pairs, got 3");
}

TEST(RotaryTable, AxesInAnyOrderHaveTheBitsOfTablesOfTheirOwn) {
  constexpr std::int64_t pairs = 32;
  const std::vector<std::function<std::int32_t(std::int32_t)>> patterns{
      [](std::int32_t i) { return i < 8    ? 0
                                  : i < 20 ? 1
                                           : 2; },
      [](std::int32_t i) { return i < 24 ? i % 3 : 0; },
      [](std::int32_t i) { return 2 - i / 11; },
      [](std::int32_t i) { return i * i % 7 % 3; },
      [](std::int32_t i) { return i % 2 * 2; },
  };
  for (const std::int64_t tokens : {1, 3, 4, 200}) {
    std::vector<Positions> axes;
    for (const std::int64_t first : {70'000, -5, 64})
      axes.push_back(row_of(iota(first, tokens)));
    for (const auto& pattern : patterns) {
      RotaryFrequencies frequencies = frequencies_of(pairs);
      frequencies.table_scale = 1.1;
      std::vector<RotaryTable> own;
      for (const Positions& axis : axes) own.emplace_back(frequencies, axis);
      for (std::int32_t i = 0; i < pairs; ++i) frequencies.axes.push_back(pattern(i));
      const RotaryTable table(frequencies, std::span<const Positions>(axes));
      for (std::int64_t t = 0; t < tokens; ++t)
        for (std::int64_t i = 0; i < pairs; ++i) {
          const auto& expected = own[static_cast<std::size_t>(pattern(std::int32_t(i)))];
          ASSERT_EQ(table.cos()(0, t, i), expected.cos()(0, t, i));
          ASSERT_EQ(table.sin()(0, t, i), expected.sin()(0, t, i));
        }
    }
  }
}

}  // namespace rotary_table_test
}  // namespace gnomon
