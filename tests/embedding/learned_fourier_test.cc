#include "gnomon/embedding/learned_fourier.h"

#include <gtest/gtest.h>

#include <iterator>
#include <limits>

#include "gnomon/isa.h"
#include "gnomon/parallel.h"
#include "testing.h"

namespace gnomon {
namespace learned_fourier_test {

using testing::message_of;
using testing::random_numbers;
using testing::random_tensor;
using testing::Tensor;

// The parameters of a spec in one contiguous array.
template <typename T>
struct Parameters {
  LearnedFourier spec;
  std::vector<T> values;

  Parameters(const LearnedFourier& of, bool random, unsigned seed = 1) : spec(of) {
    const std::int64_t count = spec.features / 2 * spec.axes + spec.features * spec.hidden +
                               spec.hidden + spec.hidden * spec.width + spec.width;
    values.resize(static_cast<std::size_t>(count));
    const auto numbers = random_numbers(values.size(), seed);
    for (std::size_t i = 0; random && i < values.size(); ++i)
      values[i] = static_cast<T>(numbers[i]);
  }
  template <typename U>
  static LearnedFourierParameters<U> split(const LearnedFourier& s, U* at) {
    const auto take = [&](std::int64_t count) { return std::exchange(at, at + count); };
    return {{take(s.features / 2 * s.axes), {s.features / 2, s.axes}},
            {take(s.features * s.hidden), {s.features, s.hidden}},
            {take(s.hidden), {s.hidden}},
            {take(s.hidden * s.width), {s.hidden, s.width}},
            {take(s.width), {s.width}}};
  }
  LearnedFourierParameters<const T> view() const { return split<const T>(spec, values.data()); }
  LearnedFourierParameters<T> view() { return split<T>(spec, values.data()); }
  LearnedFourierParameters<const T> read() const { return view(); }
};

// Algorithm 1 of the paper, point by point.
template <typename T>
std::vector<long double> paper(const LearnedFourier& s,
                               const LearnedFourierParameters<const T>& p,
                               View<const double, 2> x) {
  std::vector<long double> all;
  for (std::int64_t n = 0; n < x.extent(0); ++n) {
    std::vector<long double> f;
    for (const bool sine : {false, true})
      for (std::int64_t k = 0; k < s.features / 2; ++k) {
        long double angle = 0;
        for (std::int64_t m = 0; m < s.axes; ++m)
          angle += static_cast<long double>(x(n, m)) * p.frequencies(k, m);
        f.push_back((sine ? std::sin(angle) : std::cos(angle)) /
                    std::sqrt(static_cast<long double>(s.features)));
      }
    std::vector<long double> y(static_cast<std::size_t>(s.width));
    for (std::int64_t c = 0; c < s.width; ++c) y[static_cast<std::size_t>(c)] = p.b2(c);
    for (std::int64_t h = 0; h < s.hidden; ++h) {
      long double a = p.b1(h);
      for (std::int64_t d = 0; d < s.features; ++d)
        a += f[static_cast<std::size_t>(d)] * p.w1(d, h);
      const long double gelu = a * 0.5L * (1 + std::erf(a / std::sqrt(2.0L)));
      for (std::int64_t c = 0; c < s.width; ++c)
        y[static_cast<std::size_t>(c)] += gelu * p.w2(h, c);
    }
    all.insert(all.end(), y.begin(), y.end());
  }
  return all;
}

template <typename T>
class LearnedFourierOf : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(LearnedFourierOf, Types);

TYPED_TEST(LearnedFourierOf, IsThePaper) {
  for (const LearnedFourier& spec :
       {LearnedFourier{2, 6, 5, 3}, LearnedFourier{1, 2, 1, 1}, LearnedFourier{3, 32, 17, 9}}) {
    const Parameters<TypeParam> parameters(spec, true);
    const auto at = random_tensor<double, 2>({7, spec.axes}, 4);
    Tensor<TypeParam, 2> out({7, spec.width});
    fill(spec, parameters.read(), at.view(), out.view());
    const auto expected = paper(spec, parameters.read(), at.view());
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_LE(std::fabs(out.values[i] - expected[i]),
                testing::half_ulp<TypeParam> * std::fabs(expected[i]) + 0x1p-44L);
  }
}

// Products of floats with these coordinates are exact doubles, so angles are exact for small
// and large coordinates.
TEST(LearnedFourier, WavesGoOnHoweverFar) {
  const LearnedFourier spec{.axes = 1, .features = 602, .hidden = 3, .width = 2};
  const Parameters<double> parameters = [&] {
    Parameters<double> all(spec, true);
    for (double& number : all.values) number = static_cast<float>(number);
    return all;
  }();
  const double at[] = {1.5, 0x3p48, -0x5p49, 0x3p60, -0x5p200};
  const View<const double, 2> coordinates(at, {std::ssize(at), 1});
  for (const Isa isa : available_isas()) {
    const ScopedIsa scope(isa);
    Tensor<double, 2> out({std::ssize(at), spec.width});
    fill(spec, parameters.read(), coordinates, out.view());
    const auto expected = paper(spec, parameters.read(), coordinates);
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_LE(std::fabs(out.values[i] - expected[i]), 0x1p-44L) << name(isa) << ' ' << i;
  }
}

TEST(LearnedFourier, GradientsAreThoseOfFiniteDifferences) {
  const LearnedFourier spec{.axes = 2, .features = 6, .hidden = 5, .width = 4};
  Parameters<double> parameters(spec, true), grads(spec, true, 8);
  const Parameters<double> before = grads;
  const auto at = random_tensor<double, 2>({9, 2}, 4);
  const auto grad = random_tensor<double, 2>({9, 4}, 5);
  fill_backward<double>(spec, parameters.read(), at.view(), grad.view(), grads.view());
  const auto loss = [&] {
    Tensor<double, 2> out({9, 4});
    fill<double>(spec, parameters.read(), at.view(), out.view());
    double sum = 0;
    for (std::size_t i = 0; i < out.values.size(); ++i) sum += out.values[i] * grad.values[i];
    return sum;
  };
  constexpr double step = 1e-5;
  for (std::size_t i = 0; i < parameters.values.size(); ++i) {
    const double value = parameters.values[i];
    parameters.values[i] = value + step;
    const double above = loss();
    parameters.values[i] = value - step;
    const double below = loss();
    parameters.values[i] = value;
    EXPECT_NEAR(grads.values[i] - before.values[i], (above - below) / (2 * step), 1e-8) << i;
  }
}

// With frequencies of deviation 1/gamma, waves give a Gaussian kernel of width gamma.
TEST(LearnedFourier, RandomWavesMakeAGaussianKernel) {
  constexpr std::int64_t features = 20000;
  constexpr double gamma = 3;
  const auto normal = random_numbers(features / 2, 3);
  for (const double distance : {0.0, 1.0, 3.0, 7.0}) {
    double product = 0;
    for (const double number : normal)  // cos a cos b + sin a sin b
      product += std::cos(distance * number / gamma) / features;
    EXPECT_NEAR(product, std::exp(-distance * distance / (2 * gamma * gamma)) / 2, 0.01);
  }
}

TEST(LearnedFourier, StridesAndThreadsChangeNoBit) {
  const LearnedFourier spec{.axes = 2, .features = 34, .hidden = 33, .width = 20};
  const Parameters<float> parameters(spec, true);
  const auto at = random_tensor<double, 2>({2, 201}, 4);
  const View<const double, 2> columns(at.values.data(), {201, 2}, {1, 201});
  const auto grad = random_tensor<float, 2>({201, 20}, 5);
  const EmbeddingTable table = lower(spec, parameters.read(), columns);
  Parameters<float> grads(spec, false);
  fill_backward<float>(spec, parameters.read(), columns, grad.view(), grads.view());
  Tensor<float, 2> wide({402, 40});
  const View<float, 2> out(wide.values.data(), {201, 20}, {80, 2});
  const int before = threads();
  for (const int count : {1, 2, 7}) {
    set_threads(count);
    fill(spec, parameters.read(), columns, out);
    for (std::int64_t t = 0; t < 201; ++t)
      for (std::int64_t c = 0; c < 20; ++c) EXPECT_EQ(out(t, c), table.view()(t, c));
    Parameters<float> again(spec, false);
    fill_backward<float>(spec, parameters.read(), columns, grad.view(), again.view());
    EXPECT_EQ(again.values, grads.values);
  }
  set_threads(before);
  EXPECT_EQ(lower(spec, parameters.read(), columns.slice(0, 0, 0)).tokens, 0);
}

TEST(LearnedFourier, RefusesWhatBreaksItsBounds) {
  const LearnedFourier spec{.axes = 2, .features = 6, .hidden = 5, .width = 4};
  Parameters<double> parameters(spec, true);
  Tensor<double, 2> at({3, 2}), out({3, 4});
  const auto message = [&](LearnedFourier changed) {
    return message_of([&] { fill<double>(changed, parameters.read(), at.view(), out.view()); });
  };
  LearnedFourier changed = spec;
  changed.features = 5;
  EXPECT_EQ(message(changed), "[learned_fourier] features must be even, got 5");
  changed.features = 0;
  EXPECT_EQ(message(changed), "[learned_fourier] features must be from 1 to 2^24, got 0");
  changed = spec, changed.gamma = 0;
  EXPECT_EQ(message(changed), "[learned_fourier] gamma must be positive and finite, got 0");
  changed = spec, changed.hidden = 7;
  EXPECT_EQ(message(changed), "[learned_fourier] w1 must be [6, 7], got [6, 5]");
  changed = spec, changed.axes = 1;
  EXPECT_EQ(message(changed), "[learned_fourier] frequencies must be [3, 1], got [3, 2]");
  EXPECT_EQ(message_of([&] { fill<double>(spec, parameters.read(), out.view(), out.view()); }),
            "[learned_fourier] coordinates must be [T, M] with M = 2, got [3, 4]");
  EXPECT_EQ(message_of([&] { fill<double>(spec, parameters.read(), at.view(), at.view()); }),
            "[learned_fourier] out must be [3, 4], got [3, 2]");
  EXPECT_EQ(message_of([&] {
              fill_backward<double>(spec, parameters.read(), at.view(), at.view(),
                                    parameters.view());
            }),
            "[learned_fourier] grad must be [3, 4], got [3, 2]");
  at.values[5] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(message(spec), "[learned_fourier] a coordinate must be finite, got nan");
}

}  // namespace learned_fourier_test
}  // namespace gnomon
