// Tests a few queries over a cache, which is read directly if its sizes allow.
#include <gtest/gtest.h>

#include <tuple>

#include "attention/bounds.h"
#include "attention/cached.h"
#include "attention/oracle.h"
#include "attention/sample.h"
#include "gnomon/attention/attention.h"
#include "gnomon/isa.h"

namespace gnomon {
namespace attention_decoding_test {

using namespace gnomon::testing;
using testing::Tensor;

template <typename T, typename K>
struct Types {
  using Query = T;
  using Key = K;
};

template <typename Both>
class AttentionDecoding : public ::testing::Test {};
using Kinds =
    ::testing::Types<Types<float, float>, Types<Half, Half>, Types<BFloat16, BFloat16>,
                     Types<float, Half>, Types<float, BFloat16>, Types<float, std::int8_t>,
                     Types<Half, std::int8_t>, Types<BFloat16, std::int8_t>>;
TYPED_TEST_SUITE(AttentionDecoding, Kinds);

template <typename Both>
struct Pass {
  using T = typename Both::Query;
  using K = typename Both::Key;
  Placed<T> q, out;
  Cached<K> k, v;
  Tensor<float, 3> lse;

  explicit Pass(const Sample& s)
      : q(s.x.q, s.layout),
        out(Tensor<double, 4>(s.out_grad.extents, -3.0), s.layout),
        k(s.x.k, s.layout == Layout::plain ? CacheOrder::tokens : CacheOrder::heads),
        v(s.x.v, s.layout == Layout::plain ? CacheOrder::tokens : CacheOrder::heads),
        lse({s.c.batch, s.c.heads, s.c.queries}) {}
  void operator()(const AttentionCase& c) {
    attention({.q = q.read(),
               .k = k.read(),
               .v = v.read(),
               .k_scales = k.scales(),
               .v_scales = v.scales(),
               .terms = {.gates = c.gates}},
              c.plan, out.view(), lse.view());
  }
};

template <typename Both>
void expect_within_bounds(const Sample& s) {
  const ScopedThreads one(1);
  Pass<Both> run(s);
  const AttentionTensors x{run.q.numbers(), run.k.numbers(), run.v.numbers()};
  const AttentionOracle exact = oracle(s.c, x);
  for (Isa isa : available_isas()) {
    SCOPED_TRACE(std::string(name(isa)) + ", " + s.text);
    const ScopedIsa scope(isa);
    run(s.c);
    gnomon::testing::expect_within_bounds<typename Both::Query>(run.out.numbers(), run.lse,
                                                                exact, greatest(x.v.values));
    EXPECT_TRUE(run.out.gaps_intact());
  }
}

// A plain call with these sizes.
Sample plain(std::int64_t queries, std::int64_t keys, std::int64_t heads,
             std::int64_t key_heads, std::int64_t size, std::int64_t values) {
  Sample s;
  s.c.queries = queries, s.c.keys = keys, s.c.heads = heads, s.c.key_heads = key_heads;
  s.c.size = size, s.c.values = values;
  s.c.plan.softmax.scale = softmax_scale(size) * 2;
  s.c.plan.mask.offset = std::max<std::int64_t>(0, keys - queries);
  s.layout = Layout::gaps;
  s.text = "T " + std::to_string(queries) + ", S " + std::to_string(keys) + ", heads " +
           std::to_string(heads) + "/" + std::to_string(key_heads);
  s.x = {random_tensor<double, 4>({1, queries, heads, size}, 1),
         random_tensor<double, 4>({1, keys, key_heads, size}, 2),
         random_tensor<double, 4>({1, keys, key_heads, values}, 3)};
  s.out_grad = Tensor<double, 4>({1, queries, heads, values});
  return s;
}

TYPED_TEST(AttentionDecoding, KeepsTheErrorPromisedByTheHeader) {
  for (unsigned seed = 1; seed <= 64; ++seed)
    expect_within_bounds<TypeParam>(decoding_sample(seed));
}

TYPED_TEST(AttentionDecoding, KeepsItsErrorOverManyKeys) {
  for (std::int64_t keys : {2047, 2048, 2049, 5000}) {
    Sample s = plain(keys % 2 ? 1 : 3, keys, 4, 2, 16, 32);
    if (keys == 2048) s.c.plan.mask.left = 70;
    if (keys == 2049) s.c.plan.bias = SlopeBias{{0.5, 0.01, 0.001, 0}};
    if (keys == 5000) s.c.plan.softmax.sinks = {-1, 0, 1, 2}, s.c.plan.mask.left = 4000;
    expect_within_bounds<TypeParam>(s);
  }
}

// From 49 to 96 rows of a key head: several queries, or more than 48 query heads.
TYPED_TEST(AttentionDecoding, KeepsItsErrorForManyRowsOverALongCache) {
  for (Sample s : {plain(25, 1030, 2, 1, 32, 16), plain(24, 1300, 8, 2, 32, 48),
                   plain(1, 1024, 96, 1, 32, 32), plain(1, 1025, 160, 2, 64, 32)}) {
    if (s.c.queries == 25) s.c.plan.mask.left = 900;
    if (s.c.queries == 24)
      s.c.plan.bias = SlopeBias{{0.5, 0.1, 0.02, 0.01, 0.005, 0.002, 0.001, 0}};
    if (s.c.heads == 160) s.c.plan.softmax.sinks = random_numbers(160, 2);
    expect_within_bounds<TypeParam>(s);
  }
}

TYPED_TEST(AttentionDecoding, KeepsItsErrorAtScoresOfThirty) {
  for (std::int64_t size : {16, 128, 256}) {
    Sample s = steep(size);
    s.c.queries = 8, s.c.values = 16;
    s.x.q.extents[1] = 8;
    s.x.q.values.resize(static_cast<std::size_t>(8 * size));
    s.x.v = random_tensor<double, 4>({1, 3, 1, 16}, 3);
    s.out_grad = random_tensor<double, 4>({1, 8, 1, 16}, 4);
    expect_within_bounds<TypeParam>(s);
  }
}

// A prompt over a cache of another type, which is converted when it is packed.
TYPED_TEST(AttentionDecoding, TakesManyRows) {
  for (unsigned seed : {1, 2}) {
    Sample s = plain(70, 300, 4, 2, seed == 1 ? 32 : 25, 17);
    s.c.plan.mask.left = 100;
    expect_within_bounds<TypeParam>(s);
  }
}

template <typename Both>
void expect_equal_bits(Pass<Both>& a, Pass<Both>& b, const std::string& text) {
  EXPECT_EQ(a.out.numbers().values, b.out.numbers().values) << text;
  EXPECT_EQ(a.lse.values, b.lse.values) << text;
}

TYPED_TEST(AttentionDecoding, GivesTheSameBitsForAnyNumberOfThreads) {
  const auto compare = [](const Sample& s) {
    Pass<TypeParam> first(s);
    {
      const ScopedThreads one(1);
      first(s.c);
    }
    for (int count : {2, 7}) {
      Pass<TypeParam> run(s);
      const ScopedThreads several(count);
      run(s.c);
      expect_equal_bits(run, first, s.text);
    }
  };
  for (unsigned seed : {3, 8, 21, 34}) compare(decoding_sample(seed));
  compare(plain(1, 4500, 6, 3, 32, 32));
  compare(plain(4, 2100, 2, 1, 32, 16));
}

// The row of a query does not depend on the other queries of the call.
TYPED_TEST(AttentionDecoding, GivesARowTheSameBitsWithFewerOthers) {
  const ScopedThreads one(1);
  // Two rows of a key head for each query: 8 rows or fewer, 48 or fewer, 96 or fewer.
  for (const auto& [queries, fewer, keys] :
       {std::tuple{4, 1, 300}, {24, 5, 300}, {48, 12, 1100}})
    for (const std::int64_t size : {16, 64}) {
      Sample all = plain(queries, keys, 4, 2, size, size);
      all.c.plan.mask.left = 150;
      Pass<TypeParam> together(all);
      together(all.c);
      const auto wanted = together.out.numbers();
      for (std::int64_t first = 0; first + fewer <= queries; first += fewer) {
        Sample s = plain(fewer, keys, 4, 2, size, size);
        s.c.plan.mask.left = 150, s.c.plan.mask.offset = keys - queries + first;
        std::copy_n(all.x.q.values.begin() + first * 4 * size, fewer * 4 * size,
                    s.x.q.values.begin());
        Pass<TypeParam> part(s);
        part(s.c);
        const auto got = part.out.numbers();
        EXPECT_TRUE(std::equal(got.values.begin(), got.values.end(),
                               wanted.values.begin() + first * 4 * size))
            << fewer << " of " << queries << " from " << first << ", D " << size;
      }
    }
}

// Rows of a cache that no query sees may contain anything.
TYPED_TEST(AttentionDecoding, DoesNotTakeWhatNoQuerySees) {
  const ScopedThreads one(1);
  for (const std::int64_t size : {32, 24})
    for (const std::int64_t queries : {2, 12, 40})
      for (const std::int64_t offset : {0, 15, 63, 64, 100}) {
        Sample s = plain(queries, 200, 4, 2, size, size);
        s.c.plan.mask.offset = offset;
        Pass<TypeParam> clean(s), spoiled(s);
        clean(s.c);
        spoiled.k.spoil(offset + queries, 200);
        spoiled.v.spoil(offset + queries, 200);
        spoiled(s.c);
        expect_equal_bits(spoiled, clean, "D " + std::to_string(size));
      }
}

// With padding, a call packs the cache and does not read padding rows.
TYPED_TEST(AttentionDecoding, DoesNotReadPadding) {
  const ScopedThreads one(1);
  Positions keys = consecutive(80), queries = consecutive(2, 78);
  for (std::size_t j : {0, 1, 40, 77}) keys.sequences[j] = Positions::padding;
  Sample s = plain(2, 80, 4, 2, 32, 16);
  s.c.plan.queries = borrowed(queries), s.c.plan.keys = borrowed(keys);
  Pass<TypeParam> clean(s), spoiled(s);
  clean(s.c);
  for (std::ptrdiff_t j : {0, 1, 40, 77}) spoiled.k.spoil(j, 1), spoiled.v.spoil(j, 1);
  spoiled(s.c);
  expect_equal_bits(spoiled, clean, "padding");
  expect_within_bounds<TypeParam>(s);
}

TYPED_TEST(AttentionDecoding, GivesZeroOverNoKeys) {
  Sample s = plain(2, 0, 4, 2, 32, 16);
  Pass<TypeParam> run(s);
  run(s.c);
  for (double value : run.out.numbers().values) EXPECT_EQ(value, 0);
  for (float value : run.lse.values) EXPECT_EQ(value, -std::numeric_limits<float>::infinity());
}

}  // namespace attention_decoding_test
}  // namespace gnomon
