#include "gnomon/model/text_readings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gnomon/position/graph.h"
#include "testing.h"

namespace gnomon::model {
namespace text_readings_test {

using gnomon::testing::iota;
using gnomon::testing::message_of;
using gnomon::testing::Tensor;

TEST(TextReadings, APageIsAnImageWithoutPadding) {
  for (const auto scale : {DetrScale::cells, DetrScale::normalised, DetrScale::centred}) {
    const DetrPage page{
        .width = 16, .grid_height = 3, .grid_width = 4, .scale = scale, .temperature = 20};
    EXPECT_EQ(capacity(page), 12);
    const Tensor<std::uint8_t, 2> mask({3, 4}, 1);
    const EmbeddingTable image = gnomon::lower(grid_detr(16, 20), mask.view(), scale);
    const std::int64_t positions[] = {10, 0, 5, 7};
    const EmbeddingTable table = lower(page, positions);
    for (std::int64_t t = 0; t < 4; ++t)
      for (std::int64_t c = 0; c < 16; ++c)
        EXPECT_EQ(table.view()(t, c), image.view()(positions[t], c));
  }
}

TEST(TextReadings, APageRefusesWhatIsNotOnIt) {
  EXPECT_EQ(message_of([] { capacity(DetrPage{.width = 8, .grid_width = 4}); }),
            "[detr] grid_height must be from 1 to 2^24, got 0");
  EXPECT_EQ(message_of([] { capacity(DetrPage{.width = 8, .grid_height = 4}); }),
            "[detr] grid_width must be from 1 to 2^24, got 0");
  EXPECT_EQ(message_of([] {
              capacity(DetrPage{.width = 8, .grid_height = 8192, .grid_width = 4096});
            }),
            "[detr] grid_height x grid_width must be from 1 to 2^24, got 33554432");
  const std::int64_t beyond[] = {3, 4};
  EXPECT_EQ(message_of([&] {
              lower(DetrPage{.width = 8, .grid_height = 2, .grid_width = 2}, beyond);
            }),
            "[detr] position must be on the page, 0 to 3, got 4");
}

TEST(TextReadings, LinesGoOnBeyondTheirLength) {
  const FourierLine line{
      .fourier = fourier_perceiver(std::vector<double>{5.0}, 3), .length = 5, .width = 8};
  const std::int64_t positions[] = {0, 1, 4, 6};
  const std::vector<double> got = line_features(line, positions);
  Tensor<double, 2> out({4, 7});
  const double at[] = {-1, -0.5, 1, 2};
  fill(line.fourier, View<const double, 2>(at, {4, 1}), out.view());
  EXPECT_EQ(got, out.values);
}

TEST(TextReadings, LinesMayBeTheCellsOfAGrid) {
  const double resolution[] = {2, 3};
  const FourierLine line{.fourier = fourier_perceiver(resolution, 4), .grid = {2, 3}};
  const std::int64_t positions[] = {5, 0};
  const std::vector<double> got = line_features(line, positions);
  const std::vector<double> at = unit_coordinates(std::vector<std::int64_t>{2, 3});
  const std::int64_t count = features(line.fourier);
  std::vector<double> all(static_cast<std::size_t>(6 * count));
  fill(line.fourier, View<const double, 2>(at.data(), {6, 2}),
       View<double, 2>(all.data(), {6, count}));
  for (std::int64_t f = 0; f < count; ++f) {
    EXPECT_EQ(got[static_cast<std::size_t>(f)], all[static_cast<std::size_t>(5 * count + f)]);
    EXPECT_EQ(got[static_cast<std::size_t>(count + f)], all[static_cast<std::size_t>(f)]);
  }
}

TEST(TextReadings, LinesRefuseWhatBreaksTheirBounds) {
  const FourierLine plane{.fourier = fourier_nerf(2, 1), .length = 5, .width = 8};
  EXPECT_EQ(message_of([&] { line_features(plane, {}); }),
            "[fourier] a line must have one axis, got 2");
  const FourierLine point{.fourier = fourier_nerf(1, 2), .length = 1, .width = 8};
  EXPECT_EQ(message_of([&] { line_features(point, {}); }),
            "[fourier] length must be at least 2, got 1");
  EXPECT_EQ(message_of([&] { line_features(FourierLine{.length = 5}, {}); }),
            "[fourier] bands must be perceiver, nerf or gaussian, got 0");
  const FourierLine grid{.fourier = fourier_nerf(2, 1), .grid = {2, 3}};
  EXPECT_EQ(message_of([&] { line_features(grid, iota(5, 2)); }),
            "[fourier] position must be a cell of the grid, got 6");
  const FourierLine flat{.fourier = fourier_nerf(1, 1), .grid = {2, 3}};
  EXPECT_EQ(message_of([&] { line_features(flat, {}); }),
            "[fourier] a grid must have an extent for each axis, got 1");
}

TEST(TextReadings, EigenvectorsAreThePathsRows) {
  const PathLaplacian path{.nodes = 9,
                           .width = 1,
                           .laplacian = {.vectors = 4,
                                         .kind = LaplacianKind::combinatorial,
                                         .zeros = LaplacianZeros::skip_one,
                                         .signs = LaplacianSigns::fixed}};
  const LaplacianVectors all = path_laplacian_vectors(path.laplacian, 9);
  const std::vector<std::int64_t> positions{4, 0, 8};
  const auto rows = path_features(path, positions);
  ASSERT_EQ(rows.size(), 12u);
  for (std::size_t t = 0; t < 3; ++t)
    for (std::int64_t k = 0; k < 4; ++k)
      EXPECT_EQ(rows[4 * t + static_cast<std::size_t>(k)], all.view()(positions[t], k));
  EXPECT_EQ(message_of([&] { path_features(path, iota(-1, 2)); }),
            "[laplacian] positions must be nodes of the path, 0 to 8, got -1");
}

TEST(TextReadings, ReturnProbabilitiesAreThePathsRows) {
  const PathRandomWalk path{.nodes = 9, .width = 1, .walk = {.steps = 5}};
  const ReturnProbabilities all = return_probabilities({.steps = 5}, path_graph(9));
  const std::vector<std::int64_t> positions{4, 0, 8};
  const auto rows = path_features(path, positions);
  ASSERT_EQ(rows.size(), 15u);
  for (std::size_t t = 0; t < 3; ++t)
    for (std::int64_t k = 0; k < 5; ++k)
      EXPECT_EQ(rows[5 * t + static_cast<std::size_t>(k)], all.view()(positions[t], k));
  EXPECT_EQ(message_of([&] { path_features(path, iota(8, 2)); }),
            "[random_walk] positions must be nodes of the path, 0 to 8, got 9");
}

TEST(TextReadings, DegreesAreThoseOfThePath) {
  const Degree degree{.rows = 4, .width = 3, .beyond = DegreeBeyond::refused};
  for (const std::int64_t nodes : {1, 2, 3, 9})
    EXPECT_EQ(path_degree_rows({nodes, degree}, iota(0, nodes)),
              degree_rows(degree, path_graph(nodes)));
  EXPECT_EQ(message_of([&] { path_degree_rows({3, degree}, iota(2, 2)); }),
            "[degree] positions must be nodes of the path, 0 to 2, got 3");
  EXPECT_EQ(message_of([] { path_degree_rows({.nodes = 3, .degree = {}}, {}); }),
            "[degree] rows must be at least 2, got 0");
}

}  // namespace text_readings_test
}  // namespace gnomon::model
