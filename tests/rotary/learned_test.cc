#include "gnomon/rotary/learned.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "testing.h"

namespace gnomon {
namespace learned_test {

using std::int64_t;
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

// The loss sum w . rotate(x) by the frequencies, by central differences.
TEST(FrequenciesBackward, IsTheGradientOfFiniteDifferences) {
  const Positions rows{.batch = 2,
                       .tokens = 4,
                       .ids = {0, 3, 7, 100, 5, 0, 1, 2},
                       .sequences = {0, 0, 0, 0, -1, 0, 0, 0}};
  const std::vector<Positions> axes{rows, consecutive(4, 9)};
  for (const Pairing pairing : {Pairing::halves, Pairing::adjacent}) {
    constexpr int64_t pairs = 19;
    RotaryFrequencies f{.pairing = pairing, .head_offset = 1, .inv_freq = {}};
    for (int64_t i = 0; i < pairs; ++i) {
      f.inv_freq.push_back(std::pow(10.0, -0.2 * static_cast<double>(i)));
      f.axes.push_back(static_cast<std::int32_t>(i % 2));
    }
    const std::array<std::ptrdiff_t, 4> shape{2, 4, 3, 2 * pairs + 2};
    const auto x = testing::random_tensor<double, 4>(shape);
    auto weights = testing::random_tensor<double, 4>(shape, 3);
    for (int64_t h = 0; h < 3; ++h)  // padding has no gradient
      for (int64_t d = 0; d < shape[3]; ++d) weights.view()(1, 0, h, d) = 0;
    const TokenRotation r{2 * pairs, pairing, 1};
    const auto rotated_by = [&](const std::vector<double>& inv_freq) {
      testing::Tensor<double, 4> angles({2, 4, 1, pairs}), out(shape);
      for (int64_t b = 0; b < 2; ++b)
        for (int64_t t = 0; t < 4; ++t)
          for (int64_t i = 0; i < pairs; ++i)
            angles.view()(b, t, 0, i) =
                inv_freq[std::size_t(i)] *
                static_cast<double>(i % 2 ? axes[1].ids[std::size_t(t)]
                                          : axes[0].ids[std::size_t(4 * b + t)]);
      rotate_by_angles(x.view(), angles.view(), r, Direction::forward, out.view());
      return out;
    };
    const auto loss = [&](const std::vector<double>& inv_freq) {
      const auto out = rotated_by(inv_freq);
      double sum = 0;
      for (std::size_t i = 0; i < out.values.size(); ++i)
        sum += out.values[i] * weights.values[i];
      return sum;
    };
    std::vector<double> grad(pairs, 1.0);
    auto out = rotated_by(f.inv_freq);
    for (int64_t d = 0; d < shape[3]; ++d)  // is not read
      out.view()(1, 0, 0, d) = std::numeric_limits<double>::quiet_NaN();
    frequencies_backward(std::as_const(out).view(), std::as_const(weights).view(), f, axes,
                         grad);
    for (std::size_t i = 0; i < std::size_t(pairs); ++i) {
      auto above = f.inv_freq, below = f.inv_freq;
      above[i] += 1e-7;
      below[i] -= 1e-7;
      ASSERT_NEAR(grad[i] - 1, (loss(above) - loss(below)) / 2e-7, 2e-5) << i;
    }
  }
}

}  // namespace learned_test
}  // namespace gnomon
