// PoPE: its frequencies and phases, and attention with polar products.
#include "gnomon/rotary/pope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <numbers>

#include "attention/pair_products.h"
#include "gnomon/parallel.h"

namespace gnomon::pope_test {

using namespace gnomon::testing;
using testing::Tensor;

struct PolarCase {
  AttentionCase c;
  AttentionTensors x;
  Tensor<float, 2> b{{}};  // [Hq, D]
  Tensor<double, 4> out_grad{{}};
};

Pope spec(const AttentionCase& c) {
  return {.heads = c.heads, .head_dim = c.size, .base = 100};
}

PolarCase make(AttentionCase c, unsigned seed) {
  c.plan.softmax.scale = softmax_scale(c.size);
  PolarCase made{c,
                 {random_tensor<double, 4>({c.batch, c.queries, c.heads, c.size}, seed),
                  random_tensor<double, 4>({c.batch, c.keys, c.key_heads, c.size}, seed + 1),
                  random_tensor<double, 4>({c.batch, c.keys, c.key_heads, c.values}, seed + 2)},
                 random_tensor<float, 2>({c.heads, c.size}, seed + 4),
                 random_tensor<double, 4>({c.batch, c.queries, c.heads, c.values}, seed + 3)};
  for (float& b : made.b.values) b = -std::abs(b);
  const auto table = [&](const std::shared_ptr<const Positions>& of, std::int64_t tokens,
                         std::int64_t first) {
    return RotaryTable(frequencies(spec(c)), of ? *of : consecutive(tokens, first));
  };
  AttentionPlan& plan = made.c.plan;
  plan.query_rotary.emplace(table(plan.queries, c.queries, plan.mask.offset.value_or(0)));
  plan.key_rotary.emplace(table(plan.keys, c.keys, 0));
  plan.polar = lower(spec(c), made.b.view());
  return made;
}

double softplus(double x) { return std::log1p(std::exp(x)); }

// Calls visit(b, h, i, j, n, angle) for all pairs and elements.
template <typename Visit>
void for_angles(const PolarCase& made, const Visit& visit) {
  const AttentionCase& c = made.c;
  for (std::int64_t b = 0; b < c.batch; ++b)
    for (std::int64_t h = 0; h < c.heads; ++h)
      for (std::int64_t i = 0; i < c.queries; ++i)
        for (std::int64_t j = 0; j < c.keys; ++j)
          for (std::int64_t n = 0; n < c.size; ++n) {
            const double w =
                std::pow(100, -static_cast<double>(n) / static_cast<double>(c.size));
            const double phase =
                std::max(static_cast<double>(made.b.view()(h, n)), -2 * std::numbers::pi);
            visit(b, h, i, j, n, -static_cast<double>(distance(c, b, i, j)) * w - phase);
          }
}

struct PolarOracle {
  Tensor<double, 4> out, q, k, v;
  std::vector<double> phases;
};

PolarOracle exact(const PolarCase& made) {
  const AttentionCase& c = made.c;
  Tensor<double, 4> products({c.batch, c.heads, c.queries, c.keys});
  const std::int64_t group = c.heads / c.key_heads;
  const auto q = made.x.q.view(), k = made.x.k.view();
  for_angles(made, [&](auto b, auto h, auto i, auto j, auto n, double angle) {
    products.view()(b, h, i, j) +=
        softplus(q(b, i, h, n)) * softplus(k(b, j, h / group, n)) * std::cos(angle);
  });
  AttentionCase plain = c;
  plain.plan.query_rotary.reset(), plain.plan.key_rotary.reset();
  PairResult result = pair_attention(plain, products, made.x.v, made.out_grad);
  PolarOracle oracle{result.out, Tensor<double, 4>(made.x.q.extents),
                     Tensor<double, 4>(made.x.k.extents), result.v,
                     std::vector<double>(made.b.values.size())};
  for_angles(made, [&](auto b, auto h, auto i, auto j, auto n, double angle) {
    const double by = result.products.view()(b, h, i, j);
    const double of_q = q(b, i, h, n), of_k = k(b, j, h / group, n);
    const double slope_q = 1 / (1 + std::exp(-of_q)), slope_k = 1 / (1 + std::exp(-of_k));
    oracle.q.view()(b, i, h, n) += by * slope_q * softplus(of_k) * std::cos(angle);
    oracle.k.view()(b, j, h / group, n) += by * slope_k * softplus(of_q) * std::cos(angle);
    oracle.phases[static_cast<std::size_t>(h * c.size + n)] +=
        by * softplus(of_q) * softplus(of_k) * std::sin(angle);
  });
  return oracle;
}

template <typename T>
struct PolarResult {
  Tensor<T, 4> out, q, k, v;
  Tensor<Accumulator<T>, 3> lse;
  std::vector<double> phases;
};

template <typename T>
PolarResult<T> compute(const PolarCase& made) {
  const AttentionCase& c = made.c;
  const auto q = cast<T>(made.x.q), k = cast<T>(made.x.k), v = cast<T>(made.x.v),
             out_grad = cast<T>(made.out_grad);
  PolarResult<T> got{out_grad,
                     q,
                     k,
                     v,
                     Tensor<Accumulator<T>, 3>({c.batch, c.heads, c.queries}),
                     std::vector<double>(made.b.values.size())};
  attention({.q = q.view(), .k = k.view(), .v = v.view()}, c.plan, got.out.view(),
            got.lse.view());
  attention_backward(
      {.q = q.view(), .k = k.view(), .v = v.view()}, c.plan, got.out.view(), got.lse.view(),
      out_grad.view(),
      {.q = got.q.view(), .k = got.k.view(), .v = got.v.view(), .phases = got.phases});
  return got;
}

std::vector<PolarCase> all_cases() {
  std::vector<PolarCase> all;
  all.push_back(make({.batch = 2,
                      .queries = 70,
                      .keys = 70,
                      .heads = 4,
                      .key_heads = 2,
                      .size = 20,
                      .values = 33},
                     1));
  AttentionCase c{.queries = 37, .keys = 300, .heads = 2, .size = 5, .values = 3};
  c.plan.mask.offset = 260, c.plan.mask.left = 100, c.plan.softmax.cap = 2;
  all.push_back(make(c, 11));
  c = {.batch = 2, .queries = 60, .keys = 60, .size = 16, .values = 16};
  c.plan.mask.visibility = Visibility::bidirectional;
  c.plan.softmax.sinks = {0.5};
  c.plan.bias = SlopeBias{.slopes = {0.1}};
  std::vector<std::uint8_t> mask(120, 1);
  for (std::size_t t = 0; t < 20; ++t) mask[60 + t] = 0;
  c.plan.queries = c.plan.keys = std::make_shared<Positions>(
      from_padding_mask(View<const std::uint8_t, 2>(mask.data(), {2, 60}), 1));
  all.push_back(make(c, 21));
  return all;
}

TEST(Pope, EqualsTheFormula) {
  int n = 0;
  for (const PolarCase& made : all_cases()) {
    SCOPED_TRACE(n++);
    const PolarOracle oracle = exact(made);
    const Tensor<double, 4> phases({1, 1, made.c.heads, made.c.size});
    const auto check = [&]<typename T>(T, double bound) {
      const PolarResult<T> got = compute<T>(made);
      EXPECT_LE(greatest_error(got.out, oracle.out), bound);
      EXPECT_LE(greatest_error(got.q, oracle.q), bound);
      EXPECT_LE(greatest_error(got.k, oracle.k), bound);
      EXPECT_LE(greatest_error(got.v, oracle.v), bound);
      auto of_phases = phases, wanted = phases;
      of_phases.values = got.phases, wanted.values = oracle.phases;
      EXPECT_LE(greatest_error(of_phases, wanted), bound);
    };
    check(float(), 0x1p-17);
    check(double(), 1e-6);  // the tables are floats
  }
}

// The gradients of `attention` in double by differences; of b through the clamp.
TEST(Pope, GradientsEqualDifferences) {
  PolarCase made = make({.queries = 9, .keys = 9, .heads = 2, .size = 3, .values = 4}, 51);
  made.b.values[1] = -7;  // clamped
  made.b.values[2] = 0;
  made.c.plan.polar = lower(spec(made.c), made.b.view());
  const auto loss = [&] {
    Tensor<double, 4> out(made.out_grad.extents);
    attention({.q = made.x.q.view(), .k = made.x.k.view(), .v = made.x.v.view()}, made.c.plan,
              out.view());
    double sum = 0;
    for (std::size_t n = 0; n < out.values.size(); ++n)
      sum += out.values[n] * made.out_grad.values[n];
    return sum;
  };
  const PolarResult<double> got = compute<double>(made);
  const auto check = [&](std::vector<double>& values, const std::vector<double>& grad) {
    for (std::size_t n = 0; n < values.size(); ++n) {
      const double before = values[n];
      values[n] = before + 1e-5;
      const double more = loss();
      values[n] = before - 1e-5;
      const double less = loss();
      values[n] = before;
      EXPECT_NEAR(grad[n], (more - less) / 2e-5, 1e-8) << n;
    }
  };
  check(made.x.q.values, got.q.values);
  check(made.x.k.values, got.k.values);
  check(made.c.plan.polar->phases, got.phases);
  Tensor<float, 2> b_grad(made.b.extents);
  lower_backward(spec(made.c), made.b.view(), got.phases, b_grad.view());
  EXPECT_EQ(b_grad.values[1], 0);
  EXPECT_EQ(b_grad.values[2], static_cast<float>(got.phases[2]));
}

TEST(Pope, BitsDependNeitherOnThreadsNorOnOtherQueriesNorOnHiddenRows) {
  PolarCase made = make(
      {.queries = 300, .keys = 300, .heads = 4, .key_heads = 2, .size = 16, .values = 16}, 71);
  const PolarResult<float> one = compute<float>(made);
  const int before = threads();
  set_threads(3);
  const PolarResult<float> three = compute<float>(made);
  set_threads(before);
  EXPECT_EQ(one.out.values, three.out.values);
  EXPECT_EQ(one.k.values, three.k.values);
  EXPECT_EQ(one.phases, three.phases);
  // The last query, from a cache of keys as they were projected.
  AttentionCase c = made.c;
  c.queries = 1, c.plan.mask.offset = 299;
  PolarCase last = make(c, 71);
  last.b = made.b, last.c.plan.polar = made.c.plan.polar;
  last.x.k = made.x.k, last.x.v = made.x.v;
  std::copy(made.x.q.values.end() - 64, made.x.q.values.end(), last.x.q.values.begin());
  const auto step = compute<float>(last);
  for (std::size_t n = 0; n < 64; ++n)
    EXPECT_EQ(step.out.values[n], one.out.values[one.out.values.size() - 64 + n]);
  for (std::size_t n = 290 * 32; n < 300 * 32; ++n)
    made.x.k.values[n] = made.x.v.values[n] = NAN;
  const PolarResult<float> got = compute<float>(made);
  for (std::size_t n = 0; n < 290 * 64; ++n) ASSERT_EQ(got.out.values[n], one.out.values[n]);
  for (std::size_t n = 0; n < 290 * 64; ++n) ASSERT_EQ(got.q.values[n], one.q.values[n]);
}

TEST(Pope, Refusals) {
  EXPECT_EQ(message_of([] { frequencies({.heads = 0, .head_dim = 2}); }),
            "[pope] heads must be at least 1, got 0");
  EXPECT_EQ(message_of([] { frequencies({.heads = 1, .head_dim = 0}); }),
            "[pope] head_dim must be 1 to 2^30, got 0");
  EXPECT_EQ(message_of([] { frequencies({.heads = 1, .head_dim = (1 << 30) + 1}); }),
            "[pope] head_dim must be 1 to 2^30, got 1073741825");
  EXPECT_EQ(frequencies({.heads = 1, .head_dim = 1}).rotary_dim(), 2);
  const Tensor<float, 2> b({1, 3});
  EXPECT_EQ(message_of([&] { lower(Pope{1, 2}, b.view()); }),
            "[pope] b must be [1, 2], got [1, 3]");
  PolarCase made = make({.queries = 3, .keys = 3, .size = 2, .values = 2}, 91);
  Tensor<double, 4> out({1, 3, 1, 2});
  const auto message = [&] {
    return message_of([&] {
      attention({.q = made.x.q.view(), .k = made.x.k.view(), .v = made.x.v.view()}, made.c.plan,
                out.view());
    });
  };
  EXPECT_EQ(message(), "");
  made.c.plan.polar->phases[0] = INFINITY;
  EXPECT_EQ(message(), "[attention] phases must be finite, got inf");
  made.c.plan.polar->phases = {0};
  EXPECT_EQ(message(),
            "[attention] the polar form must have 1 x 2 phases, got 1 x 2, and 1 numbers");
  made.c.plan.polar->phases = {0, 0};
  made.c.plan.key_rotary.reset();
  EXPECT_EQ(message(),
            "[attention] a polar form requires rotary tables of queries and keys, got none");
  made.c.plan.key_rotary.emplace(Rotary{.rotary_dim = 2, .pairing = Pairing::halves},
                                 consecutive(3));
  EXPECT_EQ(message(),
            "[attention] the rotary tables of a polar form must rotate halves of 2 D = 4 "
            "elements, got 2");
}

}  // namespace gnomon::pope_test
