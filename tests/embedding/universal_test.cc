#include "gnomon/embedding/universal.h"

#include <gtest/gtest.h>

#include "embedding/oracle.h"
#include "gnomon/parallel.h"

namespace gnomon {
namespace universal_test {

using testing::message_of;
using testing::true_wave;

constexpr auto interleaved = SinusoidalRecipe::interleaved;

UniversalTransformer spec_of(std::int64_t width, std::int64_t step) {
  return {.width = width, .recipe = interleaved, .step = step};
}

// Error bound of the sum of two entries: each is within 2^-53 + 2^-46 before the rounding to
// float, and its frequency, a double, within 2^-53 position.
long double bound(long double sum, double position) {
  return testing::entry_bound<float>(sum) + 0x1.1p-46L + 0x1p-52L * std::fabs(position);
}

TEST(UniversalTable, IsTheSumOfThePaper) {
  const std::vector<std::int64_t> positions{0, 1, 2, 17, 511, 65'536, -4};
  for (const std::int64_t width : {1, 2, 5, 64})
    for (const std::int64_t step : {1, 2, 6, 100}) {
      const EmbeddingTable table = lower(spec_of(width, step), positions);
      ASSERT_EQ(table.view().extents(), (std::array<std::ptrdiff_t, 2>{7, width}));
      for (std::size_t t = 0; t < positions.size(); ++t)
        for (std::int64_t c = 0; c < width; ++c) {
          const auto position = static_cast<double>(positions[t]);
          const auto pair = static_cast<double>(2 * (c / 2)),
                     channels = static_cast<double>(width);
          const auto of_token = true_wave(position, 10'000, pair, channels);
          const auto of_step = true_wave(static_cast<double>(step), 10'000, pair, channels);
          const long double sum =
              c % 2 ? of_token.cosine + of_step.cosine : of_token.sine + of_step.sine;
          EXPECT_LE(std::fabs(table.view()(t, c) - sum), bound(sum, position))
              << "width " << width << " step " << step << " t " << t << " c " << c;
        }
    }
}

// The release uses the tensor2tensor recipe: sines before cosines, and a zero at the end of an
// odd dim.
TEST(UniversalTable, TakesTheRecipeOfTheRelease) {
  const std::vector<std::int64_t> positions{0, 3, 40};
  const EmbeddingTable table = lower(
      UniversalTransformer{.width = 9, .recipe = SinusoidalRecipe::tensor2tensor, .step = 4},
      positions);
  for (std::size_t t = 0; t < positions.size(); ++t) {
    const auto position = static_cast<double>(positions[t]);
    for (std::int64_t i = 0; i < 4; ++i) {
      const auto of_token = true_wave(position, 10'000, static_cast<double>(i), 3);
      const auto of_step = true_wave(4, 10'000, static_cast<double>(i), 3);
      const long double sine = of_token.sine + of_step.sine;
      const long double cosine = of_token.cosine + of_step.cosine;
      EXPECT_LE(std::fabs(table.view()(t, i) - sine), bound(sine, position));
      EXPECT_LE(std::fabs(table.view()(t, 4 + i) - cosine), bound(cosine, position));
    }
    EXPECT_EQ(table.view()(t, 8), 0);
  }
}

TEST(UniversalTable, StepsDifferAndPositionsStayTold) {
  const std::vector<std::int64_t> positions = testing::iota(0, 8);
  EXPECT_NE(lower(spec_of(16, 1), positions), lower(spec_of(16, 2), positions));
  // Token 2 in step 5 and token 5 in step 2 have equal sums: the embedding of the paper cannot
  // distinguish them.
  const EmbeddingTable fifth = lower(spec_of(16, 5), positions);
  const EmbeddingTable second = lower(spec_of(16, 2), positions);
  for (std::int64_t c = 0; c < 16; ++c) EXPECT_EQ(fifth.view()(2, c), second.view()(5, c));
}

TEST(UniversalTable, ThreadsChangeNoBit) {
  const UniversalTransformer spec = spec_of(65, 3);
  const std::vector<std::int64_t> positions = testing::iota(0, 500);
  const int before = threads();
  set_threads(1);
  const EmbeddingTable one = lower(spec, positions);
  for (const int count : {2, 7}) {
    set_threads(count);
    EXPECT_EQ(lower(spec, positions), one) << count;
  }
  set_threads(before);
}

TEST(UniversalTable, NoPositionsGiveNoRows) {
  EXPECT_EQ(lower(spec_of(6, 1), {}), (EmbeddingTable{0, 6, {}}));
}

TEST(UniversalTable, RefusesASpecThatBreaksItsBounds) {
  const std::vector<std::int64_t> positions{0};
  EXPECT_EQ(message_of([&] { lower(spec_of(0, 1), positions); }),
            "[sinusoidal] width must be at least 1, got 0");
  EXPECT_EQ(message_of([&] { lower(UniversalTransformer{.width = 4}, positions); }),
            "[sinusoidal] recipe must be interleaved, half_split, tensor2tensor or timestep, "
            "got 0");
  for (const std::int64_t step : {0, -1})
    EXPECT_EQ(message_of([&] { lower(spec_of(4, step), positions); }),
              "[universal] step must be at least 1, got " + std::to_string(step));
}

}  // namespace universal_test
}  // namespace gnomon
