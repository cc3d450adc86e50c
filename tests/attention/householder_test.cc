// Attention through Householder factors (PaTH), compared with the naive version.
#include <gtest/gtest.h>

#include <memory>

#include "attention/pair_products.h"
#include "attention/sample.h"
#include "gnomon/parallel.h"
#include "naive/householder.h"

namespace gnomon::householder_test {

using namespace gnomon::testing;
using testing::Tensor;

struct ReflectedCase {
  AttentionCase c;
  AttentionTensors x;
  Tensor<float, 4> w{{}};      // [B, S, Hk, D]
  Tensor<float, 3> betas{{}};  // [B, Hk, S]
  Tensor<double, 4> out_grad{{}};

  void run(const auto& q, const auto& k, const auto& v, const AttentionPlan& plan, auto& out,
           const gnomon::Tensor& lse = {}) const {
    attention({.q = q.view(),
               .k = k.view(),
               .v = v.view(),
               .terms = {.householder = w.view(), .betas = betas.view()}},
              plan, out.view(), lse);
  }
};

// Directions of length 1 and strengths in (0, 2), rounded to multiples of 2^-12.
ReflectedCase make(AttentionCase c, unsigned seed) {
  c.plan.softmax.scale = softmax_scale(c.size);
  c.plan.product = PairProduct::householder;
  ReflectedCase made{c,
                     {},
                     random_tensor<float, 4>({c.batch, c.keys, c.key_heads, c.size}, seed + 5),
                     random_tensor<float, 3>({c.batch, c.key_heads, c.keys}, seed + 4)};
  made.x = {random_tensor<double, 4>({c.batch, c.queries, c.heads, c.size}, seed),
            random_tensor<double, 4>({c.batch, c.keys, c.key_heads, c.size}, seed + 1),
            random_tensor<double, 4>({c.batch, c.keys, c.key_heads, c.values}, seed + 2)};
  made.out_grad = random_tensor<double, 4>({c.batch, c.queries, c.heads, c.values}, seed + 3);
  const auto rounded = [](double x) { return static_cast<float>(std::round(x * 4096) / 4096); };
  for (std::size_t row = 0; row < made.w.values.size();
       row += static_cast<std::size_t>(c.size)) {
    double squares = 0;
    for (std::int64_t n = 0; n < c.size; ++n)
      squares += std::pow(made.w.values[row + static_cast<std::size_t>(n)], 2);
    for (std::int64_t n = 0; n < c.size; ++n) {
      float& w = made.w.values[row + static_cast<std::size_t>(n)];
      w = rounded(w / std::sqrt(squares));
    }
  }
  for (float& beta : made.betas.values) beta = rounded(2 / (1 + std::exp(-double{beta})));
  return made;
}

struct ReflectedOracle {
  Tensor<double, 4> out, q, k, v, w;
  Tensor<double, 3> betas;
};

template <std::size_t Rank>
Tensor<double, Rank> widened(const Tensor<float, Rank>& from) {
  Tensor<double, Rank> to(from.extents);
  for (std::size_t n = 0; n < to.values.size(); ++n)
    to.values[n] = static_cast<double>(from.values[n]);
  return to;
}

ReflectedOracle exact(const ReflectedCase& made) {
  const AttentionCase& c = made.c;
  Tensor<double, 4> products({c.batch, c.heads, c.queries, c.keys});
  const auto w = widened(made.w);
  const auto betas = widened(made.betas);
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
    naive_householder_products(matrix(made.x.q, b, h), matrix(made.x.k, b, g), matrix(w, b, g),
                               betas.view()[b][g], offset, counts, pairs(products, b, h));
  });
  PairResult result = pair_attention(c, products, made.x.v, made.out_grad);
  ReflectedOracle oracle{
      result.out, Tensor<double, 4>(made.x.q.extents), Tensor<double, 4>(made.x.k.extents),
      result.v,   Tensor<double, 4>(w.extents),        Tensor<double, 3>(betas.extents)};
  for_heads([&](std::int64_t b, std::int64_t h, std::int64_t g, const auto& counts) {
    naive_householder_products_backward(
        matrix(made.x.q, b, h), matrix(made.x.k, b, g), matrix(w, b, g), betas.view()[b][g],
        offset, counts, pairs(result.products, b, h), head_matrix(oracle.q.view(), b, h),
        head_matrix(oracle.k.view(), b, g), head_matrix(oracle.w.view(), b, g),
        oracle.betas.view()[b][g]);
  });
  return oracle;
}

template <typename T>
struct Reflected {
  Tensor<T, 4> out, q, k, v;
  Tensor<Accumulator<T>, 3> lse;
  Tensor<float, 4> w;
  Tensor<float, 3> betas;
};

template <typename T>
Reflected<T> compute(const ReflectedCase& made) {
  const AttentionCase& c = made.c;
  const auto q = cast<T>(made.x.q), k = cast<T>(made.x.k), v = cast<T>(made.x.v),
             out_grad = cast<T>(made.out_grad);
  Reflected<T> got{
      out_grad, q,         k, v, Tensor<Accumulator<T>, 3>({c.batch, c.heads, c.queries}),
      made.w,   made.betas};
  made.run(q, k, v, c.plan, got.out, got.lse.view());
  attention_backward({.q = q.view(),
                      .k = k.view(),
                      .v = v.view(),
                      .terms = {.householder = made.w.view(), .betas = made.betas.view()}},
                     c.plan, got.out.view(), got.lse.view(), out_grad.view(),
                     {.q = got.q.view(),
                      .k = got.k.view(),
                      .v = got.v.view(),
                      .terms = {.householder = got.w.view(), .betas = got.betas.view()}});
  return got;
}

std::vector<ReflectedCase> all_cases() {
  std::vector<ReflectedCase> all;
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
  all.push_back(make(with(2, 70, 4, 2, 20, 33), 1));
  all.push_back(make(with(1, 530, 1, 1, 5, 3), 11));  // three tiles
  AttentionCase c = with(1, 37, 2, 1, 16, 16);
  c.keys = 561, c.plan.mask.offset = 500, c.plan.mask.left = 300, c.plan.softmax.cap = 2;
  all.push_back(make(c, 21));
  c = with(2, 300, 2, 2, 3, 4);
  c.plan.softmax.sinks = {0.5, -1};
  c.plan.bias = SlopeBias{.slopes = {0.1, 0.01}};
  std::vector<std::uint8_t> mask(600, 1);
  for (std::size_t t = 0; t < 270; ++t) mask[300 + t] = 0;
  c.plan.queries = std::make_shared<Positions>(
      from_padding_mask(View<const std::uint8_t, 2>(mask.data(), {2, 300}), 1));
  c.plan.keys = c.plan.queries;
  all.push_back(make(c, 31));
  c = with(1, 330, 2, 1, 8, 8);
  const std::int64_t lengths[] = {9, 200, 101};
  c.plan.queries = std::make_shared<Positions>(packed(lengths, 330));
  c.plan.keys = c.plan.queries;
  all.push_back(make(c, 41));
  return all;
}

TEST(Householder, EqualsTheNaiveVersion) {
  int n = 0;
  for (const ReflectedCase& made : all_cases()) {
    SCOPED_TRACE(n++);
    const ReflectedOracle oracle = exact(made);
    const auto check = [&]<typename T>(T, double bound, double of_terms) {
      const Reflected<T> got = compute<T>(made);
      EXPECT_LE(greatest_error(got.out, oracle.out), bound);
      EXPECT_LE(greatest_error(got.q, oracle.q), bound);
      EXPECT_LE(greatest_error(got.k, oracle.k), bound);
      EXPECT_LE(greatest_error(got.v, oracle.v), bound);
      EXPECT_LE(greatest_error(got.w, oracle.w), of_terms);
      EXPECT_LE(greatest_error(got.betas, oracle.betas), of_terms);
    };
    check(float(), 0x1p-16, 0x1p-16);
    check(double(), 1e-12, 0x1p-23);  // the gradients of the terms are floats
  }
}

TEST(Householder, GradientsEqualDifferences) {
  ReflectedCase made =
      make({.queries = 20, .keys = 20, .heads = 2, .size = 3, .values = 4}, 51);
  const auto loss = [&] {
    Tensor<double, 4> out(made.out_grad.extents);
    made.run(made.x.q, made.x.k, made.x.v, made.c.plan, out);
    double sum = 0;
    for (std::size_t n = 0; n < out.values.size(); ++n)
      sum += out.values[n] * made.out_grad.values[n];
    return sum;
  };
  const Reflected<double> got = compute<double>(made);
  const auto check = [&](auto& values, const auto& grad, double step) {
    for (std::size_t n = 0; n < values.size(); n += 7) {
      const auto before = values[n];
      values[n] = static_cast<std::decay_t<decltype(before)>>(before + step);
      const double more = loss();
      values[n] = static_cast<std::decay_t<decltype(before)>>(before - step);
      const double less = loss();
      values[n] = before;
      EXPECT_NEAR(static_cast<double>(grad[n]), (more - less) / (2 * step), 1e-5) << n;
    }
  };
  check(made.w.values, got.w.values, 0x1p-12);
  check(made.betas.values, got.betas.values, 0x1p-12);
  check(made.x.q.values, got.q.values, 1e-5);
  check(made.x.k.values, got.k.values, 1e-5);
}

template <typename T, std::size_t Rank>
void spoil(Tensor<T, Rank>& x, std::int64_t begin, std::int64_t end) {
  const auto tokens = static_cast<std::size_t>(x.extents[Rank == 4 ? 1 : 2]);
  const std::size_t row = Rank == 4 ? x.values.size() / tokens : 1;
  for (std::size_t n = 0; n < x.values.size(); ++n)
    if (const auto t = static_cast<std::int64_t>(n / row % tokens); t >= begin && t < end)
      x.values[n] = static_cast<T>(NAN);
}

template <typename T, std::size_t Rank>
void expect_equal_rows(const Tensor<T, Rank>& a, const Tensor<T, Rank>& b, std::int64_t begin,
                       std::int64_t end) {
  const auto tokens = static_cast<std::size_t>(a.extents[Rank == 4 ? 1 : 2]);
  const std::size_t row = Rank == 4 ? a.values.size() / tokens : 1;
  for (std::size_t n = 0; n < a.values.size(); ++n)
    if (const auto t = static_cast<std::int64_t>(n / row % tokens); t >= begin && t < end) {
      ASSERT_EQ(a.values[n], b.values[n]) << t;
    }
}

TEST(Householder, HiddenRowsNeverReachAQuery) {
  ReflectedCase made = make(
      {.queries = 330, .keys = 330, .heads = 2, .key_heads = 1, .size = 8, .values = 8}, 61);
  const std::int64_t lengths[] = {9, 200, 121};
  made.c.plan.queries = std::make_shared<Positions>(packed(lengths, 330));
  made.c.plan.keys = made.c.plan.queries;
  const Reflected<float> clean = compute<float>(made);
  for (const auto& [begin, end] : {std::pair{9, 209}, {0, 9}, {209, 330}}) {
    ReflectedCase spoilt = made;
    spoil(spoilt.x.q, begin, end), spoil(spoilt.x.k, begin, end);
    spoil(spoilt.x.v, begin, end), spoil(spoilt.w, begin, end);
    spoil(spoilt.betas, begin, end);
    const Reflected<float> got = compute<float>(spoilt);
    for (const auto& [first, last] : {std::pair{0, 9}, {9, 209}, {209, 330}}) {
      if (first == begin) continue;
      expect_equal_rows(got.out, clean.out, first, last);
      expect_equal_rows(got.q, clean.q, first, last);
      expect_equal_rows(got.k, clean.k, first, last);
      expect_equal_rows(got.w, clean.w, first, last);
      expect_equal_rows(got.betas, clean.betas, first, last);
    }
  }
  // Later rows, and rows left of a window, of one sequence.
  made.c.plan.queries = made.c.plan.keys = nullptr;
  const Reflected<float> whole = compute<float>(made);
  for (const std::int64_t from : {250, 300}) {
    ReflectedCase spoilt = made;
    spoil(spoilt.x.k, from, 330), spoil(spoilt.x.v, from, 330);
    spoil(spoilt.w, from, 330), spoil(spoilt.betas, from, 330);
    const Reflected<float> got = compute<float>(spoilt);
    expect_equal_rows(got.out, whole.out, 0, from);
    expect_equal_rows(got.q, whole.q, 0, from);
  }
  made.c.plan.mask.left = 30;
  const Reflected<float> window = compute<float>(made);
  spoil(made.x.k, 0, 200), spoil(made.x.v, 0, 200), spoil(made.w, 0, 200);
  const Reflected<float> got = compute<float>(made);
  expect_equal_rows(got.out, window.out, 230, 330);
  expect_equal_rows(got.q, window.q, 230, 330);
}

TEST(Householder, BitsDependNeitherOnThreadsNorOnOtherQueries) {
  const ReflectedCase made = make(
      {.queries = 400, .keys = 400, .heads = 4, .key_heads = 2, .size = 16, .values = 16}, 71);
  const Reflected<float> one = compute<float>(made);
  const int before = threads();
  set_threads(3);
  const Reflected<float> three = compute<float>(made);
  set_threads(before);
  EXPECT_EQ(one.out.values, three.out.values);
  EXPECT_EQ(one.w.values, three.w.values);
  EXPECT_EQ(one.k.values, three.k.values);
  // Decoding in parts, from a cache of keys and factors.
  const auto k = cast<float>(made.x.k), v = cast<float>(made.x.v), q = cast<float>(made.x.q);
  for (const auto& [first, count] : {std::pair{0, 1}, {37, 100}, {255, 3}, {399, 1}}) {
    AttentionPlan plan = made.c.plan;
    plan.mask.offset = first;
    Tensor<float, 4> part({1, count, 4, 16}), out({1, count, 4, 16});
    std::copy_n(q.values.begin() + first * 64, count * 64, part.values.begin());
    made.run(part, k, v, plan, out);
    for (std::int64_t n = 0; n < count * 64; ++n)
      ASSERT_EQ(out.values[static_cast<std::size_t>(n)],
                one.out.values[static_cast<std::size_t>(first * 64 + n)]);
  }
}

TEST(Householder, Refusals) {
  ReflectedCase made = make({.queries = 3, .keys = 3, .size = 2, .values = 2}, 91);
  Tensor<double, 4> out({1, 3, 1, 2});
  const auto message = [&] {
    return message_of([&] { made.run(made.x.q, made.x.k, made.x.v, made.c.plan, out); });
  };
  EXPECT_EQ(message(), "");
  made.c.plan.mask.visibility = Visibility::bidirectional;
  EXPECT_EQ(message(),
            "[attention] with householder, the mask must be causal, got bidirectional");
  made.c.plan.product = PairProduct::dot;
  EXPECT_EQ(message(),
            "[attention] householder must be given if and only if the product of the plan "
            "requires it, got a tensor");
}

}  // namespace gnomon::householder_test
