// Biases that depend on the tokens: slopes of keys and sums of edges.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "attention/backward_pass.h"
#include "attention/bounds.h"
#include "attention/oracle.h"
#include "attention/sample.h"
#include "gnomon/attention/attention.h"
#include "gnomon/isa.h"

namespace gnomon {
namespace token_bias_test {

using namespace gnomon::testing;
using std::int64_t;
using testing::Tensor;

enum class Kind { slopes = 1, edges, rotated_edges };
constexpr Kind kinds[] = {Kind::slopes, Kind::edges, Kind::rotated_edges};

// A sample and its terms, which the case borrows.
struct TermSample {
  Sample s;
  Tensor<float, 3> slopes{{}};
  Tensor<float, 4> queries{{}}, keys{{}};

  explicit TermSample(Sample of, Kind kind, unsigned seed) : s(std::move(of)) {
    AttentionCase& c = s.c;
    c.plan.mask.rate = 1;
    if (kind == Kind::slopes) {
      c.plan.key_slopes = true;
      slopes = random_tensor<float, 3>({c.batch, c.heads, c.keys}, seed + 50);
      for (float& one : slopes.values) one *= 0.2f;
      lend();
      return;
    }
    c.plan.mask.visibility = Visibility::causal;
    c.plan.bias = NoBias{};
    c.plan.softmax.cap.reset();
    const int64_t size = kind == Kind::rotated_edges ? 2 + 2 * (seed % 4) : 1 + seed % 20;
    EdgeBias edges;
    for (int64_t h = 0; h < c.heads; ++h)
      edges.slopes.push_back(seed % 5 == 4 && h == 0 ? 0 : 0.5 / static_cast<double>(h + 1));
    c.plan.edges = edges;
    if (kind == Kind::rotated_edges)
      c.plan.edge_rotary.emplace(
          Rotary{.rotary_dim = size,
                 .pairing = seed % 2 ? Pairing::halves : Pairing::adjacent,
                 .base = 3},
          c.plan.keys ? *c.plan.keys : consecutive(c.keys));
    queries = random_tensor<float, 4>({c.batch, c.queries, c.heads, size}, seed + 51);
    keys = random_tensor<float, 4>({c.batch, c.keys, c.heads, size}, seed + 52);
    lend();
  }
  TermSample(const TermSample&) = delete;
  // Lends the terms, and the formula to the oracle.
  void lend() {
    AttentionCase& c = s.c;
    if (c.plan.key_slopes) c.key_slopes = slopes.view();
    if (c.plan.edges) c.edge_queries = queries.view(), c.edge_keys = keys.view();
    c.added = [this](int64_t b, int64_t h, int64_t i, int64_t j) { return added(b, h, i, j); };
  }

  // a_i . R^-1 b_l, with the rotation R of the key.
  long double product(int64_t b, int64_t h, int64_t i, int64_t l) const {
    const int64_t size = queries.extents[3];
    std::vector<long double> key(static_cast<std::size_t>(size));
    for (int64_t p = 0; p < size; ++p)
      key[static_cast<std::size_t>(p)] = keys.view()(b, l, h, p);
    key = turned(key, b, l, -1);
    long double sum = 0;
    for (int64_t p = 0; p < size; ++p)
      sum += queries.view()(b, i, h, p) * key[static_cast<std::size_t>(p)];
    return sum;
  }
  std::vector<long double> turned(const std::vector<long double>& x, int64_t b, int64_t l,
                                  int direction) const {
    const auto& table = s.c.plan.edge_rotary;
    std::vector<long double> y = x;
    if (!table) return y;
    const bool halves = table->frequencies().pairing == Pairing::halves;
    const std::size_t pairs = x.size() / 2;
    for (std::size_t n = 0; n < pairs; ++n) {
      const auto pair = static_cast<int64_t>(n);
      const long double cos = table->cos()(b % table->batch(), l, pair);
      const long double sin =
          static_cast<float>(direction) * table->sin()(b % table->batch(), l, pair);
      const std::size_t one = halves ? n : 2 * n, two = halves ? n + pairs : 2 * n + 1;
      y[one] = x[one] * cos - x[two] * sin, y[two] = x[one] * sin + x[two] * cos;
    }
    return y;
  }
  double slope(int64_t h) const { return s.c.plan.edges->slopes[static_cast<std::size_t>(h)]; }
  double away(int64_t b, int64_t i, int64_t j) const {
    return std::abs(static_cast<double>(distance(s.c, b, i, j)));
  }
  long double added(int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (s.c.plan.key_slopes)
      return -static_cast<long double>(slopes.view()(b, h, j)) * away(b, i, j);
    // The oracle asks for the keys of a row in order.
    const std::array<int64_t, 3> asked = {b, h, i};
    if (asked != row || j <= last_key) {
      sums.assign(static_cast<std::size_t>(s.c.keys + 1), 0);
      for (int64_t l = s.c.keys - 1; l >= 0; --l) {
        long double edge = 0;
        if (sees(s.c, b, i, l)) edge = -std::log1p(std::exp(-product(b, h, i, l)));
        sums[static_cast<std::size_t>(l)] = sums[static_cast<std::size_t>(l + 1)] + edge;
      }
    }
    row = asked, last_key = j;
    return slope(h) * sums[static_cast<std::size_t>(j + 1)];
  }

  mutable std::vector<long double> sums;  // of the edges from each key on, of one row
  mutable std::array<int64_t, 3> row{-1, 0, 0};
  mutable int64_t last_key = 0;
};

struct TermGradients {
  std::vector<double> slopes, queries, keys;
};
TermGradients exact_terms(const TermSample& t, const Tensor<double, 4>& scores) {
  const AttentionCase& c = t.s.c;
  TermGradients exact{std::vector<double>(t.slopes.values.size()),
                      std::vector<double>(t.queries.values.size()),
                      std::vector<double>(t.keys.values.size())};
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t h = 0; h < c.heads; ++h)
      for (int64_t i = 0; i < c.queries; ++i) {
        double left = 0;  // the gradients of the keys before l
        for (int64_t l = 0; l < c.keys; ++l) {
          if (!sees(c, b, i, l)) continue;
          const double own = scores.view()(b, h, i, l);
          if (c.plan.key_slopes) {
            exact.slopes[static_cast<std::size_t>((b * c.heads + h) * c.keys + l)] -=
                own * t.away(b, i, l);
            continue;
          }
          const auto size = static_cast<std::size_t>(t.queries.extents[3]);
          const long double by = t.slope(h) * left / (1 + std::exp(t.product(b, h, i, l)));
          left += own;
          std::vector<long double> key(size), query(size);
          const auto of_key = static_cast<std::size_t>((b * c.keys + l) * c.heads + h) * size;
          const auto of_query =
              static_cast<std::size_t>((b * c.queries + i) * c.heads + h) * size;
          for (std::size_t p = 0; p < size; ++p)
            key[p] = t.keys.values[of_key + p], query[p] = t.queries.values[of_query + p];
          key = t.turned(key, b, l, -1), query = t.turned(query, b, l, 1);
          for (std::size_t p = 0; p < size; ++p) {
            exact.queries[of_query + p] += static_cast<double>(by * key[p]);
            exact.keys[of_key + p] += static_cast<double>(by * query[p]);
          }
        }
      }
  return exact;
}

std::vector<double> doubles(const Tensor<float, 3>& x) {
  return {x.values.begin(), x.values.end()};
}
std::vector<double> doubles(const Tensor<float, 4>& x) {
  return {x.values.begin(), x.values.end()};
}

template <typename T>
void expect_within_bounds(Kind kind, unsigned seeds) {
  const ScopedThreads one(1);
  for (unsigned seed = 1; seed <= seeds; ++seed) {
    const TermSample t(Sampler(seed).draw(), kind, seed);
    const Sample& s = t.s;
    BackwardPass<T> run(s);
    const AttentionTensors x{run.q.numbers(), run.k.numbers(), run.v.numbers()};
    const auto out_grad = run.out_grad.numbers();
    const AttentionOracle forward = oracle(s.c, x);
    const AttentionGradients exact = oracle_backward(s.c, x, out_grad);
    const TermGradients terms = exact_terms(t, exact.scores);
    const double e = (std::is_same_v<T, double> ? 0x1p-44 : 0x1p-16) +
                     (sizeof(T) == 2 ? 2 * half_ulp<T> : 0);
    const double product = longest(out_grad) * longest(x.v);
    const double many = static_cast<double>(s.c.queries) * (e + 0x1p-24) * product;
    for (const Isa isa : available_isas()) {
      SCOPED_TRACE(std::string(name(isa)) + ", " + s.text);
      const ScopedIsa scope(isa);
      run(s.c);
      EXPECT_LE(worst(run.out.numbers().values, forward.out.values), e * longest(x.v));
      for (std::size_t n = 0; n < run.lse.values.size(); ++n) {
        const double wanted = forward.lse.values[n];
        if (wanted != -std::numeric_limits<double>::infinity())
          ASSERT_NEAR(static_cast<double>(run.lse.values[n]), wanted,
                      e * std::max(1.0, std::abs(wanted)));
        else
          ASSERT_EQ(static_cast<double>(run.lse.values[n]), wanted);
      }
      const double scale = s.c.scale() * product;
      EXPECT_LE(worst(run.q_grad.numbers().values, exact.q.values),
                2 * e * scale * longest(x.k) + 0x1p-24);
      EXPECT_LE(worst(run.k_grad.numbers().values, exact.k.values),
                2 * many * s.c.scale() * longest(x.q) + 0x1p-24);
      EXPECT_LE(worst(run.v_grad.numbers().values, exact.v.values), 2 * many + 0x1p-24);
      EXPECT_LE(worst(doubles(run.key_slopes), terms.slopes), 200 * many);
      EXPECT_LE(worst(doubles(run.edge_queries), terms.queries), 300 * (e + 0x1p-24) * product);
      EXPECT_LE(worst(doubles(run.edge_keys), terms.keys), 20 * many);
    }
  }
}

TEST(AttentionTokenBias, AgreesWithTheOracle) {
  for (const Kind kind : kinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    expect_within_bounds<double>(kind, 24);
    expect_within_bounds<float>(kind, 24);
    expect_within_bounds<BFloat16>(kind, 3);
  }
}

TEST(AttentionTokenBias, AgreesWithFiniteDifferences) {
  for (const Kind kind : kinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    TermSample t(plain_sample(9, 12), kind, 6);
    t.s.c.plan.softmax.sinks = {0.3, -0.2};
    BackwardPass<double> run(t.s);
    run(t.s.c);
    const auto loss = [&] {
      const auto out = oracle(t.s.c, t.s.x).out;
      return static_cast<double>(testing::dot(out.values.data(), t.s.out_grad.values.data(),
                                              static_cast<int64_t>(out.values.size())));
    };
    double size = 0;
    const auto check = [&](std::vector<float>& numbers, const std::vector<float>& got) {
      for (std::size_t n = 0; n < numbers.size(); ++n) {
        const float kept = numbers[n], up = kept + 0x1p-10f, down = kept - 0x1p-10f;
        numbers[n] = up;
        const double above = loss();
        numbers[n] = down;
        const double slope = (above - loss()) / (double{up} - double{down});
        numbers[n] = kept;
        size += std::abs(slope);
        ASSERT_NEAR(double{got[n]}, slope, 1e-4 * (1 + std::abs(slope))) << n;
      }
    };
    check(t.slopes.values, run.key_slopes.values);
    check(t.queries.values, run.edge_queries.values);
    check(t.keys.values, run.edge_keys.values);
    EXPECT_GT(size, 1);
  }
}

// Several tiles and parts of keys, in all numbers of threads.
TEST(AttentionTokenBias, CrossesTilesAndPartsWithTheSameBits) {
  for (const Kind kind : kinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    TermSample t(plain_sample(70, 2200, 1), kind, 5);
    for (auto* all : {&t.slopes.values, &t.queries.values})
      for (float& one : *all) one *= 0.1f;
    if (t.s.c.plan.edges) t.s.c.plan.edges->slopes = {0.02};
    std::vector<double> results[2];
    for (const int count : {1, 3}) {
      const ScopedThreads threads(count);
      BackwardPass<float> run(t.s);
      run(t.s.c);
      auto& all = results[count / 3];
      for (const auto* one : {&run.out, &run.q_grad, &run.k_grad, &run.v_grad})
        for (const double number : one->numbers().values) all.push_back(number);
      for (const auto& one :
           {doubles(run.key_slopes), doubles(run.edge_queries), doubles(run.edge_keys)})
        all.insert(all.end(), one.begin(), one.end());
      EXPECT_LE(worst(run.out.numbers().values, oracle(t.s.c, t.s.x).out.values), 1e-4);
    }
    EXPECT_EQ(results[0], results[1]);
  }
}

// Single tokens and parts of a prompt from the same cache.
TEST(AttentionTokenBias, DecodesAsTheFullPass) {
  const ScopedThreads one(1);
  for (const Kind kind : kinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    const TermSample whole(plain_sample(300, 300), kind, 6);
    BackwardPass<float> full(whole.s);
    full(whole.s.c);
    for (const auto& [begin, count] :
         {std::pair<int64_t, int64_t>{0, 1}, {1, 1}, {299, 1}, {256, 3}, {100, 150}}) {
      TermSample part(plain_sample(count, begin + count), kind, 6);
      const auto copy = [&](auto& to, const auto& from, int64_t row) {
        std::copy_n(from.values.data() + row * from.extents[2] * from.extents[3],
                    to.values.size(), to.values.data());
      };
      copy(part.s.x.q, whole.s.x.q, begin);
      copy(part.s.x.k, whole.s.x.k, 0);
      copy(part.s.x.v, whole.s.x.v, 0);
      if (kind == Kind::slopes) {
        for (int64_t h = 0; h < 2; ++h)
          for (int64_t j = 0; j < begin + count; ++j)
            part.slopes.view()(0, h, j) = whole.slopes.view()(0, h, j);
      } else {
        copy(part.queries, whole.queries, begin);
        copy(part.keys, whole.keys, 0);
      }
      BackwardPass<float> run(part.s);
      run(part.s.c);
      const auto got = run.out.numbers(), all = full.out.numbers();
      for (int64_t i = 0; i < count; ++i)
        for (int64_t h = 0; h < 2; ++h)
          for (int64_t d = 0; d < 16; ++d)
            ASSERT_NEAR(got.view()(0, i, h, d), all.view()(0, begin + i, h, d),
                        kind == Kind::slopes ? 1e-5 : 0);
    }
  }
}

// Terms of hidden keys may hold anything.
TEST(AttentionTokenBias, HiddenTermsNeverReachAResult) {
  for (const Kind kind : kinds)
    for (const float mark : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
      Sample s = plain_sample(40, 300);
      s.c.plan.mask.left = 270;
      Positions all = consecutive(300);
      for (int64_t t = 0; t < 300; ++t)
        all.sequences[static_cast<std::size_t>(t)] =
            t % 31 < 5 ? Positions::padding : static_cast<std::int32_t>(t / 290);
      s.c.plan.queries = std::make_shared<Positions>(rows_of(all, 260, 40));
      s.c.plan.keys = std::make_shared<Positions>(all);
      TermSample t(std::move(s), kind, 6);
      const auto results = [&] {
        BackwardPass<float> run(t.s);
        run(t.s.c);
        std::vector<double> joined;
        for (const auto* one : {&run.out, &run.q_grad, &run.k_grad, &run.v_grad})
          for (const double number : one->numbers().values) joined.push_back(number);
        for (const auto& one :
             {doubles(run.key_slopes), doubles(run.edge_queries), doubles(run.edge_keys)})
          joined.insert(joined.end(), one.begin(), one.end());
        return joined;
      };
      const auto clean = results();
      for (int64_t j = 0; j < 300; ++j) {
        bool seen = false;
        for (int64_t i = 0; i < 40; ++i) seen = seen || sees(t.s.c, 0, i, j);
        for (int64_t h = 0; h < 2 && !seen; ++h) {
          if (kind == Kind::slopes) t.slopes.view()(0, h, j) = mark;
          for (int64_t p = 0; p < t.keys.extents[3]; ++p) t.keys.view()(0, j, h, p) = mark;
        }
      }
      EXPECT_EQ(results(), clean);
    }
}

TEST(AttentionTokenBias, RefusesWrongArguments) {
  const auto message = [](Kind kind, const auto& spoil) {
    TermSample t(plain_sample(4, 4), kind, 6);
    spoil(t.s.c);
    BackwardPass<float> run(t.s);
    return message_of([&] { run(t.s.c); });
  };
  EXPECT_EQ(message(Kind::slopes, [](AttentionCase& c) { c.plan.key_slopes = false; }),
            "[attention] key_slopes must be given if and only if the plan requires them, got a "
            "tensor");
  EXPECT_EQ(message(Kind::slopes, [](AttentionCase& c) { c.key_slopes = {}; }),
            "[attention] key_slopes must be given if and only if the plan requires them, got "
            "none");
  const Tensor<float, 3> wrong({1, 2, 3});
  EXPECT_EQ(message(Kind::slopes, [&](AttentionCase& c) { c.key_slopes = wrong.view(); }),
            "[attention] key_slopes must be [1, 2, 4], got [1, 2, 3]");
  EXPECT_EQ(message(Kind::slopes, [](AttentionCase& c) { c.plan.gated = true; }),
            "[attention] gates must be given, because the bias of the plan is gated, got none");
  EXPECT_EQ(message(Kind::slopes, [](AttentionCase& c) { c.plan.mask.rate = 2; }),
            "[attention] a rate above 1 requires a plan without a bias or vectors by distance, "
            "got 2");
  EXPECT_EQ(message(Kind::edges, [](AttentionCase& c) { c.edge_keys = {}; }),
            "[attention] edge_queries and edge_keys must be given, because the plan has edges, "
            "got none");
  EXPECT_EQ(message(Kind::edges, [](AttentionCase& c) { c.plan.edges->slopes.pop_back(); }),
            "[attention] edges must have 2 slopes, got 1");
  EXPECT_EQ(message(Kind::edges, [](AttentionCase& c) { c.plan.edges->slopes[0] = -1; }),
            "[attention] slopes of edges must be finite and not negative, got -1");
  EXPECT_EQ(message(Kind::rotated_edges,
                    [](AttentionCase& c) {
                      c.plan.edge_rotary.emplace(
                          Rotary{.rotary_dim = 6, .pairing = Pairing::halves, .base = 2},
                          consecutive(3));
                    }),
            "[attention] the rotary table of edges must have 1 row or B, and a token for each "
            "key, 4, got 3");
  EXPECT_EQ(message(Kind::rotated_edges,
                    [](AttentionCase& c) {
                      c.plan.edge_rotary.emplace(
                          Rotary{.rotary_dim = 4, .pairing = Pairing::halves, .base = 2},
                          consecutive(4));
                    }),
            "[attention] the rotary table of edges must rotate all elements of edge_keys, 6, "
            "got 4");
  EXPECT_EQ(
      message(Kind::edges,
              [](AttentionCase& c) { c.plan.mask.visibility = Visibility::bidirectional; }),
      "[attention] edges must be causal, got bidirectional");
  EXPECT_EQ(message(Kind::edges, [](AttentionCase& c) { c.plan.bias = SlopeBias{{1, 1}}; }),
            "[attention] edges cannot be combined with a bias, got both");
  EXPECT_EQ(
      message(Kind::edges, [](AttentionCase& c) { c.plan.stick_breaking = StickBreaking{}; }),
      "[attention] edges cannot be combined with stick-breaking, got both");
}

}  // namespace token_bias_test
}  // namespace gnomon
