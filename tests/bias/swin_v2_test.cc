#include "gnomon/bias/swin_v2.h"

#include <gtest/gtest.h>

#include <cmath>

#include "gnomon/parallel.h"
#include "testing.h"

namespace gnomon {
namespace swin_v2_test {

using testing::message_of;
using testing::Tensor;

// The parameters in double, and the paper's formula.
struct Net {
  SwinV2 spec;
  std::vector<double> w1, b1, w2;

  Net(const SwinV2& of, unsigned seed) : spec(of) {
    const auto numbers = [&](std::int64_t count) {
      auto all = testing::random_numbers(static_cast<std::size_t>(count), seed++);
      for (double& one : all) one = static_cast<float>(0.6 * one);
      return all;
    };
    w1 = numbers(2 * spec.hidden), b1 = numbers(spec.hidden);
    w2 = numbers(spec.heads * spec.hidden);
  }
  std::vector<std::vector<double>*> parts() { return {&w1, &b1, &w2}; }

  static long double spaced(std::int64_t delta, std::int64_t window) {
    if (window == 1) return 0;
    const long double x =
        static_cast<long double>(delta) / static_cast<long double>(window - 1) * 8;
    return (x < 0 ? -1 : 1) * std::log2(std::fabs(x) + 1) / std::log2(8.0L);
  }
  long double operator()(std::int64_t h, std::int64_t dy, std::int64_t dx) const {
    const bool before = spec.pretrained_height > 0;
    const long double y = spaced(dy, before ? spec.pretrained_height : spec.height);
    const long double x = spaced(dx, before ? spec.pretrained_width : spec.width);
    long double sum = 0;
    for (std::int64_t u = 0; u < spec.hidden; ++u) {
      const auto n = static_cast<std::size_t>(u);
      const long double unit = static_cast<long double>(w1[2 * n]) * y +
                               static_cast<long double>(w1[2 * n + 1]) * x +
                               static_cast<long double>(b1[n]);
      if (unit > 0)
        sum +=
            static_cast<long double>(w2[static_cast<std::size_t>(h * spec.hidden + u)]) * unit;
    }
    return 16 / (1 + std::exp(-sum));
  }
};

struct Parts {
  Tensor<float, 2> w1;
  Tensor<float, 1> b1;
  Tensor<float, 2> w2;

  explicit Parts(const SwinV2& of)
      : w1({of.hidden, 2}), b1({of.hidden}), w2({of.heads, of.hidden}) {}
  static Parts copy(const Net& net) {
    Parts parts(net.spec);
    parts.w1.values.assign(net.w1.begin(), net.w1.end());
    parts.b1.values.assign(net.b1.begin(), net.b1.end());
    parts.w2.values.assign(net.w2.begin(), net.w2.end());
    return parts;
  }
  SwinV2Parameters<float> views() { return {w1.view(), b1.view(), w2.view()}; }
  SwinV2Parameters<const float> read() const { return {w1.view(), b1.view(), w2.view()}; }
  std::vector<float> all() const {
    std::vector<float> numbers;
    for (const auto* part : {&w1.values, &b1.values, &w2.values})
      numbers.insert(numbers.end(), part->begin(), part->end());
    return numbers;
  }
};

// The bias matrix of a window, by cells.
TEST(SwinV2, IsTheNetworkOfTheOffset) {
  for (const SwinV2& spec : {SwinV2{.heads = 2, .height = 7, .width = 7, .hidden = 16},
                             {.heads = 1, .height = 4, .width = 6, .hidden = 5},
                             {.heads = 3, .height = 1, .width = 5, .hidden = 4},
                             {.heads = 1, .height = 1, .width = 1, .hidden = 4},
                             {.heads = 2,
                              .height = 6,
                              .width = 5,
                              .hidden = 8,
                              .pretrained_height = 4,
                              .pretrained_width = 3}}) {
    const Net net(spec, 3);
    const GridBias form = lower(spec, Parts::copy(net).read());
    EXPECT_EQ(form.leading, 0);
    const std::int64_t cells = spec.height * spec.width;
    Tensor<double, 3> out({spec.heads, cells, cells});
    dense(form, 0, out.view());
    for (std::int64_t h = 0; h < spec.heads; ++h)
      for (std::int64_t q = 0; q < cells; ++q)
        for (std::int64_t k = 0; k < cells; ++k) {
          const auto expected = static_cast<double>(
              net(h, q / spec.width - k / spec.width, q % spec.width - k % spec.width));
          ASSERT_NEAR(out.view()(h, q, k), expected, 1e-13) << h << " " << q << " " << k;
        }
  }
}

// At the edge of the window t is log2(9) / 3; at an eighth of that offset it is 1 / 3.
TEST(SwinV2, OffsetsAreSpacedLogarithmically) {
  const SwinV2 spec{.heads = 1, .height = 1, .width = 9, .hidden = 1};
  Parts parts(spec);
  parts.w1.values = {0, 1}, parts.w2.values = {1};
  const GridBias form = lower(spec, parts.read());
  const auto logit = [&](std::size_t n) { return -std::log(16 / form.values[n] - 1); };
  EXPECT_NEAR(logit(16), std::log2(9.0) / 3, 1e-14);
  EXPECT_NEAR(logit(9), 1.0 / 3, 1e-14);
  for (std::size_t n = 0; n <= 8; ++n) EXPECT_EQ(form.values[n], 8);
}

TEST(SwinV2, GradientsOfAllParametersByDifferences) {
  const SwinV2 spec{.heads = 2, .height = 4, .width = 3, .hidden = 6};
  Net net(spec, 11);
  const Parts parts = Parts::copy(net);
  const GridBias form = lower(spec, parts.read());
  const auto grad = testing::random_numbers(form.values.size(), 8);
  Parts grads(spec);
  lower_backward(spec, parts.read(), grad, grads.views());
  const auto loss = [&] {
    long double sum = 0;
    std::size_t n = 0;
    for (std::int64_t h = 0; h < 2; ++h)
      for (std::int64_t dy = -3; dy <= 3; ++dy)
        for (std::int64_t dx = -2; dx <= 2; ++dx)
          sum += static_cast<long double>(grad[n++]) * net(h, dy, dx);
    return sum;
  };
  const std::vector<float> computed = grads.all();
  std::size_t n = 0;
  for (std::vector<double>* part : net.parts())
    for (double& one : *part) {
      const double kept = one, step = 1e-6;
      one = kept + step;
      const long double above = loss();
      one = kept - step;
      const long double below = loss();
      one = kept;
      const auto expected = static_cast<double>((above - below) / (2 * step));
      EXPECT_NEAR(computed[n], expected, 1e-6 * (1 + std::fabs(expected))) << n;
      ++n;
    }
  ASSERT_EQ(n, computed.size());
  lower_backward(spec, parts.read(), grad, grads.views());
  EXPECT_FLOAT_EQ(grads.all()[3], 2 * computed[3]);
}

TEST(SwinV2, ScalesEndAtAHundred) {
  Tensor<float, 1> logit({4});
  logit.values = {std::log(10.0f), 4.6f, 4.7f, -2.0f};
  const std::vector<double> scales = cosine_scales(logit.view());
  EXPECT_NEAR(scales[0], 10, 1e-5);
  EXPECT_EQ(scales[1], std::exp(double{4.6f}));
  EXPECT_NEAR(scales[2], 100, 1e-12);
  Tensor<float, 1> grad({4}, 1.0f);
  cosine_scales_backward(logit.view(), std::vector<double>{1, 2, 3, 4}, grad.view());
  for (std::size_t h = 0; h < 4; ++h) {
    const double x = logit.values[h], step = 1e-6;
    const auto scale = [](double of) { return std::exp(std::min(of, std::log(100.0))); };
    EXPECT_NEAR(
        grad.values[h],
        1 + static_cast<double>(h + 1) * (scale(x + step) - scale(x - step)) / (2 * step),
        1e-4);
  }
}

TEST(SwinV2, SameBitsForAnyNumberOfThreads) {
  const SwinV2 spec{.heads = 2, .height = 12, .width = 12, .hidden = 32};
  const Parts parts = Parts::copy(Net(spec, 2));
  const int before = threads();
  std::vector<double> values;
  std::vector<float> sums;
  for (const int count : {1, 2, 7}) {
    set_threads(count);
    const GridBias form = lower(spec, parts.read());
    Parts grads(spec);
    lower_backward(spec, parts.read(), form.values, grads.views());
    if (values.empty()) values = form.values, sums = grads.all();
    EXPECT_EQ(form.values, values);
    EXPECT_EQ(grads.all(), sums);
  }
  set_threads(before);
}

TEST(SwinV2, RefusesWhatBreaksItsBounds) {
  const SwinV2 spec{.heads = 2, .height = 3, .width = 2, .hidden = 4};
  Parts parts(spec);
  const auto says = [&](SwinV2 of) { return message_of([&] { lower(of, parts.read()); }); };
  SwinV2 bad = spec;
  bad.heads = 0;
  EXPECT_EQ(says(bad), "[swin_v2] heads must be at least 1, got 0");
  bad = spec, bad.height = 0;
  EXPECT_EQ(says(bad), "[swin_v2] height must be 1 to 32767, got 0");
  bad = spec, bad.width = 1 << 15;
  EXPECT_EQ(says(bad), "[swin_v2] width must be 1 to 32767, got 32768");
  bad = spec, bad.hidden = 0;
  EXPECT_EQ(says(bad), "[swin_v2] hidden must be at least 1, got 0");
  bad = spec, bad.pretrained_width = 8;
  EXPECT_EQ(
      says(bad),
      "[swin_v2] pretrained_height and pretrained_width must be at least 2, or both 0, got 0");
  bad = spec, bad.heads = 3;
  EXPECT_EQ(says(bad), "[swin_v2] w2 must be [3, 4], got [2, 4]");
  Parts grads(spec);
  EXPECT_EQ(message_of([&] {
              lower_backward(spec, parts.read(), std::vector<double>(3), grads.views());
            }),
            "[swin_v2] the gradient of the grid must have heads x offsets values, 30, got 3");
  parts.b1.values[2] = NAN;
  EXPECT_EQ(says(spec), "[swin_v2] b1 must be finite, got nan");
  EXPECT_EQ(message_of([&] { cosine_scales(parts.b1.view()); }),
            "[swin_v2] logit_scale must be finite, got nan");
}

}  // namespace swin_v2_test
}  // namespace gnomon
