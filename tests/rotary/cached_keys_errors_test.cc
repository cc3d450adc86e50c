// Errors of the functions on cached keys, and the text of differences between frequencies.
#include <gtest/gtest.h>

#include "gnomon/rotary/cached_keys.h"
#include "rotary/rotated.h"
#include "testing.h"

namespace gnomon {
namespace cached_keys_errors_test {

using testing::message_of;
using testing::random_tensor;
using testing::same_bits;
using testing::Tensor;

TEST(CachedKeys, RefuseWhatBreaksTheirRules) {
  const RotaryFrequencies s = lower(Rotary{.rotary_dim = 4, .pairing = Pairing::halves});
  auto keys = random_tensor<float, 3>({3, 2, 4});
  const auto before = keys;
  Tensor<float, 3> other({3, 1, 4}), narrow({3, 2, 3});
  const RotaryTable table(s, consecutive(3));
  EXPECT_EQ(message_of([&] { rotate_append(keys.view(), table, other.view()); }),
            "[rotary] slot must have the shape of the input, [1, 3, 2, 4], "
            "got [1, 3, 1, 4]");
  EXPECT_EQ(message_of([&] {
              rotate_append(keys.view(), RotaryTable(s, consecutive(2)), keys.view());
            }),
            "[rotary] x must have the table's 2 tokens, got 3");
  EXPECT_EQ(message_of([&] { shift_keys(narrow.view(), s, 1); }),
            "[rotary] x must have at least head_offset + rotary_dim = 0 + 4 elements per head, "
            "got 3");
  EXPECT_EQ(message_of([&] { shift_keys(keys.view(), s, std::int64_t{1} << 32); }),
            "[angles] positions must be finite, at most 2^31 in magnitude, got 4294967296");
  EXPECT_EQ(message_of([&] { shift_keys(keys.view(), s, std::vector<std::int64_t>{}); }),
            "[rotary] there must be one delta per axis, got 0");
  RotaryFrequencies grown = s, axes = s, to = s, nothing = s;
  grown.growth = {1, 1};
  EXPECT_EQ(
      message_of([&] { shift_keys(keys.view(), grown, 100); }),
      "[rotary] the growth factor of a pair must fit in float, got 2.6881171418161356e+43");
  axes.axes = {0, 1};
  EXPECT_EQ(message_of([&] { shift_keys(keys.view(), axes, std::vector<std::int64_t>{1}); }),
            "[rotary] axes must be 0 to 0, got 1");

  const auto rerotate = [&](const RotaryFrequencies& from, const RotaryFrequencies& target,
                            std::vector<std::int64_t> positions) {
    return message_of(
        [&] { rerotate_keys(keys.view(), from, target, explicit_ids(positions)); });
  };
  const std::string same =
      "[rotary] frequencies must have the same pairing, head_offset, rotary_dim and axes, got ";
  to.pairing = Pairing::adjacent;
  EXPECT_EQ(rerotate(s, to, {0, 1, 2}), same + "pairing = adjacent where the other has halves");
  to = s;
  to.inv_freq.push_back(0.1);
  EXPECT_EQ(rerotate(s, to, {0, 1, 2}), same + "rotary_dim = 6 where the other has 4");
  to = s;
  to.inv_freq[1] = 0.25;
  nothing.table_scale = 0;
  EXPECT_EQ(rerotate(nothing, to, {0, 1, 2}), "[rotary] from.table_scale must not be 0, got 0");
  EXPECT_EQ(rerotate(s, to, {0, 1}), "[rotary] positions must be of 3 cached tokens, got 2");
  EXPECT_EQ(rerotate(s, to, {0, 1, std::int64_t{1} << 40}),
            "[rotary] positions must be at most 2^31 in magnitude, got 1099511627776");
  EXPECT_EQ(rerotate(s, grown, {0, 1, 100}),
            "[rotary] the factor on the keys must fit in float, got 2.6881171418161356e+43");
  EXPECT_EQ(message_of([&] {
              rerotate_keys(View<float, 4>(keys.values.data(), {3, 1, 2, 4}), s, to,
                            consecutive(1, 0, 2));
            }),
            "[rotary] positions must have 1 row, or the cache's 3, got 2");
  EXPECT_TRUE(same_bits(keys.values, before.values));
}

TEST(Difference, NamesTheFirstField) {
  const RotaryFrequencies s = lower(Rotary{.rotary_dim = 4, .pairing = Pairing::halves});
  EXPECT_EQ(difference(s, s), "");
  RotaryFrequencies to = s;
  to.inv_freq[1] = 0.25;
  EXPECT_EQ(difference(to, s), "inv_freq[1] = 0.25 where the other has 0.01");
  to = s;
  to.table_scale = 1.5;
  EXPECT_EQ(difference(to, s), "table_scale = 1.5 where the other has 1");
  to = s;
  to.growth = {0, 0.5};
  EXPECT_EQ(difference(to, s), "growth[1] = 0.5 where the other has 0");
  to.growth = {0, 0};
  EXPECT_EQ(difference(to, s), "the length of growth = 2 where the other has 0");
  to = s;
  to.axes = {0, 2};
  EXPECT_EQ(difference(to, s), "axes[1] = 2 where the other has 0");
  to = s;
  to.centre = 9;
  EXPECT_EQ(difference(to, s), "centre = 9 where the other has 0");
}

}  // namespace cached_keys_errors_test
}  // namespace gnomon
