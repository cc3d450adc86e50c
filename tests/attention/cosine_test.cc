#include "gnomon/attention/cosine.h"

#include <gtest/gtest.h>

#include <cmath>

#include "gnomon/parallel.h"
#include "testing.h"

namespace gnomon {
namespace cosine_test {

using testing::as_double;
using testing::half_ulp;
using testing::message_of;
using testing::random_tensor;
using testing::Tensor;

template <typename T>
class Cosine : public ::testing::Test {};
using Types = ::testing::Types<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(Cosine, Types);

constexpr std::array<std::ptrdiff_t, 4> shape = {2, 5, 3, 19};

template <typename T>
long double norm_of(View<const T, 4> x, std::ptrdiff_t b, std::ptrdiff_t t, std::ptrdiff_t h) {
  long double sum = 0;
  for (std::ptrdiff_t d = 0; d < x.extent(3); ++d)
    sum += static_cast<long double>(as_double(x(b, t, h, d))) *
           static_cast<long double>(as_double(x(b, t, h, d)));
  return std::sqrt(sum);
}

template <typename Visit>
void each_row(const Visit& visit) {
  for (std::ptrdiff_t b = 0; b < shape[0]; ++b)
    for (std::ptrdiff_t t = 0; t < shape[1]; ++t)
      for (std::ptrdiff_t h = 0; h < shape[2]; ++h) visit(b, t, h);
}

// Heads before tokens, a strided last axis, and the result written over the input.
TYPED_TEST(Cosine, LengthsAreTheScales) {
  using T = TypeParam;
  const std::vector<double> scales = {10, 1.5, 100};
  Tensor<T, 4> x = random_tensor<T, 4>({2, 3, 5, 38}, 3);
  x.values[0] = T(3e-30f);  // rounds to zero in Half
  const View<T, 4> view(x.values.data(), shape, {3 * 5 * 38, 38, 5 * 38, 2});
  for (std::ptrdiff_t d = 0; d < 19; ++d) view(1, 2, 0, d) = T();
  for (std::ptrdiff_t d = 0; d < 19; ++d) view(0, 3, 1, d) = T(d == 4 ? 1e-13 : 0.0);
  const Tensor<T, 4> before = x;
  const View<const T, 4> old(before.values.data(), shape, view.strides());
  for (const bool scaled : {true, false}) {
    x = before;
    normalise(view, scaled ? std::span<const double>(scales) : std::span<const double>(), view);
    each_row([&](auto b, auto t, auto h) {
      const long double length = std::max(norm_of(old, b, t, h), 1e-12L);
      for (std::ptrdiff_t d = 0; d < 19; ++d) {
        const auto expected = static_cast<double>(
            static_cast<long double>(as_double(old(b, t, h, d))) / length *
            (scaled ? static_cast<long double>(scales[static_cast<std::size_t>(h)]) : 1.0L));
        const double tiny = std::is_same_v<T, Half> ? 0x1p-25 : 0;  // half a subnormal step
        ASSERT_NEAR(as_double(view(b, t, h, d)), expected,
                    (half_ulp<T> + 0x1p-50) * std::fabs(expected) + tiny);
      }
    });
    for (std::size_t i = 1; i < x.values.size(); i += 2)
      EXPECT_EQ(as_double(x.values[i]), as_double(before.values[i]));  // gaps
  }
}

TYPED_TEST(Cosine, GradientsByDifferences) {
  using T = TypeParam;
  std::vector<double> scales = {10, 1.5, 0.25};
  Tensor<T, 4> x = random_tensor<T, 4>(shape, 3);
  const Tensor<T, 4> grad = random_tensor<T, 4>(shape, 4);
  Tensor<T, 4> x_grad(shape);
  std::vector<double> scale_grad(3, 7.0);
  normalise_backward(x.view(), grad.view(), scales, x_grad.view(), scale_grad);
  std::vector<long double> numbers;
  for (const T value : x.values) numbers.push_back(static_cast<long double>(as_double(value)));
  // The contribution of one vector to the loss.
  const auto loss = [&](std::size_t vector, long double scale) {
    long double square = 0, along = 0;
    for (std::size_t i = vector * 19; i < (vector + 1) * 19; ++i) {
      square += numbers[i] * numbers[i];
      along += numbers[i] * static_cast<long double>(as_double(grad.values[i]));
    }
    return scale * along / std::sqrt(square);
  };
  const long double step = 1e-5L;
  std::vector<double> by_scale(3);
  for (std::size_t vector = 0; vector < 30; ++vector) {
    const auto scale = static_cast<long double>(scales[vector % 3]);
    by_scale[vector % 3] += static_cast<double>(loss(vector, 1));
    for (std::size_t i = vector * 19; i < (vector + 1) * 19; ++i) {
      const long double kept = numbers[i];
      numbers[i] = kept + step;
      const long double above = loss(vector, scale);
      numbers[i] = kept - step;
      const auto expected = static_cast<double>((above - loss(vector, scale)) / (2 * step));
      numbers[i] = kept;
      ASSERT_NEAR(as_double(x_grad.values[i]), expected,
                  1e-8 + 1.01 * half_ulp<T> * std::fabs(expected));
    }
  }
  for (std::size_t h = 0; h < 3; ++h) EXPECT_NEAR(scale_grad[h], by_scale[h], 1e-11);
  // x_grad is the gradient itself, and there are no scales.
  Tensor<T, 4> over = grad;
  normalise_backward(x.view(), over.view(), scales, over.view());
  EXPECT_EQ(over.values, x_grad.values);
}

TEST(CosineOfShort, AVectorBelowTheLeastIsDividedByIt) {
  Tensor<double, 4> x({1, 1, 1, 2}), grad({1, 1, 1, 2}), x_grad({1, 1, 1, 2});
  x.values = {3e-13, 0}, grad.values = {1, 2};
  normalise(x.view(), {}, x_grad.view());
  EXPECT_NEAR(x_grad.values[0], 0.3, 1e-15);
  normalise_backward(x.view(), grad.view(), {}, x_grad.view());
  EXPECT_NEAR(x_grad.values[0], 1e12, 1);
  EXPECT_NEAR(x_grad.values[1], 2e12, 1);
}

TEST(CosineOfMany, SameBitsForAnyNumberOfThreads) {
  const Tensor<float, 4> x = random_tensor<float, 4>({2, 400, 3, 16}, 1);
  const Tensor<float, 4> grad = random_tensor<float, 4>({2, 400, 3, 16}, 2);
  const std::vector<double> scales = {1, 2, 3};
  const int before = threads();
  std::vector<float> values;
  std::vector<double> sums;
  for (const int count : {1, 2, 7}) {
    set_threads(count);
    Tensor<float, 4> x_grad(x.extents);
    std::vector<double> scale_grad(3);
    normalise_backward(x.view(), grad.view(), scales, x_grad.view(), scale_grad);
    if (values.empty()) values = x_grad.values, sums = scale_grad;
    EXPECT_EQ(x_grad.values, values);
    EXPECT_EQ(scale_grad, sums);
  }
  set_threads(before);
}

TEST(CosineRefused, WhatDoesNotFit) {
  Tensor<float, 4> x({1, 2, 3, 4}), other({1, 2, 3, 5});
  const std::vector<double> scales = {1, 2};
  std::vector<double> grad(2);
  EXPECT_EQ(message_of([&] { normalise(x.view(), {}, other.view()); }),
            "[cosine] out must be shaped as x, [1, 2, 3, 4], got [1, 2, 3, 5]");
  EXPECT_EQ(message_of([&] { normalise(x.view(), scales, x.view()); }),
            "[cosine] scales must have one element for each head, 3, got 2");
  EXPECT_EQ(message_of([&] { normalise_backward(x.view(), x.view(), {}, x.view(), grad); }),
            "[cosine] scale_grad must be one for each head, 3, got 2");
  Tensor<float, 4> none({0, 2, 3, 4});
  normalise(none.view(), {}, none.view());
}

}  // namespace cosine_test
}  // namespace gnomon
