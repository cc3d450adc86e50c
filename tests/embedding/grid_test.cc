#include "gnomon/embedding/grid.h"

#include <gtest/gtest.h>

#include <limits>

#include "embedding/oracle.h"

namespace gnomon {
namespace grid_test {

using testing::as_double;
using testing::message_of;
using testing::Tensor;
using testing::true_wave;

// Expected value of a channel of a cell, written as each repository computes it.
using Expected = std::function<long double(std::span<const double> at, std::int64_t c)>;

template <typename T>
void expect_cells(const Tensor<T, 2>& out, View<const double, 2> coordinates,
                  const Expected& expected) {
  for (std::int64_t n = 0; n < out.extents[0]; ++n) {
    const std::span<const double> at(&coordinates(n, 0),
                                     static_cast<std::size_t>(coordinates.extent(1)));
    for (std::int64_t c = 0; c < out.extents[1]; ++c) {
      const long double value = expected(at, c);
      // Frequencies are doubles: 2^-47 more at the coordinates used here, below 32.
      EXPECT_LE(std::fabs(as_double(out.view()(n, c)) - value),
                testing::entry_bound<T>(value) + 0x1p-46L)
          << "cell " << n << " channel " << c;
    }
  }
}

template <typename T>
void expect_grid(const SinusoidalGrid& spec, const Grid& cells, const Expected& expected) {
  const std::vector<double> coordinates(cells.coordinates.begin(), cells.coordinates.end());
  const View<const double, 2> view(coordinates.data(), {cells.cells, cells.axes});
  Tensor<T, 2> out({cells.cells, width(spec)}), continuous(out);
  fill(spec, cells, out.view());
  expect_cells(out, view, expected);
  fill(spec, view, continuous.view());
  expect_cells(continuous, view, expected);
}

// get_1d_sincos_pos_embed_from_grid: omega_j = base^(-j / (dim / 2)), [sin | cos].
long double mae_axis(double position, std::int64_t width, std::int64_t c, double base) {
  const std::int64_t half = width / 2;
  const auto wave =
      true_wave(position, base, static_cast<double>(c % half), static_cast<double>(half));
  return c < half ? wave.sine : wave.cosine;
}

// PositionEmbeddingSine: dim_t = T^(2 floor(j / 2) / dim); even channels sin, odd cos.
long double detr_axis(double position, std::int64_t width, std::int64_t c, double base) {
  const auto wave =
      true_wave(position, base, static_cast<double>(2 * (c / 2)), static_cast<double>(width));
  return c % 2 ? wave.cosine : wave.sine;
}

template <typename T>
class GridOf : public ::testing::Test {};
using Types = ::testing::Types<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(GridOf, Types);

TYPED_TEST(GridOf, MaeTakesTheColumnFirst) {
  for (const double base : {10'000.0, 100.0})
    for (const std::int64_t channels : {4, 12, 40})
      expect_grid<TypeParam>(grid_mae(channels, base), grid(3, 5),
                             [=](std::span<const double> at, std::int64_t c) {
                               const std::int64_t half = channels / 2;
                               return c < half ? mae_axis(at[1], half, c, base)
                                               : mae_axis(at[0], half, c - half, base);
                             });
}

TYPED_TEST(GridOf, DetrTakesTheRowFirst) {
  for (const double temperature : {10'000.0, 20.0})
    for (const std::int64_t channels : {4, 12, 40})
      expect_grid<TypeParam>(grid_detr(channels, temperature), grid(4, 3),
                             [=](std::span<const double> at, std::int64_t c) {
                               const std::int64_t half = channels / 2;
                               return c < half ? detr_axis(at[0], half, c, temperature)
                                               : detr_axis(at[1], half, c - half, temperature);
                             });
}

TYPED_TEST(GridOf, CogVideoXPutsTimeBeforeColumnBeforeRow) {
  for (const std::int64_t channels : {16, 48})
    expect_grid<TypeParam>(grid_cogvideox(channels), grid(3, 2, 4),
                           [=](std::span<const double> at, std::int64_t c) {
                             const std::int64_t time = channels / 4, space = 3 * channels / 8;
                             if (c < time) return mae_axis(at[0], time, c, 10'000);
                             c -= time;
                             return c < space ? mae_axis(at[2], space, c, 10'000)
                                              : mae_axis(at[1], space, c - space, 10'000);
                           });
}

TYPED_TEST(GridOf, VJepaPutsTimeBeforeRowBeforeColumn) {
  for (const std::int64_t channels : {6, 8, 26, 40})  // 26: 30 channels, of which 4 are cut
    expect_grid<TypeParam>(grid_vjepa(channels, VideoShares::thirds), grid(3, 2, 4),
                           [=](std::span<const double> at, std::int64_t c) {
                             const std::int64_t each = (channels + 5) / 6 * 2;
                             return mae_axis(at[static_cast<std::size_t>(c / each)], each,
                                             c % each, 10'000);
                           });
  for (const std::int64_t channels : {8, 40})
    expect_grid<TypeParam>(grid_vjepa(channels, VideoShares::half_time), grid(3, 2, 4),
                           [=](std::span<const double> at, std::int64_t c) {
                             const std::int64_t half = channels / 2, quarter = channels / 4;
                             if (c < half) return mae_axis(at[0], half, c, 10'000);
                             return mae_axis(at[c < half + quarter ? 1 : 2], quarter,
                                             c % quarter, 10'000);
                           });
}

TYPED_TEST(GridOf, SummedAxesFillEveryChannelAndRoundOnce) {
  const Sinusoidal rows{.width = 7, .recipe = SinusoidalRecipe::interleaved};
  const Sinusoidal columns{.width = 7, .recipe = SinusoidalRecipe::half_split, .base = 30};
  const SinusoidalGrid spec{
      .join = AxisJoin::summed,
      .axes = {{.column = 0, .sinusoidal = rows}, {.column = 1, .sinusoidal = columns}}};
  EXPECT_EQ(width(spec), 7);
  expect_grid<TypeParam>(spec, grid(3, 4), [](std::span<const double> at, std::int64_t c) {
    const auto pair = static_cast<double>(c < 4 ? c : c - 4);
    const auto wave = true_wave(at[1], 30, 2 * pair, 7);
    return detr_axis(at[0], 7, c, 10'000) + (c < 4 ? wave.sine : wave.cosine);
  });
}

TYPED_TEST(GridOf, StridesChangeNoBitAndTouchNothingElse) {
  using T = TypeParam;
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  SinusoidalGrid summed = grid_mae(16);
  summed.join = AxisJoin::summed;
  for (const SinusoidalGrid& spec : {grid_mae(16), grid_detr(16), summed}) {
    const std::int64_t channels = width(spec);
    Tensor<T, 2> plain({6, channels});
    fill(spec, grid(2, 3), plain.view());
    Tensor<T, 2> wide({13, 2 * channels + 1}, T(nan));
    const View<T, 2> view(&wide.view()(1, 1), {6, channels}, {2 * (2 * channels + 1), 2});
    fill(spec, grid(2, 3), view);
    std::size_t written = 0;
    for (const T& value : wide.values) written += !std::isnan(as_double(value));
    EXPECT_EQ(written, plain.values.size());
    for (std::int64_t n = 0; n < 6; ++n)
      for (std::int64_t c = 0; c < channels; ++c) EXPECT_EQ(view(n, c), plain.view()(n, c));
  }
}

// The order of the axes, in numbers that can be checked by hand: cell (row 0, column 1).
TEST(SinusoidalGrid, TheOrderOfTheAxesByHand) {
  Tensor<double, 2> out({2, 4});
  fill(grid_mae(4), grid(1, 2), out.view());
  EXPECT_DOUBLE_EQ(out.view()(1, 0), std::sin(1.0));
  EXPECT_DOUBLE_EQ(out.view()(1, 1), std::cos(1.0));
  EXPECT_EQ(out.view()(1, 2), 0.0);
  EXPECT_EQ(out.view()(1, 3), 1.0);
  fill(grid_detr(4), grid(1, 2), out.view());
  EXPECT_EQ(out.view()(1, 0), 0.0);
  EXPECT_DOUBLE_EQ(out.view()(1, 2), std::sin(1.0));
}

TEST(SinusoidalGrid, NoCellsGiveNoRows) {
  const View<const double, 2> none(nullptr, {0, 2});
  EXPECT_EQ(message_of([&] { fill(grid_mae(8), none, View<float, 2>(nullptr, {0, 8})); }), "");
}

TEST(SinusoidalGrid, RefusesWhatBreaksItsBounds) {
  EXPECT_EQ(message_of([] { grid_mae(6); }),
            "[grid] width must be a positive multiple of 4, got 6");
  EXPECT_EQ(message_of([] { grid_detr(0); }),
            "[grid] width must be a positive multiple of 4, got 0");
  EXPECT_EQ(message_of([] { grid_cogvideox(24); }),
            "[grid] width must be a positive multiple of 16, got 24");
  EXPECT_EQ(message_of([] { width(SinusoidalGrid{.join = AxisJoin::summed, .axes = {}}); }),
            "[grid] there must be at least one axis, got 0");
  EXPECT_EQ(message_of([] { grid_vjepa(5, VideoShares::thirds); }),
            "[grid] width must be a positive multiple of 2, got 5");
  EXPECT_EQ(message_of([] { grid_vjepa(12, VideoShares::half_time); }),
            "[grid] width must be a positive multiple of 8, got 12");
  EXPECT_EQ(message_of([] { grid_vjepa(12, VideoShares{}); }),
            "[grid] shares must be thirds or half_time, got 0");
  SinusoidalGrid spec = grid_mae(8);
  spec.kept = 9;
  EXPECT_EQ(message_of([&] { width(spec); }), "[grid] kept must be from 0 to 8, got 9");
  spec.join = AxisJoin::summed, spec.kept = 3;
  EXPECT_EQ(message_of([&] { width(spec); }),
            "[grid] kept must be 0 or the full width for summed axes, got 3");
  spec = grid_mae(8);
  spec.join = {};
  EXPECT_EQ(message_of([&] { width(spec); }),
            "[grid] join must be concatenated or summed, got 0");
  spec.join = AxisJoin::summed;
  spec.axes[1].sinusoidal.width = 6;
  EXPECT_EQ(message_of([&] { width(spec); }),
            "[grid] summed axes must have equal widths, 4, got 6");
  EXPECT_EQ(message_of([&] { width(grid_mae(8, 0.5)); }),
            "[sinusoidal] base must be greater than 1 and finite, got 0.5");
  Tensor<float, 2> out({6, 8}), narrow({6, 7});
  EXPECT_EQ(message_of([&] { fill(grid_mae(8), grid(2, 3), narrow.view()); }),
            "[grid] out must be [6, 8], got [6, 7]");
  EXPECT_EQ(message_of([&] { fill(grid_mae(8), grid(2, 2), out.view()); }),
            "[grid] out must be [4, 8], got [6, 8]");
  spec = grid_mae(8);
  spec.axes[0].column = 2;
  EXPECT_EQ(message_of([&] { fill(spec, grid(2, 3), out.view()); }),
            "[grid] an axis's column must be from 0 to 1, got 2");
  Grid broken = grid(2, 3);  // an aggregate does not keep its sizes consistent
  broken.coordinates.pop_back();
  EXPECT_EQ(message_of([&] { fill(grid_mae(8), broken, out.view()); }),
            "[grid] coordinates must be 6 x 2, got 11");
  broken.cells = -6;
  EXPECT_EQ(message_of([&] { fill(grid_mae(8), broken, out.view()); }),
            "[grid] coordinates must be -6 x 2, got 11");
}

// MAE's encoder: a class token with a row of zeros, then the cells row by row.
TEST(Grid, OfTokensInALineHasRowsForClassTokens) {
  SinusoidalGrid spec = grid_mae(8);
  spec.grid = {2, 3};
  spec.class_tokens = 1;
  EXPECT_EQ(capacity(spec), 7);
  const std::int64_t positions[] = {0, 1, 6, 4};
  const EmbeddingTable table = lower(spec, positions);
  std::vector<float> cells(6 * 8);
  fill(spec, grid(2, 3), View<float, 2>(cells.data(), {6, 8}));
  for (std::size_t c = 0; c < 8; ++c) {
    EXPECT_EQ(table.values[c], 0);
    EXPECT_EQ(table.values[8 + c], cells[c]);
    EXPECT_EQ(table.values[16 + c], cells[5 * 8 + c]);
    EXPECT_EQ(table.values[24 + c], cells[3 * 8 + c]);
  }
  const std::int64_t outside[] = {7};
  EXPECT_EQ(testing::message_of([&] { lower(spec, outside); }),
            "[grid] position must be 0 to 6, got 7");
}

}  // namespace grid_test
}  // namespace gnomon
