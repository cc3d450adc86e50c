#include "gnomon/rotary/mamba3.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "rotary/added_gradient.h"
#include "testing.h"

namespace gnomon {
namespace mamba3_test {

using std::int64_t;
using testing::expect_added_gradient;
using testing::message_of;
using testing::random_tensor;
using testing::Tensor;

constexpr int64_t batch = 2, tokens = 6, heads = 2, width = 5, pairs = 3;
constexpr RotaryMamba3 spec{
    .heads = heads, .width = width, .rotary_dim = 2 * pairs, .pairing = Pairing::adjacent};

// Left padding in row 0, packed sequences and right padding in row 1.
Positions padded_and_packed() {
  return {.batch = 2,
          .tokens = 6,
          .ids = {0, 0, 0, 1, 2, 3, 0, 1, 0, 1, 2, 0},
          .sequences = {-1, -1, 0, 0, 0, 0, 5, 5, 2, 2, 2, -1}};
}

struct Sample {
  Tensor<float, 2> angle = random_tensor<float, 2>({pairs, width}, 1);
  Tensor<float, 2> step = random_tensor<float, 2>({heads, width}, 2);
  Tensor<float, 1> bias = random_tensor<float, 1>({heads}, 3);
  Tensor<float, 3> x = random_tensor<float, 3>({batch, tokens, width}, 4);

  Mamba3Weights<const float> weights() const {
    return {angle.view(), step.view(), bias.view()};
  }
};

long double naive_increment(const Sample& s, const Positions* positions, int64_t b, int64_t t,
                            int64_t h, int64_t i) {
  if (positions && positions->sequences[std::size_t(b * tokens + t)] < 0) return 0;
  long double a = 0, z = s.bias.view()(h);
  for (int64_t n = 0; n < width; ++n) {
    const long double x = s.x.view()(b, t, n);
    a += static_cast<long double>(s.angle.view()(i, n)) * x;
    z += static_cast<long double>(s.step.view()(h, n)) * x;
  }
  return std::acos(-1.0L) * std::tanh(a) * std::log(1 + std::exp(z));
}

TEST(RotaryMamba3, IncrementsAreThoseOfTheFormula) {
  Sample s;
  const Positions positions = padded_and_packed();
  for (const Positions* one : {static_cast<const Positions*>(nullptr), &positions}) {
    if (one)  // padding is not read
      s.x.view()(0, 1, 3) = s.x.view()(1, 5, 0) = std::numeric_limits<float>::quiet_NaN();
    Tensor<float, 4> out({batch, tokens, heads, pairs}, 9.0f);
    increments(spec, s.weights(), s.x.view(), one, out.view());
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t t = 0; t < tokens; ++t)
        for (int64_t h = 0; h < heads; ++h)
          for (int64_t i = 0; i < pairs; ++i) {
            const auto exact = static_cast<double>(naive_increment(s, one, b, t, h, i));
            ASSERT_NEAR(double{out.view()(b, t, h, i)}, exact,
                        0x1p-24 * std::fabs(exact) + 1e-13);
          }
  }
  EXPECT_EQ(lower(spec),
            (TokenRotation{
                .rotary_dim = 6, .pairing = Pairing::adjacent, .term = AngleTerm::increments}));
}

TEST(RotaryMamba3, LargeProductsDoNotOverflow) {
  Sample s;
  for (float& one : s.x.values) one *= 1e4f;
  Tensor<float, 4> out({batch, tokens, heads, pairs}), ones(out.extents, 1.0f);
  increments(spec, s.weights(), s.x.view(), nullptr, out.view());
  Tensor<float, 3> x_grad(s.x.extents);
  increments_backward(spec, s.weights(), std::as_const(s.x).view(), nullptr,
                      std::as_const(ones).view(), x_grad.view(), {});
  for (const float one : out.values) EXPECT_TRUE(std::isfinite(one));
  for (const float one : x_grad.values) EXPECT_TRUE(std::isfinite(one));
}

TEST(RotaryMamba3, GradientsAreThoseOfFiniteDifferences) {
  Sample s;
  const Positions positions = padded_and_packed();
  const auto w = random_tensor<float, 4>({batch, tokens, heads, pairs}, 6);
  const auto loss = [&] {
    long double sum = 0;
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t t = 0; t < tokens; ++t)
        for (int64_t h = 0; h < heads; ++h)
          for (int64_t i = 0; i < pairs; ++i)
            sum += static_cast<long double>(w.view()(b, t, h, i)) *
                   naive_increment(s, &positions, b, t, h, i);
    return sum;
  };
  Tensor<float, 3> x_grad(s.x.extents, 1.0f);
  Tensor<float, 2> angle_grad(s.angle.extents, 1.0f), step_grad(s.step.extents, 1.0f);
  Tensor<float, 1> bias_grad(s.bias.extents, 1.0f);
  increments_backward(spec, s.weights(), std::as_const(s.x).view(), &positions, w.view(),
                      x_grad.view(), {angle_grad.view(), step_grad.view(), bias_grad.view()});
  expect_added_gradient(s.x.values, x_grad.values, loss);
  expect_added_gradient(s.angle.values, angle_grad.values, loss);
  expect_added_gradient(s.step.values, step_grad.values, loss);
  expect_added_gradient(s.bias.values, bias_grad.values, loss);
}

TEST(RotaryMamba3, WrongCallsNameTheRule) {
  const Sample s;
  Tensor<float, 4> out({batch, tokens, heads, pairs});
  const auto error = [&](auto change) {
    RotaryMamba3 one = spec;
    change(one);
    return message_of([&] { increments(one, s.weights(), s.x.view(), nullptr, out.view()); });
  };
  EXPECT_EQ(error([](auto& m) { m.width = 0; }), "[mamba3] width must be at least 1, got 0");
  EXPECT_EQ(error([](auto& m) { m.heads = 0; }), "[mamba3] heads must be at least 1, got 0");
  EXPECT_EQ(error([](auto& m) { m.rotary_dim = 3; }),
            "[rotary] rotary_dim must be even, got 3");
  EXPECT_EQ(error([](auto& m) { m.heads = 3; }), "[mamba3] step must be [3, 5], got [2, 5]");
  EXPECT_EQ(error([](auto& m) { m.rotary_dim = 4; }),
            "[mamba3] angle must be [2, 5], got [3, 5]");
  Tensor<float, 4> few({batch, 3, heads, pairs});
  EXPECT_EQ(message_of([&] { increments(spec, s.weights(), s.x.view(), nullptr, few.view()); }),
            "[mamba3] out must be [2, 6, 2, 3], got [2, 3, 2, 3]");
  const Positions other = consecutive(4);
  EXPECT_EQ(message_of([&] { increments(spec, s.weights(), s.x.view(), &other, out.view()); }),
            "[mamba3] positions must have the tokens of x, 6, got 4");
}

}  // namespace mamba3_test
}  // namespace gnomon
