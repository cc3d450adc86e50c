// Forget gates and their gradients.
#include "gnomon/bias/fox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "testing.h"

namespace gnomon {
namespace fox_test {

using testing::message_of;
using testing::random_tensor;
using testing::Tensor;

constexpr std::int64_t batch = 2, tokens = 5, heads = 3, width = 7;

// The formula, in long double.
long double naive_log_gate(const Fox& fox, const Tensor<float, 2>& weight,
                           const Tensor<float, 2>& bias, const Tensor<float, 3>& x,
                           std::int64_t b, std::int64_t t, std::int64_t h) {
  long double z = fox.recipe == FoxRecipe::fox ? bias.view()(h, 0) : 0.0L;
  for (std::int64_t c = 0; c < width; ++c)
    z += static_cast<long double>(weight.view()(h, c)) * x.view()(b, t, c);
  if (fox.recipe == FoxRecipe::cable) return -std::log1p(std::exp(z));  // -softplus
  return std::log(1 / (1 + std::exp(-z)));
}

FoxGate<const float> gate_of(const Tensor<float, 2>& weight, const Tensor<float, 2>& bias) {
  return {weight.view(), View<const float, 1>(bias.values.data(), {heads})};
}

TEST(Fox, GatesAndGradientsAreThoseOfTheFormulas) {
  for (const FoxRecipe recipe : {FoxRecipe::fox, FoxRecipe::cable}) {
    const Fox fox{.heads = heads, .width = width, .recipe = recipe, .head_dim = 16};
    const auto weight = random_tensor<float, 2>({heads, width}, 1);
    const auto bias = random_tensor<float, 2>({heads, 1}, 2);
    auto x = random_tensor<float, 3>({batch, tokens, width}, 3);
    const auto out_grad = random_tensor<float, 3>({batch, heads, tokens}, 4);
    Tensor<float, 3> out({batch, heads, tokens}), x_grad(x.extents);
    log_gates(fox, gate_of(weight, bias), x.view(), out.view());
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t t = 0; t < tokens; ++t)
        for (std::int64_t h = 0; h < heads; ++h)
          EXPECT_NEAR(double{out.view()(b, h, t)},
                      static_cast<double>(naive_log_gate(fox, weight, bias, x, b, t, h)), 2e-7);
    Tensor<float, 2> w_grad({heads, width}), b_grad({heads, 1});
    log_gates_backward(fox, gate_of(weight, bias), x.view(), out_grad.view(), x_grad.view(),
                       {w_grad.view(), View<float, 1>(b_grad.values.data(), {heads})});
    const auto loss = [&](const Tensor<float, 2>& w, const Tensor<float, 2>& offset,
                          const Tensor<float, 3>& of) {
      long double sum = 0;
      for (std::int64_t b = 0; b < batch; ++b)
        for (std::int64_t t = 0; t < tokens; ++t)
          for (std::int64_t h = 0; h < heads; ++h)
            sum += naive_log_gate(fox, w, offset, of, b, t, h) * out_grad.view()(b, h, t);
      return sum;
    };
    const auto compare = [&](auto tensor, const std::vector<float>& got, const auto& of) {
      for (std::size_t i = 0; i < tensor.values.size(); ++i) {
        const float kept = tensor.values[i], up = kept + 0x1p-8f, down = kept - 0x1p-8f;
        tensor.values[i] = up;
        const long double above = of(tensor);
        tensor.values[i] = down;
        const auto slope = static_cast<double>((above - of(tensor)) / (double{up} - down));
        tensor.values[i] = kept;
        EXPECT_NEAR(double{got[i]}, slope, 1e-4) << i;
      }
    };
    compare(x, x_grad.values, [&](const auto& one) { return loss(weight, bias, one); });
    compare(weight, w_grad.values, [&](const auto& one) { return loss(one, bias, x); });
    if (recipe == FoxRecipe::fox)
      compare(bias, b_grad.values, [&](const auto& one) { return loss(weight, one, x); });
    else
      EXPECT_EQ(b_grad.values, std::vector<float>(heads));
  }
}

TEST(Fox, GatesOfLargeProductsAreFinite) {
  const Fox fox{.heads = 1, .width = 1};
  Tensor<float, 2> weight({1, 1}, 1.0f), bias({1, 1});
  for (const float value : {1e30f, -1e30f, 100.0f, -100.0f}) {
    const Tensor<float, 3> x({1, 1, 1}, value);
    Tensor<float, 3> out({1, 1, 1});
    log_gates(fox, {weight.view(), View<const float, 1>(bias.values.data(), {1})}, x.view(),
              out.view());
    EXPECT_EQ(out.values[0], value < 0 ? value : value < 1000 ? -std::exp(-value) : 0) << value;
  }
}

TEST(Fox, LowersToACumulativeBias) {
  EXPECT_EQ(lower(Fox{.heads = 2, .width = 4, .lost_weight = 0.25}),
            CumulativeBias{.lost_weight = 0.25});
  EXPECT_EQ(softmax_factor({.heads = 2, .width = 4}), 1);
  EXPECT_EQ(
      softmax_factor({.heads = 2, .width = 4, .recipe = FoxRecipe::cable, .head_dim = 64}), 8);
}

TEST(Fox, RefusesWrongArguments) {
  EXPECT_EQ(message_of([] { lower(Fox{.width = 4}); }),
            "[fox] heads must be at least 1, got 0");
  EXPECT_EQ(message_of([] { lower(Fox{.heads = 4}); }),
            "[fox] width must be at least 1, got 0");
  EXPECT_EQ(message_of([] { lower(Fox{.heads = 1, .width = 4, .recipe = {}}); }),
            "[fox] recipe must be fox or cable, got 0");
  EXPECT_EQ(message_of([] { lower(Fox{.heads = 1, .width = 4, .recipe = FoxRecipe::cable}); }),
            "[fox] head_dim must be at least 1 for CABLE, got 0");
  EXPECT_EQ(message_of([] { lower(Fox{.heads = 1, .width = 4, .lost_weight = 1}); }),
            "[fox] lost_weight must be at least 0 and below 1, got 1");
  const Tensor<float, 2> weight({heads, width}), bias({heads, 1});
  const Tensor<float, 3> x({batch, tokens, width + 1});
  Tensor<float, 3> out({batch, heads, tokens});
  EXPECT_EQ(message_of([&] {
              log_gates({.heads = heads, .width = width}, gate_of(weight, bias), x.view(),
                        out.view());
            }),
            "[fox] x must be [2, 5, 7], got [2, 5, 8]");
}

}  // namespace fox_test
}  // namespace gnomon
