#include "gnomon/position/positions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "testing.h"

namespace gnomon {
namespace position_positions_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

constexpr std::int32_t pad = Positions::padding;

TEST(Positions, ConsecutiveCountsFromTheOffsetInEachRow) {
  const Positions positions = consecutive(3, 7, 2);
  EXPECT_EQ(positions.batch, 2);
  EXPECT_EQ(positions.tokens, 3);
  EXPECT_THAT(positions.ids, ElementsAre(7, 8, 9, 7, 8, 9));
  EXPECT_THAT(positions.sequences, ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(positions.row(1), ElementsAre(7, 8, 9));
  EXPECT_TRUE(consecutive(0).ids.empty());
}

TEST(Positions, ConsecutiveReachesTheLastNumberAndNoFurther) {
  constexpr std::int64_t last = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(consecutive(2, last - 1).ids.back(), last);
  EXPECT_THAT(message_of([] { consecutive(3, last - 1); }), HasSubstr("must fit 64 bits"));
  EXPECT_EQ(message_of([] { consecutive(-1); }),
            "[position] tokens must not be negative, got -1");
  EXPECT_EQ(message_of([] { consecutive(1, 0, -2); }),
            "[position] batch must not be negative, got -2");
}

TEST(Positions, RowsOutsideTheBatchAreRefused) {
  EXPECT_EQ(message_of([] { consecutive(2).row(1); }),
            "[position] row must be from 0 to 0, got 1");
  EXPECT_NE(message_of([] { consecutive(2).row(-1); }), "");
}

TEST(Positions, ExplicitIdsAreTakenAsTheyAre) {
  const std::vector<std::int64_t> ids{5, 9, -131071, 5, 0, 1};
  EXPECT_THAT(explicit_ids(ids).ids, ElementsAre(5, 9, -131071, 5, 0, 1));
  EXPECT_EQ(explicit_ids(ids).batch, 1);
  // A transposed view: columns become rows.
  const View<const std::int64_t, 2> transposed(ids.data(), {3, 2}, {1, 3});
  const Positions positions = explicit_ids(transposed);
  EXPECT_THAT(positions.ids, ElementsAre(5, 5, 9, 0, -131071, 1));
  EXPECT_EQ(positions.batch, 3);
}

TEST(Positions, RaggedRowsCountFromTheOffsetOfTheirSequence) {
  const std::vector<std::int64_t> starts{1, 3, 3, 4}, lengths{2, 0, 1}, offsets{7, 5, 0};
  const Positions rows = ragged_positions({.starts = starts, .offsets = offsets, .tokens = 6});
  EXPECT_EQ(rows.batch, 1);
  EXPECT_THAT(rows.ids, ElementsAre(0, 7, 8, 0, 0, 0));
  EXPECT_THAT(rows.sequences, ElementsAre(pad, 0, 0, 2, pad, pad));
  const Positions padded = ragged_positions({.lengths = lengths, .offsets = offsets});
  EXPECT_EQ(padded.batch, 3);
  EXPECT_EQ(padded.tokens, 2);
  EXPECT_THAT(padded.ids, ElementsAre(7, 8, 0, 0, 0, 0));
  EXPECT_THAT(padded.sequences, ElementsAre(0, 0, pad, pad, 2, pad));
  EXPECT_THAT(ragged_positions({.starts = starts}).ids, ElementsAre(0, 0, 1, 0));
  EXPECT_EQ(ragged_positions({}).batch, 0);
}

TEST(Positions, RaggedRowsAreRefusedOutsideTheTokens) {
  constexpr std::int64_t last = std::numeric_limits<std::int64_t>::max();
  const auto says = [](std::vector<std::int64_t> starts, std::vector<std::int64_t> lengths,
                       std::vector<std::int64_t> offsets, std::int64_t tokens = -1) {
    return message_of([&] {
      ragged_positions(
          {.starts = starts, .lengths = lengths, .offsets = offsets, .tokens = tokens});
    });
  };
  EXPECT_EQ(says({0, 1}, {1}, {}),
            "[position] starts or lengths must be given, not both, got both");
  EXPECT_EQ(says({-1, 1}, {}, {}), "[position] starts must not be negative, got -1");
  EXPECT_EQ(says({0, 2, 1}, {}, {}), "[position] starts must not decrease, got 1");
  EXPECT_EQ(says({}, {2, -1}, {}), "[position] lengths must not be negative, got -1");
  EXPECT_EQ(says({0, 2}, {}, {1, 2}),
            "[position] offsets must be given for all sequences, 1, got 2");
  EXPECT_EQ(says({0, 2}, {}, {last}),
            "[position] the last position must be below 2^63, with the offset, got "
            "9223372036854775807");
  EXPECT_EQ(says({0, 2}, {}, {}, 1),
            "[position] tokens must be at least those of the sequences, 2, got 1");
  EXPECT_NE(says({}, {last, last}, {}), "");
}

TEST(Positions, PackedSequencesStartAgainAtZeroAndPadTheRest) {
  const std::vector<std::int64_t> lengths{3, 2};
  const Positions full = packed(lengths);
  EXPECT_THAT(full.ids, ElementsAre(0, 1, 2, 0, 1));
  EXPECT_THAT(full.sequences, ElementsAre(0, 0, 0, 1, 1));
  const Positions padded = packed(lengths, 7);
  EXPECT_THAT(padded.ids, ElementsAre(0, 1, 2, 0, 1, 0, 0));
  EXPECT_THAT(padded.sequences, ElementsAre(0, 0, 0, 1, 1, pad, pad));
}

TEST(Positions, PackedRefusesWhatDoesNotFit) {
  const std::vector<std::int64_t> lengths{3, 2}, empty_one{3, 0}, huge{1LL << 62, 1LL << 62};
  EXPECT_EQ(message_of([&] { packed(lengths, 4); }),
            "[position] tokens must be at least the sum of the lengths, 5, got 4");
  EXPECT_EQ(message_of([&] { packed(empty_one); }),
            "[position] every packed length must be at least 1, got 0");
  EXPECT_THAT(message_of([&] { packed(huge); }), HasSubstr("less than 2^63"));
  EXPECT_THAT(message_of([&] { packed(huge, 5); }), HasSubstr("less than 2^63"));
}

TEST(Positions, PaddingMayStandLeftRightOrBetween) {
  const std::vector<std::uint8_t> mask{0, 0, 1,   1,  //
                                       1, 1, 0,   0,  //
                                       1, 0, 255, 0};
  const Positions positions =
      from_padding_mask(View<const std::uint8_t, 2>(mask.data(), {3, 4}), 1);
  EXPECT_THAT(positions.ids, ElementsAre(1, 1, 0, 1,  //
                                         0, 1, 1, 1,  //
                                         0, 1, 1, 1));
  EXPECT_THAT(positions.sequences, ElementsAre(pad, pad, 0, 0,  //
                                               0, 0, pad, pad,  //
                                               0, pad, 0, pad));
}

TEST(Grid, CellsRunInRowMajorOrder) {
  const Grid two = grid(2, 3);
  EXPECT_EQ(two.cells, 6);
  EXPECT_THAT(two.axis(0), ElementsAre(0, 0, 0, 1, 1, 1));
  EXPECT_THAT(two.axis(1), ElementsAre(0, 1, 2, 0, 1, 2));
  const Grid three = grid(2, 1, 2);
  EXPECT_THAT(three.coordinates, ElementsAre(0, 0, 0, 0, 0, 1, 1, 0, 0, 1, 0, 1));
  EXPECT_THAT(three.axis(2), ElementsAre(0, 1, 0, 1));
}

TEST(Grid, RefusesEmptyAndAbsurdExtents) {
  EXPECT_EQ(message_of([] { grid(0, 3); }),
            "[position] every extent of a grid must be at least 1, got 0");
  EXPECT_THAT(message_of([] { grid(1LL << 40, 1LL << 40); }), HasSubstr("fewer than 2^58"));
  EXPECT_EQ(message_of([] { grid(2, 2).axis(2); }),
            "[position] axis must be from 0 to 1, got 2");
}

TEST(Positions, OfAGridHaveAnAxisEach) {
  Positions cells = explicit_ids(std::vector<std::int64_t>{0, 5, 2, 11});
  cells.sequences[3] = Positions::padding;
  const std::int64_t extents[] = {2, 3};
  const auto axes = grid_axes(cells, extents);
  ASSERT_EQ(axes.size(), 2u);
  EXPECT_THAT(axes[0].ids, ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(axes[1].ids, ElementsAre(0, 2, 2, 0));
  EXPECT_EQ(axes[1].sequences, cells.sequences);
  EXPECT_EQ(message_of([&] { grid_axes(consecutive(7), extents); }),
            "[position] a cell of the grid must be 0 to 5, got 6");
  Positions no_sequences = consecutive(6);
  no_sequences.sequences.clear();
  EXPECT_EQ(message_of([&] { grid_axes(no_sequences, extents); }),
            "[position] the cells must have a sequence for each id, got 0");
  const auto of_grid = grid_axes(grid(2, 3));
  EXPECT_EQ(of_grid[0].ids, grid(2, 3).axis(0));
  EXPECT_EQ(of_grid[1].ids, grid(2, 3).axis(1));
}

}  // namespace position_positions_test
}  // namespace gnomon
