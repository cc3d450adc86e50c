#include "gnomon/rotary/contextual.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "rotary/added_gradient.h"
#include "testing.h"

namespace gnomon {
namespace contextual_test {

using std::int64_t;
using testing::expect_added_gradient;
using testing::message_of;
using testing::random_tensor;
using testing::Tensor;

constexpr int64_t batch = 2, tokens = 7, heads = 2, width = 5, pairs = 3;
constexpr RotaryContextual spec{.width = width,
                                .rotary_dim = 2 * pairs,
                                .pairing = Pairing::halves,
                                .heads = heads,
                                .scale = 2};

// Left padding in row 0, packed sequences in row 1.
Positions padded_and_packed() {
  return {.batch = 2,
          .tokens = 7,
          .ids = {0, 0, 0, 1, 2, 3, 4, 0, 1, 0, 1, 2, 0, 0},
          .sequences = {-1, -1, 0, 0, 0, 0, 0, 5, 5, 2, 2, 2, 9, -1}};
}

struct Sample {
  Tensor<float, 1> log_frequencies = random_tensor<float, 1>({pairs}, 1);
  Tensor<float, 2> weight = random_tensor<float, 2>({heads, width}, 2);
  Tensor<float, 1> bias = random_tensor<float, 1>({heads}, 3);
  Tensor<float, 3> x = random_tensor<float, 3>({batch, tokens, width}, 4);

  ContextualWeights<const float> weights() const {
    return {log_frequencies.view(), weight.view(), bias.view()};
  }
};

// The difference of two exclusive sums of the released code, of a token and the one before.
double naive_increments(const Sample& s, const Positions* positions, int64_t b, int64_t t,
                        int64_t h, int64_t i) {
  const auto sum_before = [&](int64_t token) {
    double phi = 0;
    for (int64_t at = token - 1; at >= 0; --at) {
      const auto sequence = [&](int64_t one) {
        return positions ? positions->sequences[std::size_t(b * tokens + one)] : 0;
      };
      if (sequence(at) != sequence(token)) break;
      double z = double{s.bias.view()(h)};
      for (int64_t n = 0; n < width; ++n)
        z += double{s.weight.view()(h, n)} * double{s.x.view()(b, at, n)};
      phi += 1 / (1 + std::exp(-z / 2));
    }
    return phi;
  };
  if (positions && positions->sequences[std::size_t(b * tokens + t)] < 0) return 0;
  const bool first =
      t == 0 || (positions && positions->sequences[std::size_t(b * tokens + t)] !=
                                  positions->sequences[std::size_t(b * tokens + t - 1)]);
  return -std::exp(double{s.log_frequencies.view()(i)}) *
         (sum_before(t) - (first ? 0 : sum_before(t - 1)));
}

TEST(RotaryContextual, IncrementsAreDifferencesOfTheReleasedSums) {
  Sample s;
  const Positions positions = padded_and_packed();
  for (const Positions* one : {static_cast<const Positions*>(nullptr), &positions}) {
    if (one)  // padding is not read
      s.x.view()(0, 1, 3) = s.x.view()(1, 6, 0) = std::numeric_limits<float>::quiet_NaN();
    Tensor<float, 4> out({batch, tokens, heads, pairs}, 9.0f);
    increments(spec, s.weights(), s.x.view(), one, out.view());
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t t = 0; t < tokens; ++t)
        for (int64_t h = 0; h < heads; ++h)
          for (int64_t i = 0; i < pairs; ++i) {
            const double exact = naive_increments(s, one, b, t, h, i);
            ASSERT_NEAR(double{out.view()(b, t, h, i)}, exact,
                        0x1p-23 * std::fabs(exact) + 1e-13);
          }
  }
  EXPECT_EQ(lower(spec),
            (TokenRotation{
                .rotary_dim = 6, .pairing = Pairing::halves, .term = AngleTerm::increments}));
  const std::vector<float> initial = initial_log_frequencies(spec);
  for (int64_t i = 0; i < pairs; ++i)
    EXPECT_NEAR(double{initial[std::size_t(i)]}, -2 * double(i) / 6 * std::log(10000.0), 1e-6);
}

TEST(RotaryContextual, DecodingRequiresTheTokenBefore) {
  const Sample s;
  Tensor<float, 4> all({batch, tokens, heads, pairs}), last({batch, 1, heads, pairs});
  increments(spec, s.weights(), s.x.view(), nullptr, all.view());
  for (int64_t t = 0; t < tokens; ++t) {
    const int64_t earlier = std::min<int64_t>(t, 1);
    increments(spec, s.weights(), s.x.view().slice(1, t - earlier, earlier + 1), nullptr,
               last.view());
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t i = 0; i < pairs; ++i)
        ASSERT_EQ(last.view()(b, 0, 1, i), all.view()(b, t, 1, i));
  }
}

TEST(RotaryContextual, GradientsAreThoseOfFiniteDifferences) {
  Sample s;
  const Positions positions = padded_and_packed();
  const auto w = random_tensor<float, 4>({batch, tokens, heads, pairs}, 6);
  const auto loss = [&] {
    double sum = 0;
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t t = 0; t < tokens; ++t)
        for (int64_t h = 0; h < heads; ++h)
          for (int64_t i = 0; i < pairs; ++i)
            sum += double{w.view()(b, t, h, i)} * naive_increments(s, &positions, b, t, h, i);
    return sum;
  };
  Tensor<float, 3> x_grad(s.x.extents, 1.0f);
  Tensor<float, 1> l_grad(s.log_frequencies.extents, 1.0f), b_grad(s.bias.extents, 1.0f);
  Tensor<float, 2> w_grad(s.weight.extents, 1.0f);
  increments_backward(spec, s.weights(), std::as_const(s.x).view(), &positions, w.view(),
                      x_grad.view(), {l_grad.view(), w_grad.view(), b_grad.view()});
  expect_added_gradient(s.x.values, x_grad.values, loss);
  expect_added_gradient(s.log_frequencies.values, l_grad.values, loss);
  expect_added_gradient(s.weight.values, w_grad.values, loss);
  expect_added_gradient(s.bias.values, b_grad.values, loss);
}

TEST(RotaryContextual, WrongCallsNameTheRule) {
  const Sample s;
  Tensor<float, 4> out({batch, tokens, heads, pairs});
  const auto error = [&](auto change) {
    RotaryContextual one = spec;
    change(one);
    return message_of([&] { increments(one, s.weights(), s.x.view(), nullptr, out.view()); });
  };
  EXPECT_EQ(error([](auto& c) { c.width = 0; }),
            "[contextual] width must be at least 1, got 0");
  EXPECT_EQ(error([](auto& c) { c.heads = 0; }),
            "[contextual] heads must be at least 1, got 0");
  EXPECT_EQ(error([](auto& c) { c.scale = 0; }),
            "[contextual] scale must be positive and finite, got 0");
  EXPECT_EQ(error([](auto& c) { c.heads = 3; }),
            "[contextual] weight must be [3, 5], got [2, 5]");
  EXPECT_EQ(error([](auto& c) { c.rotary_dim = 4; }),
            "[contextual] log_frequencies must be [2], got [3]");
  Tensor<float, 4> few({batch, 3, heads, pairs});
  EXPECT_EQ(message_of([&] { increments(spec, s.weights(), s.x.view(), nullptr, few.view()); }),
            "[contextual] x must have the tokens of the increments, 3, and at most 1 before "
            "them, got 7");
}

}  // namespace contextual_test
}  // namespace gnomon
