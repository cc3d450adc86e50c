#include "gnomon/attention/kv_cache.h"

#include <gtest/gtest.h>

#include "gnomon/isa.h"
#include "gnomon/parallel.h"
#include "gnomon/rotary/cached_keys.h"
#include "gnomon/rotary/mrope.h"
#include "testing.h"

namespace gnomon {
namespace kv_cache_test {

using testing::as_double;
using testing::iota;
using testing::message_of;
using testing::random_tensor;
using testing::Tensor;

constexpr std::int64_t heads = 2, size = 8, value_dim = 3;
KvCacheShape shape(std::int64_t batch = 1, std::int64_t capacity = 16, std::int64_t axes = 1) {
  return {.batch = batch,
          .capacity = capacity,
          .heads = heads,
          .head_dim = size,
          .value_dim = value_dim,
          .axes = axes};
}
RotaryFrequencies plain() { return lower(Rotary{.rotary_dim = 6, .pairing = Pairing::halves}); }

// Reproducible keys and values.
template <typename T>
struct Content {
  Tensor<T, 4> k, v;

  Content(std::int64_t batch, std::int64_t tokens, unsigned seed = 1)
      : k(random_tensor<T, 4>({batch, tokens, heads, size}, seed)),
        v(random_tensor<T, 4>({batch, tokens, heads, value_dim}, seed + 100)) {}
  View<const T, 4> keys() const { return k.view(); }
  View<const T, 4> values() const { return v.view(); }
};

// In a cache of a model without rotary, the contents identify the entries.
using Ids = std::vector<std::int64_t>;
Ids marks(const KvCache<float>& cache, std::int64_t b = 0) {
  Ids all;
  for (std::int64_t j = 0; j < cache.tokens(); ++j) {
    const float mark = cache.values()(b, j, 0, 0);
    EXPECT_EQ(cache.keys()(b, j, heads - 1, size - 1), mark);
    EXPECT_EQ(cache.values()(b, j, heads - 1, value_dim - 1), mark);
    all.push_back(static_cast<std::int64_t>(mark));
  }
  return all;
}
Content<float> marked(std::int64_t batch, std::int64_t tokens, int first) {
  Content<float> content(batch, tokens);
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t t = 0; t < tokens; ++t)
      for (std::int64_t h = 0; h < heads; ++h) {
        const auto mark = static_cast<float>(first + t + 100 * b);
        for (std::int64_t d = 0; d < size; ++d) content.k.view()(b, t, h, d) = mark;
        for (std::int64_t d = 0; d < value_dim; ++d) content.v.view()(b, t, h, d) = mark;
      }
  return content;
}
Ids ids(const Positions& positions, std::int64_t b = 0) {
  const auto row = positions.row(b);
  return {row.begin(), row.end()};
}

template <typename Cache>
void append(Cache& cache, const Content<float>& content, const Positions& positions) {
  cache.template append<float>(content.keys(), content.values(), positions);
}

TEST(KvCache, KeepsEntriesAndTheirPositions) {
  KvCache<float> cache(shape(2));
  EXPECT_EQ(cache.tokens(), 0);
  EXPECT_EQ(cache.room(), 16);
  EXPECT_EQ(cache.keys().extents(), (std::array<std::ptrdiff_t, 4>{2, 0, heads, size}));
  append(cache, marked(2, 3, 10), consecutive(3, 5));
  append(cache, marked(2, 1, 20), consecutive(1, 8, 2));
  append(cache, marked(2, 0, 0), consecutive(0));
  EXPECT_EQ(cache.tokens(), 4);
  EXPECT_EQ(cache.room(), 12);
  EXPECT_EQ(cache.keys().extents(), (std::array<std::ptrdiff_t, 4>{2, 4, heads, size}));
  EXPECT_EQ(cache.values().extents(), (std::array<std::ptrdiff_t, 4>{2, 4, heads, value_dim}));
  EXPECT_EQ(marks(cache), (Ids{10, 11, 12, 20}));
  EXPECT_EQ(marks(cache, 1), (Ids{110, 111, 112, 120}));
  EXPECT_EQ(cache.positions(), consecutive(4, 5, 2));
  cache.truncate(3);
  EXPECT_EQ(marks(cache, 1), (Ids{110, 111, 112}));
  EXPECT_EQ(cache.positions(), consecutive(3, 5, 2));
  cache.clear();
  EXPECT_EQ(cache.tokens(), 0);
  EXPECT_EQ(cache.positions(), consecutive(0, 0, 2));
  append(cache, marked(2, 2, 1), consecutive(2));
  EXPECT_EQ(marks(cache, 1), (Ids{101, 102}));
}

TEST(KvCache, DropsRemovesInsertsAndShifts) {
  KvCache<float> cache(shape(2));
  append(cache, marked(2, 6, 0), consecutive(6));
  cache.drop(1, 3);
  EXPECT_EQ(marks(cache, 1), (Ids{100, 103, 104, 105}));
  EXPECT_EQ(ids(cache.positions(), 1), (Ids{0, 3, 4, 5}));
  cache.remove(1, 2);
  EXPECT_EQ(marks(cache), (Ids{0, 4, 5}));
  EXPECT_EQ(ids(cache.positions()), (Ids{0, 3, 4}));
  const auto more = marked(2, 2, 50);
  cache.insert<float>(1, more.keys(), more.values(), consecutive(2, 1));
  EXPECT_EQ(marks(cache, 1), (Ids{100, 150, 151, 104, 105}));
  EXPECT_EQ(ids(cache.positions(), 1), (Ids{0, 1, 2, 5, 6}));
  cache.shift(3, 5, -2);
  EXPECT_EQ(ids(cache.positions(), 1), (Ids{0, 1, 2, 3, 4}));
  cache.remove(0, 5);
  EXPECT_EQ(cache.tokens(), 0);
}

// Two rows with left padding, and a row with two sequences.
TEST(KvCache, MovesTheSequenceThatLostEntriesAndNoPadding) {
  const std::vector<std::uint8_t> mask{0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
  KvCache<float> cache(shape(2));
  append(cache, marked(2, 5, 0),
         from_padding_mask(View<const std::uint8_t, 2>(mask.data(), {2, 5}), 1));
  cache.remove(1, 3);  // padding and position 0; positions 1 and 2
  EXPECT_EQ(ids(cache.positions(), 0), (Ids{1, 0, 1}));
  EXPECT_EQ(cache.positions().sequences[0], Positions::padding);
  EXPECT_EQ(ids(cache.positions(), 1), (Ids{0, 1, 2}));
  EXPECT_EQ(marks(cache, 1), (Ids{100, 103, 104}));
  cache.remove(0, 1);  // padding; position 0
  EXPECT_EQ(ids(cache.positions(), 0), (Ids{0, 1}));
  EXPECT_EQ(ids(cache.positions(), 1), (Ids{0, 1}));

  KvCache<float> two(shape());
  append(two, marked(1, 7, 0), packed(std::vector<std::int64_t>{3, 4}));
  two.remove(1, 4);  // positions 1 and 2 of the first, 0 of the second
  EXPECT_EQ(ids(two.positions()), (Ids{0, 0, 1, 2}));
  EXPECT_EQ(two.positions().sequences, (std::vector<std::int32_t>{0, 1, 1, 1}));
  const auto more = marked(1, 2, 50);
  Positions of_second = consecutive(2, 7);
  of_second.sequences = {1, 1};
  two.insert<float>(0, more.keys(), more.values(), of_second);
  EXPECT_EQ(ids(two.positions()), (Ids{7, 8, 0, 2, 3, 4}));
}

// Every rotation by the cache equals a call of the functions of cached_keys.h on the same
// entries.
TEST(KvCache, RotatesKeysAsItMovesThem) {
  const Content<Half> content(2, 10);
  const auto turned = [&](const RotaryFrequencies& s, const Ids& at) {
    Tensor<Half, 4> k = content.k;
    rotate(k.view(), RotaryTable(s, at));
    return k;
  };
  KvCache<Half> cache(shape(2, 12), plain());
  EXPECT_EQ(cache.frequencies(), plain());
  cache.append(content.keys(), content.values(), consecutive(10, 3));
  auto expected = turned(plain(), iota(3, 10));
  const auto expect = [&](std::int64_t first, std::int64_t count, std::int64_t from) {
    for (std::int64_t b = 0; b < 2; ++b)
      for (std::int64_t j = 0; j < count; ++j)
        for (std::int64_t h = 0; h < heads; ++h)
          for (std::int64_t d = 0; d < size; ++d)
            ASSERT_EQ(cache.keys()(b, first + j, h, d), expected.view()(b, from + j, h, d));
  };
  expect(0, 10, 0);
  cache.remove(2, 5);
  shift_keys(expected.view().slice(1, 5, 5), plain(), -3);
  expect(0, 2, 0);
  expect(2, 5, 5);
  EXPECT_EQ(cache.positions(), consecutive(7, 3, 2));
  cache.shift(1, 5, 1000);
  shift_keys(expected.view().slice(1, 1, 1), plain(), 1000);
  shift_keys(expected.view().slice(1, 5, 3), plain(), 1000);
  expect(1, 1, 1);
  expect(2, 5, 5);
  RotaryFrequencies to = plain();
  for (double& f : to.inv_freq) f *= 0.5;
  rerotate_keys(expected.view().slice(1, 0, 2), plain(), to, explicit_ids(Ids{3, 1004}));
  rerotate_keys(expected.view().slice(1, 5, 5), plain(), to,
                explicit_ids(Ids{1005, 1006, 1007, 8, 9}));
  cache.change_frequencies(to);
  EXPECT_EQ(cache.frequencies(), to);
  expect(0, 2, 0);
  expect(2, 5, 5);
}

TEST(KvCache, TakesFloatsTablesAndRotatedKeys) {
  const Content<float> content(1, 5);
  KvCache<BFloat16> here(shape(), plain()), given(shape(), plain()), turned(shape(), plain());
  here.append<float>(content.keys(), content.values(), consecutive(5, 2));
  const RotaryTable table(plain(), consecutive(5, 2));
  given.append<float>(content.keys(), content.values(), consecutive(5, 2), &table);
  auto k = content.k;
  rotate(k.view(), table);
  turned.append_rotated<float>(k.view(), content.values(), consecutive(5, 2), plain());
  for (std::int64_t j = 0; j < 5; ++j)
    for (std::int64_t d = 0; d < size; ++d) {
      EXPECT_EQ(here.keys()(0, j, 1, d), given.keys()(0, j, 1, d));
      EXPECT_EQ(here.keys()(0, j, 1, d), turned.keys()(0, j, 1, d));
    }
  EXPECT_EQ(here.values()(0, 4, 1, 2), BFloat16(content.values()(0, 4, 1, 2)));
}

TEST(KvCache, CountsPositionsOnEveryAxis) {
  const std::vector<std::int64_t> sections{1, 1, 1};
  const RotaryFrequencies s = lower(MRope{.rotary_dim = 6,
                                          .pairing = Pairing::halves,
                                          .sections = sections,
                                          .order = MRopeOrder::sequential});
  const Content<float> content(1, 3);
  const std::vector<Positions> axes{consecutive(3, 9), consecutive(3, 70), consecutive(3, 500)};
  KvCache<float> cache(shape(1, 8, 3), s);
  cache.append(content.keys(), content.values(), axes);
  cache.append(content.keys(), content.values(), consecutive(3, 600));  // text
  cache.remove(1, 2);
  cache.shift(3, 5, Ids{0, 0, -40});
  EXPECT_EQ(ids(cache.positions(0)), (Ids{9, 10, 599, 600, 601}));
  EXPECT_EQ(ids(cache.positions(1)), (Ids{70, 71, 599, 600, 601}));
  EXPECT_EQ(ids(cache.positions(2)), (Ids{500, 501, 599, 560, 561}));
  std::vector<Positions> at;
  for (int a = 0; a < 3; ++a) at.push_back(cache.positions(a));
  Tensor<float, 4> k({1, 5, heads, size});
  const int from[] = {0, 2, 0, 1, 2};
  for (std::int64_t j = 0; j < 5; ++j)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t d = 0; d < size; ++d)
        k.view()(0, j, h, d) = content.keys()(0, from[j], h, d);
  rotate(k.view(), RotaryTable(s, at));
  for (std::int64_t j = 0; j < 5; ++j)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t d = 0; d < size; ++d)
        EXPECT_NEAR(cache.keys()(0, j, h, d), k.view()(0, j, h, d), 1e-5) << j;
}

TEST(KvCache, TheSameBitsForAnyNumberOfThreads) {
  const int before = threads();
  const Content<float> content(2, 900);
  const auto run = [&](int count) {
    set_threads(count);
    KvCache<Half> cache(shape(2, 1000), plain());
    cache.append<float>(content.keys(), content.values(), consecutive(900));
    cache.remove(4, 11);
    RotaryFrequencies to = plain();
    to.inv_freq[1] *= 0.5;
    cache.change_frequencies(to);
    return std::vector<Half>(cache.keys().data(), cache.keys().data() + 893 * heads * size);
  };
  const auto one = run(1);
  EXPECT_EQ(one, run(2));
  EXPECT_EQ(one, run(7));
  set_threads(before);
}

TEST(KvCache, RefusesKeysOfAnotherSchedule) {
  KvCache<float> cache(shape(), plain());
  const Content<float> content(1, 2);
  RotaryFrequencies other = plain();
  other.inv_freq[1] = 0.25;
  const RotaryTable table(other, consecutive(2));
  const std::string rule =
      "[kv_cache] keys must be rotated with the frequencies of the cache, got ";
  const std::string what = "inv_freq[1] = 0.25 where the other has 0.04641588833612779";
  EXPECT_EQ(message_of([&] {
              cache.append(content.keys(), content.values(), consecutive(2), &table);
            }),
            rule + what);
  EXPECT_EQ(message_of([&] {
              cache.append_rotated(content.keys(), content.values(), consecutive(2), other);
            }),
            rule + what);
  other = plain();
  other.pairing = Pairing::adjacent;
  EXPECT_EQ(message_of([&] {
              cache.append_rotated(content.keys(), content.values(), consecutive(2), other);
            }),
            rule + "pairing = adjacent where the other has halves");
  EXPECT_EQ(
      message_of([&] { cache.change_frequencies(other); }),
      "[rotary] frequencies must have the same pairing, head_offset, rotary_dim and axes, got "
      "pairing = adjacent where the other has halves");
  EXPECT_EQ(cache.tokens(), 0);
  KvCache<float> still(shape());
  EXPECT_EQ(message_of([&] {
              still.append(content.keys(), content.values(), consecutive(2), &table);
            }),
            "[kv_cache] a cache without frequencies cannot take rotated keys, got frequencies");
  EXPECT_EQ(message_of([&] { still.change_frequencies(other); }),
            "[kv_cache] change_frequencies requires a cache with frequencies, got 6");
}

TEST(KvCache, WithoutValuesReturnsTheKeys) {
  KvCacheShape keys_only = shape();
  keys_only.value_dim = 0;
  KvCache<float> cache(keys_only, plain()), usual(shape(), plain());
  const Content<float> content(1, 5);
  cache.append(content.keys(), {}, consecutive(5));
  usual.append(content.keys(), content.values(), consecutive(5));
  for (auto* one : {&cache, &usual}) one->remove(1, 3);
  EXPECT_EQ(cache.values().data(), cache.keys().data());
  EXPECT_EQ(cache.values().extents(), (std::array<std::ptrdiff_t, 4>{1, 3, heads, size}));
  for (std::int64_t j = 0; j < 3; ++j)
    for (std::int64_t d = 0; d < size; ++d)
      EXPECT_EQ(cache.values()(0, j, 1, d), usual.keys()(0, j, 1, d));
  EXPECT_EQ(message_of([&] { usual.append(content.keys(), {}, consecutive(5)); }),
            "[kv_cache] v must be [1, 5, 2, 3], got [0, 0, 0, 0]");
}

TEST(KvCache, RefusesWhatBreaksItsRulesAndStaysAsItWas) {
  const auto make = [](KvCacheShape bad, std::optional<RotaryFrequencies> s = {}) {
    return message_of([&] { KvCache<float>(bad, s); });
  };
  EXPECT_EQ(make({.heads = 1, .head_dim = 1, .value_dim = 1}),
            "[kv_cache] capacity must be at least 1, got 0");
  EXPECT_EQ(make({.capacity = 1, .heads = 1, .head_dim = 1, .value_dim = -1}),
            "[kv_cache] value_dim must not be negative, got -1");
  KvCacheShape narrow = shape(), huge = shape();
  narrow.head_dim = 5;
  huge.capacity = std::int64_t{1} << 60;
  EXPECT_EQ(make(narrow, plain()),
            "[kv_cache] head_dim must be at least head_offset + rotary_dim = 0 + 6, got 5");
  EXPECT_EQ(make(huge),
            "[kv_cache] batch x capacity x heads x head_dim must fit in memory, got "
            "1 x 1152921504606846976 x 2 x 8");
  RotaryFrequencies far = plain(), grown = plain();
  far.axes = {0, 1, 2};
  EXPECT_EQ(make(shape(), far), "[rotary] axes must be 0 to 0, got 1");

  grown.growth = {0, 0, -2};
  KvCache<float> cache(shape(2, 6), grown);
  const Content<float> content(2, 4);
  cache.append(content.keys(), content.values(), consecutive(4));
  const auto state = [&] {
    return std::pair(cache.positions(),
                     std::vector<float>(cache.keys().data(), cache.keys().data() + 64));
  };
  const auto before = state();
  const auto appended = [&](const Content<float>& c, const Positions& positions) {
    return message_of([&] { append(cache, c, positions); });
  };
  EXPECT_EQ(appended(Content<float>(2, 3), consecutive(3)),
            "[kv_cache] new tokens must fit the room of 2 behind 4 entries, got 3");
  EXPECT_EQ(appended(Content<float>(1, 2), consecutive(2)),
            "[kv_cache] k must be [2, 2, 2, 8], got [1, 2, 2, 8]");
  EXPECT_EQ(appended(Content<float>(2, 2), consecutive(1)),
            "[kv_cache] positions must be of 1 or 2 rows of 2 tokens, got 1 of 1");
  Positions bare = consecutive(2);
  bare.sequences.clear();
  EXPECT_EQ(appended(Content<float>(2, 2), bare),
            "[kv_cache] positions must have an id and a sequence for each of 2 tokens, got 0");
  EXPECT_EQ(appended(Content<float>(2, 2), consecutive(2, std::int64_t{1} << 31)),
            "[kv_cache] positions must be at most 2^31 in magnitude, got 2147483649");
  const Content<float> two(2, 2);
  EXPECT_EQ(message_of([&] {
              cache.append(two.keys(), two.values(),
                           std::vector<Positions>{consecutive(2), consecutive(2)});
            }),
            "[kv_cache] positions must have 1 axis (used for all axes) or 1, got 2");
  const RotaryTable three_rows(grown, consecutive(2, 0, 3));
  EXPECT_EQ(message_of([&] {
              cache.insert(0, two.keys(), two.values(), consecutive(2), &three_rows);
            }),
            "[rotary] x must have the table's 3 rows, got 2");
  EXPECT_EQ(message_of([&] { cache.insert(5, two.keys(), two.values(), consecutive(2)); }),
            "[kv_cache] an entry must be 0 to 4, got 5");
  EXPECT_EQ(message_of([&] { cache.remove(1, 5); }),
            "[kv_cache] the end of entries from 1 must be 1 to 4, got 5");
  EXPECT_EQ(message_of([&] { cache.drop(-1, 0); }),
            "[kv_cache] an entry must be 0 to 4, got -1");
  EXPECT_EQ(message_of([&] { cache.truncate(5); }),
            "[kv_cache] tokens to keep must be 0 to 4, got 5");
  EXPECT_EQ(message_of([&] { cache.shift(0, 1, Ids{1, 2}); }),
            "[kv_cache] there must be one delta for each of 1 axes, got 2");
  EXPECT_EQ(message_of([&] { cache.shift(3, 4, (std::int64_t{1} << 31) - 2); }),
            "[kv_cache] positions must be at most 2^31 in magnitude, got 2147483649");
  EXPECT_EQ(
      message_of([&] { cache.shift(0, 4, -100); }),
      "[rotary] the growth factor of a pair must fit in float, got 7.225973768125749e+86");
  EXPECT_EQ(message_of([&] { cache.positions(1); }), "[kv_cache] axis must be 0 to 0, got 1");
  EXPECT_EQ(state(), before);
  // The first row could move by 1, but the second could not by 50, so neither moves.
  KvCache<float> uneven(shape(2, 60), grown);
  Positions padded = consecutive(60, 0, 2);
  std::fill_n(padded.sequences.begin(), 49, Positions::padding);
  append(uneven, Content<float>(2, 60), padded);
  const std::vector<float> all(uneven.keys().data(), uneven.keys().data() + 60 * heads * size);
  EXPECT_EQ(
      message_of([&] { uneven.remove(0, 50); }),
      "[rotary] the growth factor of a pair must fit in float, got 2.6881171418161356e+43");
  EXPECT_EQ(uneven.positions(), padded);
  EXPECT_EQ(all,
            std::vector<float>(uneven.keys().data(), uneven.keys().data() + 60 * heads * size));
  KvCache<float> unrotated(shape());
  append(unrotated, marked(1, 1, 0), consecutive(1, std::numeric_limits<std::int64_t>::max()));
  EXPECT_EQ(message_of([&] { unrotated.shift(0, 1, 1); }),
            "[kv_cache] a position must not overflow when it moves by, got 1");
}

}  // namespace kv_cache_test
}  // namespace gnomon
