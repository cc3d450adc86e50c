// DAPE against the formula in long double, and its gradients against finite differences.
#include "gnomon/attention/dape.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "attention/dape_oracle.h"
#include "attention/placed.h"
#include "attention/sample.h"
#include "gnomon/isa.h"
#include "testing.h"

namespace gnomon {
namespace dape_test {

using std::int64_t;
using testing::as_double;
using testing::AttentionCase;
using testing::message_of;
using testing::random_tensor;
using testing::ScopedThreads;
using testing::Tensor;

template <typename T>
long double naive_loss(const AttentionCase& c, const Network& n, const Rows<T>& x) {
  const Naive result = naive_dape(c, n, x);
  long double loss = 0;
  for (std::size_t i = 0; i < x.out_grad.values.size(); ++i)
    loss += result.out.values[i] * as_double(x.out_grad.values[i]);
  return loss;
}

template <typename T>
struct Pass {
  Tensor<T, 4> out, q_grad, k_grad, v_grad;
  Tensor<float, 3> lse;
  Network grads;  // of the network
  BiasGradient bias;
  std::vector<double> sinks;

  Pass(const Case& of, const Rows<T>& x)
      : out(x.out_grad.extents, T(9.0F)),
        q_grad(x.q.extents, T(9.0F)),
        k_grad(x.k.extents, T(9.0F)),
        v_grad(x.v.extents, T(9.0F)),
        lse({of.c.batch, of.c.heads, of.c.queries}),
        grads(of.c.heads, of.network.dape.hidden, of.network.dape.kernel),
        sinks(of.c.plan.softmax.sinks.size(), 5.0) {
    const auto q = x.q.view(), k = x.k.view(), v = x.v.view();
    const AttentionInput input{.q = q, .k = k, .v = v};
    const auto o = out.view(), dq = q_grad.view(), dk = k_grad.view(), dv = v_grad.view();
    const auto o_read = std::as_const(out).view(), of_out = x.out_grad.view();
    const auto l = lse.view();
    const auto l_read = std::as_const(lse).view();
    dape_attention(input, of.c.plan, of.network.dape, of.network.views(), o, l);
    dape_attention_backward(input, of.c.plan, of.network.dape, of.network.views(), o_read,
                            l_read, of_out,
                            {.q = dq,
                             .k = dk,
                             .v = dv,
                             .bias = &bias,
                             .sinks = sinks,
                             .network = {grads.first.view(), grads.first_bias.view(),
                                         grads.second.view(), grads.second_bias.view()}});
  }
  std::vector<double> numbers() const {
    std::vector<double> all;
    for (const auto* one : {&out, &q_grad, &k_grad, &v_grad})
      for (const T number : one->values) all.push_back(as_double(number));
    for (const auto* one : {&lse.values, &grads.first.values, &grads.first_bias.values,
                            &grads.second.values, &grads.second_bias.values})
      all.insert(all.end(), one->begin(), one->end());
    all.insert(all.end(), bias.values.begin(), bias.values.end());
    all.insert(all.end(), sinks.begin(), sinks.end());
    return all;
  }
};

// Cases of all masks and forms of bias, larger than one block of queries and chunk of keys.
std::vector<Case> cases() {
  std::vector<Case> all;
  all.emplace_back(70, 150);
  all.back().c.plan.bias = SlopeBias{{0.5, 0.25, 0.1, 0.02}};
  all.emplace_back(3, 3);
  all.emplace_back(40, 140);
  all.back().c.plan.mask.left = 20;
  StripBias strip{.heads = 4, .min_distance = -200, .values = {}};
  for (const double one : testing::random_numbers(4 * 400, 21)) strip.values.push_back(one);
  all.back().c.plan.bias = strip;
  all.back().c.plan.softmax.sinks = {0.5, -1, 2, 0};
  all.emplace_back(30, 20);
  all.back().c.plan.mask = {
      .visibility = Visibility::bidirectional, .offset = 0, .left = 15, .right = 3};
  all.back().c.plan.bias = PiecewiseLogBias{4,
                                            1,
                                            5.3,
                                            1e-6,
                                            {0, 0.5},
                                            testing::random_numbers(8, 22),
                                            testing::random_numbers(8, 23)};
  all.emplace_back(160, 160);
  const std::vector<int64_t> lengths = {50, 3, 100}, lengths_of_v2 = {65, 2, 80};
  const Positions positions = packed(lengths, 160);
  all.back().c.plan.queries = all.back().c.plan.keys = std::make_shared<Positions>(positions);
  all.back().c.plan.bias = strip;
  // DAPE V2: with halos over the ends of chunks, windows and sequences.
  all.emplace_back(70, 140, 3);
  all.back().c.plan.bias = SlopeBias{{0.5, 0.25, 0.1, 0.02}};
  all.emplace_back(128, 128, 5);
  all.back().c.plan.mask.left = 30;
  all.emplace_back(150, 150, 5);
  all.back().c.plan.queries = all.back().c.plan.keys =
      std::make_shared<Positions>(packed(lengths_of_v2, 150));
  all.back().c.plan.bias = strip;
  return all;
}

TEST(Dape, IsTheFormula) {
  for (const Isa isa : available_isas()) {
    const ScopedIsa scope(isa);
    int number = 0;
    for (const Case& one : cases()) {
      SCOPED_TRACE(std::string(name(isa)) + ", case " + std::to_string(number++));
      const auto x = one.rows<float>();
      const Naive exact = naive_dape(one.c, one.network, x);
      const Pass<float> run(one, x);
      for (std::size_t i = 0; i < exact.out.values.size(); ++i)
        ASSERT_NEAR(double{run.out.values[i]}, static_cast<double>(exact.out.values[i]), 2e-5);
      for (std::size_t i = 0; i < exact.lse.values.size(); ++i) {
        if (std::isinf(exact.lse.values[i]))
          ASSERT_EQ(run.lse.values[i], -std::numeric_limits<float>::infinity());
        else
          ASSERT_NEAR(double{run.lse.values[i]}, static_cast<double>(exact.lse.values[i]),
                      2e-5);
      }
    }
  }
}

template <typename T>
void expect_rounded(double tolerance) {
  const Case one = cases()[2];
  const auto x = one.rows<T>();
  const Naive exact = naive_dape(one.c, one.network, x);
  const Pass<T> run(one, x);
  for (std::size_t i = 0; i < exact.out.values.size(); ++i)
    ASSERT_NEAR(as_double(run.out.values[i]), static_cast<double>(exact.out.values[i]),
                tolerance);
}
TEST(Dape, TakesHalfAndBFloat16) {
  expect_rounded<Half>(3e-3);
  expect_rounded<BFloat16>(2e-2);
}

// Compares with the slope of the loss along a random direction of one array.
template <typename Values, typename Loss>
void expect_slope(const char* what, Values& values, const std::vector<double>& grad,
                  const Loss& loss) {
  ASSERT_EQ(values.size(), grad.size()) << what;
  const auto direction = testing::random_numbers(values.size(), 31);
  const Values kept = values;
  using Number = typename Values::value_type;
  constexpr double step = 0x1p-17;  // few pairs cross the kink of leaky
  long double losses[2];
  std::vector<double> moved(values.size());
  for (const int sign : {0, 1}) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double to = static_cast<double>(kept[i]) + (sign ? step : -step) * direction[i];
      values[i] = static_cast<Number>(to);
      moved[i] = static_cast<double>(values[i]) - moved[i];
    }
    losses[sign] = loss();
  }
  values = kept;
  double along = 0, size = 0;
  for (std::size_t i = 0; i < grad.size(); ++i) {
    along += grad[i] * moved[i];
    size += std::fabs(grad[i] * moved[i]);
  }
  EXPECT_GT(size, 0) << what;
  EXPECT_NEAR(static_cast<double>(losses[1] - losses[0]), along, 2e-3 * size + 1e-9) << what;
}

std::vector<double> doubles(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

TEST(Dape, GradientsAreThoseOfFiniteDifferences) {
  int number = 0;
  for (Case one : cases()) {
    SCOPED_TRACE("case " + std::to_string(number++));
    auto x = one.rows<float>();
    const Pass<float> run(one, x);
    const auto loss = [&] { return naive_loss(one.c, one.network, x); };
    expect_slope("q", x.q.values, doubles(run.q_grad.values), loss);
    expect_slope("k", x.k.values, doubles(run.k_grad.values), loss);
    expect_slope("v", x.v.values, doubles(run.v_grad.values), loss);
    expect_slope("first", one.network.first.values, doubles(run.grads.first.values), loss);
    expect_slope("first_bias", one.network.first_bias.values,
                 doubles(run.grads.first_bias.values), loss);
    expect_slope("second", one.network.second.values, doubles(run.grads.second.values), loss);
    if (auto* slopes = std::get_if<SlopeBias>(&one.c.plan.bias))
      expect_slope("slopes", slopes->slopes, run.bias.values, loss);
    if (auto* strip = std::get_if<StripBias>(&one.c.plan.bias))
      expect_slope("strip", strip->values, run.bias.values, loss);
    if (!run.sinks.empty()) expect_slope("sinks", one.c.plan.softmax.sinks, run.sinks, loss);
  }
}

// Without sinks, c2 does not change the weights, and its gradient is 0.
TEST(Dape, GradientOfTheLastConstantIsThatOfFiniteDifferences) {
  Case one = cases()[2];
  const auto x = one.rows<float>();
  const Pass<float> run(one, x);
  expect_slope("second_bias", one.network.second_bias.values,
               doubles(run.grads.second_bias.values),
               [&] { return naive_loss(one.c, one.network, x); });
}

TEST(Dape, BitsDoNotDependOnThreads) {
  for (const Case& one : cases()) {
    const auto x = one.rows<float>();
    std::vector<double> results[2];
    for (const int count : {1, 3}) {
      const ScopedThreads threads(count);
      results[count / 3] = Pass<float>(one, x).numbers();
    }
    EXPECT_EQ(results[0], results[1]);
  }
}

TEST(Dape, DecodesAsTheFullPass) {
  for (const int64_t kernel : {1, 3}) {
    Case whole(150, 150, kernel);
    whole.c.plan.bias = SlopeBias{{0.5, 0.25, 0.1, 0.02}};
    const auto x = whole.rows<float>();
    const Pass<float> full(whole, x);
    for (const auto& [begin, count] :
         {std::pair<int64_t, int64_t>{0, 1}, {149, 1}, {100, 1}, {60, 20}}) {
      Case part(count, begin + count, kernel);
      part.c.plan.bias = whole.c.plan.bias;
      auto some = part.rows<float>();
      const auto copy = [](Tensor<float, 4>& to, const Tensor<float, 4>& from, int64_t first) {
        for (int64_t b = 0; b < to.extents[0]; ++b)
          for (int64_t t = 0; t < to.extents[1]; ++t)
            for (int64_t h = 0; h < to.extents[2]; ++h)
              for (int64_t d = 0; d < to.extents[3]; ++d)
                to.view()(b, t, h, d) = from.view()(b, first + t, h, d);
      };
      copy(some.q, x.q, begin), copy(some.k, x.k, 0), copy(some.v, x.v, 0);
      const Pass<float> run(part, some);
      for (int64_t b = 0; b < 2; ++b)
        for (int64_t i = 0; i < count; ++i)
          for (int64_t h = 0; h < 4; ++h)
            for (int64_t d = 0; d < 6; ++d)
              ASSERT_NEAR(run.out.view()(b, i, h, d), full.out.view()(b, begin + i, h, d),
                          1e-6);
    }
  }
}

TEST(Dape, HiddenRowsNeverReachAResult) {
  for (const float mark : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    Case one = cases()[4];
    one.c.plan.mask.left = 40;
    auto x = one.rows<float>();
    const auto clean = Pass<float>(one, x).numbers();
    // The last rows are padding.
    for (int64_t h = 0; h < 2; ++h) x.k.view()(1, 158, h, 2) = x.v.view()(1, 158, h, 2) = mark;
    x.q.view()(0, 157, 1, 0) = mark;
    EXPECT_EQ(Pass<float>(one, x).numbers(), clean);
    // Row 52 is the end of the second sequence: only queries 52 and below see key 52.
    for (int64_t h = 0; h < 2; ++h) x.k.view()(1, 52, h, 3) = mark;
    const Pass<float> spoilt(one, x);
    for (std::size_t i = 0; i < spoilt.out.values.size(); ++i) {
      const auto row = static_cast<int64_t>(i) / (4 * 6);
      if (row == 160 + 52) continue;
      ASSERT_TRUE(std::isfinite(spoilt.out.values[i])) << i;
    }
  }
}

TEST(Dape, RefusesWrongArguments) {
  const auto message = [](const auto& spoil) {
    Case one(4, 4);
    spoil(one);
    const auto x = one.rows<float>();
    return message_of([&] { Pass<float>(one, x); });
  };
  EXPECT_EQ(message([](Case&) {}), "");
  EXPECT_EQ(message([](Case& one) { one.network.dape.hidden = 0; }),
            "[dape_attention] hidden must be at least 1, got 0");
  EXPECT_EQ(message([](Case& one) { one.network.dape.hidden = 6; }),
            "[dape_attention] first must be [6, 8], got [5, 8]");
  EXPECT_EQ(message([](Case& one) { one.network.dape.kernel = 2; }),
            "[dape_attention] kernel must be odd and at least 1, got 2");
  EXPECT_EQ(message([](Case& one) { one.network.dape.kernel = 3; }),
            "[dape_attention] first must be [5, 24], got [5, 8]");
  EXPECT_EQ(message([](Case& one) {
              one = Case(4, 4, 3);
              one.c.plan.mask.visibility = Visibility::bidirectional;
            }),
            "[dape_attention] a kernel above 1 requires causal visibility, got bidirectional");
  EXPECT_EQ(message([](Case& one) { one.network.dape.negative_slope = NAN; }),
            "[dape_attention] negative_slope must be finite, got nan");
  EXPECT_EQ(message([](Case& one) { one.c.plan.softmax.cap = 3; }),
            "[dape_attention] the plan must have a mask, positions, a bias by position and a "
            "softmax only, got a cap");
  EXPECT_EQ(message([](Case& one) { one.c.plan.cumulative = CumulativeBias{}; }),
            "[dape_attention] the plan must have a mask, positions, a bias by position and a "
            "softmax only, got a bias of tokens");
  EXPECT_EQ(message([](Case& one) { one.c.plan.bias = SlopeBias{{1, 2}}; }),
            "[attention] the bias must have 4 heads, got 2");
  EXPECT_EQ(message([](Case& one) { one.c.plan.mask.visibility = {}; }),
            "[attention] visibility must be causal or bidirectional, got 0");
  EXPECT_EQ(message_of([] {
              Case one(4, 4);
              const auto x = one.rows<double>();
              Tensor<double, 4> out(x.out_grad.extents);
              dape_attention({.q = x.q.view(), .k = x.k.view(), .v = x.v.view()}, one.c.plan,
                             one.network.dape, one.network.views(), out.view());
            }),
            "[dape_attention] q must have elements of f32, f16 or bf16, got f64");
}

}  // namespace dape_test
}  // namespace gnomon
