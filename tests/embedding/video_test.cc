#include "gnomon/embedding/video.h"

#include <gtest/gtest.h>

#include "embedding/oracle.h"

namespace gnomon {
namespace video_test {

using testing::iota;
using testing::message_of;
using testing::true_wave;

// get_1d_sincos_pos_embed_from_grid at one position, appended.
void append_axis(std::vector<long double>& row, double position, std::int64_t dim) {
  for (const bool cosine : {false, true})
    for (std::int64_t i = 0; i < dim / 2; ++i) {
      const auto wave =
          true_wave(position, 10'000.0, static_cast<double>(2 * i), static_cast<double>(dim));
      row.push_back(cosine ? wave.cosine : wave.sine);
    }
}

// Cell by cell in the order of the released implementations: frames, rows, columns.
std::vector<long double> released(const SinusoidalVideo& video, std::int64_t frames) {
  std::vector<long double> all;
  for (std::int64_t t = 0; t < frames; ++t)
    for (std::int64_t y = 0; y < video.grid_height; ++y)
      for (std::int64_t x = 0; x < video.grid_width; ++x) {
        std::vector<long double> row;
        const auto time = static_cast<double>(t), line = static_cast<double>(y),
                   column = static_cast<double>(x);
        if (video.recipe == VideoRecipe::cogvideox) {
          append_axis(row, time, video.width / 4);
          append_axis(row, column, video.width * 3 / 4 / 2);
          append_axis(row, line, video.width * 3 / 4 / 2);
        } else if (video.recipe == VideoRecipe::vjepa) {
          const std::int64_t each = (video.width + 5) / 6 * 2;
          append_axis(row, time, each);
          append_axis(row, line, each);
          append_axis(row, column, each);
        } else {
          const auto token =
              static_cast<double>((t * video.grid_height + y) * video.grid_width + x);
          for (std::int64_t c = 0; c < video.width; ++c) {
            const auto wave = true_wave(token, 10'000.0, static_cast<double>(c / 2 * 2),
                                        static_cast<double>(video.width));
            row.push_back(c % 2 ? wave.cosine : wave.sine);
          }
        }
        row.resize(static_cast<std::size_t>(video.width));
        all.insert(all.end(), row.begin(), row.end());
      }
  return all;
}

TEST(Video, IsTheReleasedCodes) {
  for (const SinusoidalVideo& video : {SinusoidalVideo{VideoRecipe::cogvideox, 32, 3, 5},
                                       SinusoidalVideo{VideoRecipe::vjepa, 26, 2, 3},
                                       SinusoidalVideo{VideoRecipe::vjepa, 24, 1, 1},
                                       SinusoidalVideo{VideoRecipe::videomae, 7, 2, 2}}) {
    const std::vector<long double> expected = released(video, 3);
    const EmbeddingTable table =
        lower(video, iota(0, 3 * video.grid_height * video.grid_width));
    ASSERT_EQ(table.values.size(), expected.size());
    EXPECT_EQ(table.width, video.width);
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_LE(std::fabs(static_cast<long double>(table.values[i]) - expected[i]),
                testing::entry_bound<float>(expected[i]) + 0x1p-46L)
          << i;
  }
}

TEST(Video, PositionsComeInAnyOrder) {
  const SinusoidalVideo video{VideoRecipe::cogvideox, 16, 2, 3};
  const EmbeddingTable all = lower(video, iota(0, 600));
  const std::int64_t positions[] = {599, 0, 7};
  const EmbeddingTable some = lower(video, positions);
  for (std::int64_t t = 0; t < 3; ++t)
    for (std::int64_t c = 0; c < 16; ++c)
      EXPECT_EQ(some.view()(t, c), all.view()(positions[t], c));
  EXPECT_EQ(lower(video, {}).tokens, 0);
}

TEST(Video, RefusesWhatBreaksItsBounds) {
  EXPECT_EQ(message_of([] { lower(SinusoidalVideo{}, {}); }),
            "[video] recipe must be cogvideox, vjepa or videomae, got 0");
  EXPECT_EQ(message_of([] { lower(SinusoidalVideo{VideoRecipe::vjepa, 8, 0, 2}, {}); }),
            "[video] grid_height must be at least 1, got 0");
  EXPECT_EQ(message_of([] { lower(SinusoidalVideo{VideoRecipe::vjepa, 8, 2, -1}, {}); }),
            "[video] grid_width must be at least 1, got -1");
  EXPECT_EQ(message_of([] { lower(SinusoidalVideo{VideoRecipe::cogvideox, 24, 2, 2}, {}); }),
            "[grid] width must be a positive multiple of 16, got 24");
  const std::int64_t negative[] = {3, -1};
  EXPECT_EQ(
      message_of([&] { lower(SinusoidalVideo{VideoRecipe::videomae, 8, 2, 2}, negative); }),
      "[video] position must not be negative, got -1");
  EXPECT_EQ(message_of([] {
              lower(SinusoidalVideo{VideoRecipe::vjepa, 8, 4, std::int64_t{1} << 62}, {});
            }),
            "[video] a frame must have fewer than 2^63 tokens: width, got 4611686018427387904");
}

}  // namespace video_test
}  // namespace gnomon
