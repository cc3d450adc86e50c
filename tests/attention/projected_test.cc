// Attention with projected relative vectors (Inkling's relative logits) and sinks of queries.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "attention/backward_pass.h"
#include "attention/bounds.h"
#include "attention/projected_terms.h"
#include "gnomon/attention/attention.h"
#include "gnomon/isa.h"
#include "naive/attention.h"

namespace gnomon {
namespace projected_test {

using namespace gnomon::testing;
using testing::Tensor;

std::vector<double> all(const BackwardPass<float>& pass) {
  std::vector<double> numbers;
  const auto take = [&](const auto& more) {
    for (const auto number : more) numbers.push_back(static_cast<double>(number));
  };
  for (const auto* one : {&pass.out, &pass.q_grad, &pass.k_grad, &pass.v_grad})
    take(one->numbers().values);
  for (const auto& table : pass.relative.projected) take(table);
  take(pass.relative_queries.values), take(pass.query_sinks.values);
  return numbers;
}

double longest(View<const float, 4> x) {
  Tensor<double, 4> copy(x.extents());
  for (std::ptrdiff_t b = 0; b < x.extent(0); ++b)
    for (std::ptrdiff_t i = 0; i < x.extent(1); ++i)
      for (std::ptrdiff_t h = 0; h < x.extent(2); ++h)
        for (std::ptrdiff_t n = 0; n < x.extent(3); ++n)
          copy.view()(b, i, h, n) = static_cast<double>(x(b, i, h, n));
  return testing::longest(copy);
}

// The error bounds of the header.
template <typename T>
void expect_within(const ProjectedSample& s) {
  const AttentionCase c = with_terms(s.c);
  BackwardPass<T> run(s);
  const AttentionTensors x{run.q.numbers(), run.k.numbers(), run.v.numbers()};
  const auto out_grad = run.out_grad.numbers();
  const AttentionOracle forward = oracle(c, x);
  const auto exact = oracle_backward(c, x, out_grad);
  const ProjectedGradients of = projected_gradients(c, exact);
  const double weight = heaviest(c, exact.weights);
  const double e =
      (std::is_same_v<T, double> ? 0x1p-46 : 0x1p-18) + (sizeof(T) == 2 ? 2 * half_ulp<T> : 0);
  const double tiny = sizeof(T) == 2 ? 0x1p-24 : 0;
  const RelativeForm& form = relative(c);
  const double q = testing::longest(ready_queries(c, x.q)), k = testing::longest(x.k);
  const double product =
      testing::longest(out_grad) * (testing::longest(x.v) + testing::longest(form.values));
  const double r_length = longest(c.relative_queries);
  const double vector_length = testing::longest(form.projected);
  const double of_float = 0x1p-24;  // terms and their gradients are floats
  for (Isa isa : available_isas()) {
    SCOPED_TRACE(std::string(name(isa)) + ", " + s.text);
    const ScopedIsa scope(isa);
    run(c);
    expect_within_bounds<T>(run.out.numbers(), run.lse, forward,
                            greatest(x.v.values) + testing::longest(form.values));
    EXPECT_LE(worst(run.q_grad.numbers().values, exact.q.values),
              e * c.scale() * product * (k + testing::longest(form.keys)) + tiny);
    EXPECT_LE(worst(run.k_grad.numbers().values, exact.k.values),
              e * c.scale() * product * (q + testing::longest(form.queries)) * weight + tiny);
    EXPECT_LE(worst(run.v_grad.numbers().values, exact.v.values),
              e * greatest(out_grad.values) * weight + tiny);
    ASSERT_EQ(run.relative.projected.size(), form.projected.size());
    for (std::size_t t = 0; t < form.projected.size(); ++t) {
      const auto& got = run.relative.projected[t];
      ASSERT_EQ(got.size(), of.tables.vectors[t].size());
      for (std::size_t n = 0; n < got.size(); ++n)
        ASSERT_NEAR(got[n], of.tables.vectors[t][n],
                    e * product * r_length *
                            of.tables.weight[t][n / (got.size() / of.tables.weight[t].size())] +
                        1e-300);
    }
    const auto& r = run.relative_queries.values;
    ASSERT_EQ(r.size(), of.relative_queries.values.size());
    for (std::size_t n = 0; n < r.size(); ++n)
      ASSERT_NEAR(static_cast<double>(r[n]), of.relative_queries.values[n],
                  (e + of_float) * product * vector_length);
    for (std::size_t n = 0; n < run.query_sinks.values.size(); ++n)
      ASSERT_NEAR(static_cast<double>(run.query_sinks.values[n]), of.sinks.values[n],
                  (e + of_float) * product);
  }
}

TEST(AttentionProjected, KeepsTheErrorPromisedByTheHeader) {
  const ScopedThreads one(1);
  unsigned seed = 1;
  const auto next = [&] {  // the oracle of a larger sample takes too long
    for (;;) {
      ProjectedSample s = projected_sample(seed++);
      const AttentionCase& c = s.c;
      if (c.batch * c.queries * c.keys * c.heads * (c.size + c.values) <= 1'000'000) return s;
    }
  };
  for (int n = 0; n < 9; ++n) expect_within<float>(next());
  for (int n = 0; n < 3; ++n) expect_within<double>(next());
  expect_within<Half>(next()), expect_within<BFloat16>(next());
}

// Compares the chain rule of the reference with finite differences.
TEST(AttentionProjected, AgreesWithFiniteDifferences) {
  int tried = 0;
  for (unsigned seed = 100; tried < 3; ++seed) {
    ProjectedSample s = projected_sample(seed);
    if (s.c.queries * s.c.keys * s.c.heads > 2000 || s.c.keys < 2 || !s.c.sinks.data())
      continue;
    ++tried;
    SCOPED_TRACE(s.text);
    BackwardPass<double> run(s);
    run(s.c);
    const auto loss = [&] {
      const auto out = oracle(with_terms(s.c), s.x).out;
      return static_cast<double>(testing::dot(out.values.data(), s.out_grad.values.data(),
                                              static_cast<std::int64_t>(out.values.size())));
    };
    const auto check = [&](auto& number, double got) {
      const auto before = number;
      using Number = std::remove_reference_t<decltype(number)>;
      const Number step = static_cast<Number>(0x1p-12);
      number = before + step;
      const double up = loss(), above = static_cast<double>(number);
      number = before - step;
      const double down = loss(), width = above - static_cast<double>(number);
      number = before;
      ASSERT_NEAR(got, (up - down) / width, 2e-6 * std::max(1.0, std::abs(got)));
    };
    auto& tables = s.c.plan.relative.projected;
    for (std::size_t t = 0; t < tables.size(); ++t)
      for (std::size_t n = 0; n < tables[t].values.size();
           n += 1 + tables[t].values.size() / 20)
        check(tables[t].values[n], run.relative.projected[t][n]);
    auto& r = s.relative_queries.values;
    for (std::size_t n = 0; n < r.size(); n += 1 + r.size() / 20)
      check(r[n], static_cast<double>(run.relative_queries.values[n]));
    for (std::size_t n = 0; n < s.sinks.values.size(); ++n)
      check(s.sinks.values[n], static_cast<double>(run.query_sinks.values[n]));
  }
}

TEST(AttentionProjected, HasTheSameBitsForAnyNumberOfThreads) {
  for (unsigned seed = 1; seed <= 6; ++seed) {
    const ProjectedSample s = projected_sample(seed);
    SCOPED_TRACE(s.text);
    BackwardPass<float> one(s), many(s);
    {
      const ScopedThreads alone(1);
      one(s.c);
    }
    const ScopedThreads several(7);
    many(s.c);
    EXPECT_EQ(all(one), all(many));
  }
}

// A causal call of `queries` queries after `offset` rows of a cache, with a table of 1024
// distances as Inkling's, and a window if it is not 0.
struct Inkling {
  std::int64_t rows = 700, heads = 4, key_heads = 2, size = 32, rank = 16, extent = 300;
  Tensor<float, 4> q = random_tensor<float, 4>({1, rows, heads, size}, 1),
                   k = random_tensor<float, 4>({1, rows, key_heads, size}, 2),
                   v = random_tensor<float, 4>({1, rows, key_heads, size}, 3),
                   r = random_tensor<float, 4>({1, rows, heads, rank}, 4);
  Tensor<float, 3> sinks = random_tensor<float, 3>({1, heads, rows}, 5);
  AttentionPlan plan = {.mask = {.visibility = Visibility::causal}};

  Inkling() {
    RelativeVectors table{.heads = 1, .head_dim = rank, .min_distance = 1 - extent};
    for (std::int64_t d = 0; d < extent; ++d) table.rows.push_back(static_cast<int>(d));
    table.values = random_numbers(static_cast<std::size_t>(extent * rank), 6);
    plan.relative.projected = {table};
  }
  // The output of the queries [begin, end) with the keys before `end`.
  std::vector<float> operator()(std::int64_t begin, std::int64_t end) {
    Tensor<float, 4> out({1, end - begin, heads, size});
    plan.mask.offset = begin;
    const auto rows_of = [&](auto& x, std::int64_t first) {
      return x.view().slice(1, first, end - first);
    };
    attention({.q = rows_of(q, begin),
               .k = rows_of(k, 0),
               .v = rows_of(v, 0),
               .terms = {.relative_queries = rows_of(r, begin),
                         .sinks = sinks.view().slice(2, begin, end - begin)}},
              plan, out.view());
    return out.values;
  }
};

TEST(AttentionProjected, DecodesAsThePrompt) {
  Inkling call;
  for (const std::optional<std::int64_t> left : {std::optional<std::int64_t>(), {99}}) {
    call.plan.mask.left = left;
    const std::vector<float> whole = call(0, call.rows);
    const auto row = static_cast<std::size_t>(call.heads * call.size);
    for (const auto& [begin, end] :
         {std::pair{0, 300}, {300, 700}, {5, 6}, {699, 700}, {696, 700}}) {
      const std::vector<float> part = call(begin, end);
      for (std::size_t n = 0; n < part.size(); ++n)
        ASSERT_NEAR(part[n], whole[static_cast<std::size_t>(begin) * row + n],
                    end - begin < 9 ? 4e-6 : 0)
            << begin << " to " << end << ", number " << n;
    }
  }
}

// Later rows, and vectors of distances that no query sees, do not reach a result. A relative
// query that is not finite reaches its own row only.
TEST(AttentionProjected, HiddenRowsAndVectorsNeverReachAResult) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  Inkling clean, spoilt;
  clean.plan.mask.left = spoilt.plan.mask.left = 99;
  auto& table = spoilt.plan.relative.projected[0].values;
  std::fill(table.begin(), table.end() - 100 * spoilt.rank, nan);
  for (std::int64_t n = 0; n < spoilt.heads * spoilt.rank; ++n)
    spoilt.r.values[static_cast<std::size_t>(400 * spoilt.heads * spoilt.rank + n)] = nan;
  const std::vector<float> a = clean(0, 700), b = spoilt(0, 700);
  const auto row = static_cast<std::size_t>(clean.heads * clean.size);
  for (std::size_t n = 0; n < a.size(); ++n)
    if (n / row == 400)
      ASSERT_TRUE(std::isnan(b[n]));
    else
      ASSERT_EQ(a[n], b[n]) << n / row;
}

TEST(AttentionProjected, ScoresAgreeWithTheNaiveVersion) {
  const std::int64_t queries = 5, keys = 9, size = 3, offset = 4, extent = 6;
  RelativeForm form;
  form.projected = {{.heads = 1,
                     .head_dim = size,
                     .min_distance = 1 - extent,
                     .rows = {0, 1, 2, 3, 4, 5},
                     .values = random_numbers(18, 7)}};
  const Tensor<double, 3> r = random_tensor<double, 3>({queries, 1, size}, 8);
  Tensor<double, 3> out({1, queries, keys});
  Tensor<double, 2> naive({queries, keys});
  projected_scores(form, offset, r.view(), out.view());
  naive_projected_scores(Matrix(r.values.data(), {queries, size}),
                         Matrix(form.projected[0].values.data(), {extent, size}), 1 - extent,
                         offset, naive.view());
  for (std::size_t n = 0; n < naive.values.size(); ++n)
    EXPECT_NEAR(out.values[n], naive.values[n], 1e-14);
}

TEST(AttentionProjected, RefusesWhatDoesNotFit) {
  const Tensor<float, 4> x({1, 3, 2, 4}), r({1, 3, 2, 5}), wide({1, 3, 2, 6});
  const Tensor<float, 3> sinks({1, 2, 3}), few({1, 2, 2});
  Tensor<float, 4> out({1, 3, 2, 4});
  const RelativeVectors fits{.heads = 2,
                             .head_dim = 5,
                             .min_distance = -1,
                             .rows = {0, 1},
                             .values = std::vector<double>(20)};
  const auto says = [&](const RelativeForm& form, const TokenTerms& terms,
                        const Softmax& softmax = {}) {
    return message_of([&] {
      attention(
          {.q = x.view(), .k = x.view(), .v = x.view(), .terms = terms},
          {.mask = {.visibility = Visibility::causal}, .softmax = softmax, .relative = form},
          out.view());
    });
  };
  RelativeForm form;
  form.projected = {fits};
  const View<const float, 4> of_r = r.view(), of_wide = wide.view();
  const View<const float, 3> of_sinks = sinks.view(), of_few = few.view();
  const TokenTerms given{.relative_queries = of_r};
  EXPECT_EQ(says(form, given), "");
  EXPECT_EQ(says(form, {}),
            "[attention] relative_queries must be given if and only if the plan has projected "
            "vectors, got none");
  EXPECT_EQ(says({}, given),
            "[attention] relative_queries must be given if and only if the plan has projected "
            "vectors, got relative_queries alone");
  EXPECT_EQ(says(form, {.relative_queries = of_wide}),
            "[attention] relative_queries must be [1, 3, 2, 5], got [1, 3, 2, 6]");
  EXPECT_EQ(says(form, given, {.cap = 5}),
            "[attention] a softmax cap cannot be combined with relative vectors, got 5");
  EXPECT_EQ(says({}, {.sinks = of_few}), "[attention] sinks must be [1, 2, 3], got [1, 2, 2]");
  EXPECT_EQ(says({}, {.sinks = of_sinks}, {.sinks = {1, 2}}),
            "[attention] sinks must be given for each head or for each query, not both, got "
            "both");
  const auto with = [&](auto change) {
    RelativeForm changed = form;
    change(changed.projected[0]);
    return says(changed, given);
  };
  EXPECT_EQ(with([](RelativeVectors& t) { t.coordinates = {1}; }),
            "[relative] projected must have no coordinates, got 1");
  EXPECT_EQ(with([](RelativeVectors& t) { t.min_distance = std::int64_t{1} << 62; }),
            "[relative] min_distance of projected must be at most 2^61 in magnitude, got "
            "4611686018427387904");
  EXPECT_EQ(with([](RelativeVectors& t) { t.heads = 3; }),
            "[relative] projected must have 1 head or 2, got 3");
}

}  // namespace projected_test
}  // namespace gnomon
