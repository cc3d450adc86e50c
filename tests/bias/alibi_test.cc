#include "gnomon/bias/alibi.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "bias/released.h"
#include "testing.h"

namespace gnomon {
namespace alibi_test {

using ::testing::ElementsAre;
using testing::message_of;

// The recursion of Press et al., in long double: a power of two gives a geometric sequence. Any
// other number of heads uses the power below and every other slope of the power above.
std::vector<long double> recursive_slopes(int heads) {
  int power = 1;
  while (power * 2 <= heads) power *= 2;
  std::vector<long double> slopes;
  for (int h = 1; h <= power; ++h) slopes.push_back(std::pow(2.0L, -8.0L * h / power));
  if (power == heads) return slopes;
  const std::vector<long double> above = recursive_slopes(2 * power);
  for (int h = 0; static_cast<int>(slopes.size()) < heads; h += 2)
    slopes.push_back(above[static_cast<std::size_t>(h)]);
  return slopes;
}

TEST(Alibi, SlopesAreThoseOfThePaperForEveryHeadCount) {
  for (int heads = 1; heads <= 160; ++heads) {
    const std::vector<double> got = slopes(Alibi{.heads = heads});
    const std::vector<long double> expected = recursive_slopes(heads);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t h = 0; h < got.size(); ++h)
      EXPECT_NEAR(got[h], static_cast<double>(expected[h]), 0x1p-52 * got[h]) << heads;
  }
}

TEST(Alibi, SlopesAreThoseOfReleasedModels) {
  const auto released = testing::released_biases();
  for (const auto& one : released["alibi"]) {
    const std::vector<double> got = slopes(Alibi{.heads = one["heads"]});
    ASSERT_EQ(got.size(), one["slopes"].size());
    for (std::size_t h = 0; h < got.size(); ++h)
      EXPECT_EQ(static_cast<float>(got[h]), one["slopes"][h].get<float>()) << one["heads"];
  }
}

TEST(Alibi, ShardsTogetherAreTheWhole) {
  for (int heads : {8, 12, 20}) {
    const std::vector<double> whole = slopes(Alibi{.heads = heads});
    std::vector<double> joined;
    for (int part = 0; part < heads; part += 4)
      for (double slope : slopes(Alibi{.heads = heads, .head_offset = part, .local_heads = 4}))
        joined.push_back(slope);
    EXPECT_EQ(joined, whole);
  }
}

TEST(Alibi, MaxBiasScalesTheExponent) {
  EXPECT_THAT(slopes(Alibi{.heads = 2, .max_bias = 4}), ElementsAre(0.25, 0.0625));
}

TEST(Alibi, StripAndFormSayTheSame) {
  const Alibi alibi{.heads = 6};
  const StripBias by_distance = lower(alibi, -5, 9);
  ASSERT_EQ(by_distance.distances(), 9);
  testing::Tensor<double, 3> from_form({6, 4, 6}), from_strip({6, 4, 6});
  dense(lower(alibi), 2, from_form.view());
  dense(by_distance, 2, from_strip.view());
  EXPECT_EQ(from_form.values, from_strip.values);
  EXPECT_EQ(from_form.view()(0, 1, 0), -3 * 0.25);
  EXPECT_EQ(from_form.view()(0, 1, 5), -2 * 0.25);
}

TEST(Alibi, LongStripsAreTheFormula) {
  const Alibi alibi{.heads = 3};
  const StripBias by_distance = lower(alibi, -700, 1300);
  const std::vector<double> slope = slopes(alibi);
  ASSERT_EQ(by_distance.values.size(), 3u * 1300);
  for (std::size_t h = 0; h < 3; ++h)
    for (std::size_t n = 0; n < 1300; ++n)
      EXPECT_EQ(by_distance.values[h * 1300 + n],
                -slope[h] * std::fabs(static_cast<double>(n) - 700));
}

// Falcon: bf16(bf16(slope) bf16(position)) / sqrt(head_dim). With 12 heads, slope 8 is 2^-0.5,
// which is 0.70703125 in bfloat16. Times 13 it is 9.19140625, which is 9.1875 in bfloat16.
TEST(Alibi, RoundsAsFalcon) {
  const Alibi falcon{.heads = 12, .bias_scale = 0.125, .rounding = AlibiRounding::bfloat16};
  const std::int64_t positions[] = {0, 1, 13, 300};
  const std::vector<float> biases = key_biases(falcon, positions);
  ASSERT_EQ(biases.size(), 12u * 4);
  EXPECT_EQ(biases[8 * 4 + 0], 0);
  EXPECT_EQ(biases[8 * 4 + 1], 0.70703125f * 0.125f);
  EXPECT_EQ(biases[8 * 4 + 2], 9.1875f * 0.125f);
  EXPECT_EQ(
      message_of([&] { lower(falcon); }),
      "[alibi] rounding must be none for a slope or a strip (use key_biases), got bfloat16");
}

TEST(Alibi, ScalesItsBias) {
  const Alibi plain{.heads = 3}, scaled{.heads = 3, .bias_scale = 0.25};
  EXPECT_EQ(slopes(plain), slopes(scaled));
  for (std::size_t h = 0; h < 3; ++h)
    EXPECT_EQ(lower(scaled).slopes[h], 0.25 * slopes(plain)[h]);
  EXPECT_EQ(lower(scaled, -3, 4).values[0], -3 * 0.25 * slopes(plain)[0]);
  EXPECT_EQ(message_of([] { slopes(Alibi{.heads = 1, .bias_scale = 0}); }),
            "[alibi] bias_scale must be positive and finite, got 0");
}

TEST(Alibi, RefusesWhatBreaksItsBounds) {
  EXPECT_EQ(message_of([] { slopes(Alibi{}); }), "[alibi] heads must be at least 1, got 0");
  EXPECT_EQ(message_of([] { slopes(Alibi{.heads = 1, .max_bias = 0}); }),
            "[alibi] max_bias must be positive and finite, got 0");
  EXPECT_EQ(message_of([] { slopes(Alibi{.heads = 4, .head_offset = 4}); }),
            "[alibi] head_offset must be from 0 to heads - 1, 3, got 4");
  EXPECT_EQ(message_of([] { slopes(Alibi{.heads = 4, .head_offset = 2, .local_heads = 3}); }),
            "[alibi] local_heads must be from 0 to heads - head_offset, 2, got 3");
  EXPECT_EQ(message_of([] { lower(Alibi{.heads = 4}, 0, -1); }),
            "[alibi] count of distances must not be negative, got -1");
}

}  // namespace alibi_test
}  // namespace gnomon
