// Additive GRAPE: slopes of keys, vectors of edges, and their gradients.
#include "gnomon/bias/grape.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "testing.h"

namespace gnomon {
namespace grape_test {

using testing::message_of;
using testing::random_tensor;
using testing::Tensor;

constexpr std::int64_t batch = 2, tokens = 5, heads = 4, width = 7, size = 6;
constexpr GrapeAdditive additive{.heads = heads, .width = width};
constexpr GrapePath path{.heads = heads, .width = width, .size = size};

// The formula, in long double. The slope of head h of 4 is 2^(-2 (h + 1)).
long double naive_slope(const Tensor<float, 2>& direction, const Tensor<float, 1>& omega,
                        const Tensor<float, 3>& x, std::int64_t b, std::int64_t t,
                        std::int64_t h) {
  long double product = 0, square = 0;
  for (std::int64_t c = 0; c < width; ++c) {
    const long double u = direction.view()(h, c);
    product += u * x.view()(b, t, c), square += u * u;
  }
  const long double z =
      product / std::sqrt(square) / std::sqrt(static_cast<long double>(width));
  return std::exp2(-2.0L * static_cast<long double>(h + 1)) *
         std::log1p(
             std::exp(static_cast<long double>(omega.values[static_cast<std::size_t>(h)]))) *
         std::log1p(std::exp(z));
}

struct Vectors {
  std::vector<long double> queries, keys;
};
Vectors naive_vectors(const Tensor<float, 2>& weight, const Tensor<float, 3>& x, std::int64_t b,
                      std::int64_t t, std::int64_t h) {
  Vectors v;
  long double square = 0;
  for (std::int64_t n = 0; n < size; ++n) {
    long double p = 0;
    for (std::int64_t c = 0; c < width; ++c)
      p += static_cast<long double>(weight.view()(h * size + n, c)) * x.view()(b, t, c);
    v.keys.push_back(p), v.queries.push_back(p / size);
    square += p * p;
  }
  for (long double& one : v.keys) one /= std::sqrt(square / size + 0x1p-23L);
  return v;
}

// Compares gradients with finite differences of a loss, element by element.
template <typename TensorType, typename Loss>
void compare(TensorType tensor, const std::vector<float>& got, const Loss& loss) {
  for (std::size_t i = 0; i < tensor.values.size(); ++i) {
    const float kept = tensor.values[i], up = kept + 0x1p-9f, down = kept - 0x1p-9f;
    tensor.values[i] = up;
    const long double above = loss(tensor);
    tensor.values[i] = down;
    const auto slope = static_cast<double>((above - loss(tensor)) / (double{up} - down));
    tensor.values[i] = kept;
    EXPECT_NEAR(double{got[i]}, slope, 1e-4) << i;
  }
}

TEST(Grape, SlopesAndGradientsAreThoseOfTheFormula) {
  const auto direction = random_tensor<float, 2>({heads, width}, 1);
  const auto omega = random_tensor<float, 1>({heads}, 2);
  const auto x = random_tensor<float, 3>({batch, tokens, width}, 3);
  const auto out_grad = random_tensor<float, 3>({batch, heads, tokens}, 4);
  Tensor<float, 3> out({batch, heads, tokens}), x_grad(x.extents);
  key_slopes(additive, {direction.view(), omega.view()}, x.view(), out.view());
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t t = 0; t < tokens; ++t)
      for (std::int64_t h = 0; h < heads; ++h)
        EXPECT_NEAR(double{out.view()(b, h, t)},
                    static_cast<double>(naive_slope(direction, omega, x, b, t, h)), 2e-7);
  Tensor<float, 2> direction_grad({heads, width});
  Tensor<float, 1> omega_grad({heads});
  key_slopes_backward(additive, {direction.view(), omega.view()}, x.view(), out_grad.view(),
                      x_grad.view(), {direction_grad.view(), omega_grad.view()});
  const auto loss = [&](const auto& u, const auto& o, const auto& of) {
    long double sum = 0;
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t t = 0; t < tokens; ++t)
        for (std::int64_t h = 0; h < heads; ++h)
          sum += naive_slope(u, o, of, b, t, h) * out_grad.view()(b, h, t);
    return sum;
  };
  compare(x, x_grad.values, [&](const auto& one) { return loss(direction, omega, one); });
  compare(direction, direction_grad.values,
          [&](const auto& one) { return loss(one, omega, x); });
  compare(omega, omega_grad.values, [&](const auto& one) { return loss(direction, one, x); });
}

TEST(Grape, VectorsAndGradientsAreThoseOfTheFormula) {
  const auto weight = random_tensor<float, 2>({heads * size, width}, 1);
  const auto x = random_tensor<float, 3>({batch, tokens, width}, 3);
  const auto queries_grad = random_tensor<float, 4>({batch, tokens, heads, size}, 4);
  const auto keys_grad = random_tensor<float, 4>({batch, tokens, heads, size}, 5);
  Tensor<float, 4> queries(queries_grad.extents), keys(queries_grad.extents);
  edge_vectors(path, weight.view(), x.view(), queries.view(), keys.view());
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t t = 0; t < tokens; ++t)
      for (std::int64_t h = 0; h < heads; ++h) {
        const Vectors exact = naive_vectors(weight, x, b, t, h);
        for (std::int64_t n = 0; n < size; ++n) {
          const auto i = static_cast<std::size_t>(n);
          EXPECT_NEAR(double{queries.view()(b, t, h, n)}, static_cast<double>(exact.queries[i]),
                      1e-6);
          EXPECT_NEAR(double{keys.view()(b, t, h, n)}, static_cast<double>(exact.keys[i]),
                      1e-6);
        }
      }
  Tensor<float, 3> x_grad(x.extents);
  Tensor<float, 2> weight_grad(weight.extents);
  edge_vectors_backward(path, weight.view(), x.view(), queries_grad.view(), keys_grad.view(),
                        x_grad.view(), weight_grad.view());
  const auto loss = [&](const auto& w, const auto& of) {
    long double sum = 0;
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t t = 0; t < tokens; ++t)
        for (std::int64_t h = 0; h < heads; ++h) {
          const Vectors exact = naive_vectors(w, of, b, t, h);
          for (std::int64_t n = 0; n < size; ++n)
            sum +=
                exact.queries[static_cast<std::size_t>(n)] * queries_grad.view()(b, t, h, n) +
                exact.keys[static_cast<std::size_t>(n)] * keys_grad.view()(b, t, h, n);
        }
    return sum;
  };
  compare(x, x_grad.values, [&](const auto& one) { return loss(weight, one); });
  compare(weight, weight_grad.values, [&](const auto& one) { return loss(one, x); });
}

TEST(Grape, LowersToSlopesOfAlibi) {
  EXPECT_EQ(lower(path), (EdgeBias{.slopes = {0.25, 0.0625, 0x1p-6, 0x1p-8}}));
}

TEST(Grape, RefusesWrongArguments) {
  EXPECT_EQ(message_of([] { lower(GrapePath{.width = 4}); }),
            "[grape] heads must be at least 1, got 0");
  EXPECT_EQ(message_of([] { lower(GrapePath{.heads = 4}); }),
            "[grape] width must be at least 1, got 0");
  EXPECT_EQ(message_of([] { lower(GrapePath{.heads = 1, .width = 4, .size = 3}); }),
            "[grape] size must be even and at least 2, got 3");
  const Tensor<float, 2> direction({heads, width});
  const Tensor<float, 1> omega({heads});
  const Tensor<float, 3> x({batch, tokens, width + 1});
  Tensor<float, 3> out({batch, heads, tokens});
  EXPECT_EQ(message_of([&] {
              key_slopes(additive, {direction.view(), omega.view()}, x.view(), out.view());
            }),
            "[grape] x must be [2, 5, 7], got [2, 5, 8]");
  Tensor<float, 4> vectors({batch, tokens, heads, size});
  EXPECT_EQ(message_of([&] {
              edge_vectors(path, direction.view(), x.view(), vectors.view(), vectors.view());
            }),
            "[grape] weight must be [24, 7], got [4, 7]");
}

}  // namespace grape_test
}  // namespace gnomon
