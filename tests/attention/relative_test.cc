// Attention with relative vectors, shifts and gates.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "attention/backward_pass.h"
#include "attention/bounds.h"
#include "attention/oracle.h"
#include "attention/sample.h"
#include "gnomon/attention/attention.h"
#include "gnomon/isa.h"

namespace gnomon {
namespace relative_test {

using namespace gnomon::testing;
using testing::Tensor;

// All results, as doubles.
std::vector<double> all(const BackwardPass<float>& pass) {
  std::vector<double> numbers;
  const auto take = [&](const auto& more) {
    for (const auto number : more) numbers.push_back(static_cast<double>(number));
  };
  for (const auto* one : {&pass.out, &pass.q_grad, &pass.k_grad, &pass.v_grad})
    take(one->numbers().values);
  const RelativeGradient& relative = pass.relative;
  for (const auto* part : {&relative.keys, &relative.queries, &relative.values})
    for (const auto& table : *part) take(table);
  take(relative.shift), take(pass.bias.values), take(pass.gates.values);
  return numbers;
}

template <typename T>
class AttentionRelative : public ::testing::Test {};
using ElementTypes = ::testing::Types<float, Half, BFloat16, double>;
TYPED_TEST_SUITE(AttentionRelative, ElementTypes);

// Expects |got - exact| <= bound times the sum of the softmax weights, for each element of each
// vector.
void expect_near(const std::vector<std::vector<double>>& got, const TableGradients& exact,
                 double bound) {
  ASSERT_EQ(got.size(), exact.vectors.size());
  for (std::size_t t = 0; t < got.size(); ++t) {
    ASSERT_EQ(got[t].size(), exact.vectors[t].size());
    const std::size_t size = got[t].size() / exact.weight[t].size();
    for (std::size_t n = 0; n < got[t].size(); ++n)
      ASSERT_NEAR(got[t][n], exact.vectors[t][n], bound * exact.weight[t][n / size] + 1e-300)
          << "table " << t << ", number " << n;
  }
}

// The error bounds of the header.
template <typename T>
void expect_relative_within_bounds(const Sample& s) {
  const ScopedThreads one(1);
  const AttentionCase& c = s.c;
  BackwardPass<T> run(s);
  const AttentionTensors x{run.q.numbers(), run.k.numbers(), run.v.numbers()};
  const auto out_grad = run.out_grad.numbers();
  const AttentionOracle forward = oracle(c, x);
  const auto exact = oracle_backward(c, x, out_grad);
  const double weight = heaviest(c, exact.weights);
  const double sums = std::is_same_v<T, double> ? 0x1p-46 : 0x1p-18;
  const double e = sums + (sizeof(T) == 2 ? 2 * half_ulp<T> : 0);
  const double tiny = sizeof(T) == 2 ? 0x1p-24 : 0;
  const RelativeForm& form = relative(c);
  const double q = longest(ready_queries(c, x.q)), k = longest(x.k);
  const double product = longest(out_grad) * (longest(x.v) + longest(form.values));
  const double met_by_q = k + longest(form.keys), met_by_k = q + longest(form.queries);
  for (Isa isa : available_isas()) {
    SCOPED_TRACE(std::string(name(isa)) + ", " + s.text);
    const ScopedIsa scope(isa);
    run(c);
    expect_within_bounds<T>(run.out.numbers(), run.lse, forward,
                            greatest(x.v.values) + longest(form.values));
    EXPECT_LE(worst(run.q_grad.numbers().values, exact.q.values),
              e * c.scale() * product * met_by_q + tiny);
    EXPECT_LE(worst(run.k_grad.numbers().values, exact.k.values),
              e * c.scale() * product * met_by_k * weight + tiny);
    EXPECT_LE(worst(run.v_grad.numbers().values, exact.v.values),
              e * greatest(out_grad.values) * weight + tiny);
    expect_near(run.relative.keys, exact.met_keys, e * c.scale() * product * q);
    expect_near(run.relative.queries, exact.met_queries, e * c.scale() * product * k);
    expect_near(run.relative.values, exact.met_values, e * greatest(out_grad.values));
    EXPECT_LE(
        worst(run.relative.shift, exact.shift),
        (e * c.scale() * product * met_by_q + tiny) * static_cast<double>(c.batch * c.queries));
    ASSERT_EQ(run.bias.values.size(), exact.numbers.size());
    for (std::size_t n = 0; n < exact.numbers.size(); ++n)
      ASSERT_NEAR(run.bias.values[n], exact.numbers[n], e * product * exact.weight[n]);
    for (std::size_t n = 0; n < exact.gates.values.size() && c.gates.data(); ++n)
      ASSERT_NEAR(static_cast<double>(run.gates.values[n]), exact.gates.values[n],
                  (e + 0x1p-24) * product * exact.gates_size.values[n]);
  }
}

TYPED_TEST(AttentionRelative, KeepsTheErrorPromisedByTheHeader) {
  for (unsigned seed = 1; seed <= 32; ++seed)
    expect_relative_within_bounds<TypeParam>(relative_sample(seed));
}

// Compares the chain rule of the reference with finite differences, for every parameter of the
// form.
TEST(AttentionRelativeInDouble, AgreesWithFiniteDifferences) {
  int tried = 0;
  for (unsigned seed = 100; tried < 6; ++seed) {
    Sample s = relative_sample(seed);
    if (s.c.queries * s.c.keys * s.c.heads * s.c.size > 4000 || !s.c.keys) continue;
    ++tried;
    SCOPED_TRACE(s.text);
    BackwardPass<double> run(s);
    run(s.c);
    const auto loss = [&] {
      const auto out = oracle(s.c, s.x).out;
      return static_cast<double>(testing::dot(out.values.data(), s.out_grad.values.data(),
                                              static_cast<std::int64_t>(out.values.size())));
    };
    const auto check = [&](double& number, double got) {
      const double step = 1e-5, before = number;
      number = before + step;
      const double up = loss();
      number = before - step;
      const double down = loss();
      number = before;
      ASSERT_NEAR(got, (up - down) / (2 * step), 1e-7 * std::max(1.0, std::abs(got)));
    };
    RelativeForm& form = s.c.plan.relative;
    const auto check_tables = [&](std::vector<RelativeVectors>& tables, const auto& got) {
      for (std::size_t t = 0; t < tables.size(); ++t)
        for (std::size_t n = 0; n < tables[t].values.size();
             n += 1 + tables[t].values.size() / 40)
          check(tables[t].values[n], got[t][n]);
    };
    check_tables(form.keys, run.relative.keys);
    check_tables(form.queries, run.relative.queries);
    check_tables(form.values, run.relative.values);
    for (std::size_t n = 0; n < form.shift.size(); ++n)
      check(form.shift[n], run.relative.shift[n]);
  }
}

TEST(AttentionRelative, HasTheSameBitsForAnyNumberOfThreads) {
  for (unsigned seed = 1; seed <= 8; ++seed) {
    const Sample s = relative_sample(seed);
    SCOPED_TRACE(s.text);
    BackwardPass<float> one(s), many(s);
    {
      const ScopedThreads alone(1);
      one(s.c);
    }
    for (const int count : {2, 7}) {
      const ScopedThreads several(count);
      many(s.c);
      EXPECT_EQ(all(one), all(many));
    }
  }
}

// Seven threads divide the 160 queries of a head into pieces. Keys 0 to 255 have one clipped
// vector for all queries of one piece, but not for all queries of the tile of a single thread.
TEST(AttentionRelative, AddsClippedVectorsInOneOrderForAnyTile) {
  Sample s;
  AttentionCase& c = s.c;
  c.queries = 160, c.keys = 360, c.heads = c.key_heads = 4, c.size = c.values = 16;
  c.plan.mask.offset = 200;
  c.plan.softmax.scale = softmax_scale(c.size);
  RelativeVectors table{
      .heads = 1, .head_dim = 16, .min_distance = -360, .rows = {}, .values = {}};
  for (std::int64_t d = -360; d <= 160; ++d)
    table.rows.push_back(static_cast<std::int32_t>(std::clamp<std::int64_t>(d, -8, 8) + 8));
  table.values = random_numbers(17 * 16, 5);
  c.plan.relative.values = {table};
  s.x = {random_tensor<double, 4>({1, 160, 4, 16}, 1),
         random_tensor<double, 4>({1, 360, 4, 16}, 2),
         random_tensor<double, 4>({1, 360, 4, 16}, 3)};
  s.out_grad = random_tensor<double, 4>({1, 160, 4, 16}, 4);
  for (const Isa isa : available_isas()) {
    const ScopedIsa scope(isa);
    BackwardPass<float> one(s), many(s);
    {
      const ScopedThreads alone(1);
      one(c);
    }
    const ScopedThreads several(7);
    many(c);
    EXPECT_EQ(all(one), all(many)) << name(isa);
  }
}

// The vectors of later keys are NaN in a causal model.
TEST(AttentionRelative, VectorsOfHiddenDistancesNeverReachAResult) {
  const auto sample = [](std::vector<RelativeVectors> RelativeForm::* kind, double later) {
    Sample s;
    AttentionCase& c = s.c;
    c.queries = c.keys = 70, c.size = c.values = 16;
    c.plan.softmax.scale = softmax_scale(c.size);
    RelativeVectors table{
        .heads = 1, .head_dim = 16, .min_distance = -70, .rows = {}, .values = {}};
    for (std::int64_t d = -70; d <= 70; ++d)
      table.rows.push_back(static_cast<std::int32_t>(std::clamp<std::int64_t>(d, -8, 8) + 8));
    table.values = random_numbers(17 * 16, 5);
    std::fill(table.values.begin() + 9 * 16, table.values.end(), later);
    (c.plan.relative.*kind).push_back(table);
    s.x = {random_tensor<double, 4>({1, 70, 1, 16}, 1),
           random_tensor<double, 4>({1, 70, 1, 16}, 2),
           random_tensor<double, 4>({1, 70, 1, 16}, 3)};
    s.out_grad = random_tensor<double, 4>({1, 70, 1, 16}, 4);
    return s;
  };
  for (const auto kind : {&RelativeForm::keys, &RelativeForm::queries, &RelativeForm::values})
    for (const double later : {std::numeric_limits<double>::quiet_NaN(),
                               std::numeric_limits<double>::infinity(), 1e300})
      for (const Isa isa : available_isas()) {
        const ScopedIsa scope(isa);
        const Sample clean = sample(kind, 0.5), spoilt = sample(kind, later);
        BackwardPass<float> one(clean), other(spoilt);
        one(clean.c), other(spoilt.c);
        EXPECT_EQ(all(one), all(other)) << name(isa) << ", " << later;
      }
}

// A prompt in parts gives the bits of the full pass, whatever queries are in a call.
TEST(AttentionRelative, GivesTheSameRowsInPieces) {
  const Sample s = [] {
    for (unsigned seed = 1;; ++seed) {
      Sample one = relative_sample(seed);
      const AttentionCase& c = one.c;
      if (c.queries >= 64 && c.keys == c.queries + c.offset() && !c.plan.queries &&
          !c.plan.query_rotary && !c.gates.data() &&
          std::holds_alternative<NoBias>(c.plan.bias) && !c.plan.relative.empty())
        return one;
    }
  }();
  SCOPED_TRACE(s.text);
  BackwardPass<float> whole(s);
  whole(s.c);
  Tensor<float, 4> piece_out({s.c.batch, 20, s.c.heads, s.c.values});
  AttentionPlan plan = s.c.plan;
  plan.mask.offset = plan.mask.offset.value_or(0) + 40;
  const auto q = whole.q.read();
  const View<const float, 4> piece(&q(0, 40, 0, 0), {s.c.batch, 20, s.c.heads, s.c.size},
                                   {q.stride(0), q.stride(1), q.stride(2), 1});
  attention({piece, whole.k.read(), whole.v.read()}, plan, piece_out.view());
  const auto out = whole.out.numbers();
  for (std::int64_t b = 0; b < s.c.batch; ++b)
    for (std::int64_t i = 0; i < 20; ++i)
      for (std::int64_t h = 0; h < s.c.heads; ++h)
        for (std::int64_t d = 0; d < s.c.values; ++d)
          ASSERT_EQ(static_cast<double>(piece_out.view()(b, i, h, d)),
                    out.view()(b, 40 + i, h, d));
}

TEST(AttentionRelative, RefusesWhatDoesNotFit) {
  const Tensor<float, 4> x({1, 3, 2, 4});
  Tensor<float, 4> out({1, 3, 2, 4});
  const RelativeVectors fits{.heads = 2,
                             .head_dim = 4,
                             .min_distance = -2,
                             .rows = {0, 1, 1},
                             .values = std::vector<double>(16),
                             .coordinates = {}};
  const auto says = [&](const RelativeForm& form, const Softmax& softmax = {}) {
    return message_of([&] {
      attention(
          {x.view(), x.view(), x.view()},
          {.mask = {.visibility = Visibility::causal}, .softmax = softmax, .relative = form},
          out.view());
    });
  };
  const auto with = [&](auto change) {
    RelativeForm form{.keys = {fits}, .queries = {}, .values = {fits}, .shift = {}};
    change(form.keys[0]);
    return says(form);
  };
  EXPECT_EQ(with([](RelativeVectors&) {}), "");
  EXPECT_EQ(with([](RelativeVectors& t) { t.heads = 3; }),
            "[relative] keys must have 1 head or 2, got 3");
  EXPECT_EQ(with([](RelativeVectors& t) { t.head_dim = 8; }),
            "[relative] keys must have head_dim 4, got 8");
  EXPECT_EQ(with([](RelativeVectors& t) { t.values.pop_back(); }),
            "[relative] keys must have heads x vectors x head_dim values, a positive "
            "multiple of 8, got 15");
  EXPECT_EQ(with([](RelativeVectors& t) { t.rows[2] = 2; }),
            "[relative] rows of keys must be 0 to 1, got 2");
  EXPECT_EQ(with([](RelativeVectors& t) { t.rows = {0, 1, 0}; }),
            "[relative] rows of keys must be non-decreasing or non-increasing, got both");
  EXPECT_EQ(with([](RelativeVectors& t) { t.rows = {0, 1}; }),
            "[attention] relative vectors must cover distances -2 to 0, got -2 to -1");
  EXPECT_EQ(with([](RelativeVectors& t) { t.coordinates = {0, 0}; }),
            "[attention] relative coordinates must be given for all positions, of 2, got 2");
  EXPECT_EQ(with([](RelativeVectors& t) { t.coordinates = {0, 1, 2}; }),
            "[attention] relative vectors must cover distances -2 to 2, got -2 to 0");
  const RelativeForm plain{.keys = {fits}, .queries = {}, .values = {}, .shift = {}};
  EXPECT_EQ(says(plain, {.cap = 5}),
            "[attention] a softmax cap cannot be combined with relative vectors, got 5");
  EXPECT_EQ(says({.keys = {}, .queries = {}, .values = {}, .shift = {1, 2}}),
            "[relative] shift must have heads x head_dim = 8 numbers, got 2");
  const Tensor<float, 3> gates({1, 2, 2});
  EXPECT_EQ(
      message_of([&] {
        attention(
            {.q = x.view(), .k = x.view(), .v = x.view(), .terms = {.gates = gates.view()}},
            {.mask = {.visibility = Visibility::causal}}, out.view());
      }),
      "[attention] gates must be [1 or B, Hq, T], 1 x 2 x 3, got [1, 2, 2]");
}

}  // namespace relative_test
}  // namespace gnomon
