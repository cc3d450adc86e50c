#include "gnomon/rotary/decoding.h"

#include <gtest/gtest.h>

#include <limits>

#include "gnomon/rotary/cached_keys.h"
#include "gnomon/rotary/mrope.h"
#include "gnomon/rotary/xpos.h"
#include "rotated.h"
#include "testing.h"

namespace gnomon {
namespace rotary_decoding_test {

using testing::message_of;
using testing::same_bits;
using testing::Tensor;

std::vector<RotaryFrequencies> frequency_sets() {
  std::vector<RotaryFrequencies> all;
  for (const Pairing pairing : {Pairing::halves, Pairing::adjacent}) {
    for (const std::int64_t dim : {2, 56, 80, 128, 600})
      all.push_back(
          lower(Rotary{.rotary_dim = dim, .pairing = pairing, .base = 5e5, .head_offset = 1}));
    all.push_back(all[1]);  // alternating axes, and a scale
    for (std::int32_t i = 0; i < 28; ++i) all.back().axes.push_back(i % 3);
    all.back().table_scale = 1.1;
    all.push_back(all[1]);  // gets growth
    for (std::int32_t i = 0; i < 28; ++i) all.back().growth.push_back(1e-3 * (i - 9));
    all.back().centre = 50;
  }
  return all;
}

// Positions of two rows of three tokens on three axes.
std::vector<Positions> positions_of(const std::vector<std::int64_t>& ids) {
  std::vector<Positions> axes(3,
                              Positions{.batch = 2, .tokens = 3, .ids = {}, .sequences = {}});
  for (std::size_t a = 0; a < 3; ++a) {
    axes[a].ids.assign(ids.begin() + static_cast<std::ptrdiff_t>(6 * a),
                       ids.begin() + static_cast<std::ptrdiff_t>(6 * a + 6));
    axes[a].sequences.assign(6, 0);
  }
  return axes;
}
const std::vector<std::int64_t> ids = {
    0, 63, 64, -5, 131'071, 2'000'000'000, 7, 8, 9, 10, 11, 12, -1, 1'000'000, 5, 5, 4096, 77};

template <typename T>
class Decoding : public ::testing::Test {};
using Types = ::testing::Types<float, Half, BFloat16, double>;
TYPED_TEST_SUITE(Decoding, Types);

// rotary_test compares tables with long double. Here results must be bit-identical to a table.
TYPED_TEST(Decoding, HasTheBitsOfATable) {
  using T = TypeParam;
  const View<const std::int64_t, 3> at(ids.data(), {3, 2, 3});
  const std::vector<Positions> axes = positions_of(ids);
  for (const Isa isa : available_isas()) {
    const ScopedIsa scoped(isa);
    for (RotaryFrequencies s : frequency_sets()) {
      if (!s.growth.empty()) s.centre = 1'999'999'000;  // keeps exp in range
      const bool grows = !s.growth.empty();
      std::vector<std::int64_t> near(18);
      for (std::size_t i = 0; i < 18; ++i) near[i] = s.centre + static_cast<std::int64_t>(i);
      const View<const std::int64_t, 3> where(grows ? near.data() : ids.data(), {3, 2, 3});
      const RotaryTable table(s, grows ? positions_of(near) : axes);
      const std::int64_t size = s.rotary_dim() + 3;
      auto q = testing::random_tensor<T, 4>({2, 3, 5, size}, 1), q_table = q;
      auto k = testing::random_tensor<T, 4>({2, 3, 2, size}, 2), k_table = k;
      const auto k_before = k;
      Tensor<T, 4> slot({2, 3, 2, size});
      rotate(q_table.view(), k_table.view(), table);
      auto q_again = q;
      rotate_at(q.view(), k.view(), where, s);
      ASSERT_TRUE(same_bits(q.values, q_table.values)) << name(isa) << " " << s.rotary_dim();
      ASSERT_TRUE(same_bits(k.values, k_table.values)) << name(isa) << " " << s.rotary_dim();
      rotate_append_at(q_again.view(), k_before.view(), where, s, slot.view());
      ASSERT_TRUE(same_bits(q_again.values, q_table.values))
          << name(isa) << " " << s.rotary_dim();
      ASSERT_TRUE(same_bits(slot.values, k_table.values)) << name(isa) << " " << s.rotary_dim();
    }
  }
}

TYPED_TEST(Decoding, OneRowOfPositionsIsSharedByTheBatch) {
  using T = TypeParam;
  const RotaryFrequencies s = lower(Rotary{.rotary_dim = 64, .pairing = Pairing::adjacent});
  const std::vector<std::int64_t> at = {70, 71};
  auto x = testing::random_tensor<T, 4>({3, 2, 4, 64}), expected = x;
  rotate(expected.view(), RotaryTable(s, at));
  rotate_at(x.view(), View<const std::int64_t, 3>(at.data(), {1, 1, 2}), s);
  EXPECT_TRUE(same_bits(x.values, expected.values));
  auto one = testing::random_tensor<T, 3>({2, 4, 64}), one_expected = one;
  rotate(one_expected.view(), RotaryTable(s, at));
  rotate_at(one.view(), View<const std::int64_t, 1>(at.data(), {2}), s);
  EXPECT_TRUE(same_bits(one.values, one_expected.values));
}

// Text in M-RoPE has the same position on all axes.
TEST(DecodingPositions, OfOneAxisAreSharedByAllAxes) {
  RotaryFrequencies s = lower(Rotary{.rotary_dim = 64, .pairing = Pairing::halves});
  for (std::int32_t i = 0; i < 32; ++i) s.axes.push_back(i % 3);
  const std::vector<std::int64_t> at = {70, 71};
  auto x = testing::random_tensor<float, 4>({3, 2, 4, 64}), expected = x;
  rotate(expected.view(), RotaryTable(s, std::vector<Positions>(3, consecutive(2, 70))));
  rotate_at(x.view(), View<const std::int64_t, 1>(at.data(), {2}), s);
  EXPECT_TRUE(same_bits(x.values, expected.values));
}

TEST(DecodingToCache, RoundsAsRotateAppend) {
  const RotaryFrequencies s = lower(Rotary{.rotary_dim = 80, .pairing = Pairing::halves});
  const std::vector<std::int64_t> at = {123'456};
  const auto k = testing::random_tensor<float, 3>({1, 8, 80});
  auto q = testing::random_tensor<float, 3>({1, 32, 80});
  Tensor<BFloat16, 3> slot({1, 8, 80}), expected({1, 8, 80});
  rotate_append(k.view(), RotaryTable(s, at), expected.view());
  rotate_append_at(q.view(), k.view(), View<const std::int64_t, 1>(at.data(), {1}), s,
                   slot.view());
  EXPECT_TRUE(same_bits(slot.values, expected.values));
}

TEST(DecodingErrors, NameTheRuleAndWriteNothing) {
  const RotaryFrequencies s = lower(Rotary{.rotary_dim = 4, .pairing = Pairing::halves});
  auto q = testing::random_tensor<float, 4>({2, 1, 3, 4});
  auto k = testing::random_tensor<float, 4>({2, 1, 1, 4}),
       few = testing::random_tensor<float, 4>({1, 1, 1, 4});
  const auto before = q.values;
  const auto message = [&](View<float, 4> keys, RotaryFrequencies frequencies,
                           std::vector<std::int64_t> at, std::array<std::ptrdiff_t, 3> shape) {
    return message_of([&] {
      rotate_at(q.view(), keys, View<const std::int64_t, 3>(at.data(), shape), frequencies);
    });
  };
  EXPECT_EQ(message(k.view(), s, {1, 2, 3}, {1, 3, 1}),
            "[rotary] positions must be [A, 1 or B, T] = [A, 1 or 2, 1], got [1, 3, 1]");
  EXPECT_EQ(message(k.view(), s, {1, (std::int64_t{1} << 31) + 1}, {1, 2, 1}),
            "[rotary] positions must be at most 2^31 in magnitude, got 2147483649");
  EXPECT_EQ(message(few.view(), s, {1, 2}, {1, 2, 1}),
            "[rotary] k must have the rows and tokens of q, 2 x 1, got 1 x 1");
  RotaryFrequencies axes = s;
  axes.axes = {0, 1};
  EXPECT_EQ(message(k.view(), axes, {1, 2}, {1, 2, 1}), "[rotary] axes must be 0 to 0, got 1");
  RotaryFrequencies steep = s;
  steep.inv_freq[1] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(message(k.view(), steep, {1, 2}, {1, 2, 1}),
            "[angles] frequencies must be finite, at most 2^20 in magnitude, got nan");
  EXPECT_EQ(message(k.view(), s, {}, {0, 2, 1}),
            "[rotary] positions must have at least one axis, got 0");
  const std::vector<std::int32_t> narrow = {1, 2};
  EXPECT_EQ(message_of([&] {
              rotate_at(q.view(), View<const std::int32_t, 3>(narrow.data(), {1, 2, 1}), s);
            }),
            "[rotary] positions must have elements of i64, got i32");
  Tensor<double, 4> other({2, 1, 1, 4});
  const std::vector<std::int64_t> at = {1, 2};
  EXPECT_EQ(message_of([&] {
              rotate_at(q.view(), other.view(),
                        View<const std::int64_t, 3>(at.data(), {1, 2, 1}), s);
            }),
            "[rotary] k must have elements of f32, got f64");
  EXPECT_EQ(q.values, before);
}

}  // namespace rotary_decoding_test
}  // namespace gnomon
