// A row that a query does not see never reaches its results, whatever the row holds: every
// mask, every form of bias, every path, every element type.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "attention/backward_pass.h"
#include "attention/cached.h"
#include "attention/oracle.h"
#include "attention/sample.h"
#include "gnomon/attention/attention.h"
#include "gnomon/isa.h"

namespace gnomon {
namespace attention_hidden_rows_test {

using namespace gnomon::testing;
using std::int64_t;
using testing::Tensor;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double spoilt[] = {std::numeric_limits<double>::quiet_NaN(), infinity, -infinity};

// The sizes decide the path: one tile, several tiles, the cache read directly by one row or by
// several (a draft), a few packed rows, several parts of the keys.
struct Path {
  const char* name;
  int64_t queries, keys, heads, key_heads, size, values;
};
constexpr Path paths[] = {
    {"one tile", 52, 52, 2, 1, 16, 16},   {"tiles", 30, 290, 2, 2, 24, 20},
    {"one row", 1, 100, 2, 2, 16, 16},    {"a draft", 3, 100, 4, 2, 16, 32},
    {"packed rows", 3, 90, 2, 1, 12, 12}, {"parts", 9, 2100, 1, 1, 16, 16},
};

Positions sequences(int64_t rows, int64_t (*of_row)(int64_t)) {
  Positions all = consecutive(rows);
  for (int64_t j = 0; j < rows; ++j)
    all.sequences[static_cast<std::size_t>(j)] = static_cast<std::int32_t>(of_row(j));
  return all;
}

struct Mask {
  const char* name;
  AttentionMask mask;
  int64_t (*sequence)(int64_t) = nullptr;  // sequence of a row
  bool additive = false;                   // a dense bias of -infinity
};
constexpr Visibility causal = Visibility::causal, bidirectional = Visibility::bidirectional;
const Mask masks[] = {
    {"causal", {.visibility = causal}},
    {"causal, window", {.visibility = causal, .left = 20}},
    {"window", {.visibility = bidirectional, .left = 9, .right = 5}},
    {"packed", {.visibility = bidirectional}, [](int64_t j) { return j / 27; }},
    {"packed, causal", {.visibility = causal}, [](int64_t j) { return j / 27; }},
    {"mixed sequences", {.visibility = bidirectional}, [](int64_t j) { return j % 3; }},
    {"padding", {.visibility = causal}, [](int64_t j) { return j % 31 < 13 ? -1 : j / 40; }},
    {"additive", {.visibility = bidirectional}, nullptr, true},
};

RelativeForm relative(int64_t size, std::vector<RelativeVectors> RelativeForm::* kind,
                      int64_t keys) {
  RelativeVectors table;
  table.heads = 1, table.head_dim = size, table.min_distance = -keys;
  for (int64_t d = -keys; d <= keys; ++d)
    table.rows.push_back(static_cast<std::int32_t>(std::clamp<int64_t>(d, -8, 8) + 8));
  table.values = random_numbers(static_cast<std::size_t>(17 * size), 5);
  RelativeForm form;
  (form.*kind).push_back(table);
  return form;
}

// The forms of bias, the other terms of the scores, and a strip that hides distances.
const char* const forms[] = {
    "none",           "slope",         "strip", "hiding strip", "grid",
    "axes",           "piecewise",     "dense", "cap",          "sinks",
    "rotary",         "relative keys", "gates", "shift",        "relative queries",
    "relative values"};

// Returns false if the form cannot be combined with the mask.
bool add_form(const std::string& form, const Mask& mask, Sample& s) {
  AttentionCase& c = s.c;
  const int64_t keys = c.keys, heads = c.heads;
  const auto numbers = [](int64_t count) {
    return random_numbers(static_cast<std::size_t>(count), 3);
  };
  const StripBias strip{heads, -keys, numbers(heads * (2 * keys + 1))};
  BiasForm& bias = c.plan.bias;
  if (form == "slope") bias = SlopeBias{std::vector(static_cast<std::size_t>(heads), 0.1)};
  if (form == "strip" || form == "gates") bias = strip;
  if (form == "hiding strip") {
    StripBias hiding = strip;
    for (std::size_t n = 0; n < hiding.values.size(); n += 3) hiding.values[n] = -infinity;
    bias = hiding;
  }
  if (form == "grid") {
    GridBias grid{.heads = heads, .height = keys / 10 + 1, .width = 10, .values = {}};
    grid.values = numbers(heads * grid.offsets());
    bias = grid;
  }
  if (form == "axes") bias = AxesBias{heads, {{strip.min_distance, strip.values, {}}}};
  if (form == "piecewise")
    bias =
        PiecewiseLogBias{heads, 1, 5.3, 1e-6, {0, 0.5}, numbers(2 * heads), numbers(2 * heads)};
  if (form == "dense" || mask.additive) {
    if (!std::holds_alternative<NoBias>(bias) && form != "gates") return false;
    s.dense = random_tensor<float, 4>({1, heads, c.queries, keys}, 4);
    const int64_t offset = c.offset();
    for (int64_t h = 0; h < heads && mask.additive; ++h)
      for (int64_t i = 0; i < c.queries; ++i)
        for (int64_t j = 0; j < keys; ++j)
          if (j > i + offset || (i + j) % 5 == 0)
            s.dense.view()(0, h, i, j) = -std::numeric_limits<float>::infinity();
    bias = DenseBias{s.dense.view()};
  }
  if (form == "cap") c.plan.softmax.cap = 5;
  if (form == "sinks") c.plan.softmax.sinks = numbers(heads);
  if (form == "rotary") {
    const Rotary rotary{.rotary_dim = 8, .pairing = Pairing::halves, .base = 10'000};
    c.plan.query_rotary.emplace(rotary, consecutive(c.queries, c.offset()));
    c.plan.key_rotary.emplace(rotary, consecutive(keys));
  }
  if (form == "gates") {
    s.gates = random_tensor<float, 3>({1, heads, c.queries}, 6);
    c.gates = s.gates.view();
  }
  RelativeForm& vectors = c.plan.relative;
  if (form == "relative keys") vectors = relative(c.size, &RelativeForm::keys, keys);
  if (form == "relative queries") vectors = relative(c.size, &RelativeForm::queries, keys);
  if (form == "relative values") vectors = relative(c.values, &RelativeForm::values, keys);
  if (form == "shift") vectors.shift = numbers(heads * c.size);
  return true;
}

// Whether query i sees key row j in some head, [queries, keys].
Tensor<std::uint8_t, 2> pairs(const AttentionCase& c) {
  Tensor<std::uint8_t, 2> seen({c.queries, c.keys});
  for (int64_t i = 0; i < c.queries; ++i)
    for (int64_t j = 0; j < c.keys; ++j)
      for (int64_t h = 0; h < c.heads && sees(c, 0, i, j) && !seen.view()(i, j); ++h)
        seen.view()(i, j) = bias(c, 0, h, i, j) != -infinity;
  return seen;
}

// Calls body(sample, path, mask, turn) for every mask, form and path. Each uses another
// instruction set of the machine.
template <typename Body>
void for_samples(const Body& body) {
  const ScopedThreads one(1);
  const auto isas = available_isas();
  std::size_t turn = 0;
  for (const Path& path : paths)
    for (const Mask& mask : masks)
      for (const std::string form : forms) {
        if (path.keys > 1000 && form != "none" && form != "strip") continue;
        Sample s;
        AttentionCase& c = s.c;
        c.queries = path.queries, c.keys = path.keys;
        c.heads = path.heads, c.key_heads = path.key_heads;
        c.size = path.size, c.values = path.values;
        c.plan.mask = mask.mask;
        c.plan.mask.offset = c.keys - c.queries;
        c.plan.softmax.scale = softmax_scale(c.size);
        if (mask.sequence) {
          const Positions all = sequences(c.keys, mask.sequence);
          c.plan.keys = std::make_shared<Positions>(all);
          c.plan.queries = std::make_shared<Positions>(rows_of(all, c.offset(), c.queries));
        }
        if (!add_form(form, mask, s)) continue;
        s.x = {random_tensor<double, 4>({1, c.queries, c.heads, c.size}, 1),
               random_tensor<double, 4>({1, c.keys, c.key_heads, c.size}, 2),
               random_tensor<double, 4>({1, c.keys, c.key_heads, c.values}, 3)};
        s.out_grad = random_tensor<double, 4>({1, c.queries, c.heads, c.values}, 4);
        SCOPED_TRACE(std::string(path.name) + ", " + mask.name + ", " + form);
        const ScopedIsa scope(isas[++turn % isas.size()]);
        body(s, path, mask, turn);
      }
}

template <typename T>
void fill_row(View<T, 4> x, int64_t row, double value) {
  for (int64_t h = 0; h < x.extent(2); ++h)
    for (int64_t d = 0; d < x.extent(3); ++d) x(0, row, h, d) = static_cast<T>(value);
}

template <typename T>
void copy_row(View<const T, 4> from, int64_t row, View<T, 4> to) {
  for (int64_t h = 0; h < to.extent(2); ++h)
    std::copy_n(&from(0, row, h, 0), to.extent(3), &to(0, row, h, 0));
}

template <typename T>
bool same(const T* a, const T* b, std::ptrdiff_t count) {
  return std::memcmp(a, b, static_cast<std::size_t>(count) * sizeof(T)) == 0;
}

// Whether row i of two tensors [1, rows, heads, size] has the same bits.
template <typename T>
bool same_row(View<T, 4> a, View<T, 4> b, int64_t i) {
  for (int64_t h = 0; h < a.extent(2); ++h)
    if (!same(&a(0, i, h, 0), &b(0, i, h, 0), a.extent(3))) return false;
  return true;
}

// Whether all results of query i have the same bits.
template <typename T>
bool same_query(BackwardPass<T>& a, BackwardPass<T>& b, int64_t i) {
  bool equal =
      same_row(a.out.view(), b.out.view(), i) && same_row(a.q_grad.view(), b.q_grad.view(), i);
  for (int64_t h = 0; h < a.gates.extents[1]; ++h) {
    equal = equal && same(&a.lse.view()(0, h, i), &b.lse.view()(0, h, i), 1) &&
            same(&a.gates.view()(0, h, i), &b.gates.view()(0, h, i), 1);
    equal = equal &&
            same(&a.dense.view()(0, h, i, 0), &b.dense.view()(0, h, i, 0), a.dense.extents[3]);
  }
  return equal;
}

template <typename T>
bool same_parameters(const BackwardPass<T>& a, const BackwardPass<T>& b) {
  return a.bias.values == b.bias.values && a.sinks == b.sinks &&
         a.relative.keys == b.relative.keys && a.relative.queries == b.relative.queries &&
         a.relative.values == b.relative.values && a.relative.shift == b.relative.shift;
}

std::vector<int64_t> some_rows(int64_t count) {
  if (count < 3) return {0};
  return {0, count / 2, count - 2};
}

template <typename T>
class HiddenRows : public ::testing::Test {};
using ElementTypes = ::testing::Types<float, Half, BFloat16, double>;
TYPED_TEST_SUITE(HiddenRows, ElementTypes);

// Keys and values that a query does not see.
TYPED_TEST(HiddenRows, OfKeysNeverReachAQuery) {
  using T = TypeParam;
  std::map<std::string, int64_t> beside;  // hidden pairs in tiles that the kernels compute
  for_samples([&](const Sample& s, const Path& path, const Mask& mask, std::size_t turn) {
    const auto met = pairs(s.c);
    const auto meets = met.view();
    BackwardPass<T> clean(s), run(s);
    clean(s.c);
    for (const int64_t row : some_rows(s.c.keys)) {
      const double value = spoilt[turn++ % 3];
      fill_row(run.k.view(), row, value);
      fill_row(run.v.view(), row, value);
      run(s.c);
      std::vector<int64_t> reached;  // queries
      const int64_t first = row / 64 * 64, end = std::min(first + 64, s.c.keys);
      for (int64_t i = 0; i < s.c.queries; ++i) {
        if (meets(i, row)) {
          reached.push_back(i);
          continue;
        }
        const bool computed = std::count(&meets(i, first), &meets(i, first) + end - first, 1);
        beside[path.name] += computed, beside[mask.name] += computed;
        ASSERT_TRUE(same_query(clean, run, i)) << value << " in key " << row << ", query " << i;
      }
      ASSERT_TRUE(!reached.empty() || same_parameters(clean, run)) << value << " in " << row;
      for (int64_t j = 0; j < s.c.keys; ++j)
        ASSERT_TRUE(std::any_of(reached.begin(), reached.end(),
                                [&](int64_t i) { return meets(i, j); }) ||
                    (same_row(clean.k_grad.view(), run.k_grad.view(), j) &&
                     same_row(clean.v_grad.view(), run.v_grad.view(), j)))
            << value << " in key " << row << ", gradient of key " << j;
      copy_row(clean.k.read(), row, run.k.view());
      copy_row(clean.v.read(), row, run.v.view());
    }
  });
  EXPECT_EQ(beside.size(), std::size(paths) + std::size(masks));
  for (const auto& [name, count] : beside) EXPECT_GT(count, 0) << name;
}

// Queries, and gradients of outputs, of rows that do not see a key.
TYPED_TEST(HiddenRows, OfQueriesNeverReachAKey) {
  using T = TypeParam;
  for_samples([&](const Sample& s, const Path&, const Mask&, std::size_t turn) {
    const auto met = pairs(s.c);
    const auto meets = met.view();
    BackwardPass<T> clean(s), run(s);
    clean(s.c);
    for (const int64_t row : some_rows(s.c.queries)) {
      const double value = spoilt[turn++ % 3];
      if (turn % 2) fill_row(run.q.view(), row, value);
      fill_row(run.out_grad.view(), row, value);
      run(s.c);
      for (int64_t i = 0; i < s.c.queries; ++i)
        ASSERT_TRUE(i == row || same_query(clean, run, i))
            << value << " in query " << row << ", query " << i;
      for (int64_t j = 0; j < s.c.keys; ++j)
        ASSERT_TRUE(meets(row, j) || (same_row(clean.k_grad.view(), run.k_grad.view(), j) &&
                                      same_row(clean.v_grad.view(), run.v_grad.view(), j)))
            << value << " in query " << row << ", gradient of key " << j;
      copy_row(clean.q.read(), row, run.q.view());
      copy_row(clean.out_grad.read(), row, run.out_grad.view());
    }
  });
}

template <typename T, typename K>
struct Types {
  using Query = T;
  using Key = K;
};

template <typename Both>
class HiddenRowsOfCaches : public ::testing::Test {};
using Kinds = ::testing::Types<Types<float, Half>, Types<float, BFloat16>,
                               Types<float, std::int8_t>, Types<BFloat16, std::int8_t>>;
TYPED_TEST_SUITE(HiddenRowsOfCaches, Kinds);

// Caches of narrower types than the queries; of int8, the scales of a row are NaN.
TYPED_TEST(HiddenRowsOfCaches, NeverReachAQuery) {
  using T = typename TypeParam::Query;
  using K = typename TypeParam::Key;
  for_samples([&](const Sample& s, const Path&, const Mask&, std::size_t turn) {
    const auto met = pairs(s.c);
    const CacheOrder order = turn % 2 ? CacheOrder::tokens : CacheOrder::heads;
    const Placed<T> q(s.x.q, Layout::plain);
    const auto out_with = [&](int64_t row) {  // -1: no row
      Cached<K> k(s.x.k, order), v(s.x.v, order);
      k.spoil(row, 1), v.spoil(row, 1);
      Placed<T> out(s.out_grad, Layout::plain);
      attention({.q = q.read(),
                 .k = k.read(),
                 .v = v.read(),
                 .k_scales = k.scales(),
                 .v_scales = v.scales(),
                 .terms = {.gates = s.c.gates}},
                s.c.plan, out.view());
      return out;
    };
    Placed<T> clean = out_with(-1);
    for (const int64_t row : some_rows(s.c.keys)) {
      Placed<T> out = out_with(row);
      for (int64_t i = 0; i < s.c.queries; ++i)
        ASSERT_TRUE(met.view()(i, row) || same_row(clean.view(), out.view(), i))
            << "key " << row << ", query " << i;
    }
  });
}

// Keys so far away that a slope skips them depend on the lengths of all keys, so results may
// differ by the bound of the header, but are finite.
TEST(HiddenRowsOfLongTexts, NeverReachAQueryWithASlope) {
  const std::array<std::ptrdiff_t, 4> shape{1, 1500, 1, 16};
  const auto q = random_tensor<float, 4>(shape, 1);
  auto k = random_tensor<float, 4>(shape, 2), v = random_tensor<float, 4>(shape, 3);
  auto clean = q, out = q;
  const AttentionPlan plan{.mask = {.visibility = causal}, .bias = SlopeBias{{1.0}}};
  attention({q.view(), k.view(), v.view()}, plan, clean.view());
  fill_row(k.view(), 1450, infinity);
  fill_row(v.view(), 1450, spoilt[0]);
  attention({q.view(), k.view(), v.view()}, plan, out.view());
  for (std::size_t n = 0; n < 1450 * 16; ++n) ASSERT_NEAR(out.values[n], clean.values[n], 1e-6);
}

}  // namespace attention_hidden_rows_test
}  // namespace gnomon
