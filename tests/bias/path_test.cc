// The factors of PaTH from tokens, compared with the formula, and the keys of a cache moved by
// them. tests/model/token_terms_test.cc compares the gradient with differences,
// householder_test.cc the attention.
#include "gnomon/bias/path.h"

#include <gtest/gtest.h>

#include <cmath>

#include "gnomon/attention/attention.h"
#include "testing.h"

namespace gnomon::path_test {

using testing::message_of;
using testing::random_tensor;
using testing::Tensor;

struct Parameters {
  PathAttention path{.heads = 2, .head_dim = 3, .width = 5, .rank = 4, .kernel = 3};
  Tensor<float, 2> down = random_tensor<float, 2>({4, 5}, 2);
  Tensor<float, 2> up = random_tensor<float, 2>({6, 4}, 3);
  Tensor<float, 2> conv = random_tensor<float, 2>({6, 3}, 4);
  Tensor<float, 2> weight = random_tensor<float, 2>({2, 5}, 5);
  Tensor<float, 1> bias = random_tensor<float, 1>({2}, 6);

  PathWeights<const float> weights() const {
    return {down.view(), up.view(), conv.view(), weight.view(), bias.view()};
  }
};

double sigmoid(double z) { return 1 / (1 + std::exp(-z)); }

// Element c of the directions before the convolution, of token t.
double naive_direction(const Parameters& p, const Tensor<float, 3>& x, std::int64_t b,
                       std::int64_t t, std::int64_t c) {
  double sum = 0;
  for (std::int64_t r = 0; r < 4; ++r)
    for (std::int64_t n = 0; n < 5; ++n)
      sum +=
          double{p.up.view()(c, r)} * double{p.down.view()(r, n)} * double{x.view()(b, t, n)};
  return sum;
}

// The strength of a token and head.
double naive_beta(const Parameters& p, const Tensor<float, 3>& x, std::int64_t b,
                  std::int64_t t, std::int64_t h) {
  double z = double{p.bias.view()(h)};
  for (std::int64_t n = 0; n < 5; ++n)
    z += double{p.weight.view()(h, n)} * double{x.view()(b, t, n)};
  return 2 * sigmoid(z);
}

TEST(Path, FactorsEqualTheFormula) {
  const Parameters p;
  const auto x = random_tensor<float, 3>({2, 6, 5}, 1);
  Tensor<float, 4> w({2, 6, 2, 3});
  Tensor<float, 3> betas({2, 2, 6});
  const Positions tokens{
      .batch = 1, .tokens = 6, .ids = {0, 1, 0, 1, 2, 3}, .sequences = {0, 0, 1, 1, 1, -1}};
  householder(p.path, p.weights(), x.view(), &tokens, w.view(), betas.view());
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t t = 0; t < 6; ++t)
      for (std::int64_t h = 0; h < 2; ++h) {
        double squares = 1e-6, mixed[3] = {};
        EXPECT_FLOAT_EQ(betas.view()(b, h, t), static_cast<float>(naive_beta(p, x, b, t, h)));
        for (std::int64_t n = 0; n < 3; ++n) {
          for (std::int64_t back = 0; back < 3 && t < 5; ++back)
            if (t - back >= (t < 2 ? 0 : 2))
              mixed[n] += double{p.conv.view()(3 * h + n, 2 - back)} *
                          naive_direction(p, x, b, t - back, 3 * h + n);
          mixed[n] *= sigmoid(mixed[n]);
          squares += mixed[n] * mixed[n];
        }
        for (std::int64_t n = 0; n < 3; ++n)
          EXPECT_NEAR(w.view()(b, t, h, n), mixed[n] / std::sqrt(squares), 1e-6);
      }
}

// Decoding with moved keys equals the full pass.
TEST(Path, MovedKeysEqualTheFullPass) {
  constexpr std::int64_t tokens = 80, heads = 2, size = 8;
  const auto x = random_tensor<float, 3>({1, tokens, 5}, 1);
  Parameters p;
  p.path.head_dim = size;
  p.up = random_tensor<float, 2>({16, 4}, 3), p.conv = random_tensor<float, 2>({16, 3}, 4);
  Tensor<float, 4> w({1, tokens, heads, size});
  Tensor<float, 3> betas({1, heads, tokens});
  householder(p.path, p.weights(), x.view(), nullptr, w.view(), betas.view());
  const auto q = random_tensor<double, 4>({1, tokens, heads, size}, 7);
  const auto k = random_tensor<double, 4>({1, tokens, heads, size}, 8);
  const auto v = random_tensor<double, 4>({1, tokens, heads, size}, 9);
  Tensor<double, 4> full(q.extents);
  const AttentionPlan plan{.mask = {.visibility = Visibility::causal},
                           .product = PairProduct::householder};
  attention({.q = q.view(),
             .k = k.view(),
             .v = v.view(),
             .terms = {.householder = w.view(), .betas = betas.view()}},
            plan, full.view());
  auto cache = k;
  for (std::int64_t t = 0; t < tokens; ++t) {
    move_keys(cache.view().slice(1, 0, t), View<const float, 4>(w.view()).slice(1, t, 1),
              View<const float, 3>(betas.view()).slice(2, t, 1));
    Tensor<double, 4> out({1, 1, heads, size});
    attention({.q = q.view().slice(1, t, 1),
               .k = View<const double, 4>(cache.view()).slice(1, 0, t + 1),
               .v = v.view().slice(1, 0, t + 1)},
              {.mask = {.visibility = Visibility::causal, .offset = t}}, out.view());
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t n = 0; n < size; ++n)
        ASSERT_NEAR(out.view()(0, 0, h, n), full.view()(0, t, h, n), 1e-12);
  }
}

TEST(Path, Refusals) {
  const Parameters p;
  const Tensor<float, 3> x({1, 6, 5});
  Tensor<float, 4> w({1, 3, 2, 3});
  Tensor<float, 3> betas({1, 2, 3});
  PathAttention path = p.path;
  const auto message = [&] {
    return message_of(
        [&] { householder(path, p.weights(), x.view(), nullptr, w.view(), betas.view()); });
  };
  EXPECT_EQ(message(),
            "[path] x must have the tokens of w and at most kernel - 1 = 2 before them, so at "
            "most 5, got 6");
  path.rank = 0;
  EXPECT_EQ(message(), "[path] rank must be at least 1, got 0");
  path.rank = 3;
  EXPECT_EQ(message(), "[path] down must be [3, 5], got [4, 5]");
  Tensor<float, 4> keys({1, 4, 2, 3});
  EXPECT_EQ(message_of([&] {
              move_keys(keys.view(), Tensor<float, 4>({1, 1, 1, 3}).view(), betas.view());
            }),
            "[path] w must be [1, 1, 2, 3], got [1, 1, 1, 3]");
}

}  // namespace gnomon::path_test
