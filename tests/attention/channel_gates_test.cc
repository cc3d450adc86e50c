// Attention with gates of channels (Wall), compared with the naive version.
#include <gtest/gtest.h>

#include <memory>

#include "attention/pair_products.h"
#include "attention/sample.h"
#include "gnomon/parallel.h"
#include "naive/channel_gates.h"

namespace gnomon::channel_gates_test {

using namespace gnomon::testing;
using testing::Tensor;

struct GatedCase {
  AttentionCase c;
  AttentionTensors x;
  Tensor<float, 4> gates{{}};  // [B, S, Hq, D]
  Tensor<double, 4> out_grad{{}};

  void run(const auto& q, const auto& k, const auto& v, const AttentionPlan& plan, auto& out,
           const gnomon::Tensor& lse = {}) const {
    attention(
        {.q = q.view(), .k = k.view(), .v = v.view(), .terms = {.channel_gates = gates.view()}},
        plan, out.view(), lse);
  }
};

// strength: the mean logarithm of a gate.
GatedCase make(AttentionCase c, double strength, unsigned seed) {
  c.plan.softmax.scale = softmax_scale(c.size);
  c.plan.product = PairProduct::channel_gates;
  GatedCase made{c, {}, Tensor<float, 4>({c.batch, c.keys, c.heads, c.size})};
  made.x = {random_tensor<double, 4>({c.batch, c.queries, c.heads, c.size}, seed),
            random_tensor<double, 4>({c.batch, c.keys, c.key_heads, c.size}, seed + 1),
            random_tensor<double, 4>({c.batch, c.keys, c.key_heads, c.values}, seed + 2)};
  made.out_grad = random_tensor<double, 4>({c.batch, c.queries, c.heads, c.values}, seed + 3);
  const auto numbers = random_numbers(made.gates.values.size(), seed + 4);
  for (std::size_t n = 0; n < numbers.size(); ++n)  // multiples of 2^-12, for differences
    made.gates.values[n] =
        static_cast<float>(-std::round(strength * std::abs(numbers[n]) * 4096) / 4096);
  return made;
}

struct GatedOracle {
  Tensor<double, 4> out, q, k, v, gates;
};

GatedOracle exact(const GatedCase& made) {
  const AttentionCase& c = made.c;
  Tensor<double, 4> products({c.batch, c.heads, c.queries, c.keys}), gates(made.gates.extents);
  for (std::size_t n = 0; n < gates.values.size(); ++n)
    gates.values[n] = static_cast<double>(made.gates.values[n]);
  const auto for_heads = [&](const auto& body) {
    for (std::int64_t b = 0; b < c.batch; ++b)
      for (std::int64_t h = 0; h < c.heads; ++h)
        body(b, h, h / (c.heads / c.key_heads), [&, b](std::int64_t i, std::int64_t s) {
          if (!c.plan.queries) return true;
          const auto row = [&](const Positions& of, std::int64_t t) {
            return of.sequences[static_cast<std::size_t>(b % of.batch * of.tokens + t)];
          };
          return row(*c.plan.keys, s) == row(*c.plan.queries, i);
        });
  };
  const std::int64_t offset = c.offset();
  const auto matrix = [](const Tensor<double, 4>& x, std::int64_t b, std::int64_t h) {
    return head_matrix(x.view(), b, h);
  };
  const auto pairs = [&](Tensor<double, 4>& of, std::int64_t b, std::int64_t h) {
    return MutableMatrix(of.values.data() + (b * c.heads + h) * c.queries * c.keys,
                         {c.queries, c.keys});
  };
  for_heads([&](std::int64_t b, std::int64_t h, std::int64_t g, const auto& counts) {
    naive_gated_products(matrix(made.x.q, b, h), matrix(made.x.k, b, g), matrix(gates, b, h),
                         offset, counts, pairs(products, b, h));
  });
  PairResult result = pair_attention(c, products, made.x.v, made.out_grad);
  GatedOracle oracle{result.out, Tensor<double, 4>(made.x.q.extents),
                     Tensor<double, 4>(made.x.k.extents), result.v,
                     Tensor<double, 4>(gates.extents)};
  for_heads([&](std::int64_t b, std::int64_t h, std::int64_t g, const auto& counts) {
    naive_gated_products_backward(
        matrix(made.x.q, b, h), matrix(made.x.k, b, g), matrix(gates, b, h), offset, counts,
        pairs(result.products, b, h), head_matrix(oracle.q.view(), b, h),
        head_matrix(oracle.k.view(), b, g), head_matrix(oracle.gates.view(), b, h));
  });
  return oracle;
}

template <typename T>
struct Computed {
  Tensor<T, 4> out, q, k, v;
  Tensor<Accumulator<T>, 3> lse;
  Tensor<float, 4> gates;
};

template <typename T>
Computed<T> compute(const GatedCase& made) {
  const AttentionCase& c = made.c;
  const auto q = cast<T>(made.x.q), k = cast<T>(made.x.k), v = cast<T>(made.x.v),
             out_grad = cast<T>(made.out_grad);
  Computed<T> got{cast<T>(made.out_grad),
                  q,
                  k,
                  v,
                  Tensor<Accumulator<T>, 3>({c.batch, c.heads, c.queries}),
                  made.gates};
  made.run(q, k, v, c.plan, got.out, got.lse.view());
  attention_backward({.q = q.view(),
                      .k = k.view(),
                      .v = v.view(),
                      .terms = {.channel_gates = made.gates.view()}},
                     c.plan, got.out.view(), got.lse.view(), out_grad.view(),
                     {.q = got.q.view(),
                      .k = got.k.view(),
                      .v = got.v.view(),
                      .terms = {.channel_gates = got.gates.view()}});
  return got;
}

std::vector<GatedCase> all_cases() {
  std::vector<GatedCase> all;
  const auto with = [](std::int64_t batch, std::int64_t tokens, std::int64_t heads,
                       std::int64_t key_heads, std::int64_t size, std::int64_t values) {
    AttentionCase c{.batch = batch,
                    .queries = tokens,
                    .keys = tokens,
                    .heads = heads,
                    .key_heads = key_heads,
                    .size = size,
                    .values = values};
    return c;
  };
  all.push_back(make(with(2, 70, 4, 2, 20, 33), 0.1, 1));
  all.push_back(make(with(1, 530, 1, 1, 5, 3), 0.01, 11));  // three tiles
  AttentionCase c = with(1, 37, 2, 1, 16, 16);
  c.keys = 561, c.plan.mask.offset = 500, c.plan.mask.left = 300, c.plan.softmax.cap = 2;
  all.push_back(make(c, 0.02, 21));
  c = with(2, 300, 2, 2, 3, 4);
  c.plan.softmax.sinks = {0.5, -1};
  c.plan.bias = SlopeBias{.slopes = {0.1, 0.01}};
  std::vector<std::uint8_t> mask(600, 1);
  for (std::size_t t = 0; t < 270; ++t) mask[300 + t] = 0;
  c.plan.queries = std::make_shared<Positions>(
      from_padding_mask(View<const std::uint8_t, 2>(mask.data(), {2, 300}), 1));
  c.plan.keys = c.plan.queries;
  all.push_back(make(c, 0.2, 31));
  c = with(1, 330, 2, 1, 8, 8);
  const std::int64_t lengths[] = {9, 200, 101};
  c.plan.queries = std::make_shared<Positions>(packed(lengths, 330));
  c.plan.keys = c.plan.queries;
  all.push_back(make(c, 3, 41));  // gates that forget within some rows
  return all;
}

TEST(ChannelGates, EqualTheNaiveVersion) {
  int n = 0;
  for (const GatedCase& made : all_cases()) {
    SCOPED_TRACE(n++);
    const GatedOracle oracle = exact(made);
    const auto check = [&]<typename T>(T, double bound) {
      const Computed<T> got = compute<T>(made);
      EXPECT_LE(greatest_error(got.out, oracle.out), bound);
      EXPECT_LE(greatest_error(got.q, oracle.q), bound);
      EXPECT_LE(greatest_error(got.k, oracle.k), bound);
      EXPECT_LE(greatest_error(got.v, oracle.v), bound);
      EXPECT_LE(greatest_error(got.gates, oracle.gates), bound);
    };
    check(float(), 0x1p-17);
    // The gates and their gradient are floats.
    const Computed<double> got = compute<double>(made);
    EXPECT_LE(greatest_error(got.out, oracle.out), 1e-13);
    EXPECT_LE(greatest_error(got.q, oracle.q), 1e-13);
    EXPECT_LE(greatest_error(got.k, oracle.k), 1e-13);
    EXPECT_LE(greatest_error(got.gates, oracle.gates), 0x1p-23);
  }
}

TEST(ChannelGates, HalfTypesRoundOnce) {
  const GatedCase made = all_cases()[0];
  EXPECT_LE(greatest_error(compute<BFloat16>(made).out, exact(made).out), 0x1p-6);
}

TEST(ChannelGates, GradientsEqualDifferences) {
  GatedCase made =
      make({.queries = 20, .keys = 20, .heads = 2, .size = 3, .values = 4}, 0.3, 51);
  made.c.plan.softmax.sinks = {0.5, -1};
  const auto loss = [&] {
    Tensor<double, 4> out(made.out_grad.extents);
    made.run(made.x.q, made.x.k, made.x.v, made.c.plan, out);
    double sum = 0;
    for (std::size_t n = 0; n < out.values.size(); ++n)
      sum += out.values[n] * made.out_grad.values[n];
    return sum;
  };
  const Computed<double> got = compute<double>(made);
  const auto check = [&](auto& values, const auto& grad, double step) {
    for (std::size_t n = 0; n < values.size(); n += 7) {
      const auto before = values[n];
      values[n] = static_cast<std::decay_t<decltype(before)>>(before + step);
      const double more = loss();
      values[n] = static_cast<std::decay_t<decltype(before)>>(before - step);
      const double less = loss();
      values[n] = before;
      EXPECT_NEAR(static_cast<double>(grad[n]), (more - less) / (2 * step), 1e-6) << n;
    }
  };
  for (float& gate : made.gates.values) gate -= 0x1p-10f;
  const Computed<double> again = compute<double>(made);
  check(made.gates.values, again.gates.values, 0x1p-12);
  check(made.x.q.values, again.q.values, 1e-5);
  check(made.x.k.values, again.k.values, 1e-5);
  EXPECT_NE(got.gates.values, again.gates.values);
}

// Rows [begin, end) of a tensor [1, T, ...] become NaN.
template <typename T>
void spoil(Tensor<T, 4>& x, std::int64_t begin, std::int64_t end) {
  const auto row = x.values.size() / static_cast<std::size_t>(x.extents[1]);
  for (std::size_t n = static_cast<std::size_t>(begin) * row;
       n < static_cast<std::size_t>(end) * row; ++n)
    x.values[n] = static_cast<T>(NAN);
}

template <typename T>
void expect_equal_rows(const Tensor<T, 4>& a, const Tensor<T, 4>& b, std::int64_t begin,
                       std::int64_t end) {
  const auto row = a.values.size() / static_cast<std::size_t>(a.extents[1]);
  for (std::size_t n = static_cast<std::size_t>(begin) * row;
       n < static_cast<std::size_t>(end) * row; ++n)
    ASSERT_EQ(a.values[n], b.values[n]) << n / row;
}

TEST(ChannelGates, HiddenRowsNeverReachAQuery) {
  GatedCase made =
      make({.queries = 330, .keys = 330, .heads = 2, .key_heads = 1, .size = 8, .values = 8},
           0.1, 61);
  const std::int64_t lengths[] = {9, 200, 121};
  made.c.plan.queries = std::make_shared<Positions>(packed(lengths, 330));
  made.c.plan.keys = made.c.plan.queries;
  const Computed<float> clean = compute<float>(made);
  for (const auto& [begin, end] : {std::pair{9, 209}, {0, 9}, {209, 330}}) {
    GatedCase spoilt = made;
    spoil(spoilt.x.q, begin, end), spoil(spoilt.x.k, begin, end);
    spoil(spoilt.x.v, begin, end), spoil(spoilt.gates, begin, end);
    const Computed<float> got = compute<float>(spoilt);
    for (const auto& [first, last] : {std::pair{0, 9}, {9, 209}, {209, 330}}) {
      if (first == begin) continue;
      expect_equal_rows(got.out, clean.out, first, last);
      expect_equal_rows(got.q, clean.q, first, last);
      expect_equal_rows(got.k, clean.k, first, last);
      expect_equal_rows(got.gates, clean.gates, first, last);
    }
  }
  // Later rows, of one sequence.
  made.c.plan.queries = made.c.plan.keys = nullptr;
  const Computed<float> whole = compute<float>(made);
  for (const std::int64_t from : {250, 300}) {
    GatedCase spoilt = made;
    spoil(spoilt.x.k, from, 330), spoil(spoilt.x.v, from, 330), spoil(spoilt.gates, from, 330);
    const Computed<float> got = compute<float>(spoilt);
    expect_equal_rows(got.out, whole.out, 0, from);
    expect_equal_rows(got.q, whole.q, 0, from);
  }
}

TEST(ChannelGates, BitsDependNeitherOnThreadsNorOnOtherQueries) {
  const GatedCase made =
      make({.queries = 400, .keys = 400, .heads = 4, .key_heads = 2, .size = 16, .values = 16},
           0.05, 71);
  const Computed<float> one = compute<float>(made);
  const int before = threads();
  set_threads(3);
  const Computed<float> three = compute<float>(made);
  set_threads(before);
  EXPECT_EQ(one.out.values, three.out.values);
  EXPECT_EQ(one.gates.values, three.gates.values);
  EXPECT_EQ(one.k.values, three.k.values);
  // Decoding in parts, from a cache.
  for (const auto& [first, count] : {std::pair{0, 1}, {37, 100}, {255, 3}, {399, 1}}) {
    AttentionPlan plan = made.c.plan;
    plan.mask.offset = first;
    Tensor<float, 4> q({1, count, 4, 16}), out({1, count, 4, 16});
    const auto whole = cast<float>(made.x.q);
    std::copy_n(whole.values.begin() + first * 64, count * 64, q.values.begin());
    const auto k = cast<float>(made.x.k), v = cast<float>(made.x.v);
    made.run(q, k, v, plan, out);
    for (std::int64_t n = 0; n < count * 64; ++n)
      ASSERT_EQ(out.values[static_cast<std::size_t>(n)],
                one.out.values[static_cast<std::size_t>(first * 64 + n)]);
  }
}

TEST(ChannelGates, AGateOfZeroForgets) {
  GatedCase made = make({.queries = 300, .keys = 300, .size = 4, .values = 4}, 0.1, 81);
  for (std::size_t n = 0; n < 4; ++n)
    made.gates.values[280 * 4 + n] = -std::numeric_limits<float>::infinity();
  GatedCase finite = made;
  for (std::size_t n = 0; n < 4; ++n) finite.gates.values[280 * 4 + n] = -1e6f;
  EXPECT_LE(greatest_error(compute<float>(made).out, exact(finite).out), 0x1p-17);
}

TEST(ChannelGates, Refusals) {
  GatedCase made = make({.queries = 3, .keys = 3, .size = 2, .values = 2}, 0.1, 91);
  Tensor<double, 4> out({1, 3, 1, 2});
  const auto message = [&] {
    return message_of([&] { made.run(made.x.q, made.x.k, made.x.v, made.c.plan, out); });
  };
  EXPECT_EQ(message(), "");
  made.c.plan.mask.visibility = Visibility::bidirectional;
  EXPECT_EQ(message(),
            "[attention] with channel_gates, the mask must be causal, got bidirectional");
  made.c.plan.mask = {.visibility = Visibility::causal, .offset = 1};
  EXPECT_EQ(message(),
            "[attention] with channel_gates, offset must be at most keys - queries = 0, got 1");
  made.c.plan.mask.offset = 0;
  made.gates.values[3] = 0.5;
  EXPECT_EQ(message(), "[attention] channel_gates must not be positive, got 0.5");
  made.gates = Tensor<float, 4>({1, 3, 1, 1});
  EXPECT_EQ(message(),
            "[attention] channel_gates must be [B, S, Hq, D]; axis 3 must be 2, got 1");
  made.gates = Tensor<float, 4>({1, 3, 1, 2});
  made.c.plan.keys = made.c.plan.queries = std::make_shared<Positions>(
      Positions{.batch = 1, .tokens = 3, .ids = {0, 0, 1}, .sequences = {0, 1, 0}});
  EXPECT_EQ(message(),
            "[attention] with channel_gates, the rows of a sequence must be adjacent, of "
            "sequence, got 0");
}

}  // namespace gnomon::channel_gates_test
