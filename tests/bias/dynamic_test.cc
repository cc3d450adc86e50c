#include "gnomon/bias/dynamic.h"

#include <gtest/gtest.h>

#include <cmath>

#include "gnomon/parallel.h"
#include "testing.h"

namespace gnomon {
namespace dynamic_test {

using testing::message_of;

// The parameters in double, and the network computed from them. All parameters are in one row:
// weight [out, in] and bias [out] of each layer in turn.
struct Net {
  DynamicBias spec;
  std::vector<double> numbers;

  explicit Net(const DynamicBias& of, unsigned seed) : spec(of) {
    numbers = testing::random_numbers(static_cast<std::size_t>(size()), seed);
    // Small enough that several SiLUs in a row remain nonlinear.
    for (double& one : numbers) one = static_cast<float>(0.5 * one);
  }
  std::int64_t in(std::int64_t l) const { return l ? spec.hidden : 1; }
  std::int64_t out(std::int64_t l) const { return l < spec.depth ? spec.hidden : spec.heads; }
  std::int64_t size() const {
    std::int64_t sum = 0;
    for (std::int64_t l = 0; l <= spec.depth; ++l) sum += out(l) * (in(l) + 1);
    return sum;
  }
  long double operator()(std::int64_t h, std::int64_t distance) const {
    long double x = -static_cast<long double>(distance);  // i - j
    if (spec.scale == DynamicScale::logarithmic)
      x = (x > 0 ? 1 : -1) * std::log(std::fabs(x) + 1);
    std::vector<long double> now = {x};
    const double* at = numbers.data();
    for (std::int64_t l = 0; l <= spec.depth; ++l) {
      std::vector<long double> next;
      const double* const bias = at + in(l)*out(l);
      for (std::int64_t o = 0; o < out(l); ++o) {
        long double sum = static_cast<long double>(bias[o]);
        for (std::int64_t i = 0; i < in(l); ++i)
          sum += static_cast<long double>(at[o * in(l) + i]) * now[static_cast<std::size_t>(i)];
        next.push_back(l < spec.depth ? sum / (1 + std::exp(-sum)) : sum);
      }
      at += out(l) * (in(l) + 1);
      now = next;
    }
    return now[static_cast<std::size_t>(h)];
  }
};

// The parameters as layers of floats.
struct Layers {
  std::vector<float> numbers;
  std::vector<DynamicLayer<float>> views;

  Layers(const Net& net, std::vector<float> from) : numbers(std::move(from)) {
    float* at = numbers.data();
    for (std::int64_t l = 0; l <= net.spec.depth; ++l) {
      views.push_back({View<float, 2>(at, {net.out(l), net.in(l)}),
                       View<float, 1>(at + net.out(l) * net.in(l), {net.out(l)})});
      at += net.out(l) * (net.in(l) + 1);
    }
  }
  static Layers copy(const Net& net) {
    return {net, std::vector<float>(net.numbers.begin(), net.numbers.end())};
  }
  std::vector<DynamicLayer<const float>> read() const {
    std::vector<DynamicLayer<const float>> all;
    for (const auto& [weight, bias] : views) all.push_back({weight, bias});
    return all;
  }
};

constexpr DynamicScale scales[] = {DynamicScale::linear, DynamicScale::logarithmic};

TEST(Dynamic, StripIsTheNetwork) {
  for (const DynamicScale scale : scales)
    for (const int depth : {1, 2, 4}) {
      const Net net({.heads = 3, .hidden = 11, .depth = depth, .scale = scale}, 5);
      const Layers layers = Layers::copy(net);
      constexpr int first = -75, count = 130;
      const StripBias form = lower(net.spec, layers.read(), first, count);
      ASSERT_EQ(std::ssize(form.values), 3 * count);
      for (int h = 0; h < 3; ++h)
        for (int n = 0; n < count; ++n) {
          const auto expected = static_cast<double>(net(h, first + n));
          ASSERT_NEAR(form.values[static_cast<std::size_t>(h * count + n)], expected,
                      1e-13 * (100 + std::fabs(expected)));
        }
      EXPECT_TRUE(lower(net.spec, layers.read(), 3, 0).values.empty());
    }
}

TEST(Dynamic, GradientsOfAllLayersByDifferences) {
  for (const DynamicScale scale : scales)
    for (const int depth : {1, 3}) {
      Net net({.heads = 2, .hidden = 5, .depth = depth, .scale = scale}, 9);
      constexpr int first = -23, count = 31;
      const auto grad = testing::random_numbers(2 * count, 4);
      const Layers layers = Layers::copy(net);
      Layers grads(net, std::vector<float>(net.numbers.size(), 1));
      lower_backward(net.spec, layers.read(), grad, first, count, grads.views);
      const auto loss = [&] {
        long double sum = 0;
        for (int h = 0; h < 2; ++h)
          for (int n = 0; n < count; ++n)
            sum += static_cast<long double>(grad[static_cast<std::size_t>(h * count + n)]) *
                   net(h, first + n);
        return sum;
      };
      for (std::size_t i = 0; i < net.numbers.size(); ++i) {
        const double kept = net.numbers[i], step = 1e-5;
        net.numbers[i] = kept + step;
        const long double above = loss();
        net.numbers[i] = kept - step;
        const long double below = loss();
        net.numbers[i] = kept;
        const auto expected = static_cast<double>((above - below) / (2 * step));
        ASSERT_NEAR(grads.numbers[i], 1 + expected, 1e-6 * (1 + std::fabs(expected))) << i;
      }
    }
}

TEST(Dynamic, SameBitsForAnyNumberOfThreads) {
  const Net net({.heads = 2, .hidden = 8, .scale = DynamicScale::logarithmic}, 1);
  const Layers layers = Layers::copy(net);
  const auto grad = testing::random_numbers(2 * 2001, 4);
  const int before = threads();
  std::vector<double> values;
  std::vector<float> sums;
  for (const int count : {1, 2, 7}) {
    set_threads(count);
    const StripBias form = lower(net.spec, layers.read(), -1000, 2001);
    Layers grads(net, std::vector<float>(net.numbers.size()));
    lower_backward(net.spec, layers.read(), grad, -1000, 2001, grads.views);
    if (values.empty()) values = form.values, sums = grads.numbers;
    EXPECT_EQ(form.values, values);
    EXPECT_EQ(grads.numbers, sums);
  }
  set_threads(before);
}

TEST(Dynamic, RefusesWhatBreaksItsBounds) {
  const Net net({.heads = 2, .hidden = 3, .scale = DynamicScale::linear}, 1);
  Layers layers = Layers::copy(net);
  const auto says = [&](DynamicBias spec) {
    return message_of([&] { lower(spec, layers.read(), 0, 1); });
  };
  DynamicBias spec = net.spec;
  spec.heads = 0;
  EXPECT_EQ(says(spec), "[dynamic] heads must be at least 1, got 0");
  spec = net.spec, spec.hidden = 0;
  EXPECT_EQ(says(spec), "[dynamic] hidden must be at least 1, got 0");
  spec = net.spec, spec.depth = 0;
  EXPECT_EQ(says(spec), "[dynamic] depth must be 1 to 1024, got 0");
  spec = net.spec, spec.scale = {};
  EXPECT_EQ(says(spec), "[dynamic] scale must be linear or logarithmic, got 0");
  spec = net.spec, spec.depth = 3;
  EXPECT_EQ(says(spec), "[dynamic] layers must be depth + 1, 4, got 3");
  spec = net.spec, spec.heads = 4;
  EXPECT_EQ(says(spec), "[dynamic] the weight of layer 2 must be [4, 3], got [2, 3]");
  Layers grads(net, std::vector<float>(net.numbers.size()));
  EXPECT_EQ(message_of([&] {
              lower_backward(net.spec, layers.read(), std::vector<double>(3), 0, 1,
                             grads.views);
            }),
            "[dynamic] the gradient of the strip must have heads x distances values, 2, got 3");
  layers.numbers[1] = INFINITY;
  EXPECT_EQ(says(net.spec), "[dynamic] weights must be finite, got inf");
}

}  // namespace dynamic_test
}  // namespace gnomon
