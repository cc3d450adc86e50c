// Compares attention over a cache with attention over newly computed keys.
#include <gtest/gtest.h>

#include <functional>

#include "attention/oracle.h"
#include "gnomon/attention/kv_cache.h"
#include "gnomon/isa.h"
#include "gnomon/rotary/scaling.h"
#include "testing.h"

namespace gnomon {
namespace kv_cache_decoding_test {

using namespace gnomon::testing;
using testing::Tensor;

constexpr std::int64_t batch = 2, query_heads = 4, heads = 2, size = 40, value_dim = 24;

// Queries, keys and values of a text, before rotation.
template <typename T>
struct Text {
  Tensor<T, 4> q, k, v;

  explicit Text(std::int64_t tokens)
      : q(random_tensor<T, 4>({batch, tokens, query_heads, size}, 1)),
        k(random_tensor<T, 4>({batch, tokens, heads, size}, 2)),
        v(random_tensor<T, 4>({batch, tokens, heads, value_dim}, 3)) {}
};
template <typename T>
View<const T, 4> part(const Tensor<T, 4>& x, std::int64_t first, std::int64_t count) {
  return View<const T, 4>(x.view()).slice(1, first, count);
}
template <typename T>
Tensor<double, 4> numbers(const View<const T, 4>& x) {
  Tensor<double, 4> y(x.extents());
  std::size_t at = 0;
  for (std::ptrdiff_t b = 0; b < x.extent(0); ++b)
    for (std::ptrdiff_t t = 0; t < x.extent(1); ++t)
      for (std::ptrdiff_t h = 0; h < x.extent(2); ++h)
        for (std::ptrdiff_t d = 0; d < x.extent(3); ++d)
          y.values[at++] = as_double(x(b, t, h, d));
  return y;
}

RotaryFrequencies plain(Pairing pairing) {
  return lower(Rotary{.rotary_dim = 32, .pairing = pairing, .base = 1e4, .head_offset = 4});
}

// One query row [B, 1, Hq, D] over the cache.
template <typename T>
Tensor<T, 4> over(const KvCache<T>& cache, View<const T, 4> q, std::int64_t position) {
  Tensor<T, 4> out({batch, q.extent(1), query_heads, value_dim});
  attention(
      {q, cache.keys(), cache.values()},
      {.mask = {.visibility = Visibility::causal, .offset = cache.tokens() - q.extent(1)},
       .query_rotary = RotaryTable(*cache.frequencies(), consecutive(q.extent(1), position))},
      out.view());
  return out;
}

// Keys rotated in long double, [B, S, Hk, D].
Tensor<double, 4> turned(const Tensor<double, 4>& x, const RotaryFrequencies& s,
                         const std::vector<std::int64_t>& positions) {
  Tensor<double, 4> y = x;
  const std::int64_t pairs = s.rotary_dim() / 2;
  const bool halves = s.pairing == Pairing::halves;
  for (std::ptrdiff_t b = 0; b < x.extents[0]; ++b)
    for (std::ptrdiff_t t = 0; t < x.extents[1]; ++t)
      for (std::int64_t i = 0; i < pairs; ++i) {
        const long double angle =
            static_cast<long double>(positions[std::size_t(t)]) * s.inv_freq[std::size_t(i)];
        const long double c = s.table_scale * std::cos(angle);
        const long double n = s.table_scale * std::sin(angle);
        const std::int64_t one = s.head_offset + (halves ? i : 2 * i);
        const std::int64_t two = s.head_offset + (halves ? i + pairs : 2 * i + 1);
        for (std::ptrdiff_t h = 0; h < x.extents[2]; ++h) {
          const double p = x.view()(b, t, h, one), q = x.view()(b, t, h, two);
          y.view()(b, t, h, one) = static_cast<double>(p * c - q * n);
          y.view()(b, t, h, two) = static_cast<double>(p * n + q * c);
        }
      }
  return y;
}

// The bounds of kv_cache.h and attention.h. The last entry of the cache is that of the query,
// at positions.back(); k and v are the rows of its entries before rotation; `turns`: the number
// of rotations of each key.
template <typename T>
void expect_as_fresh(const KvCache<T>& cache, View<const T, 4> q, const Tensor<double, 4>& k,
                     const std::vector<std::int64_t>& positions, int turns) {
  const RotaryFrequencies& s = *cache.frequencies();
  ASSERT_EQ(cache.tokens(), std::ssize(positions));
  for (std::int64_t b = 0; b < batch; ++b) {
    const auto row = cache.positions().row(b);
    ASSERT_EQ(std::vector<std::int64_t>(row.begin(), row.end()), positions);
  }
  const Tensor<double, 4> of_q = turned(numbers<T>(q), s, {positions.back()});
  const Tensor<double, 4> of_k = turned(k, s, positions);
  const AttentionTensors x{of_q, of_k, numbers<T>(cache.values())};
  AttentionCase c;
  c.batch = batch;
  c.keys = cache.tokens();
  c.heads = query_heads;
  c.key_heads = heads;
  c.size = size;
  c.values = value_dim;
  c.plan.mask.visibility = Visibility::bidirectional;
  c.plan.softmax.scale = softmax_scale(size);
  const AttentionOracle exact = oracle(c, x);

  const double h = sizeof(T) == 2 ? half_ulp<T> : 0;
  const double of_pair = std::pow(1 + 0x1p-21 + h, turns) - 1;
  const double least = std::is_same_v<T, Half> ? turns * 0x1p-24 : 0;
  // Elements that are not rotated are exact.
  const std::int64_t pairs = s.rotary_dim() / 2;
  const bool halves = s.pairing == Pairing::halves;
  double e = 0;
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t g = 0; g < query_heads; ++g)
      for (std::int64_t j = 0; j < cache.tokens(); ++j) {
        double sum = 0;
        for (std::int64_t i = 0; i < pairs; ++i) {
          const std::int64_t one = s.head_offset + (halves ? i : 2 * i);
          const std::int64_t two = s.head_offset + (halves ? i + pairs : 2 * i + 1);
          const std::int64_t kh = g / (query_heads / heads);
          const auto length = [&](const Tensor<double, 4>& of, std::int64_t t,
                                  std::int64_t head) {
            return std::hypot(of.view()(b, t, head, one), of.view()(b, t, head, two));
          };
          // The cached pair is within its bound.
          const double r = length(of_k, j, kh);
          const double error =
              std::hypot(as_double(cache.keys()(b, j, kh, one)) - of_k.view()(b, j, kh, one),
                         as_double(cache.keys()(b, j, kh, two)) - of_k.view()(b, j, kh, two));
          ASSERT_LE(error, of_pair * r + least) << "entry " << j << " pair " << i;
          sum += length(of_q, 0, g) * (of_pair * r + least);
        }
        e = std::max(e, c.scale() * sum);
      }
  double most = 0;
  for (double value : x.v.values) most = std::max(most, std::abs(value));
  const double fresh = 0x1p-18 * most;
  double allowed = std::expm1(2 * e) * most + fresh;
  if (sizeof(T) == 2) allowed += half_ulp<T> * (most + allowed) + 0x1p-25;
  const Tensor<T, 4> out = over<T>(cache, q, positions.back());
  for (std::size_t i = 0; i < out.values.size(); ++i)
    ASSERT_NEAR(as_double(out.values[i]), exact.out.values[i], allowed) << i;
}

// Returns the rows of k in the given order.
template <typename T>
Tensor<double, 4> rows_of(const Tensor<T, 4>& k, const std::vector<std::int64_t>& rows) {
  Tensor<double, 4> some({batch, std::ssize(rows), heads, size});
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::size_t j = 0; j < rows.size(); ++j)
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t d = 0; d < size; ++d)
          some.view()(b, std::ptrdiff_t(j), h, d) = as_double(k.view()(b, rows[j], h, d));
  return some;
}

template <typename T>
KvCache<T> cache_for(std::int64_t capacity, const RotaryFrequencies& s) {
  return KvCache<T>({.batch = batch,
                     .capacity = capacity,
                     .heads = heads,
                     .head_dim = size,
                     .value_dim = value_dim},
                    s);
}

template <typename T>
class KvCacheDecoding : public ::testing::Test {};
using ElementTypes = ::testing::Types<float, Half, BFloat16>;
TYPED_TEST_SUITE(KvCacheDecoding, ElementTypes);

constexpr Pairing pairings[] = {Pairing::halves, Pairing::adjacent};

TYPED_TEST(KvCacheDecoding, RepeatsTheBitsOfTheFullPass) {
  using T = TypeParam;
  constexpr std::int64_t tokens = 33;
  const Text<T> text(tokens);
  for (Isa isa : available_isas())
    for (Pairing pairing : pairings) {
      const ScopedIsa scoped(isa);
      const RotaryTable table(plain(pairing), consecutive(tokens));
      auto k = text.k;
      rotate(k.view(), table);
      Tensor<T, 4> full({batch, tokens, query_heads, value_dim});
      attention({text.q.view(), k.view(), text.v.view()},
                {.mask = {.visibility = Visibility::causal}, .query_rotary = table},
                full.view());
      for (std::int64_t step : {1, 5, 33}) {
        auto cache = cache_for<T>(tokens, plain(pairing));
        for (std::int64_t at = 0; at < tokens; at += step) {
          const std::int64_t count = std::min(step, tokens - at);
          cache.append(part(text.k, at, count), part(text.v, at, count),
                       consecutive(count, cache.tokens()));
          const auto out = over<T>(cache, part(text.q, at, count), at);
          for (std::int64_t b = 0; b < batch; ++b)
            for (std::int64_t t = 0; t < count; ++t)
              for (std::int64_t h = 0; h < query_heads; ++h)
                for (std::int64_t d = 0; d < value_dim; ++d)
                  ASSERT_EQ(out.view()(b, t, h, d), full.view()(b, at + t, h, d)) << at + t;
        }
      }
    }
}

TYPED_TEST(KvCacheDecoding, IsWithinTheBoundOfTheExactPass) {
  using T = TypeParam;
  const Text<T> text(30);
  for (Isa isa : available_isas())
    for (Pairing pairing : pairings) {
      const ScopedIsa scoped(isa);
      auto cache = cache_for<T>(30, plain(pairing));
      for (std::int64_t at : {0, 7, 29}) {
        const std::int64_t count = at == 0 ? 7 : at == 7 ? 22 : 1;
        cache.append(part(text.k, at, count), part(text.v, at, count),
                     consecutive(count, 100'000 + at));
        const std::int64_t last = at + count - 1;
        expect_as_fresh<T>(cache, part(text.q, last, 1), rows_of(text.k, iota(0, last + 1)),
                           iota(100'000, last + 1), 1);
      }
    }
}

// The first four entries stay and the oldest of the others are removed, as in streaming with
// attention sinks.
TYPED_TEST(KvCacheDecoding, AfterRemovalIsAsIfComputedAtTheNewPositions) {
  using T = TypeParam;
  const Text<T> text(60);
  for (Isa isa : available_isas())
    for (Pairing pairing : pairings) {
      const ScopedIsa scoped(isa);
      auto cache = cache_for<T>(40, plain(pairing));
      cache.append(part(text.k, 0, 40), part(text.v, 0, 40), consecutive(40));
      std::vector<std::int64_t> rows = iota(0, 40);
      int turns = 1;
      for (std::int64_t at = 40; at < 60; ++at) {
        if (cache.room() == 0) {
          cache.remove(4, 13);
          rows.erase(rows.begin() + 4, rows.begin() + 13);
          ++turns;
        }
        cache.append(part(text.k, at, 1), part(text.v, at, 1), consecutive(1, cache.tokens()));
        rows.push_back(at);
        if (at % 3 == 0)
          expect_as_fresh<T>(cache, part(text.q, at, 1), rows_of(text.k, rows),
                             iota(0, cache.tokens()), turns);
      }
      EXPECT_EQ(turns, 4);
    }
}

TYPED_TEST(KvCacheDecoding, AfterInsertionAndShiftIsAsIfComputedThere) {
  using T = TypeParam;
  const Text<T> text(20);
  for (Pairing pairing : pairings) {
    auto cache = cache_for<T>(20, plain(pairing));
    cache.append(part(text.k, 0, 5), part(text.v, 0, 5), consecutive(5));
    cache.append(part(text.k, 12, 8), part(text.v, 12, 8), consecutive(8, 5));
    cache.insert(5, part(text.k, 5, 7), part(text.v, 5, 7), consecutive(7, 5));
    expect_as_fresh<T>(cache, part(text.q, 19, 1), rows_of(text.k, iota(0, 20)), iota(0, 20),
                       2);
    cache.shift(0, 20, 1 << 20);
    expect_as_fresh<T>(cache, part(text.q, 19, 1), rows_of(text.k, iota(0, 20)),
                       iota(1 << 20, 20), 3);
  }
}

TYPED_TEST(KvCacheDecoding, AfterAChangeOfScheduleIsAsIfComputedWithTheNew) {
  using T = TypeParam;
  const Text<T> text(25);
  LongRopeScaling longrope{.short_factors = std::vector<double>(16, 1.1),
                           .long_factors = std::vector<double>(16, 6.5),
                           .original_length = 16,
                           .factor = 8};
  const RopeScaling scalings[] = {DynamicNtkScaling{.factor = 2, .trained_length = 16},
                                  longrope};
  for (Isa isa : available_isas())
    for (const RopeScaling& scaling : scalings)
      for (Pairing pairing : pairings) {
        const ScopedIsa scoped(isa);
        const Rotary rotary{.rotary_dim = 32, .pairing = pairing, .head_offset = 4};
        auto cache = cache_for<T>(25, lower(rotary, scaling, 16));
        cache.append(part(text.k, 0, 16), part(text.v, 0, 16), consecutive(16));
        ASSERT_EQ(first_change(scaling), 17);
        cache.change_frequencies(lower(rotary, scaling, 25));
        ASSERT_EQ(*cache.frequencies(), lower(rotary, scaling, 25));
        cache.append(part(text.k, 16, 9), part(text.v, 16, 9), consecutive(9, 16));
        expect_as_fresh<T>(cache, part(text.q, 24, 1), rows_of(text.k, iota(0, 25)),
                           iota(0, 25), 2);
      }
}

}  // namespace kv_cache_decoding_test
}  // namespace gnomon
