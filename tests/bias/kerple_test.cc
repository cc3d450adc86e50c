#include "gnomon/bias/kerple.h"

#include <gtest/gtest.h>

#include <cmath>

#include "gnomon/parallel.h"
#include "testing.h"

namespace gnomon {
namespace kerple_test {

using testing::message_of;
using testing::Tensor;

// Equations 4 and 5 of the paper, with the parameters clamped to their bounds.
long double kernel(KerpleKernel kind, long double r1, long double r2, long double distance) {
  r1 = std::max(r1, 0.01L), r2 = std::max(r2, 0.01L);
  distance = std::fabs(distance);
  if (kind == KerpleKernel::logarithmic) return -r1 * std::log(1 + r2 * distance);
  return -r1 * std::pow(distance, std::min(r2, 2.0L));
}

struct KerpleTensors {
  Tensor<float, 1> r1, r2;
  explicit KerpleTensors(std::vector<float> one = {}, std::vector<float> two = {})
      : r1({std::ssize(one)}), r2({std::ssize(two)}) {
    r1.values = one, r2.values = two;
  }
  KerpleParameters<const float> read() const { return {r1.view(), r2.view()}; }
  KerpleParameters<float> views() { return {r1.view(), r2.view()}; }
};

constexpr KerpleKernel kernels[] = {KerpleKernel::power, KerpleKernel::logarithmic};

TEST(Kerple, StripIsTheKernel) {
  const KerpleTensors pair({0.3f, 1.7f, 0.01f, -2.0f, 0.5f}, {0.9f, 0.02f, 1.99f, 3.5f, -1.0f});
  for (const KerpleKernel kind : kernels)
    for (const auto& [first, count] : {std::pair{-1000, 1301}, {5, 7}, {-9, 3}, {0, 0}}) {
      const Kerple kerple{.heads = 5, .kernel = kind};
      const StripBias form = lower(kerple, pair.read(), first, count);
      EXPECT_EQ(form.heads, 5);
      EXPECT_EQ(form.min_distance, first);
      ASSERT_EQ(std::ssize(form.values), 5 * count);
      for (int h = 0; h < 5; ++h)
        for (int n = 0; n < count; ++n) {
          const auto expected =
              static_cast<double>(kernel(kind, static_cast<long double>(pair.r1.view()(h)),
                                         static_cast<long double>(pair.r2.view()(h)),
                                         static_cast<long double>(first + n)));
          ASSERT_NEAR(form.values[static_cast<std::size_t>(h * count + n)], expected,
                      4 * 0x1p-52 * std::fabs(expected))
              << h << " " << first + n;
        }
    }
}

// The power kernel with r2 = 1 is ALiBi. For large r2 the logarithmic kernel is -r1 ln |d| plus
// a constant.
TEST(Kerple, PowerOneIsALine) {
  const KerpleTensors pair({0.25f}, {1.0f});
  const StripBias form =
      lower(Kerple{.heads = 1, .kernel = KerpleKernel::power}, pair.read(), -9, 10);
  for (int n = 0; n < 10; ++n)
    EXPECT_EQ(form.values[static_cast<std::size_t>(n)], -0.25 * (9 - n));
}

TEST(Kerple, GradientsByDifferences) {
  const KerpleTensors pair({0.3f, 1.7f, 0.6f}, {0.9f, 0.05f, 1.9f});
  constexpr int first = -40, count = 60;
  const auto grad = testing::random_numbers(3 * count, 7);
  for (const KerpleKernel kind : kernels) {
    const Kerple kerple{.heads = 3, .kernel = kind};
    KerpleTensors grads({0, 0, 0}, {1, 1, 1});
    lower_backward(kerple, pair.read(), grad, first, count, grads.views());
    for (int h = 0; h < 3; ++h) {
      const auto loss = [&](long double r1, long double r2) {
        long double sum = 0;
        for (int n = 0; n < count; ++n)
          sum += static_cast<long double>(grad[static_cast<std::size_t>(h * count + n)]) *
                 kernel(kind, r1, r2, static_cast<long double>(first + n));
        return sum;
      };
      const long double r1 = static_cast<long double>(pair.r1.view()(h));
      const long double r2 = static_cast<long double>(pair.r2.view()(h)), step = 1e-6L;
      const auto one =
          static_cast<double>((loss(r1 + step, r2) - loss(r1 - step, r2)) / (2 * step));
      const auto two =
          static_cast<double>((loss(r1, r2 + step) - loss(r1, r2 - step)) / (2 * step));
      EXPECT_NEAR(grads.r1.view()(h), one, 1e-6 * (1 + std::fabs(one)));
      EXPECT_NEAR(grads.r2.view()(h), 1 + two, 1e-6 * (1 + std::fabs(two)));  // added
    }
  }
}

// Out of bounds, a gradient is nonzero only if gradient descent moves back into the bounds.
TEST(Kerple, GradientBeyondTheBoundsOnlyLeadsBack) {
  const Kerple kerple{.heads = 1, .kernel = KerpleKernel::power};
  for (const double sign : {1.0, -1.0}) {
    const std::vector<double> grad = {sign};  // distance 3: the bias falls as r1, r2 grow
    const auto grads_of = [&](float r1, float r2) {
      KerpleTensors grads({0}, {0});
      lower_backward(kerple, KerpleTensors({r1}, {r2}).read(), grad, 3, 1, grads.views());
      return std::pair(grads.r1.values[0], grads.r2.values[0]);
    };
    const auto [low1, low2] = grads_of(-1, -1);
    EXPECT_EQ(low1 == 0, sign < 0);
    EXPECT_EQ(low2 == 0, sign < 0);
    EXPECT_EQ(grads_of(1, 2.5f).second == 0, sign > 0);
    EXPECT_NE(grads_of(0.01f, 2).second, 0);  // not 0 at a bound
  }
}

TEST(Kerple, SameBitsForAnyNumberOfThreads) {
  const KerpleTensors pair({0.3f, 1.7f}, {0.9f, 0.02f});
  const Kerple kerple{.heads = 2, .kernel = KerpleKernel::logarithmic};
  const auto grad = testing::random_numbers(2 * 3000, 2);
  const int before = threads();
  std::vector<double> values;
  std::vector<float> sums;
  for (const int count : {1, 2, 7}) {
    set_threads(count);
    const StripBias form = lower(kerple, pair.read(), -1500, 3000);
    KerpleTensors grads({0, 0}, {0, 0});
    lower_backward(kerple, pair.read(), grad, -1500, 3000, grads.views());
    if (values.empty()) values = form.values, sums = grads.r2.values;
    EXPECT_EQ(form.values, values);
    EXPECT_EQ(grads.r2.values, sums);
  }
  set_threads(before);
}

TEST(Kerple, RefusesWhatBreaksItsBounds) {
  const KerpleTensors pair({1, 1}, {1, 1});
  const auto says = [&](Kerple spec, const KerpleTensors& parameters, int count = 1) {
    return message_of([&] { lower(spec, parameters.read(), 0, count); });
  };
  const Kerple kerple{.heads = 2, .kernel = KerpleKernel::power};
  EXPECT_EQ(says({.heads = 0}, pair), "[kerple] heads must be at least 1, got 0");
  EXPECT_EQ(says({.heads = 2}, pair), "[kerple] kernel must be power or logarithmic, got 0");
  EXPECT_EQ(says({.heads = 3, .kernel = KerpleKernel::power}, pair),
            "[kerple] r1 must be [3], got [2]");
  EXPECT_EQ(says(kerple, KerpleTensors({1, 1}, {1})), "[kerple] r2 must be [2], got [1]");
  EXPECT_EQ(says(kerple, KerpleTensors({1, 1}, {1, NAN})),
            "[kerple] r2 must be finite, got nan");
  EXPECT_EQ(says(kerple, pair, -1), "[kerple] count of distances must not be negative, got -1");
  KerpleTensors grads({0, 0}, {0, 0});
  EXPECT_EQ(message_of([&] {
              lower_backward(kerple, pair.read(), std::vector<double>(3), 0, 2, grads.views());
            }),
            "[kerple] the gradient of the strip must have heads x distances values, 4, got 3");
}

}  // namespace kerple_test
}  // namespace gnomon
