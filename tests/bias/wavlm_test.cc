#include "gnomon/bias/wavlm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "gnomon/parallel.h"
#include "testing.h"

namespace gnomon {
namespace wavlm_test {

using testing::as_double;
using testing::half_ulp;
using testing::message_of;
using testing::random_tensor;
using testing::Tensor;

constexpr std::ptrdiff_t batch = 2, tokens = 5, heads = 3, size = 7;

WavLm spec() {
  WavLm wavlm;
  wavlm.t5.heads = heads;
  wavlm.head_dim = size;
  return wavlm;
}

// All parameters and inputs in double: weight [8, D], bias [8], constant [H], x [B, T, C].
struct Numbers {
  std::vector<double> weight, bias, constant, x;

  // The released module step by step: the projection to 8, viewed as (2, 4) and summed, the
  // sigmoid, two chunks, the gate.
  long double gate(std::ptrdiff_t b, std::ptrdiff_t h, std::ptrdiff_t t) const {
    long double projected[8];
    for (std::ptrdiff_t r = 0; r < 8; ++r) {
      projected[r] = static_cast<long double>(bias[static_cast<std::size_t>(r)]);
      for (std::ptrdiff_t d = 0; d < size; ++d)
        projected[r] +=
            static_cast<long double>(weight[static_cast<std::size_t>(r * size + d)]) *
            static_cast<long double>(
                x[static_cast<std::size_t>((b * tokens + t) * heads * size + h * size + d)]);
    }
    const auto sigmoid = [](long double v) { return 1 / (1 + std::exp(-v)); };
    const long double a = sigmoid(projected[0] + projected[1] + projected[2] + projected[3]);
    const long double g = sigmoid(projected[4] + projected[5] + projected[6] + projected[7]);
    return a * (g * static_cast<long double>(constant[static_cast<std::size_t>(h)]) - 1) + 2;
  }
};

template <typename X>
struct Parts {
  Tensor<float, 2> weight{{8, size}};
  Tensor<float, 1> bias{{8}}, constant{{heads}};
  Tensor<X, 3> x{{batch, tokens, heads* size}};

  WavLmGate<const float> read() const { return {weight.view(), bias.view(), constant.view()}; }
  WavLmGate<float> views() { return {weight.view(), bias.view(), constant.view()}; }
  static Parts random() {
    Parts parts;
    parts.weight = random_tensor<float, 2>({8, size}, 2);
    for (float& one : parts.weight.values) one *= 0.3f;
    parts.bias = random_tensor<float, 1>({8}, 3);
    parts.constant = random_tensor<float, 1>({heads}, 4);
    parts.x = random_tensor<X, 3>({batch, tokens, heads * size}, 5);
    return parts;
  }
  Numbers numbers() const {
    Numbers all;
    all.weight.assign(weight.values.begin(), weight.values.end());
    all.bias.assign(bias.values.begin(), bias.values.end());
    all.constant.assign(constant.values.begin(), constant.values.end());
    for (const X value : x.values) all.x.push_back(as_double(value));
    return all;
  }
};

template <typename X>
class WavLmGates : public ::testing::Test {};
using Types = ::testing::Types<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(WavLmGates, Types);

TYPED_TEST(WavLmGates, AreTheReleasedModule) {
  const auto parts = Parts<TypeParam>::random();
  const Numbers numbers = parts.numbers();
  Tensor<float, 3> out({batch, tokens, heads});  // written as [B, H, T] with strides
  const View<float, 3> view(out.values.data(), {batch, heads, tokens},
                            {tokens * heads, 1, heads});
  gates<TypeParam>(spec(), parts.read(), parts.x.view(), view);
  for (std::ptrdiff_t b = 0; b < batch; ++b)
    for (std::ptrdiff_t h = 0; h < heads; ++h)
      for (std::ptrdiff_t t = 0; t < tokens; ++t) {
        const auto expected = static_cast<double>(numbers.gate(b, h, t));
        EXPECT_NEAR(view(b, h, t), expected, 0x1p-24 * std::fabs(expected) + 1e-12);
      }
}

TYPED_TEST(WavLmGates, GradientsByDifferences) {
  const auto parts = Parts<TypeParam>::random();
  Numbers numbers = parts.numbers();
  const auto grad = random_tensor<float, 3>({batch, heads, tokens}, 9);
  Parts<TypeParam> grads;
  gates_backward<TypeParam>(spec(), parts.read(), parts.x.view(), grad.view(), grads.x.view(),
                            grads.views());
  const auto loss = [&] {
    long double sum = 0;
    for (std::ptrdiff_t b = 0; b < batch; ++b)
      for (std::ptrdiff_t h = 0; h < heads; ++h)
        for (std::ptrdiff_t t = 0; t < tokens; ++t)
          sum += static_cast<long double>(grad.view()(b, h, t)) * numbers.gate(b, h, t);
    return sum;
  };
  const auto compare = [&](std::vector<double>& part, const auto& computed, double tolerance) {
    ASSERT_EQ(part.size(), computed.size());
    for (std::size_t i = 0; i < part.size(); ++i) {
      const double kept = part[i], step = 1e-5;
      part[i] = kept + step;
      const long double above = loss();
      part[i] = kept - step;
      const auto expected = static_cast<double>((above - loss()) / (2 * step));
      part[i] = kept;
      EXPECT_NEAR(as_double(computed[i]), expected, tolerance * std::fabs(expected) + 1e-7);
    }
  };
  compare(numbers.weight, grads.weight.values, 1e-6);
  compare(numbers.bias, grads.bias.values, 1e-6);
  compare(numbers.constant, grads.constant.values, 1e-6);
  compare(numbers.x, grads.x.values, half_ulp<TypeParam> + 1e-7);
  // Gradients are added to the previous values. Without x_grad, and with x_grad only.
  const float before = grads.bias.values[5];
  gates_backward<TypeParam>(spec(), parts.read(), parts.x.view(), grad.view(), {},
                            grads.views());
  EXPECT_FLOAT_EQ(grads.bias.values[5], 2 * before);
  Tensor<TypeParam, 3> added({batch, tokens, heads * size}, TypeParam(1.0));
  gates_backward<TypeParam>(spec(), parts.read(), parts.x.view(), grad.view(), added.view(),
                            {});
  for (std::size_t i = 0; i < added.values.size(); ++i)
    EXPECT_NEAR(as_double(added.values[i]), 1 + as_double(grads.x.values[i]),
                4 * half_ulp<TypeParam>);
}

TEST(WavLm, SameBitsForAnyNumberOfThreads) {
  const auto parts = Parts<float>::random();
  const auto x = random_tensor<float, 3>({3, 700, heads * size}, 1);
  const auto grad = random_tensor<float, 3>({3, heads, 700}, 2);
  const int before = threads();
  std::vector<float> sums;
  for (const int count : {1, 2, 7}) {
    set_threads(count);
    Parts<float> grads;
    gates_backward<float>(spec(), parts.read(), x.view(), grad.view(), {}, grads.views());
    if (sums.empty()) sums = grads.weight.values;
    EXPECT_EQ(grads.weight.values, sums);
  }
  set_threads(before);
}

// 320 bidirectional buckets: 80 distances per side have their own; from 800 on they share the
// last.
TEST(WavLm, BucketsAreTheReleasedOnes) {
  T5Bias t5 = WavLm{}.t5;
  t5.heads = 12, t5.direction = T5Direction::bidirectional;
  EXPECT_EQ(bucket(t5, 0), 0);
  EXPECT_EQ(bucket(t5, -79), 79);
  EXPECT_EQ(bucket(t5, 1), 161);
  EXPECT_EQ(bucket(t5, 80), 240);
  EXPECT_EQ(bucket(t5, -800), 159);
  EXPECT_EQ(bucket(t5, 5000), 319);
}

TEST(WavLm, RefusesWhatBreaksItsBounds) {
  auto parts = Parts<float>::random();
  Tensor<float, 3> out({batch, heads, tokens});
  const auto says = [&](WavLm of) {
    return message_of([&] { gates<float>(of, parts.read(), parts.x.view(), out.view()); });
  };
  WavLm bad = spec();
  bad.t5.heads = 0;
  EXPECT_EQ(says(bad), "[wavlm] heads must be at least 1, got 0");
  bad = spec(), bad.head_dim = 0;
  EXPECT_EQ(says(bad), "[wavlm] head_dim must be at least 1, got 0");
  bad = spec(), bad.head_dim = 8;
  EXPECT_EQ(says(bad), "[wavlm] weight must be [8, 8], got [8, 7]");
  parts.x = Tensor<float, 3>({batch, tokens, 20});
  EXPECT_EQ(says(spec()), "[wavlm] x must have width heads x head_dim, 21, got 20");
  parts.x = Tensor<float, 3>({batch, tokens + 1, 21});
  EXPECT_EQ(says(spec()), "[wavlm] out must be [2, 3, 6], got [2, 3, 5]");
}

}  // namespace wavlm_test
}  // namespace gnomon
