#include "gnomon/position/patches.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "testing.h"

namespace gnomon {
namespace patches_test {

using testing::message_of;
using Ids = std::vector<std::int64_t>;

TEST(Patches, MergeBlocksByHand) {
  const Grid blocks = merge_blocks(2, 4, 2);
  EXPECT_EQ(blocks.cells, 8);
  EXPECT_EQ(blocks.axis(0), (Ids{0, 0, 1, 1, 0, 0, 1, 1}));
  EXPECT_EQ(blocks.axis(1), (Ids{0, 1, 0, 1, 2, 3, 2, 3}));
  const Grid frames = merge_blocks(2, 2, 1, 2);
  EXPECT_EQ(frames.axis(0), (Ids{0, 0, 1, 1, 0, 0, 1, 1}));
  EXPECT_EQ(frames.axis(1), (Ids{0, 1, 0, 1, 0, 1, 0, 1}));
}

TEST(Patches, Llama4CountsFromOneAndEndsWithTheClassToken) {
  const Grid patches = llama4_patches(2);
  EXPECT_EQ(patches.cells, 5);
  EXPECT_EQ(patches.axis(0), (Ids{1, 1, 2, 2, 0}));
  EXPECT_EQ(patches.axis(1), (Ids{1, 2, 1, 2, 0}));
}

TEST(Patches, CentredGridsAreLargerBelowZero) {
  const Grid cells = centred_grid(2, 3, 2, 4);
  EXPECT_EQ(cells.cells, 12);
  EXPECT_EQ(cells.axis(0), (Ids{4, 4, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5}));
  EXPECT_EQ(cells.axis(1), (Ids{-2, -2, -1, -1, 0, 0, -2, -2, -1, -1, 0, 0}));
  EXPECT_EQ(cells.axis(2), (Ids{-1, 0, -1, 0, -1, 0, -1, 0, -1, 0, -1, 0}));
  EXPECT_EQ(centred_text_start(3, 2), 1);
  EXPECT_EQ(centred_text_start(3, 9), 4);
}

TEST(Patches, ImagesOneAfterAnother) {
  const std::vector<Grid> images{grid(1, 2), grid(2, 1)};
  const Grid all = concatenated(images);
  EXPECT_EQ(all.cells, 4);
  EXPECT_EQ(all.axis(0), (Ids{0, 0, 0, 1}));
  EXPECT_EQ(all.axis(1), (Ids{0, 1, 0, 0}));
  EXPECT_EQ(concatenated({}), Grid{});
}

TEST(Patches, CentresReachFromMinusOneToOne) {
  const Coordinates centres = patch_centres(1, 4, 2);
  EXPECT_EQ(centres.cells, 6);
  EXPECT_EQ(centres.values,
            (std::vector<double>{0, 0, 0, 0, 0, -0.75, 0, -0.25, 0, 0.25, 0, 0.75}));
  EXPECT_EQ(centres.view()(3, 1), -0.25);
}

TEST(Patches, CropsAsInDiffusers) {
  const Crop crop{.top = 2, .left = 0, .bottom = 8, .right = 3};
  // Rows: linspace(2, 8 * 1 / 2, 2) = 2, 4; columns: linspace(0, 3 * 2 / 3, 3) = 0, 1, 2.
  EXPECT_EQ(crop_cells(2, 3, crop).values,
            (std::vector<double>{2, 0, 2, 1, 2, 2, 4, 0, 4, 1, 4, 2}));
  EXPECT_EQ(crop_cells(1, 1, crop).values, (std::vector<double>{2, 0}));
  const Coordinates video = crop_cells(2, 1, 2, crop);
  EXPECT_EQ(video.axes, 3);
  EXPECT_EQ(video.values, (std::vector<double>{0, 2, 0, 0, 2, 1.5, 1, 2, 0, 1, 2, 1.5}));
}

TEST(Patches, RefusesWhatItCannotMean) {
  EXPECT_EQ(message_of([] { merge_blocks(4, 5, 2); }),
            "[patches] height and width must be multiples of merge = 2, got 5");
  EXPECT_EQ(message_of([] { merge_blocks(4, 4, 0); }),
            "[patches] merge must be at least 1, got 0");
  EXPECT_EQ(message_of([] { merge_blocks(4, 0, 2); }),
            "[patches] every extent must be at least 1, got 0");
  EXPECT_EQ(message_of([] { patch_centres(4, 4, -1); }),
            "[patches] prefix must not be negative, got -1");
  EXPECT_EQ(message_of([] { merge_blocks(std::int64_t{1} << 40, std::int64_t{1} << 40, 1); }),
            "[patches] there must be fewer than 2^58 patches, at extent, got 1099511627776");
  EXPECT_EQ(message_of([] { centred_text_start(0, 1); }),
            "[patches] every extent must be at least 1, got 0");
  EXPECT_EQ(
      message_of([] { centred_grid(2, 1, 1, std::numeric_limits<std::int64_t>::max() - 1); }),
      "[patches] index + frames must fit 64 bits; index, got 9223372036854775806");
  EXPECT_EQ(message_of([] {
              crop_cells(1, 1, {.top = 0, .left = 0, .bottom = INFINITY, .right = 1});
            }),
            "[patches] the edges of a crop must be finite, got inf");
  const std::vector<Grid> mixed{grid(1, 1), grid(1, 1, 1)};
  EXPECT_EQ(message_of([&] { concatenated(mixed); }),
            "[patches] grids must have 2 axes, got 3");
  const std::vector<Grid> broken{Grid{.cells = 3, .axes = 2, .coordinates = {}}};
  EXPECT_EQ(message_of([&] { concatenated(broken); }),
            "[patches] a grid must have cells x axes coordinates, got 0");
}

}  // namespace patches_test
}  // namespace gnomon
