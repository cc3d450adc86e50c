#include "gnomon/rotary/learned.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "testing.h"

namespace gnomon {
namespace learned_test {

using testing::message_of;

constexpr RotaryLearned spec{
    .rotary_dim = 6, .pairing = Pairing::adjacent, .base = 100, .head_offset = 2};

TEST(RotaryLearned, AlphaOfZeroIsPlainRotary) {
  const std::vector<float> zero(3), alpha{0.5f, -1.0f, 2.0f};
  const View<const float, 1> at_zero(zero.data(), {3}), trained(alpha.data(), {3});
  EXPECT_EQ(lower(spec, at_zero),
            lower(Rotary{
                .rotary_dim = 6, .pairing = Pairing::adjacent, .base = 100, .head_offset = 2}));
  const RotaryFrequencies frequencies = lower(spec, trained);
  for (std::size_t i = 0; i < 3; ++i) {
    const long double exact = std::pow(100.0L, -2 * static_cast<long double>(i) / 6) *
                              std::exp(static_cast<long double>(alpha[i]));
    EXPECT_NEAR(frequencies.inv_freq[i], static_cast<double>(exact),
                0x1p-51 * static_cast<double>(exact));
  }
}

TEST(RotaryLearned, TheGradientOfAlphaIsTheFrequencyTimesItsGradient) {
  const std::vector<float> alpha{0.5f, -1.0f, 2.0f};
  const std::vector<double> grad{3, -2, 0.25};
  std::vector<float> sums{1, 1, 1};
  lower_backward(spec, View<const float, 1>(alpha.data(), {3}), grad,
                 View<float, 1>(sums.data(), {3}));
  for (std::size_t i = 0; i < 3; ++i) {
    const double f = std::pow(100.0, -2 * double(i) / 6) * std::exp(double{alpha[i]});
    EXPECT_NEAR(double{sums[i]}, 1 + f * grad[i], 1e-6);
  }
  EXPECT_EQ(message_of([&] { lower(spec, View<const float, 1>(alpha.data(), {2})); }),
            "[rotary_learned] alpha must have rotary_dim / 2 = 3 elements, got 2");
}

}  // namespace learned_test
}  // namespace gnomon
