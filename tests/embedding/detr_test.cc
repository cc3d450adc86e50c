#include "gnomon/embedding/detr.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "embedding/oracle.h"
#include "gnomon/embedding/grid.h"

namespace gnomon {
namespace detr_test {

using ::testing::ElementsAre;
using testing::message_of;
using testing::Tensor;
using testing::true_wave;

// PositionEmbeddingSine as released, for one image: running sums along each axis, divided by
// the last sum of their line.
std::vector<long double> released(const Tensor<std::uint8_t, 2>& mask, DetrScale scale) {
  const auto [height, width] = mask.extents;
  std::vector<long double> at;
  for (std::ptrdiff_t i = 0; i < height; ++i)
    for (std::ptrdiff_t j = 0; j < width; ++j) {
      long double y = 0, x = 0, y_last = 0, x_last = 0;
      for (std::ptrdiff_t k = 0; k < height; ++k) {
        y_last += mask.view()(k, j) != 0;
        if (k == i) y = y_last;
      }
      for (std::ptrdiff_t k = 0; k < width; ++k) {
        x_last += mask.view()(i, k) != 0;
        if (k == j) x = x_last;
      }
      const long double pi = 3.14159265358979323846264338327950288L;
      const long double back = scale == DetrScale::centred ? 0.5L : 0.0L;
      if (scale != DetrScale::cells) {
        y = (y - back) / (y_last + 1e-6L) * 2 * pi;
        x = (x - back) / (x_last + 1e-6L) * 2 * pi;
      }
      at.push_back(y), at.push_back(x);
    }
  return at;
}

Tensor<std::uint8_t, 2> mask_of(
    std::array<std::ptrdiff_t, 2> shape,
    const std::function<bool(std::ptrdiff_t, std::ptrdiff_t)>& real) {
  Tensor<std::uint8_t, 2> mask(shape);
  for (std::ptrdiff_t i = 0; i < shape[0]; ++i)
    for (std::ptrdiff_t j = 0; j < shape[1]; ++j) mask.view()(i, j) = real(i, j) ? 1 : 0;
  return mask;
}

std::vector<Tensor<std::uint8_t, 2>> masks() {
  return {mask_of({5, 7}, [](auto, auto) { return true; }),
          mask_of({5, 7}, [](auto i, auto j) { return i < 3 && j < 4; }),  // as batches pad
          mask_of({6, 5}, [](auto i, auto j) { return (i + j) % 3 != 0; }),
          mask_of({4, 3}, [](auto, auto) { return false; }),
          mask_of({1, 1}, [](auto, auto) { return true; })};
}

TEST(Detr, CoordinatesAreTheReleasedOnes) {
  for (const auto& mask : masks())
    for (const auto scale : {DetrScale::cells, DetrScale::normalised, DetrScale::centred}) {
      const std::vector<double> got = detr_coordinates(mask.view(), scale);
      const std::vector<long double> expected = released(mask, scale);
      ASSERT_EQ(got.size(), expected.size());
      for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_LE(std::fabs(got[i] - expected[i]), 0x1p-51L * std::fabs(expected[i])) << i;
    }
}

// The second row is padding from its second pixel on and keeps the last count.
TEST(Detr, PaddingKeepsTheCount) {
  const std::uint8_t mask[] = {1, 1, 1, 1, 0, 0};
  EXPECT_THAT(detr_coordinates(View<const std::uint8_t, 2>(mask, {2, 3}), DetrScale::cells),
              ElementsAre(1, 1, 1, 2, 1, 3, 2, 1, 1, 1, 1, 1));
}

TEST(Detr, WithoutPaddingItCountsFromOneAndDividesByTheLast) {
  EXPECT_THAT(detr_coordinates(2, 3, DetrScale::cells),
              ElementsAre(1, 1, 1, 2, 1, 3, 2, 1, 2, 2, 2, 3));
  const std::vector<double> scaled = detr_coordinates(3, 2, DetrScale::normalised);
  ASSERT_EQ(scaled.size(), 12u);
  for (std::size_t n = 0; n < 6; ++n) {
    const double y = 1 + static_cast<double>(n / 2), x = 1 + static_cast<double>(n % 2);
    EXPECT_DOUBLE_EQ(scaled[2 * n], y / (3 + 1e-6) * 2 * M_PI);
    EXPECT_DOUBLE_EQ(scaled[2 * n + 1], x / (2 + 1e-6) * 2 * M_PI);
  }
}

TEST(Detr, TheTableIsYThenXInterleaved) {
  for (const auto& mask : masks()) {
    const EmbeddingTable table = lower(grid_detr(24, 20.0), mask.view());
    const std::vector<double> at = detr_coordinates(mask.view(), DetrScale::normalised);
    ASSERT_EQ(table.tokens, mask.view().size());
    for (std::int64_t n = 0; n < table.tokens; ++n)
      for (std::int64_t c = 0; c < 24; ++c) {
        // dim_t = T^(2 floor(j / 2) / 12)
        const std::int64_t j = c % 12;
        const auto wave = true_wave(at[static_cast<std::size_t>(2 * n + c / 12)], 20.0,
                                    static_cast<double>(j / 2 * 2), 12.0);
        const long double value = j % 2 ? wave.cosine : wave.sine;
        EXPECT_LE(std::fabs(static_cast<long double>(table.view()(n, c)) - value),
                  testing::entry_bound<float>(value) + 0x1p-46L);
      }
  }
}

TEST(Detr, StridedMasksAreTheSame) {
  const auto mask = masks()[1];
  Tensor<std::uint8_t, 2> turned({7, 5});
  for (std::ptrdiff_t i = 0; i < 5; ++i)
    for (std::ptrdiff_t j = 0; j < 7; ++j) turned.view()(j, i) = mask.view()(i, j) ? 255 : 0;
  EXPECT_EQ(
      lower(grid_detr(8), View<const std::uint8_t, 2>(turned.values.data(), {5, 7}, {1, 5})),
      lower(grid_detr(8), mask.view()));
}

TEST(Detr, RefusesWhatBreaksItsBounds) {
  EXPECT_EQ(message_of([] { detr_coordinates(2, 3, DetrScale{}); }),
            "[detr] scale must be cells, normalised or centred, got 0");
  EXPECT_EQ(message_of([] { detr_coordinates(2, 0, DetrScale::cells); }),
            "[detr] every extent of a mask must be at least 1, got [2, 0]");
  EXPECT_EQ(message_of([] { lower(grid_detr(6), masks()[0].view()); }),
            "[grid] width must be a positive multiple of 4, got 6");
}

}  // namespace detr_test
}  // namespace gnomon
