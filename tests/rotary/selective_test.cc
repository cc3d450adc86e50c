#include "gnomon/rotary/selective.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "rotary/added_gradient.h"
#include "testing.h"

namespace gnomon {
namespace selective_test {

using std::int64_t;
using testing::expect_added_gradient;
using testing::message_of;
using testing::random_tensor;
using testing::Tensor;

constexpr int64_t batch = 2, tokens = 7;
constexpr SelectiveRotary spec{
    .heads = 3, .width = 12, .rotary_dim = 4, .rank = 5, .kernel = 4};
constexpr int64_t channels = 6;

// Left padding in row 0, packed sequences in row 1.
Positions padded_and_packed() {
  return {.batch = 2,
          .tokens = 7,
          .ids = {0, 0, 0, 1, 2, 3, 4, 0, 1, 0, 1, 2, 0, 0},
          .sequences = {-1, -1, 0, 0, 0, 0, 0, 5, 5, 2, 2, 2, 9, -1}};
}

struct Sample {
  Tensor<float, 2> down = random_tensor<float, 2>({5, 12}, 1);
  Tensor<float, 2> up = random_tensor<float, 2>({channels, 5}, 2);
  Tensor<float, 2> conv = random_tensor<float, 2>({channels, 4}, 3);
  Tensor<float, 3> x = random_tensor<float, 3>({batch, tokens, 12}, 4);

  SelectiveWeights<const float> weights() const {
    return {std::as_const(down).view(), std::as_const(up).view(), std::as_const(conv).view()};
  }
};

// One increment, written as in the released module: l2 norm of each head, two linear layers, a
// causal convolution of the channel, the temperature.
double naive_increments(const Sample& s, const Positions* positions, int64_t b, int64_t t,
                        int64_t channel) {
  const auto sequence = [&](int64_t at) {
    return positions ? positions->sequences[std::size_t(b * tokens + at)] : 0;
  };
  if (sequence(t) == Positions::padding) return 0;
  double sum = 0;
  for (int64_t tap = 0; tap < 4; ++tap) {
    const int64_t at = t - 3 + tap;
    if (at < 0 || sequence(at) != sequence(t)) continue;
    double z = 0;
    for (int64_t r = 0; r < 5; ++r) {
      double low = 0;
      for (int64_t c = 0; c < 12; ++c) {
        double square = 1e-6;
        for (int64_t d = 0; d < 4; ++d)
          square += std::pow(double{s.x.view()(b, at, c / 4 * 4 + d)}, 2);
        low += double{s.down.view()(r, c)} * double{s.x.view()(b, at, c)} / std::sqrt(square);
      }
      z += double{s.up.view()(channel, r)} * low;
    }
    sum += double{s.conv.view()(channel, tap)} * z;
  }
  return sum * std::pow(500000.0, -2.0 * double(channel % 2) / 4);
}

TEST(Selective, IncrementsAreThoseOfTheReleasedModule) {
  Sample s;
  const Positions positions = padded_and_packed();
  for (const Positions* one : {static_cast<const Positions*>(nullptr), &positions}) {
    if (one)  // padding is not read
      s.x.view()(0, 1, 3) = s.x.view()(1, 6, 0) = std::numeric_limits<float>::quiet_NaN();
    Tensor<float, 4> out({batch, tokens, 3, 2}, 9.0f);
    increments(spec, s.weights(), std::as_const(s.x).view(), one, out.view());
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t t = 0; t < tokens; ++t)
        for (int64_t c = 0; c < channels; ++c) {
          const double exact = naive_increments(s, one, b, t, c);
          ASSERT_NEAR(double{out.view()(b, t, c / 2, c % 2)}, exact,
                      0x1p-23 * std::fabs(exact) + 1e-13);
        }
  }
  EXPECT_EQ(lower(spec),
            (TokenRotation{
                .rotary_dim = 4, .pairing = Pairing::halves, .term = AngleTerm::increments}));
}

// The last tokens with 3 tokens before them, as in decoding, give the bits of the whole pass.
TEST(Selective, DecodingRequiresTheLastThreeTokens) {
  const Sample s;
  Tensor<float, 4> all({batch, tokens, 3, 2}), last({batch, 1, 3, 2});
  increments(spec, s.weights(), s.x.view(), nullptr, all.view());
  for (int64_t t = 0; t < tokens; ++t) {
    const int64_t earlier = std::min<int64_t>(t, 3);
    increments(spec, s.weights(), s.x.view().slice(1, t - earlier, earlier + 1), nullptr,
               last.view());
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t c = 0; c < channels; ++c)
        ASSERT_EQ(last.view()(b, 0, c / 2, c % 2), all.view()(b, t, c / 2, c % 2));
  }
}

TEST(Selective, GradientsAreThoseOfFiniteDifferences) {
  Sample s;
  const Positions positions = padded_and_packed();
  const auto weights = random_tensor<float, 4>({batch, tokens, 3, 2}, 6);
  const auto loss = [&] {
    double sum = 0;
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t t = 0; t < tokens; ++t)
        for (int64_t c = 0; c < channels; ++c)
          sum += double{weights.view()(b, t, c / 2, c % 2)} *
                 naive_increments(s, &positions, b, t, c);
    return sum;
  };
  Tensor<float, 3> x_grad(s.x.extents, 1.0f);
  Tensor<float, 2> down(s.down.extents, 1.0f), up(s.up.extents, 1.0f),
      conv(s.conv.extents, 1.0f);
  increments_backward(spec, s.weights(), std::as_const(s.x).view(), &positions, weights.view(),
                      x_grad.view(), {down.view(), up.view(), conv.view()});
  expect_added_gradient(s.x.values, x_grad.values, loss);
  expect_added_gradient(s.down.values, down.values, loss);
  expect_added_gradient(s.up.values, up.values, loss);
  expect_added_gradient(s.conv.values, conv.values, loss);
}

TEST(Selective, FieldsHaveLeastValues) {
  const SelectiveRotary least{
      .heads = 1, .width = 1, .rotary_dim = 2, .base = 1.5, .rank = 1, .kernel = 1};
  EXPECT_NO_THROW(lower(least));
  const auto error = [&](int64_t SelectiveRotary::* field) {
    SelectiveRotary one = least;
    one.*field = 0;
    return message_of([&] { lower(one); });
  };
  EXPECT_EQ(error(&SelectiveRotary::heads), "[selective] heads must be at least 1, got 0");
  EXPECT_EQ(error(&SelectiveRotary::width), "[selective] width must be at least 1, got 0");
  EXPECT_EQ(error(&SelectiveRotary::rotary_dim),
            "[selective] rotary_dim must be at least 2, got 0");
  EXPECT_EQ(error(&SelectiveRotary::rank), "[selective] rank must be at least 1, got 0");
  EXPECT_EQ(error(&SelectiveRotary::kernel), "[selective] kernel must be at least 1, got 0");
}

TEST(Selective, WrongCallsNameTheRule) {
  const Sample s;
  Tensor<float, 4> out({batch, 2, 3, 2});
  const auto error = [&](const SelectiveRotary& of) {
    return message_of([&] { increments(of, s.weights(), s.x.view(), nullptr, out.view()); });
  };
  EXPECT_EQ(error(spec),
            "[selective] x must have the tokens of the increments and at most kernel - 1 = 3 "
            "before them, so at most 5, got 7");
  SelectiveRotary wrong = spec;
  wrong.heads = 5;
  EXPECT_EQ(error(wrong), "[selective] heads must divide the width, 12, got 5");
  wrong = spec, wrong.rotary_dim = 3;
  EXPECT_EQ(error(wrong), "[selective] rotary_dim must be even, got 3");
  wrong = spec, wrong.base = 1;
  EXPECT_EQ(error(wrong), "[selective] base must be finite and greater than 1, got 1");
  wrong = spec, wrong.rank = 4;
  EXPECT_EQ(error(wrong), "[selective] down must be [4, 12], got [5, 12]");
}

}  // namespace selective_test
}  // namespace gnomon
