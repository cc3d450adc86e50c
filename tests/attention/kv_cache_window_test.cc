// A KvCache with a window, against attention over all keys with the mask of the window.
#include <gtest/gtest.h>

#include <algorithm>

#include "attention/oracle.h"
#include "gnomon/attention/kv_cache.h"
#include "gnomon/isa.h"
#include "testing.h"

namespace gnomon {
namespace kv_cache_window_test {

using namespace gnomon::testing;
using testing::Tensor;

constexpr std::int64_t batch = 2, query_heads = 4, heads = 2, size = 24, value_dim = 16;

RotaryFrequencies plain() {
  return lower(Rotary{.rotary_dim = 16, .pairing = Pairing::halves, .head_offset = 4});
}

template <typename T>
View<const T, 4> part(const Tensor<T, 4>& x, std::int64_t first, std::int64_t count) {
  return View<const T, 4>(x.view()).slice(1, first, count);
}

template <typename T>
Tensor<T, 4> rotated(Tensor<T, 4> x) {
  rotate(x.view(), RotaryTable(plain(), consecutive(x.extents[1])));
  return x;
}
template <typename T>
Tensor<double, 4> numbers(const Tensor<T, 4>& x) {
  Tensor<double, 4> y(x.extents);
  for (std::size_t i = 0; i < x.values.size(); ++i) y.values[i] = as_double(x.values[i]);
  return y;
}

template <typename T>
class WindowedCache : public ::testing::Test {};
using Types = ::testing::Types<float, Half, BFloat16>;
TYPED_TEST_SUITE(WindowedCache, Types);

TYPED_TEST(WindowedCache, GivesAttentionOverTheWholeTextWithTheWindow) {
  using T = TypeParam;
  constexpr std::int64_t text = 70;
  const auto q = rotated(random_tensor<T, 4>({batch, text, query_heads, size}, 1));
  const auto k = random_tensor<T, 4>({batch, text, heads, size}, 2);
  const auto v = random_tensor<T, 4>({batch, text, heads, value_dim}, 3);
  const AttentionTensors exact_x{numbers(q), numbers(rotated(k)), numbers(v)};
  for (const std::int64_t window : {1, 7, 20}) {
    AttentionCase c;
    c.batch = batch;
    c.queries = c.keys = text;
    c.heads = query_heads;
    c.key_heads = heads;
    c.size = size;
    c.values = value_dim;
    c.plan.mask = {.visibility = Visibility::causal, .left = window - 1};
    c.plan.softmax.scale = softmax_scale(size);
    const AttentionOracle exact = oracle(c, exact_x);
    double most = 0;
    for (const double value : exact_x.v.values) most = std::max(most, std::abs(value));
    for (const Isa isa : available_isas()) {
      const ScopedIsa scoped(isa);
      // Prompts that are longer than the window, drafts, and single tokens.
      for (const auto& [capacity, parts] :
           {std::pair{window + 24, std::vector<std::int64_t>{25, 1, 1, 25, 3, 1, 14}},
            {std::max(2 * window, window + 4),
             std::vector<std::int64_t>{4, 5, 1, 3, 4, 1, 2, 5, 4, 5, 1, 5, 5, 1, 4, 5, 1,
                                       5}}}) {
        KvCache<T> cache({.batch = batch,
                          .capacity = capacity,
                          .heads = heads,
                          .head_dim = size,
                          .value_dim = value_dim,
                          .window = window},
                         plain());
        std::int64_t at = 0;
        for (const std::int64_t count : parts) {
          ASSERT_EQ(cache.dropped() + cache.tokens(), at);
          ASSERT_GE(cache.room(), capacity - window + 1);
          cache.append(part(k, at, count), part(v, at, count), consecutive(count, at));
          ASSERT_LE(cache.tokens(), capacity);
          ASSERT_EQ(cache.positions(), consecutive(cache.tokens(), cache.dropped(), batch));
          Tensor<T, 4> out({batch, count, query_heads, value_dim});
          attention({part(q, at, count), cache.keys(), cache.values()},
                    {.mask = {.visibility = Visibility::causal,
                              .offset = cache.tokens() - count,
                              .left = window - 1}},
                    out.view());
          // Weights of bfloat16 may be rounded too.
          const double sums = 0x1p-17 + (std::is_same_v<T, BFloat16> ? 0x1p-8 : 0.0);
          const double bound =
              most * (sums + (sizeof(T) == 2 ? half_ulp<T> * (1 + sums) : 0.0));
          for (std::int64_t b = 0; b < batch; ++b)
            for (std::int64_t t = 0; t < count; ++t)
              for (std::int64_t h = 0; h < query_heads; ++h)
                for (std::int64_t d = 0; d < value_dim; ++d)
                  ASSERT_NEAR(as_double(out.view()(b, t, h, d)),
                              exact.out.view()(b, at + t, h, d), bound)
                      << name(isa) << " window " << window << " row " << at + t;
          at += count;
        }
        ASSERT_GT(cache.dropped(), 0);
      }
    }
  }
}

// A rejected draft leaves all entries that the next query sees.
TEST(WindowedCache, KeepsTheWindowOfTruncatedDrafts) {
  constexpr std::int64_t window = 5;
  KvCache<float> cache(
      {.capacity = 9, .heads = 1, .head_dim = 1, .value_dim = 1, .window = window});
  const auto append = [&](std::int64_t first, std::int64_t count) {
    Tensor<float, 4> x({1, count, 1, 1});
    for (std::int64_t t = 0; t < count; ++t)
      x.values[static_cast<std::size_t>(t)] = static_cast<float>(first + t);
    cache.append(x.view(), x.view(), consecutive(count, first));
  };
  std::int64_t accepted = 0;
  for (const auto& [count, rejected] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {5, 0}, {5, 4}, {5, 5}, {5, 5}, {3, 1}, {5, 4}, {5, 4}, {4, 0}, {5, 3}}) {
    append(accepted, count);
    cache.truncate(cache.tokens() - rejected);
    accepted += count - rejected;
    ASSERT_EQ(cache.dropped() + cache.tokens(), accepted);
    ASSERT_GE(cache.tokens(), std::min(accepted, window - 1));
    for (std::int64_t j = 0; j < cache.tokens(); ++j)
      ASSERT_EQ(cache.keys()(0, j, 0, 0), static_cast<float>(cache.dropped() + j));
  }
  EXPECT_GT(cache.dropped(), 0);
  cache.clear();
  EXPECT_EQ(cache.dropped(), 0);
  append(0, 9);  // an empty cache takes its capacity
  EXPECT_EQ(cache.room(), 5);
}

TEST(WindowedCacheErrors, LeaveTheCache) {
  EXPECT_EQ(
      message_of([] {
        KvCache<float>({.capacity = 4, .heads = 1, .head_dim = 4, .value_dim = 2, .window = 5});
      }),
      "[kv_cache] window must be 0 to the capacity of 4, got 5");
  KvCache<float> cache({.capacity = 6, .heads = 1, .head_dim = 16, .value_dim = 2, .window = 4},
                       lower(Rotary{.rotary_dim = 16, .pairing = Pairing::halves}));
  const RotaryFrequencies f = *cache.frequencies();
  const auto k = random_tensor<float, 4>({1, 6, 1, 16}),
             v = random_tensor<float, 4>({1, 6, 1, 2});
  cache.append(part(k, 0, 6), part(v, 0, 6), consecutive(6));
  const auto says = [&](View<const float, 4> keys, std::int64_t of_table) {
    const RotaryTable table(f, consecutive(of_table, 6));
    return message_of([&] {
      cache.append(keys, part(v, 0, keys.extent(1)), consecutive(keys.extent(1), 6), &table);
    });
  };
  EXPECT_EQ(says(part(k, 0, 4), 4),
            "[kv_cache] new tokens must fit the room of 3 behind 6 entries, got 4");
  EXPECT_EQ(says(part(k, 0, 2), 3),
            "[kv_cache] the table must be of 1 or 1 rows of 2 tokens, got 1 of 3");
  EXPECT_EQ(says(cache.keys().slice(1, 0, 2), 2),
            "[kv_cache] the cache must not overlap k, got arrays with elements in common");
  EXPECT_EQ(says(View<const float, 4>(k.values.data(), {1, 2, 1, 16}, {48, 48, 48, 2}), 2),
            "[kv_cache] the elements of a head of k must be contiguous: stride 1, got 2");
  EXPECT_EQ(message_of([&] {
              cache.insert<float>(3, part(k, 0, 1), part(v, 0, 1), consecutive(1, 3));
            }),
            "[kv_cache] new tokens must fit the room of 0 behind 6 entries, got 1");
  EXPECT_EQ(cache.tokens(), 6);
  EXPECT_EQ(cache.dropped(), 0);
  EXPECT_EQ(says(part(k, 0, 3), 3), "");
  EXPECT_EQ(cache.tokens(), 6);
  EXPECT_EQ(cache.dropped(), 3);
}

}  // namespace kv_cache_window_test
}  // namespace gnomon
