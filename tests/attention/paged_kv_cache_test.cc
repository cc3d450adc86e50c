#include "gnomon/attention/paged_kv_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <set>

#include "gnomon/attention/kv_cache.h"
#include "gnomon/rotary/cached_keys.h"
#include "gnomon/rotary/int8_keys.h"
#include "naive/rotary.h"
#include "testing.h"

namespace gnomon {
namespace paged_kv_cache_test {

using std::int64_t;
using testing::iota;
using testing::message_of;
using testing::random_tensor;
using testing::Tensor;
using Numbers = std::vector<int64_t>;

constexpr int64_t heads = 2, size = 8, value_dim = 3;
PagedKvCacheShape shape(CacheType type = CacheType::f32, int64_t blocks = 8,
                        int64_t block_size = 4) {
  PagedKvCacheShape made;
  made.blocks = blocks;
  made.block_size = block_size;
  made.heads = heads;
  made.head_dim = size;
  made.value_dim = value_dim;
  made.type = type;
  return made;
}
RotaryFrequencies plain() { return lower(Rotary{.rotary_dim = 6, .pairing = Pairing::halves}); }

// The bytes of entry j of a sequence: keys, then values.
template <typename U>
std::vector<U> entry(PagedKvCache& cache, int64_t sequence, int64_t j) {
  const Numbers one = {sequence};
  const int64_t block_size = cache.shape().block_size;
  const std::int32_t block = cache.block_table(one)(0, j / block_size);
  std::vector<U> all;
  for (ConstTensor tensor : {cache.keys(), cache.values()}) {
    tensor.dtype = data_type_of<U>;
    const auto pages = view<const U, 4>(tensor);
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t d = 0; d < pages.extent(3); ++d)
        all.push_back(pages(block, j % block_size, h, d));
  }
  return all;
}
template <typename T>
std::vector<T> entry(const KvCache<T>& cache, int64_t j) {
  std::vector<T> all;
  for (const View<const T, 4>& rows : {cache.keys(), cache.values()})
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t d = 0; d < rows.extent(3); ++d) all.push_back(rows(0, j, h, d));
  return all;
}

template <typename T>
constexpr CacheType type_of = std::is_same_v<T, float>  ? CacheType::f32
                              : std::is_same_v<T, Half> ? CacheType::f16
                                                        : CacheType::bf16;

template <typename T>
class PagedKvCacheOf : public ::testing::Test {};
using Types = ::testing::Types<float, Half, BFloat16>;
TYPED_TEST_SUITE(PagedKvCacheOf, Types);

// Sequences that grow in packed calls hold the bits of one KvCache each.
TYPED_TEST(PagedKvCacheOf, HoldsTheBitsOfAKvCache) {
  using T = TypeParam;
  for (const int64_t block_size : {1, 3, 16}) {
    PagedKvCache cache(shape(type_of<T>, 60, block_size), plain());
    Numbers numbers;
    std::vector<KvCache<T>> flat;
    for (int n = 0; n < 3; ++n) {
      numbers.push_back(cache.start());
      flat.emplace_back(
          KvCacheShape{
              .capacity = 60, .heads = heads, .head_dim = size, .value_dim = value_dim},
          plain());
    }
    unsigned seed = 0;
    for (const auto& counts :
         std::vector<Numbers>{{7, 0, 16}, {1, 1, 1}, {0, 5, 1}, {1, 1, 1}, {2, 12, 0}}) {
      Numbers starts = {2};  // rows before and after the sequences are not read
      for (const int64_t count : counts) starts.push_back(starts.back() + count);
      const int64_t rows = starts.back() + 1;
      const auto k = random_tensor<float, 3>({rows, heads, size}, ++seed),
                 v = random_tensor<float, 3>({rows, heads, value_dim}, ++seed);
      cache.append(k.view(), v.view(), numbers, starts);
      for (std::size_t n = 0; n < 3; ++n) {
        const auto part = [&](const Tensor<float, 3>& x) {
          return View<const float, 4>(
              x.view().data() + starts[n] * heads * x.extents[2],
              {1, counts[n], heads, static_cast<int64_t>(x.extents[2])});
        };
        flat[n].template append<float>(part(k), part(v),
                                       consecutive(counts[n], flat[n].tokens()));
      }
    }
    for (std::size_t n = 0; n < 3; ++n) {
      ASSERT_EQ(cache.tokens(numbers[n]), flat[n].tokens());
      EXPECT_EQ(cache.positions(numbers[n]), flat[n].positions());
      for (int64_t j = 0; j < flat[n].tokens(); ++j)
        ASSERT_EQ(entry<T>(cache, numbers[n], j), entry(flat[n], j)) << n << " " << j;
    }
    EXPECT_EQ(Numbers(cache.key_lengths(numbers).begin(), cache.key_lengths(numbers).end()),
              (Numbers{11, 19, 19}));
  }
}

TEST(PagedKvCache, Holds8Bits) {
  const auto k = random_tensor<BFloat16, 4>({1, 9, heads, size}, 1),
             v = random_tensor<BFloat16, 4>({1, 9, heads, value_dim}, 2);
  const RotaryTable table(plain(), iota(0, 9));
  Tensor<std::int8_t, 4> keys({1, 9, heads, size}), values({1, 9, heads, value_dim});
  Tensor<float, 3> key_scales({1, 9, heads}), value_scales({1, 9, heads});
  rotate_append(k.view(), table, keys.view(), key_scales.view());
  copy_append(v.view(), values.view(), value_scales.view());
  PagedKvCache cache(shape(CacheType::int8), plain());
  const int64_t a = cache.start();
  cache.append(k.view(), v.view(), a);
  EXPECT_EQ(name(cache.keys().dtype), "i8");
  const Numbers one = {a};
  for (int64_t j = 0; j < 9; ++j) {
    const auto got = entry<std::int8_t>(cache, a, j);
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t d = 0; d < size; ++d)
        ASSERT_EQ(got[static_cast<std::size_t>(h * size + d)], keys.view()(0, j, h, d));
      const int64_t block = cache.block_table(one)(0, j / 4);
      EXPECT_EQ((view<const float, 3>(cache.key_scales())(block, j % 4, h)),
                key_scales.view()(0, j, h));
      EXPECT_EQ((view<const float, 3>(cache.value_scales())(block, j % 4, h)),
                value_scales.view()(0, j, h));
    }
  }

  PagedKvCacheShape fixed = shape(CacheType::e4m3);
  fixed.key_scales = {0.5f, 0.25f};
  fixed.value_scales = {0.125f};
  PagedKvCache narrow(fixed, plain());
  narrow.append(k.view(), v.view(), narrow.start());
  EXPECT_EQ(name(narrow.keys().dtype), "f8e4m3");
  Tensor<double, 3> exact({9, heads, size});
  for (std::size_t i = 0; i < k.values.size(); ++i)
    exact.values[i] = testing::as_double(k.values[i]);
  testing::naive_rotate(exact.view(), iota(0, 9), plain(), Direction::forward);
  for (int64_t j = 0; j < 9; ++j) {
    const auto got = entry<std::uint8_t>(narrow, 0, j);
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t d = 0; d < size; ++d) {
        const double x = exact.view()(j, h, d) / double{fixed.key_scales[std::size_t(h)]};
        EXPECT_NEAR(testing::naive_float8_value(got[std::size_t(h * size + d)]), x,
                    std::max(std::fabs(x) * 0x1.01p-4, 0x1.01p-10));
      }
      for (int64_t d = 0; d < value_dim; ++d)
        EXPECT_EQ(got[std::size_t(heads * size + h * value_dim + d)],
                  testing::naive_float8(testing::as_double(v.view()(0, j, h, d)) / 0.125));
    }
  }
}

// Keys and values whose elements are all `mark` + the row.
struct Marked {
  Tensor<float, 3> k, v;

  Marked(int64_t rows, int64_t mark) : k({rows, heads, size}), v({rows, heads, value_dim}) {
    for (int64_t row = 0; row < rows; ++row) {
      const auto one = static_cast<float>(mark + row);
      std::fill_n(k.values.begin() + row * heads * size, heads * size, one);
      std::fill_n(v.values.begin() + row * heads * value_dim, heads * value_dim, one);
    }
  }
};
void append(PagedKvCache& cache, int64_t sequence, int64_t rows, int64_t mark) {
  const Marked x(rows, mark);
  cache.append(x.k.view(), x.v.view(), sequence);
}
Numbers marks(PagedKvCache& cache, int64_t sequence) {
  Numbers all;
  for (int64_t j = 0; j < cache.tokens(sequence); ++j) {
    const auto one = entry<float>(cache, sequence, j);
    EXPECT_EQ(std::set<float>(one.begin(), one.end()).size(), 1u);
    all.push_back(static_cast<int64_t>(one[0]));
  }
  return all;
}

TEST(PagedKvCache, SharesThePrefixOfAFork) {
  PagedKvCache cache(shape());
  const int64_t a = cache.start();
  append(cache, a, 10, 100);
  EXPECT_EQ(cache.free_blocks(), 5);
  const int64_t b = cache.fork(a), c = cache.fork(a, 6), d = cache.fork(a, 0);
  EXPECT_EQ(cache.sequences(), 4);
  EXPECT_EQ(cache.free_blocks(), 5);
  EXPECT_EQ(cache.room(a), 5 * 4 - 2);
  append(cache, b, 1, 200);  // copies the third block
  EXPECT_EQ(cache.free_blocks(), 4);
  append(cache, c, 3, 300);  // copies the second block, and takes one
  EXPECT_EQ(cache.free_blocks(), 2);
  append(cache, a, 2, 110);  // alone in the third block
  EXPECT_EQ(cache.free_blocks(), 2);
  EXPECT_EQ(cache.room(a), 8);
  EXPECT_EQ(marks(cache, a), iota(100, 12));
  auto of_b = iota(100, 11);
  of_b.back() = 200;
  EXPECT_EQ(marks(cache, b), of_b);
  EXPECT_EQ(marks(cache, c), (Numbers{100, 101, 102, 103, 104, 105, 300, 301, 302}));
  cache.end(a);
  EXPECT_EQ(cache.free_blocks(), 3);
  cache.truncate(b, 8);
  EXPECT_EQ(cache.free_blocks(), 4);
  EXPECT_EQ(marks(cache, b), iota(100, 8));
  cache.end(b);
  cache.end(c);
  EXPECT_EQ(cache.free_blocks(), 8);
  EXPECT_EQ(cache.tokens(d), 0);
  append(cache, d, 32, 0);
  EXPECT_EQ(marks(cache, d), iota(0, 32));
  cache.clear();
  EXPECT_EQ(cache.sequences(), 0);
  EXPECT_EQ(cache.free_blocks(), 8);
}

// Of the sequences that hold a block, all but one copy it.
TEST(PagedKvCache, CopiesASharedBlockOfOneCallOnceLess) {
  PagedKvCache cache(shape(CacheType::f32, 3));
  const int64_t a = cache.start();
  append(cache, a, 3, 10);
  const int64_t b = cache.fork(a, 1), c = cache.fork(a);
  const Numbers all = {b, a, c};
  EXPECT_EQ(cache.blocks_needed(all, {}), 2);
  EXPECT_EQ(cache.blocks_needed(Numbers{b}, {}), 1);
  const Marked x(3, 20);
  cache.append(x.k.view(), x.v.view(), all);
  EXPECT_EQ(cache.free_blocks(), 0);
  EXPECT_EQ(marks(cache, a), (Numbers{10, 11, 12, 21}));
  EXPECT_EQ(marks(cache, b), (Numbers{10, 20}));
  EXPECT_EQ(marks(cache, c), (Numbers{10, 11, 12, 22}));
}

TEST(PagedKvCache, IsUnchangedIfBlocksDoNotSuffice) {
  PagedKvCache cache(shape());
  const int64_t a = cache.start(), b = cache.start();
  append(cache, a, 25, 0);
  const Numbers both = {a, b}, starts = {0, 3, 8};
  const Marked x(8, 50);
  EXPECT_EQ(cache.blocks_needed(both, starts), 2);
  EXPECT_EQ(message_of([&] { cache.append(x.k.view(), x.v.view(), both, starts); }),
            "[paged_kv_cache] new tokens must fit the 1 free blocks; blocks needed, got 2");
  EXPECT_EQ(cache.tokens(a), 25);
  EXPECT_EQ(cache.tokens(b), 0);
  EXPECT_EQ(cache.free_blocks(), 1);
  EXPECT_EQ(marks(cache, a), iota(0, 25));
  cache.append(x.k.view(), x.v.view(), both, Numbers{0, 3, 7});
  EXPECT_EQ(cache.free_blocks(), 0);
  EXPECT_EQ(cache.room(b), 0);
  EXPECT_EQ(marks(cache, b), iota(53, 4));
}

// Drawn calls, against lists of marks.
TEST(PagedKvCache, AgreesWithLists) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    std::mt19937 draw(seed);
    const auto below = [&](int64_t n) {
      return static_cast<int64_t>(draw() % static_cast<unsigned>(n));
    };
    const int64_t blocks = 1 + below(20), block_size = 1 + below(5);
    PagedKvCache cache(shape(CacheType::f32, blocks, block_size));
    std::map<int64_t, Numbers> model;
    int64_t mark = 1;
    const auto any = [&] { return std::next(model.begin(), below(std::ssize(model)))->first; };
    for (int step = 0; step < 120; ++step) {
      const int64_t kind = below(8);
      if (kind == 0 || model.empty()) {
        const int64_t number = cache.start();
        ASSERT_FALSE(model.contains(number));
        model[number] = {};
      } else if (kind == 1) {
        const int64_t from = any(), tokens = below(std::ssize(model[from]) + 1);
        const int64_t number = cache.fork(from, tokens);
        ASSERT_FALSE(model.contains(number));
        model[number] = Numbers(model[from].begin(), model[from].begin() + tokens);
      } else if (kind == 2) {
        const int64_t number = any(), tokens = below(std::ssize(model[number]) + 1);
        cache.truncate(number, tokens);
        model[number].resize(static_cast<std::size_t>(tokens));
      } else if (kind == 3) {
        const int64_t number = any();
        cache.end(number);
        model.erase(number);
      } else {
        Numbers numbers, starts = {0};
        for (const auto& [number, list] : model)
          if (below(2)) {
            numbers.push_back(number);
            starts.push_back(starts.back() + below(4));
          }
        std::shuffle(numbers.begin(), numbers.end(), draw);
        const Marked x(starts.back(), mark);
        const int64_t free = cache.free_blocks(), needed = cache.blocks_needed(numbers, starts);
        if (needed > free) {
          EXPECT_NE(message_of([&] { cache.append(x.k.view(), x.v.view(), numbers, starts); }),
                    "");
        } else {
          cache.append(x.k.view(), x.v.view(), numbers, starts);
          ASSERT_EQ(cache.free_blocks(), free - needed);
          for (std::size_t n = 0; n < numbers.size(); ++n)
            for (int64_t row = starts[n]; row < starts[n + 1]; ++row)
              model[numbers[n]].push_back(mark + row);
          mark += starts.back();
        }
      }
      std::set<std::int32_t> held;
      for (const auto& [number, list] : model) {
        ASSERT_EQ(marks(cache, number), list) << seed << " " << step;
        const Numbers one = {number};
        const auto table = cache.block_table(one);
        for (int64_t i = 0; i < table.extent(1); ++i)
          if (table(0, i) >= 0) held.insert(table(0, i));
      }
      ASSERT_EQ(cache.free_blocks(), blocks - std::ssize(held));
      ASSERT_EQ(cache.sequences(), std::ssize(model));
    }
  }
}

TEST(PagedKvCache, TakesPositionsTablesAndRotatedKeys) {
  const auto k = random_tensor<float, 3>({5, heads, size}, 1),
             v = random_tensor<float, 3>({5, heads, value_dim}, 2);
  const Numbers ids = {7, 3, 100'000, -4, 5};
  const Positions positions = explicit_ids(ids);
  const RotaryTable table(plain(), positions);
  auto rotated = k;
  rotate(rotated.view(), table);
  PagedKvCache cache(shape(), plain());
  const Numbers numbers = {cache.start(), cache.start(), cache.start()}, starts = {0, 5};
  const std::span<const Positions> axes(&positions, 1);
  cache.append(k.view(), v.view(), numbers[0], axes);
  cache.append(k.view(), v.view(), numbers[1], axes, &table);
  cache.append_rotated(rotated.view(), v.view(), Numbers{numbers[2]}, starts, axes, plain());
  for (const int64_t number : numbers) {
    EXPECT_EQ(cache.positions(number), positions);
    for (int64_t j = 0; j < 5; ++j) {
      const auto got = entry<float>(cache, number, j);
      EXPECT_TRUE(std::equal(got.begin(), got.begin() + heads * size,
                             rotated.values.begin() + j * heads * size));
    }
  }
  // Equal to rerotate_keys of the same keys, also of a block that two sequences hold.
  RotaryFrequencies to = plain();
  for (double& f : to.inv_freq) f *= 0.5;
  const int64_t fork = cache.fork(numbers[0]);
  cache.change_frequencies(to);
  EXPECT_EQ(cache.frequencies(), to);
  rerotate_keys(rotated.view(), plain(), to, positions);
  for (const int64_t number : {numbers[0], numbers[1], numbers[2], fork})
    for (int64_t j = 0; j < 5; ++j) {
      const auto got = entry<float>(cache, number, j);
      EXPECT_TRUE(std::equal(got.begin(), got.begin() + heads * size,
                             rotated.values.begin() + j * heads * size));
    }
  EXPECT_EQ(message_of([&] { cache.append(k.view(), v.view(), fork, axes, &table); }),
            "[paged_kv_cache] keys must be rotated with the frequencies of the cache, got "
            "inv_freq[0] = 1 where the other has 0.5");
  EXPECT_EQ(cache.tokens(fork), 5);
}

TEST(PagedKvCache, HoldsOneTensorForKeysAndValues) {
  PagedKvCacheShape one = shape();
  one.value_dim = 0;
  PagedKvCache cache(one);
  const Marked x(3, 4);
  cache.append(x.k.view(), {}, cache.start());
  EXPECT_EQ(cache.values().data, cache.keys().data);
  EXPECT_EQ(marks(cache, 0), iota(4, 3));
}

TEST(PagedKvCacheErrors, NameTheRule) {
  const auto made = [](auto change) {
    PagedKvCacheShape wrong = shape();
    change(wrong);
    return message_of([&] { PagedKvCache(wrong, plain()); });
  };
  EXPECT_EQ(made([](auto& s) { s.blocks = 0; }),
            "[paged_kv_cache] blocks must be at least 1, got 0");
  EXPECT_EQ(made([](auto& s) { s.block_size = -1; }),
            "[paged_kv_cache] block_size must be at least 1, got -1");
  EXPECT_EQ(made([](auto& s) { s.type = {}; }),
            "[paged_kv_cache] type must be f32, f16, bf16, int8 or e4m3, got 0");
  EXPECT_EQ(made([](auto& s) { s.key_scales = {1}; }),
            "[paged_kv_cache] key_scales must be empty unless the type is e4m3, got 1");
  EXPECT_EQ(made([](auto& s) { s.type = CacheType::e4m3; }),
            "[paged_kv_cache] key_scales of e4m3 must have 1 or 2 elements, got 0");
  EXPECT_EQ(made([](auto& s) { s.head_dim = 4; }),
            "[paged_kv_cache] head_dim must be at least head_offset + rotary_dim = 0 + 6, got "
            "4");
  EXPECT_NE(made([](auto& s) { s.blocks = s.block_size = 2147483647, s.heads = 1 << 20; }), "");

  PagedKvCache cache(shape(), plain());
  const int64_t a = cache.start(), b = cache.start();
  const Marked x(2, 0);
  const auto says = [&](const Numbers& numbers, const Numbers& starts) {
    return message_of([&] { cache.append(x.k.view(), x.v.view(), numbers, starts); });
  };
  EXPECT_EQ(says({a, a}, {}),
            "[paged_kv_cache] each sequence must occur once in a call, got 0");
  EXPECT_EQ(says({a, 7}, {}),
            "[paged_kv_cache] a number must be that of a sequence of the cache, got 7");
  EXPECT_EQ(says({a}, {}),
            "[paged_kv_cache] without starts there must be one row for each of 1 sequences, "
            "got 2");
  EXPECT_EQ(says({a, b}, {0, 2}),
            "[paged_kv_cache] starts must have 3 elements, one more than sequences, got 2");
  EXPECT_EQ(says({a, b}, {0, 2, 1}), "[paged_kv_cache] start 2 must be 2 to 2, got 1");
  EXPECT_EQ(says({a, b}, {-1, 2, 2}), "[paged_kv_cache] start 0 must be 0 to 2, got -1");
  EXPECT_EQ(message_of([&] { cache.append(x.v.view(), x.v.view(), a); }),
            "[paged_kv_cache] k must be [rows, Hk, D] or [1, rows, Hk, D] with Hk = 2 and D = "
            "8, got [1, 2, 2, 3]");
  EXPECT_EQ(message_of([&] { cache.append(x.k.view(), x.k.view(), a); }),
            "[paged_kv_cache] v must be [1, 2, 2, 3], got [1, 2, 2, 8]");
  const Positions three = consecutive(3), far = consecutive(2, int64_t{1} << 40);
  EXPECT_EQ(message_of([&] { cache.append(x.k.view(), x.v.view(), a, std::span(&three, 1)); }),
            "[paged_kv_cache] positions must be 1 row of 2 tokens, got 1 of 3");
  EXPECT_EQ(message_of([&] { cache.append(x.k.view(), x.v.view(), a, std::span(&far, 1)); }),
            "[paged_kv_cache] positions must be at most 2^31 in magnitude, got 1099511627776");
  EXPECT_EQ(message_of([&] { cache.truncate(a, 1); }),
            "[paged_kv_cache] tokens to keep must be 0 to 0, got 1");
  EXPECT_EQ(message_of([&] { cache.fork(a, 1); }),
            "[paged_kv_cache] tokens of a fork must be 0 to 0, got 1");
  EXPECT_EQ(cache.tokens(a) + cache.tokens(b), 0);
  cache.end(b);
  EXPECT_NE(message_of([&] { cache.end(b); }), "");
  const PagedKvCache copy = cache;  // a value
  append(cache, a, 3, 1);
  EXPECT_EQ(copy.tokens(a), 0);
}

}  // namespace paged_kv_cache_test
}  // namespace gnomon
