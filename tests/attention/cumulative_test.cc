// Attention with a bias of cumulative log gates: errors, gradients, skipped keys, hidden gates.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "attention/backward_pass.h"
#include "attention/gradient_bounds.h"
#include "attention/oracle.h"
#include "attention/sample.h"
#include "gnomon/attention/attention.h"
#include "gnomon/isa.h"

namespace gnomon {
namespace cumulative_test {

using namespace gnomon::testing;
using testing::Tensor;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

// The gradient of a gate is a sum over the queries from its row on, whose own sums are 0.
template <typename T>
void expect_within_bounds_of_header(unsigned seed) {
  const Sample s = Sampler(seed).draw_cumulative();
  const AttentionCase& c = s.c;
  BackwardPass<T> run(s);
  const AttentionTensors x{run.q.numbers(), run.k.numbers(), run.v.numbers()};
  const AttentionOracle forward = oracle(c, x);
  const auto exact = oracle_backward(c, x, run.out_grad.numbers());
  const double e =
      (std::is_same_v<T, double> ? 0x1p-46 : 0x1p-18) + (sizeof(T) == 2 ? 2 * half_ulp<T> : 0);
  const double product = longest(run.out_grad.numbers()) * longest(x.v);
  for (const Isa isa : available_isas()) {
    SCOPED_TRACE(std::string(name(isa)) + ", " + s.text);
    const ScopedIsa scope(isa);
    run(c);
    expect_within_bounds<T>(run.out.numbers(), run.lse, forward, greatest(x.v.values));
    EXPECT_LE(worst(run.q_grad.numbers().values, exact.q.values),
              (e + rounding_of_pairs<T>(c)) * c.scale() * product * longest(x.k) + 0x1p-24);
    for (std::size_t n = 0; n < exact.log_gates.values.size(); ++n)
      ASSERT_NEAR(static_cast<double>(run.log_gates.values[n]), exact.log_gates.values[n],
                  (e + 0x1p-24) * product * static_cast<double>(c.queries))
          << n;
  }
}

TEST(AttentionCumulative, KeepsTheErrorPromisedByTheHeader) {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    expect_within_bounds_of_header<float>(seed);
    if (seed % 4 == 0) expect_within_bounds_of_header<double>(seed);
    if (seed % 8 == 0) expect_within_bounds_of_header<BFloat16>(seed);
  }
}

// Compares the chain rule of the reference with finite differences.
TEST(AttentionCumulative, GradientAgreesWithFiniteDifferences) {
  int tried = 0;
  for (unsigned seed = 100; tried < 6; ++seed) {
    Sample s = Sampler(seed).draw_cumulative();
    if (s.c.queries * s.c.keys * s.c.heads > 4000 || s.text.ends_with("strong log gates"))
      continue;
    ++tried;
    SCOPED_TRACE(s.text);
    BackwardPass<double> run(s);
    run(s.c);
    const auto loss = [&] {
      const auto out = oracle(s.c, s.x).out;
      return static_cast<double>(testing::dot(out.values.data(), s.out_grad.values.data(),
                                              static_cast<std::int64_t>(out.values.size())));
    };
    std::vector<float>& gates = s.log_gates.values;
    for (std::size_t n = 0; n < gates.size(); n += 1 + gates.size() / 40) {
      const float kept = gates[n];
      gates[n] = kept + 0x1p-9f;
      const double above = loss(), up = double{gates[n]};
      gates[n] = kept - 0x1p-9f;
      const double below = loss(), down = double{gates[n]};
      gates[n] = kept;
      ASSERT_NEAR(double{run.log_gates.values[n]}, (above - below) / (up - down), 1e-4) << n;
    }
  }
}

// 2048 tokens whose gates forget: a causal call of one head.
struct Long {
  static constexpr std::int64_t tokens = 2048, size = 16;
  Tensor<float, 4> q = random_tensor<float, 4>({1, tokens, 1, size}, 1);
  Tensor<float, 4> k = random_tensor<float, 4>({1, tokens, 1, size}, 2);
  Tensor<float, 4> v = random_tensor<float, 4>({1, tokens, 1, size}, 3);
  Tensor<float, 4> out_grad = random_tensor<float, 4>({1, tokens, 1, size}, 4);
  Tensor<float, 3> gates{{1, 1, tokens}, -0.5f};
  struct Results {
    Tensor<float, 4> out{{1, tokens, 1, size}}, q_grad = out, k_grad = out, v_grad = out;
    Tensor<float, 3> lse{{1, 1, tokens}}, gates_grad = lse;
    std::vector<float> all() const {
      std::vector<float> joined;
      for (const auto* one : {&out, &q_grad, &k_grad, &v_grad})
        joined.insert(joined.end(), one->values.begin(), one->values.end());
      joined.insert(joined.end(), gates_grad.values.begin(), gates_grad.values.end());
      return joined;
    }
  };
  Results run(double lost_weight, BiasForm form = NoBias{}) const {
    AttentionPlan plan{.mask = {.visibility = Visibility::causal},
                       .bias = std::move(form),
                       .cumulative = CumulativeBias{.lost_weight = lost_weight}};
    const auto qs = q.view(), ks = k.view(), vs = v.view();
    const auto log_gates = gates.view();
    const AttentionInput input{.q = qs, .k = ks, .v = vs, .terms = {.log_gates = log_gates}};
    Results r;
    attention(input, plan, r.out.view(), r.lse.view());
    attention_backward(input, plan, r.out.view(), r.lse.view(), out_grad.view(),
                       {.q = r.q_grad.view(),
                        .k = r.k_grad.view(),
                        .v = r.v_grad.view(),
                        .terms = {.log_gates = r.gates_grad.view()}});
    return r;
  }
};

// With a strip of zeros no key is skipped. A value of NaN reaches the results unless it is.
TEST(AttentionCumulative, SkipsOnlyKeysWhoseWeightsAreZero) {
  Long x;
  const StripBias zeros{1, -Long::tokens, std::vector<double>(2 * Long::tokens)};
  EXPECT_EQ(x.run(0).all(), x.run(0, zeros).all());
  const auto last = [](const Long::Results& r) { return r.out.values.back(); };
  x.v.values[Long::size - 1] = nan;
  EXPECT_FALSE(std::isnan(last(x.run(0))));
  EXPECT_TRUE(std::isnan(last(x.run(0, zeros))));
  x.gates = Tensor<float, 3>({1, 1, Long::tokens}, -0.001f);  // forgets nothing
  EXPECT_TRUE(std::isnan(last(x.run(0))));
}

// Tiles are skipped earlier if weight may be lost, and the loss stays within the bound.
TEST(AttentionCumulative, LosesAtMostTheGivenWeight) {
  Long x;
  x.gates = Tensor<float, 3>({1, 1, Long::tokens}, -0.05f);
  for (auto* one : {&x.q, &x.k})
    for (float& number : one->values) number *= 0.5f;
  const auto exact = x.run(0), pruned = x.run(std::exp(-10.0));
  double worst = 0;
  for (std::size_t n = 0; n < exact.out.values.size(); ++n)
    worst = std::max(worst, double{std::abs(exact.out.values[n] - pruned.out.values[n])});
  EXPECT_GT(worst, 0);
  EXPECT_LE(worst, 2 * std::exp(-10.0) * 6);  // |v| < 6
}

// Gates outside the window, of padding and of other sequences are NaN or infinite.
TEST(AttentionCumulative, HiddenGatesNeverReachAResult) {
  constexpr std::int64_t tokens = 40, size = 16;
  const auto x = random_tensor<float, 4>({1, tokens, 2, size}, 1);
  const auto run = [&](float hidden, AttentionPlan plan, auto hides) {
    auto gates = random_tensor<float, 3>({1, 2, tokens}, 5);
    for (std::int64_t t = 0; t < tokens; ++t)
      for (std::int64_t h = 0; h < 2; ++h) {
        float& gate = gates.view()(0, h, t);
        gate = hides(t) ? hidden : -std::abs(gate);
      }
    plan.mask.visibility = Visibility::causal, plan.cumulative.emplace();
    Tensor<float, 4> out({1, tokens, 2, size});
    attention(
        {.q = x.view(), .k = x.view(), .v = x.view(), .terms = {.log_gates = gates.view()}},
        plan, out.view());
    return out.values;
  };
  const auto from = [](std::vector<float> all, std::int64_t row) {
    all.erase(all.begin(), all.begin() + row * 2 * size);
    return all;
  };
  std::vector<std::uint8_t> kept(tokens, 1);
  std::fill_n(kept.begin(), 7, 0);
  const auto padded = std::make_shared<Positions>(
      from_padding_mask(View<const std::uint8_t, 2>(kept.data(), {1, tokens}), 1));
  const auto two =
      std::make_shared<Positions>(packed(std::vector<std::int64_t>{15, 25}, tokens));
  for (const float hidden : {nan, infinity, -infinity, -1e30f}) {
    AttentionPlan window{.mask = {.left = 4}};
    EXPECT_EQ(from(run(hidden, window, [](auto t) { return t == 10; }), 15),
              from(run(-1, window, [](auto t) { return t == 10; }), 15));
    const AttentionPlan padding{.queries = padded, .keys = padded};
    EXPECT_EQ(run(hidden, padding, [](auto t) { return t < 7; }),
              run(-1, padding, [](auto t) { return t < 7; }));
    const AttentionPlan packing{.queries = two, .keys = two};
    EXPECT_EQ(from(run(hidden, packing, [](auto t) { return t < 15; }), 15),
              from(run(-1, packing, [](auto t) { return t < 15; }), 15));
  }
  // A gate of NaN that a query sees reaches the result.
  EXPECT_TRUE(std::isnan(run(nan, {}, [](auto t) { return t == 10; }).back()));
}

TEST(AttentionCumulative, RefusesWrongArguments) {
  const Tensor<float, 4> x({1, 3, 2, 4});
  Tensor<float, 4> out({1, 3, 2, 4});
  const Tensor<float, 3> fits({1, 2, 3}), wrong({1, 2, 2});
  const auto says = [&](AttentionPlan plan, TokenTerms terms) {
    return message_of([&] {
      attention({.q = x.view(), .k = x.view(), .v = x.view(), .terms = terms}, plan,
                out.view());
    });
  };
  const AttentionMask causal{.visibility = Visibility::causal};
  EXPECT_EQ(says({.mask = causal, .cumulative = CumulativeBias{}}, {}),
            "[attention] log_gates must be given, because the plan has a cumulative bias, got "
            "none");
  EXPECT_EQ(says({.mask = causal, .cumulative = CumulativeBias{}}, {.log_gates = wrong.view()}),
            "[attention] log_gates must be [B, Hq, S], 1 x 2 x 3, got [1, 2, 2]");
  EXPECT_EQ(says({.mask = causal}, {.log_gates = fits.view()}),
            "[attention] log_gates must not be given, because the plan has no cumulative bias, "
            "got [1, 2, 3]");
  EXPECT_EQ(says({.mask = {.visibility = Visibility::bidirectional}, .cumulative = {{}}},
                 {.log_gates = fits.view()}),
            "[attention] a cumulative bias requires causal visibility, got bidirectional");
  EXPECT_EQ(
      says({.mask = {.visibility = Visibility::causal, .offset = 1}, .cumulative = {{}}},
           {.log_gates = fits.view()}),
      "[attention] a cumulative bias requires a key row for each query row, so the offset "
      "must be at most 0, got 1");
  EXPECT_EQ(
      says({.mask = causal, .cumulative = {{.lost_weight = 1}}}, {.log_gates = fits.view()}),
      "[attention] the lost weight of a cumulative bias must be at least 0 and below 1, "
      "got 1");
  EXPECT_EQ(
      says({.mask = causal, .cumulative = {{}}},
           {.gates = fits.view(), .log_gates = fits.view()}),
      "[attention] a cumulative bias cannot be combined with gates of the bias, got both");
}

}  // namespace cumulative_test
}  // namespace gnomon
