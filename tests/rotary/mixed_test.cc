#include "gnomon/rotary/mixed.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "testing.h"

namespace gnomon {
namespace mixed_test {

using std::int64_t;
using testing::message_of;

constexpr int64_t heads = 3, pairs = 4;
RotaryMixed spec() {
  return {.heads = heads, .rotary_dim = 2 * pairs, .pairing = Pairing::adjacent, .seed = 5};
}

// Magnitudes temperature^(-4i/R) in two directions at a right angle, as `init_random_2d_freqs`.
TEST(RotaryMixed, InitialFrequenciesHaveTheMagnitudesAndDirectionsOfTimm) {
  const std::vector<float> all = initial_frequencies(spec());
  ASSERT_EQ(all.size(), std::size_t(2 * heads * pairs));
  std::vector<double> directions;
  for (int64_t h = 0; h < heads; ++h) {
    const auto fx = [&](int64_t i) { return double{all[std::size_t(h * pairs + i)]}; };
    const auto fy = [&](int64_t i) {
      return double{all[std::size_t((heads + h) * pairs + i)]};
    };
    const double phi = std::atan2(fy(0), fx(0));
    directions.push_back(phi);
    for (int64_t i = 0; i < pairs; ++i) {
      const double size = std::pow(10.0, -4 * double(i % 2) / (2 * pairs));
      const double at = phi + (i < 2 ? 0 : std::numbers::pi / 2);
      EXPECT_NEAR(fx(i), size * std::cos(at), 1e-6);
      EXPECT_NEAR(fy(i), size * std::sin(at), 1e-6);
    }
  }
  EXPECT_GT(std::abs(directions[0] - directions[1]), 1e-3);  // of each head
  RotaryMixed other = spec();
  EXPECT_EQ(initial_frequencies(other), all);
  other.seed = 6;
  EXPECT_NE(initial_frequencies(other), all);
}

TEST(RotaryMixed, AxisZeroIsY) {
  const auto x = testing::random_tensor<float, 2>({heads, pairs}, 1);
  const auto y = testing::random_tensor<float, 2>({heads, pairs}, 2);
  const HeadFrequencies f = lower(spec(), {x.view(), y.view()});
  EXPECT_EQ(f.axes, 2);
  std::vector<double> grad;
  for (int64_t h = 0; h < heads; ++h)
    for (const auto* axis : {&y, &x})
      for (int64_t i = 0; i < pairs; ++i) {
        EXPECT_EQ(f.inv_freq[grad.size()], double{axis->view()(h, i)});
        grad.push_back(double(grad.size()));
      }
  testing::Tensor<float, 2> x_grad({heads, pairs}, 1.0f), y_grad({heads, pairs}, 2.0f);
  lower_backward(spec(), grad, {x_grad.view(), y_grad.view()});
  EXPECT_EQ(y_grad.view()(1, 2), 2 + 8 + 2);
  EXPECT_EQ(x_grad.view()(1, 2), 1 + 8 + 4 + 2);
}

TEST(RotaryMixed, ErrorsNameTheFieldAndItsValue) {
  const auto message = [](auto change) {
    RotaryMixed one = spec();
    change(one);
    return message_of([&] { initial_frequencies(one); });
  };
  EXPECT_EQ(message([](auto& s) { s.heads = 0; }), "[mixed] heads must be at least 1, got 0");
  EXPECT_EQ(message([](auto& s) { s.rotary_dim = 6; }),
            "[mixed] rotary_dim must be a multiple of 4, got 6");
  EXPECT_EQ(message([](auto& s) { s.grid = {4}; }),
            "[mixed] grid must have 2 axes, height and width, got 1");
  EXPECT_EQ(message([](auto& s) { s.base = 1; }),
            "[rotary] base must be finite and greater than 1, got 1");
  const auto x = testing::random_tensor<float, 2>({heads, pairs});
  EXPECT_EQ(message_of([&] { lower(spec(), {x.view(), x.view().slice(0, 0, 2)}); }),
            "[mixed] frequencies must be [3, 4], got [2, 4]");
  testing::Tensor<float, 2> to({heads, pairs});
  const std::vector<double> few(5);
  EXPECT_EQ(message_of([&] { lower_backward(spec(), few, {to.view(), to.view()}); }),
            "[mixed] frequencies_grad must have 24 elements, got 5");
}

}  // namespace mixed_test
}  // namespace gnomon
