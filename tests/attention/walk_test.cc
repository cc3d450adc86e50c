// Attention with contextual positions (CoPE), and stick-breaking attention.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "attention/backward_pass.h"
#include "attention/bounds.h"
#include "attention/oracle.h"
#include "attention/sample.h"
#include "gnomon/attention/attention.h"
#include "gnomon/isa.h"
#include "naive/walk.h"

namespace gnomon {
namespace walk_test {

using namespace gnomon::testing;
using std::int64_t;
using testing::Tensor;

constexpr double infinity = std::numeric_limits<double>::infinity();

enum class Kind { contextual = 1, stick, stick_with_own_key };
constexpr Kind kinds[] = {Kind::contextual, Kind::stick, Kind::stick_with_own_key};

// Changes a call of plain attention. The samples have all masks, positions, rotations, layouts
// and grouped heads.
void change(Sample& s, Kind kind, int64_t positions) {
  AttentionPlan& plan = s.c.plan;
  plan.mask.visibility = Visibility::causal;
  plan.mask.rate = 1;
  plan.bias = NoBias{};
  plan.softmax.cap.reset();
  if (kind != Kind::contextual) {
    plan.softmax.sinks.clear();
    plan.stick_breaking = {.own_key =
                               kind == Kind::stick ? OwnKey::excluded : OwnKey::included};
    return;
  }
  ContextualVectors table{.heads = positions % 2 ? 1 : s.c.heads, .head_dim = s.c.size};
  table.values =
      random_numbers(static_cast<std::size_t>(table.heads * positions * s.c.size), 77);
  for (double& value : table.values) value *= s.c.scale();
  plan.relative.contextual = table;
}

Sample walk_sample(unsigned seed, Kind kind) {
  Sample s = sample(seed);
  s.c.plan.mask.rate = 1;
  change(s, kind, std::vector<int64_t>{1, 2, 5, 16, 64}[seed % 5]);
  return s;
}

struct Exact {
  AttentionOracle forward;
  Tensor<double, 4> q, k, v;
  std::vector<double> table, sinks;
};

// The naive version of each head, with rotated queries and keys.
Exact exact_of(const AttentionCase& c, const AttentionTensors& x,
               const Tensor<double, 4>& out_grad) {
  const auto q = rotated(x.q, c.plan.query_rotary), k = rotated(x.k, c.plan.key_rotary);
  Exact exact{{Tensor<double, 4>({1, 1, 1, 1}), Tensor<double, 4>({1, 1, 1, 1}),
               Tensor<double, 4>({c.batch, c.queries, c.heads, c.values}),
               Tensor<double, 3>({c.batch, c.heads, c.queries})},
              Tensor<double, 4>(x.q.extents),
              Tensor<double, 4>(x.k.extents),
              Tensor<double, 4>(x.v.extents),
              {},
              std::vector<double>(c.plan.softmax.sinks.size())};
  const auto& table = c.plan.relative.contextual;
  if (table) exact.table.resize(table->values.size());
  Tensor<double, 2> seen({c.queries, c.keys});
  const bool own = !c.plan.stick_breaking || c.plan.stick_breaking->own_key == OwnKey::included;
  const auto head = [](auto& tensor, int64_t b, int64_t h) {
    const auto& [batch, rows, heads, size] = tensor.extents;
    using Element = std::remove_reference_t<decltype(tensor.values[0])>;
    return View<Element, 2>(tensor.values.data() + (b * rows * heads + h) * size, {rows, size},
                            {heads * size, 1});
  };
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t h = 0; h < c.heads; ++h) {
      const int64_t g = h / (c.heads / c.key_heads);
      for (int64_t i = 0; i < c.queries; ++i)
        for (int64_t j = 0; j < c.keys; ++j)
          seen.view()(i, j) = sees(c, b, i, j) && (own || j != i + c.offset()) ? 1 : 0;
      const NaiveInput input{head(q, b, h), head(k, b, g), head(x.v, b, g),
                             std::as_const(seen).view(), c.scale()};
      const NaiveGradients grad{head(exact.q, b, h), head(exact.k, b, g), head(exact.v, b, g)};
      const Matrix of_out = head(out_grad, b, h);
      const MutableMatrix out = head(exact.forward.out, b, h);
      std::vector<double> lse;
      if (!table) {
        naive_stick_breaking(input, out, lse);
        naive_stick_breaking_backward(input, of_out, grad);
      } else {
        const auto& sinks = c.plan.softmax.sinks;
        const double sink = sinks.empty() ? -infinity : sinks[static_cast<std::size_t>(h)];
        const int64_t first = (table->heads == 1 ? 0 : h) * table->positions() * c.size;
        const std::array<std::ptrdiff_t, 2> shape{table->positions(), c.size};
        const Matrix e(table->values.data() + first, shape);
        double ignored = 0;
        naive_contextual_attention(input, e, sink, out, lse);
        naive_contextual_backward(
            input, e, sink, of_out, grad, MutableMatrix(exact.table.data() + first, shape),
            sinks.empty() ? ignored : exact.sinks[static_cast<std::size_t>(h)]);
      }
      for (int64_t i = 0; i < c.queries; ++i)
        exact.forward.lse.view()(b, h, i) = lse[static_cast<std::size_t>(i)];
    }
  exact.q = rotated(exact.q, c.plan.query_rotary, -1);
  exact.k = rotated(exact.k, c.plan.key_rotary, -1);
  return exact;
}

template <typename T>
void expect_within_bounds(Kind kind, unsigned seeds) {
  const ScopedThreads one(1);
  for (unsigned seed = 1; seed <= seeds; ++seed) {
    const Sample s = walk_sample(seed, kind);
    BackwardPass<T> run(s);
    const AttentionTensors x{run.q.numbers(), run.k.numbers(), run.v.numbers()};
    const auto out_grad = run.out_grad.numbers();
    const Exact exact = exact_of(s.c, x, out_grad);
    const double lengths = (1 + longest(x.k)) * (1 + longest(x.q)) * s.c.scale();
    const double sums = std::is_same_v<T, double> ? 0x1p-44 : 0x1p-15;
    const double e = sums + (sizeof(T) == 2 ? 2 * half_ulp<T> : 0);
    const double grad = e * longest(out_grad) * (1 + longest(x.v)) * (1 + lengths) *
                        static_cast<double>(s.c.heads / s.c.key_heads);
    for (const Isa isa : available_isas()) {
      SCOPED_TRACE(std::string(name(isa)) + ", " + s.text);
      const ScopedIsa scope(isa);
      run(s.c);
      EXPECT_LE(worst(run.out.numbers().values, exact.forward.out.values),
                e * longest(x.v) * (1 + lengths) / 4);
      for (std::size_t n = 0; n < run.lse.values.size(); ++n) {
        const double got = static_cast<double>(run.lse.values[n]);
        const double wanted = exact.forward.lse.values[n];
        if (got == -infinity && wanted < -69) continue;
        ASSERT_NEAR(got, wanted, sums * (1 + std::abs(wanted)) * (1 + lengths) / 8);
      }
      EXPECT_LE(worst(run.q_grad.numbers().values, exact.q.values), grad);
      EXPECT_LE(worst(run.k_grad.numbers().values, exact.k.values), 4 * grad);
      EXPECT_LE(worst(run.v_grad.numbers().values, exact.v.values), 4 * grad);
      EXPECT_LE(worst(run.relative.contextual, exact.table), 4 * grad);
      EXPECT_LE(worst(run.sinks, exact.sinks), 4 * grad * static_cast<double>(s.c.queries));
      EXPECT_TRUE(run.out.gaps_intact() && run.q_grad.gaps_intact());
    }
  }
}

TEST(AttentionWalk, AgreesWithTheNaiveVersions) {
  for (const Kind kind : kinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    expect_within_bounds<double>(kind, 20);
    expect_within_bounds<float>(kind, 12);
    expect_within_bounds<Half>(kind, 2);
    expect_within_bounds<BFloat16>(kind, 2);
  }
}

// A causal call without padding or rotation.
Sample plain_sample(int64_t queries, int64_t keys, Kind kind, int64_t positions,
                    std::int64_t heads = 2) {
  Sample s = testing::plain_sample(queries, keys, heads);
  change(s, kind, positions);
  return s;
}

// The gradients of the naive versions, with finite differences of their outputs.
TEST(AttentionWalk, AgreesWithFiniteDifferences) {
  const ScopedThreads one(1);
  for (const Kind kind : kinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    Sample s = plain_sample(9, 12, kind, 5);
    if (kind == Kind::contextual) s.c.plan.softmax.sinks = {0.3, -0.2};
    BackwardPass<double> run(s);
    run(s.c);
    const auto loss = [&] {
      BackwardPass<double> moved(s);
      moved(s.c);
      const auto out = moved.out.numbers();
      return static_cast<double>(testing::dot(out.values.data(), s.out_grad.values.data(),
                                              static_cast<int64_t>(out.values.size())));
    };
    const auto check = [&](std::vector<double>& numbers, const std::vector<double>& got) {
      ASSERT_EQ(numbers.size(), got.size());
      for (std::size_t n = 0; n < numbers.size(); n += 1 + numbers.size() / 40) {
        const double before = numbers[n], step = 1e-6;
        numbers[n] = before + step;
        const double up = loss();
        numbers[n] = before - step;
        const double down = loss();
        numbers[n] = before;
        ASSERT_NEAR(got[n], (up - down) / (2 * step), 1e-7 * (1 + std::abs(got[n]))) << n;
      }
    };
    check(s.x.q.values, run.q_grad.numbers().values);
    check(s.x.k.values, run.k_grad.numbers().values);
    check(s.x.v.values, run.v_grad.numbers().values);
    if (kind == Kind::contextual) {
      check(s.c.plan.relative.contextual->values, run.relative.contextual);
      check(s.c.plan.softmax.sinks, run.sinks);
    }
  }
}

// Several tiles and parts of keys; gates so small that positions grow over all of them, and so
// large that they end in the first tile.
TEST(AttentionWalk, CrossesTilesAndParts) {
  const ScopedThreads one(1);
  for (const Kind kind : kinds)
    for (const double logit : {-7.0, -4.0, 2.0}) {
      SCOPED_TRACE(::testing::Message() << static_cast<int>(kind) << ", logit " << logit);
      Sample s = plain_sample(4, 2200, kind, 16, 1);
      for (int64_t i = 0; i < 4; ++i) head_of(s.x.q, 0, i, 0)[0] = 4;
      for (int64_t j = 0; j < 2200; ++j) head_of(s.x.k, 0, j, 0)[0] = logit;
      const Exact exact = exact_of(s.c, s.x, s.out_grad);
      const auto check = [&](auto run, double bound) {
        run(s.c);
        EXPECT_LE(worst(run.out.numbers().values, exact.forward.out.values), bound);
        EXPECT_LE(worst(run.q_grad.numbers().values, exact.q.values), 10 * bound);
        EXPECT_LE(worst(run.k_grad.numbers().values, exact.k.values), 10 * bound);
        EXPECT_LE(worst(run.v_grad.numbers().values, exact.v.values), 10 * bound);
        EXPECT_LE(worst(run.relative.contextual, exact.table), 100 * bound);
      };
      check(BackwardPass<double>(s), 1e-12);
      check(BackwardPass<float>(s), 1e-5);
    }
}

// A prompt in parts, and single tokens, give the bits of the full pass from the same cache.
TEST(AttentionWalk, DecodesWithTheBitsOfTheFullPass) {
  const ScopedThreads one(1);
  for (const Kind kind : kinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    const Sample whole = plain_sample(300, 300, kind, 8);
    BackwardPass<float> full(whole);
    full(whole.c);
    for (const auto& [begin, count] :
         {std::pair<int64_t, int64_t>{0, 1}, {1, 1}, {299, 1}, {256, 3}, {100, 150}}) {
      Sample part = plain_sample(count, begin + count, kind, 8);
      for (auto [to, from, first] : {std::tuple(&part.x.q, &whole.x.q, begin),
                                     {&part.x.k, &whole.x.k, int64_t{0}},
                                     {&part.x.v, &whole.x.v, int64_t{0}}})
        std::copy_n(from->values.data() + first * from->extents[2] * 16, to->values.size(),
                    to->values.data());
      BackwardPass<float> run(part);
      run(part.c);
      const auto got = run.out.numbers(), all = full.out.numbers();
      for (int64_t i = 0; i < count; ++i)
        for (int64_t h = 0; h < 2; ++h)
          for (int64_t d = 0; d < 16; ++d)
            ASSERT_EQ(got.view()(0, i, h, d), all.view()(0, begin + i, h, d));
    }
  }
}

TEST(AttentionWalk, GivesTheSameBitsForAnyNumberOfThreads) {
  for (const Kind kind : kinds) {
    const Sample s = plain_sample(500, 500, kind, 8, 3);
    std::vector<double> results[2];
    for (const int count : {1, 3}) {
      const ScopedThreads threads(count);
      BackwardPass<float> run(s);
      run(s.c);
      for (const auto* one : {&run.out, &run.q_grad, &run.k_grad, &run.v_grad})
        for (const double number : one->numbers().values) results[count / 3].push_back(number);
      for (const double number : run.relative.contextual) results[count / 3].push_back(number);
    }
    EXPECT_EQ(results[0], results[1]);
  }
}

// Rows that a query does not see may hold anything.
TEST(AttentionWalk, NeverReadsHiddenRows) {
  const ScopedThreads one(1);
  for (const Kind kind : kinds)
    for (const double mark : {std::nan(""), infinity}) {
      Sample s = plain_sample(40, 300, kind, 8);
      s.c.plan.mask.left = 270;
      Positions all = consecutive(300);
      for (int64_t t = 0; t < 300; ++t)
        all.sequences[static_cast<std::size_t>(t)] =
            t % 31 < 5 ? Positions::padding : static_cast<std::int32_t>(t / 290);
      s.c.plan.queries = std::make_shared<Positions>(rows_of(all, 260, 40));
      s.c.plan.keys = std::make_shared<Positions>(all);
      BackwardPass<float> clean(s);
      clean(s.c);
      std::vector<bool> seen(300);
      for (int64_t i = 0; i < 40; ++i)
        for (int64_t j = 0; j < 300; ++j)
          if (sees(s.c, 0, i, j) && (kind != Kind::stick || j != i + 260))
            seen[static_cast<std::size_t>(j)] = true;
      for (int64_t j = 0; j < 300; ++j)
        if (!seen[static_cast<std::size_t>(j)])
          std::fill_n(head_of(s.x.k, 0, j, 0), 16, mark),
              std::fill_n(head_of(s.x.v, 0, j, 0), 16, mark);
      BackwardPass<float> spoilt(s);
      spoilt(s.c);
      EXPECT_GT(std::count(seen.begin(), seen.end(), false), 20);
      EXPECT_EQ(spoilt.out.numbers().values, clean.out.numbers().values);
      EXPECT_EQ(spoilt.q_grad.numbers().values, clean.q_grad.numbers().values);
      EXPECT_EQ(spoilt.k_grad.numbers().values, clean.k_grad.numbers().values);
      EXPECT_EQ(spoilt.v_grad.numbers().values, clean.v_grad.numbers().values);
      EXPECT_EQ(spoilt.relative.contextual, clean.relative.contextual);
    }
}

// A row of which the mask, and not only the padding, hides later keys: a NaN of key j reaches
// only the queries from j on.
TEST(AttentionWalk, KeepsANanFromEarlierQueries) {
  for (const Kind kind : kinds) {
    Sample s = plain_sample(300, 300, kind, 8, 1);
    BackwardPass<float> clean(s);
    clean(s.c);
    std::fill_n(head_of(s.x.k, 0, 200, 0), 16, std::nan(""));
    std::fill_n(head_of(s.x.v, 0, 200, 0), 16, infinity);
    BackwardPass<float> spoilt(s);
    spoilt(s.c);
    const auto got = spoilt.out.numbers(), wanted = clean.out.numbers();
    const auto got_q = spoilt.q_grad.numbers(), wanted_q = clean.q_grad.numbers();
    for (int64_t i = 0; i < 200; ++i)
      for (int64_t d = 0; d < 16; ++d) {
        ASSERT_EQ(got.view()(0, i, 0, d), wanted.view()(0, i, 0, d)) << i;
        ASSERT_EQ(got_q.view()(0, i, 0, d), wanted_q.view()(0, i, 0, d)) << i;
      }
    const auto last = head_of(got, 0, 203, 0);
    EXPECT_FALSE(std::isfinite(last[0]));
  }
}

TEST(AttentionWalk, RefusesWhatItCannotCombine) {
  const auto message = [](Kind kind, const auto& spoil) {
    Sample s = plain_sample(4, 4, kind, 3);
    spoil(s.c.plan);
    BackwardPass<float> run(s);
    return message_of([&] { run(s.c); });
  };
  const auto both = [&](const auto& spoil, const std::string& rule) {
    EXPECT_EQ(message(Kind::contextual, spoil), "[attention] contextual vectors " + rule);
    EXPECT_EQ(message(Kind::stick, spoil), "[attention] stick-breaking attention " + rule);
  };
  both([](AttentionPlan& plan) { plan.mask.visibility = Visibility::bidirectional; },
       "must be causal, got bidirectional");
  both([](AttentionPlan& plan) { plan.bias = SlopeBias{{1, 1}}; },
       "cannot be combined with a bias, got both");
  EXPECT_EQ(message(Kind::stick, [](AttentionPlan& plan) { plan.softmax.cap = 3; }),
            "[attention] stick-breaking attention cannot be combined with a softmax cap, got "
            "both");
  EXPECT_EQ(
      message(Kind::stick, [](AttentionPlan& plan) { plan.mask.rate = 2; }),
      "[attention] a rate above 1 requires a plan without a bias or vectors by distance, got "
      "2");
  for (const Kind kind : kinds)
    EXPECT_EQ(
        message(kind, [](AttentionPlan& plan) { plan.product = PairProduct::channel_gates; }),
        "[attention] contextual vectors, edges and stick-breaking require plain dot products "
        "of queries and keys, got another product");
  EXPECT_EQ(message(Kind::stick, [](AttentionPlan& plan) { plan.softmax.sinks = {1, 1}; }),
            "[attention] stick-breaking attention cannot be combined with sinks, got both");
  EXPECT_EQ(
      message(Kind::stick, [](AttentionPlan& plan) { plan.stick_breaking->own_key = {}; }),
      "[attention] own_key must be excluded or included, got 0");
  EXPECT_EQ(
      message(Kind::contextual,
              [](AttentionPlan& plan) { plan.stick_breaking = StickBreaking{}; }),
      "[attention] stick-breaking attention cannot be combined with relative vectors, got "
      "both");
  EXPECT_EQ(message(Kind::contextual, [](AttentionPlan& plan) { plan.softmax.scale = 0; }),
            "[attention] contextual vectors require a softmax scale other than 0, got 0");
  const auto table = [&](const auto& spoil) {
    return message(Kind::contextual,
                   [&](AttentionPlan& plan) { spoil(*plan.relative.contextual); });
  };
  EXPECT_EQ(table([](ContextualVectors& one) { one.heads = 3; }),
            "[relative] contextual vectors must have 1 head or 2, got 3");
  EXPECT_EQ(table([](ContextualVectors& one) { one.head_dim = 8; }),
            "[relative] contextual vectors must have head_dim 16, got 8");
  EXPECT_EQ(table([](ContextualVectors& one) { one.values.clear(); }),
            "[relative] contextual vectors must have heads x positions x head_dim values, a "
            "positive multiple of 16, got 0");
  EXPECT_EQ(table([](ContextualVectors& one) { one.values[1] = infinity; }),
            "[relative] contextual vectors must be finite, got inf");
  EXPECT_EQ(
      message(Kind::contextual,
              [](AttentionPlan& plan) { plan.relative.shift = std::vector<double>(32, 1.0); }),
      "[relative] contextual vectors must be the only part of a form, got several parts");
}

}  // namespace walk_test
}  // namespace gnomon
