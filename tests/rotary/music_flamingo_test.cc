#include "gnomon/rotary/music_flamingo.h"

#include <gtest/gtest.h>

#include <vector>

#include "testing.h"

namespace gnomon {
namespace music_flamingo_test {

using rotary::MusicFlamingo;
using testing::message_of;

// cos and sin of MusicFlamingoRotaryEmbedding of transformers 5.23 with base 2000, a head
// dimension of 4, 50 positions and an audio_frame_step of 0.01, at frames of windows 0, 2, 1.
TEST(MusicFlamingo, EqualsTheCodeOfTransformers) {
  const MusicFlamingo time{
      .rotary_dim = 4, .base = 2000, .positions = 50, .frame_seconds = 0.04};
  const std::int64_t windows[] = {0, 2, 1};
  const RotaryTable table = lower(time, windows, 6);
  EXPECT_EQ(table.frequencies().pairing, Pairing::adjacent);
  const struct {
    std::int64_t row, frame;
    float cos[4], sin[4];
  } cases[] = {
      {1, 0, {0.9927322f, 0.9999964f, 1, 1}, {-0.1203448f, -0.0026975f, 0, 0}},
      {1,
       5,
       {0.9854317f, 0.9999927f, -0.8973537f, 0.9981989f},
       {-0.1700719f, -0.0038215f, -0.4413120f, -0.0599919f}},
      {2,
       3,
       {0.9989769f, 0.9999995f, 0.6579269f, 0.9998182f},
       {-0.0452235f, -0.0010116f, -0.7530819f, -0.0190666f}},
      {0, 5, {1, 1, 0.7041519f, 0.9998441f}, {0, 0, -0.7100493f, -0.0176544f}},
  };
  for (const auto& one : cases)
    for (std::int64_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(table.cos()(one.row, one.frame, i), one.cos[i], 3e-7);
      EXPECT_NEAR(table.sin()(one.row, one.frame, i), one.sin[i], 3e-7);
    }
  const auto x = testing::random_tensor<float, 4>({3, 6, 1, 11});
  auto y = x;
  rotate(y.view(), table);
  const float a = x.view()(1, 5, 0, 4), b = x.view()(1, 5, 0, 5);  // pair 2
  EXPECT_NEAR(y.view()(1, 5, 0, 4), a * -0.8973537f + b * 0.4413120f, 1e-6);
  EXPECT_EQ(y.view()(1, 5, 0, 8), x.view()(1, 5, 0, 8));
}

TEST(MusicFlamingo, RefusesWhatItCannotMean) {
  const MusicFlamingo fine{.rotary_dim = 4, .positions = 50};
  const std::int64_t windows[] = {-1};
  EXPECT_EQ(message_of([&] { lower(fine, windows, 6); }),
            "[music_flamingo] windows must be 0 to 2^31, got -1");
  EXPECT_EQ(message_of([&] { lower(fine, {}, 0); }),
            "[music_flamingo] frames must be 1 to 2^31, got 0");
  EXPECT_EQ(message_of([&] { lower(MusicFlamingo{.rotary_dim = 4}, {}, 6); }),
            "[music_flamingo] positions must be at least 1, got 0");
}

}  // namespace music_flamingo_test
}  // namespace gnomon
