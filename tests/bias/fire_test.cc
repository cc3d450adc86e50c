#include "gnomon/bias/fire.h"

#include <gtest/gtest.h>

#include <cmath>

#include "testing.h"

namespace gnomon {
namespace fire_test {

using testing::message_of;
using testing::Tensor;

// The parameters in double, and the paper's formula.
struct Network {
  std::int64_t heads, hidden;
  double threshold = 20, epsilon = 1e-6;
  std::vector<double> w1, b1, w2, b2, scalars;  // scalars: c, multiplier

  Network(std::int64_t heads_count, std::int64_t units, unsigned seed)
      : heads(heads_count), hidden(units) {
    const auto numbers = [&](std::int64_t count) {
      auto all = testing::random_numbers(static_cast<std::size_t>(count), seed++);
      for (double& one : all) one = static_cast<float>(one);
      return all;
    };
    w1 = numbers(hidden), b1 = numbers(hidden);
    // Most of the knots between 0 and 1, the range of the normalized distances.
    for (std::size_t u = 0; u < b1.size(); ++u)
      if (u % 4)
        b1[u] = static_cast<float>(-w1[u] * (static_cast<double>(u) + 0.3) /
                                   static_cast<double>(hidden));
    w2 = numbers(heads * hidden), b2 = numbers(heads);
    scalars = {0.1f, 1.25f};
  }

  Fire spec() const {
    return {.heads = heads, .hidden = hidden, .threshold = threshold, .epsilon = epsilon};
  }
  std::vector<std::vector<double>*> parts() { return {&w1, &b1, &w2, &b2, &scalars}; }

  double operator()(std::int64_t h, double query, double key) const {
    const double c = std::fabs(scalars[0]), reach = std::fabs(scalars[1]) * threshold;
    const double x = std::log(c * std::fabs(query - key) + 1) /
                     (std::log(c * std::max(reach, query) + 1) + epsilon);
    double sum = b2[static_cast<std::size_t>(h)];
    for (std::int64_t u = 0; u < hidden; ++u) {
      const auto n = static_cast<std::size_t>(u);
      sum += w2[static_cast<std::size_t>(h * hidden + u)] * std::max(0.0, w1[n] * x + b1[n]);
    }
    return sum;
  }
};

// Float copies of the parameters of a network, or zeros of their shapes.
struct Parts {
  Tensor<float, 1> w1, b1;
  Tensor<float, 2> w2;
  Tensor<float, 1> b2, c, multiplier;

  explicit Parts(const Network& of)
      : w1({of.hidden}),
        b1({of.hidden}),
        w2({of.heads, of.hidden}),
        b2({of.heads}),
        c({1}),
        multiplier({1}) {}
  static Parts copy(const Network& of) {
    Parts parts(of);
    const auto fill = [](auto& to, const std::vector<double>& from) {
      to.values.assign(from.begin(), from.end());
    };
    fill(parts.w1, of.w1), fill(parts.b1, of.b1), fill(parts.w2, of.w2), fill(parts.b2, of.b2);
    parts.c.values[0] = static_cast<float>(of.scalars[0]);
    parts.multiplier.values[0] = static_cast<float>(of.scalars[1]);
    return parts;
  }
  FireParameters<float> views() {
    return {w1.view(), b1.view(), w2.view(), b2.view(), c.view(), multiplier.view()};
  }
  FireParameters<const float> read() const {
    return {w1.view(), b1.view(), w2.view(), b2.view(), c.view(), multiplier.view()};
  }
  std::vector<float> all() const {
    std::vector<float> numbers;
    for (const auto* part :
         {&w1.values, &b1.values, &w2.values, &b2.values, &c.values, &multiplier.values})
      numbers.insert(numbers.end(), part->begin(), part->end());
    return numbers;
  }
};

TEST(Fire, PiecesAreTheNetwork) {
  for (const auto& [hidden, sign] : {std::pair{1, 1.0f}, {5, -1.0f}, {32, 1.0f}, {77, 1.0f}}) {
    Network network(3, hidden, 10);
    network.scalars[0] = sign * network.scalars[0];
    network.w1[0] = 0, network.b1[0] = 0.5;  // a unit without a knot
    const Parts parts = Parts::copy(network);
    const PiecewiseLogBias form = lower(network.spec(), parts.read());
    EXPECT_LE(form.pieces(), hidden + 1);
    EXPECT_EQ(form.c, std::fabs(network.scalars[0]));
    EXPECT_EQ(form.threshold, 25);
    const std::int64_t offset = 13, queries = 90, keys = 130;  // includes future keys
    Tensor<double, 3> out({3, queries, keys});
    Tensor<float, 3> single({3, queries, keys});
    dense(form, offset, out.view());
    dense(form, offset, single.view());
    for (std::int64_t h = 0; h < 3; ++h)
      for (std::int64_t q = 0; q < queries; ++q)
        for (std::int64_t k = 0; k < keys; ++k) {
          const double expected = network(h, static_cast<double>(offset + q), double(k));
          ASSERT_NEAR(out.view()(h, q, k), expected, 2e-13) << h << " " << q << " " << k;
          ASSERT_EQ(single.view()(h, q, k), static_cast<float>(out.view()(h, q, k)));
        }
  }
}

// Queries up to the threshold share one normalization; beyond it the normalization is the
// query's position.
TEST(Fire, TheFurthestKeyIsAlwaysAtOne) {
  Network network(1, 8, 3);
  network.epsilon = 0;
  const Parts parts = Parts::copy(network);
  const PiecewiseLogBias form = lower(network.spec(), parts.read());
  Tensor<double, 3> out({1, 200, 1});
  dense(form, 25, out.view());
  for (std::int64_t q = 0; q < 200; ++q)
    EXPECT_NEAR(out.view()(0, q, 0), out.view()(0, 0, 0), 1e-13);
}

// Compares with finite differences of the formula, in double.
TEST(Fire, GradientsOfAllParametersByDifferences) {
  for (const float sign : {1.0f, -1.0f}) {
    Network network(2, 7, 20);
    network.scalars[1] = 1.26f;  // no query at the threshold, where the derivative jumps
    for (double& one : network.scalars) one *= sign;
    const std::int64_t offset = 9, queries = 41, keys = 60;
    const auto grad = testing::random_tensor<float, 3>({2, queries, keys}, 5);
    const auto loss = [&] {
      long double sum = 0;
      for (std::int64_t h = 0; h < 2; ++h)
        for (std::int64_t q = 0; q < queries; ++q)
          for (std::int64_t k = 0; k < keys; ++k)
            sum += static_cast<long double>(grad.view()(h, q, k)) *
                   network(h, static_cast<double>(offset + q), static_cast<double>(k));
      return static_cast<double>(sum);
    };
    const Parts parts = Parts::copy(network);
    Parts grads(network);
    const BiasGradient of_form =
        add_bias_backward(grad.view(), lower(network.spec(), parts.read()), offset);
    lower_backward(network.spec(), parts.read(), of_form.values, grads.views());
    const std::vector<float> computed = grads.all();
    std::size_t n = 0;
    for (std::vector<double>* part : network.parts())
      for (double& one : *part) {
        const double kept = one, step = 1e-6;
        one = kept + step;
        const double above = loss();
        one = kept - step;
        const double below = loss();
        one = kept;
        const double expected = (above - below) / (2 * step);
        EXPECT_NEAR(computed[n], expected, 2e-4 * (1 + std::fabs(expected))) << n;
        ++n;
      }
    ASSERT_EQ(n, computed.size());
    // Gradients are added to the previous values.
    lower_backward(network.spec(), parts.read(), of_form.values, grads.views());
    EXPECT_FLOAT_EQ(grads.all()[3], 2 * computed[3]);
  }
}

TEST(Fire, RefusesWhatBreaksItsBounds) {
  const Network network(2, 3, 1);
  const Fire fire = network.spec();
  Parts parts = Parts::copy(network);
  const auto says = [&](Fire spec) { return message_of([&] { lower(spec, parts.read()); }); };
  EXPECT_EQ(says({.heads = 0}), "[fire] heads must be at least 1, got 0");
  EXPECT_EQ(says({.heads = 2, .hidden = 0}), "[fire] hidden must be at least 1, got 0");
  EXPECT_EQ(says({.heads = 2, .hidden = 3, .threshold = 0}),
            "[fire] threshold must be positive and finite, got 0");
  EXPECT_EQ(says({.heads = 2, .hidden = 3, .epsilon = -1}),
            "[fire] epsilon must be finite and not negative, got -1");
  EXPECT_EQ(says({.heads = 2, .hidden = 4}), "[fire] w1 must be [4], got [3]");
  EXPECT_EQ(says({.heads = 3, .hidden = 3}), "[fire] w2 must be [3, 3], got [2, 3]");
  parts.c.values[0] = 0;
  EXPECT_EQ(says(fire), "[fire] c must be finite and not 0, got 0");
  parts.c.values[0] = 1;
  parts.w2.values[4] = NAN;
  EXPECT_EQ(says(fire), "[fire] w2 must be finite, got nan");
  parts = Parts::copy(network);
  Parts grads(network);
  EXPECT_EQ(message_of([&] {
              lower_backward(fire, parts.read(), std::vector<double>(3), grads.views());
            }).substr(0, 71),
            "[fire] the gradient of the bias must have heads x (2 pieces + 2) values");
}

}  // namespace fire_test
}  // namespace gnomon
