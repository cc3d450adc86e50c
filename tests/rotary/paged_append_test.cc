#include "gnomon/rotary/paged_append.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "gnomon/parallel.h"
#include "gnomon/rotary/cached_keys.h"
#include "gnomon/rotary/int8_keys.h"
#include "naive/rotary.h"
#include "testing.h"

namespace gnomon {
namespace paged_append_test {

using std::int64_t;
using testing::as_double;
using testing::half_ulp;
using testing::iota;
using testing::message_of;
using testing::naive_float8;
using testing::naive_float8_value;
using testing::random_tensor;
using testing::Tensor;

enum class Order {
  entries_first = 1,
  heads_first
};  // [P, S, Hk, D] or [P, Hk, S, D] in memory

// A cache whose elements are all 77 before the call. U: uint8 for E4M3.
template <typename U>
struct Pages {
  Tensor<U, 4> elements;
  Tensor<float, 3> head_scales;
  View<U, 4> view;

  Pages(int64_t blocks, int64_t entries, int64_t heads, int64_t size, Order order)
      : elements(order == Order::entries_first
                     ? std::array<std::ptrdiff_t, 4>{blocks, entries, heads, size + 1}
                     : std::array<std::ptrdiff_t, 4>{blocks, heads, entries, size + 1},
                 U(77)),
        head_scales({blocks, entries, heads}, 77.0f) {
    const auto all = elements.view();
    const bool first = order == Order::entries_first;
    view = {all.data(),
            {blocks, entries, heads, size},
            {all.stride(0), all.stride(first ? 1 : 2), all.stride(first ? 2 : 1), 1}};
  }
  Pages(const Pages&) = delete;

  double number(int64_t block, int64_t entry, int64_t h, int64_t d, float scale) const {
    const U element = view(block, entry, h, d);
    if constexpr (std::is_same_v<U, std::uint8_t>)
      return static_cast<double>(scale) * naive_float8_value(element);
    else if constexpr (std::is_same_v<U, std::int8_t>)
      return static_cast<double>(head_scales.view()(block, entry, h)) * element;
    else
      return as_double(element);
  }
  bool untouched(int64_t block, int64_t entry, int64_t h) const {
    bool same = head_scales.view()(block, entry, h) == 77.0f;
    for (int64_t d = 0; d < view.extent(3); ++d) same &= view(block, entry, h, d) == U(77);
    return same;
  }
  bool guards_untouched() const {
    bool same = true;
    const auto all = elements.view();
    for (int64_t a = 0; a < all.extent(0); ++a)
      for (int64_t b = 0; b < all.extent(1); ++b)
        for (int64_t c = 0; c < all.extent(2); ++c)
          same &= all(a, b, c, all.extent(3) - 1) == U(77);
    return same;
  }
};

constexpr int64_t blocks = 6, entries = 4, heads = 3, batch = 3, tokens = 5;
constexpr float scales[] = {0.02f, 0.5f, 0.015f};
// New tokens begin at entry 2 of their sequences. The blocks of the last one are consecutive.
const std::vector<std::int32_t> block_table = {5, 0, 4, 1, 2, 3};

struct Setting {
  int64_t size, value_dim, rotary_dim, head_offset;
  Pairing pairing;
  Order order;
  bool by_table;
};
const Setting settings[] = {
    {64, 64, 64, 0, Pairing::halves, Order::entries_first, false},
    {40, 24, 32, 8, Pairing::adjacent, Order::heads_first, true},
    {11, 7, 6, 3, Pairing::halves, Order::entries_first, true},
    {600, 5, 600, 0, Pairing::adjacent, Order::entries_first, false},
};

template <typename T, typename U>
void expect_stored(const Pages<U>& pages, const Tensor<double, 3>& exact,
                   const std::vector<int64_t>& slots, bool one_scale, bool rotated) {
  const int64_t size = exact.extents[2];
  Tensor<double, 4> want({blocks, entries, heads, size}, std::nan(""));
  testing::naive_paged_append(View<const double, 3>(exact.view()), slots, want.view());
  for (int64_t p = 0; p < blocks; ++p)
    for (int64_t s = 0; s < entries; ++s)
      for (int64_t h = 0; h < heads; ++h) {
        const View<double, 4> all = want.view();
        if (std::isnan(all(p, s, h, 0))) {
          ASSERT_TRUE(pages.untouched(p, s, h)) << p << " " << s << " " << h;
          continue;
        }
        double most = 0;
        for (int64_t d = 0; d < size; ++d) most = std::max(most, std::fabs(all(p, s, h, d)));
        const float scale = scales[one_scale ? 0 : h];
        for (int64_t d = 0; d < size; ++d) {
          const double x = all(p, s, h, d);
          // A pair (a, b) of normal numbers: |a| + |b| < 1.5 times the greatest element.
          const double rotation = rotated ? 6 * 0x1p-24 * 1.5 * most : 0;
          double limited = x, bound = rotation + half_ulp<T> * std::fabs(x) + 0x1p-24;
          if constexpr (std::is_same_v<U, std::int8_t>) {
            bound = rotation + most * (1.0 / 254 + 0x1p-22);
          } else if constexpr (std::is_same_v<U, std::uint8_t>) {
            limited = std::clamp<double>(x, -448 * double{scale}, 448 * double{scale});
            bound = rotation * 2 + std::max(std::fabs(limited) * 0x1p-4 * 1.001,
                                            static_cast<double>(scale) * 0x1p-10 * 1.001);
          } else {
            bound = rotation + half_ulp<U> * std::fabs(x) * 1.001 +
                    (std::is_same_v<U, Half> ? 0x1p-25 : 0.0);
          }
          ASSERT_NEAR(pages.number(p, s, h, d, scale), limited, bound)
              << p << " " << s << " " << h << " " << d;
        }
      }
  EXPECT_TRUE(pages.guards_untouched());
}

template <typename T>
Tensor<double, 3> exact_of(const Tensor<T, 4>& x) {
  Tensor<double, 3> same({x.extents[0] * x.extents[1], x.extents[2], x.extents[3]});
  for (std::size_t i = 0; i < x.values.size(); ++i) same.values[i] = as_double(x.values[i]);
  return same;
}

template <typename T, typename U>
void check(const Setting& s, bool rotated) {
  constexpr bool float8 = std::is_same_v<U, std::uint8_t>,
                 int8 = std::is_same_v<U, std::int8_t>;
  const auto k = random_tensor<T, 4>({batch, tokens, heads, s.size}, 1),
             v = random_tensor<T, 4>({batch, tokens, heads, s.value_dim}, 2);
  const std::vector<int64_t> positions = iota(100'000, batch * tokens);
  std::vector<int64_t> slots, in_sequence;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t t = 0; t < tokens; ++t) {
      const int64_t at = t + 2;
      in_sequence.push_back(at);
      slots.push_back(block_table[static_cast<std::size_t>(2 * b + at / entries)] * entries +
                      at % entries);
    }
  slots[3] = -1;
  slots.back() = blocks * entries;
  in_sequence[3] = -5;
  in_sequence.back() = 2 * entries;
  Pages<U> keys(blocks, entries, heads, s.size, s.order),
      values(blocks, entries, heads, s.value_dim, s.order);
  PagedCache cache{.keys = keys.view, .values = values.view};
  const View<const int64_t, 2> slot_view(slots.data(), {batch, tokens}),
      entry_view(in_sequence.data(), {batch, tokens});
  const View<const std::int32_t, 2> table_view(block_table.data(), {batch, 2});
  const View<const float, 1> all_scales(scales, {heads}), one_scale(scales, {1});
  const View<float, 3> key_scales = keys.head_scales.view(),
                       value_scales = values.head_scales.view();
  if (s.by_table)
    cache.block_table = table_view, cache.entries = entry_view;
  else
    cache.slots = slot_view;
  if (float8) {
    cache.keys.dtype = cache.values.dtype = {TypeCode::float8_e4m3fn, 8};
    cache.key_scales = all_scales, cache.value_scales = one_scale;
  }
  if (int8) cache.key_head_scales = key_scales, cache.value_head_scales = value_scales;
  const RotaryFrequencies f = lower(Rotary{s.rotary_dim, s.pairing, 10'000.0, s.head_offset});
  const RotaryTable table(
      f, explicit_ids(View<const int64_t, 2>(positions.data(), {batch, tokens})));
  const View<const T, 4> k_view = k.view(), v_view = v.view();
  if (rotated)
    rotate_append(k_view, v_view, table, cache);
  else
    copy_append(k_view, v_view, cache);
  auto k_exact = exact_of(k);
  if (rotated) testing::naive_rotate(k_exact.view(), positions, f, Direction::forward);
  slots.back() = -1;
  expect_stored<T>(keys, k_exact, slots, false, rotated);
  expect_stored<T>(values, exact_of(v), slots, true, false);

  // The bits of an append to a contiguous cache.
  if constexpr (!float8) {
    Tensor<U, 4> flat({batch, tokens, heads, s.size}), flat_values(v.extents);
    Tensor<float, 3> flat_scales({batch, tokens, heads});
    if constexpr (int8)
      rotate_append(k_view, table, flat.view(), flat_scales.view());
    else
      rotate_append(k_view, table, flat.view()), copy_append(v_view, flat_values.view());
    for (std::size_t i = 0; rotated && i < slots.size(); ++i)
      for (int64_t h = 0; slots[i] >= 0 && h < heads; ++h) {
        const auto b = static_cast<int64_t>(i) / tokens, t = static_cast<int64_t>(i) % tokens;
        const int64_t p = slots[i] / entries, e = slots[i] % entries;
        for (int64_t d = 0; d < s.size; ++d)
          ASSERT_EQ(keys.view(p, e, h, d), flat.view()(b, t, h, d));
        if (int8) {
          ASSERT_EQ(key_scales(p, e, h), flat_scales.view()(b, t, h));
        }
        for (int64_t d = 0; !int8 && d < s.value_dim; ++d)
          ASSERT_EQ(values.view(p, e, h, d), flat_values.view()(b, t, h, d));
      }
  }
}

template <typename T, typename U>
struct TypePair {
  static void check_all() {
    for (const Isa isa : available_isas()) {
      const ScopedIsa scoped(isa);
      SCOPED_TRACE(name(isa));
      for (const Setting& s : settings)
        for (const bool rotated : {true, false}) {
          SCOPED_TRACE(s.size);
          check<T, U>(s, rotated);
        }
    }
  }
};
template <typename Pair>
class PagedAppend : public ::testing::Test {};
using Pairs =
    ::testing::Types<TypePair<float, float>, TypePair<Half, Half>, TypePair<BFloat16, BFloat16>,
                     TypePair<double, double>, TypePair<float, Half>, TypePair<float, BFloat16>,
                     TypePair<float, std::int8_t>, TypePair<Half, std::int8_t>,
                     TypePair<BFloat16, std::int8_t>, TypePair<float, std::uint8_t>,
                     TypePair<Half, std::uint8_t>, TypePair<BFloat16, std::uint8_t>>;
TYPED_TEST_SUITE(PagedAppend, Pairs);

TYPED_TEST(PagedAppend, EqualsTheOracleOnEveryIsa) { TypeParam::check_all(); }

// Values and ties of E4M3, numbers beside them, and numbers that are not finite.
TEST(PagedAppendFloat8, RoundsToTheNearest) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> numbers = {0.0f,      -0.0f,    448.0f,    463.9f,       464.0f,
                                1e9f,      infinity, -infinity, 0x1p-10f,     0x1.000002p-10f,
                                0x1.8p-9f, -3e-4f,   1e-40f,    std::nanf("")};
  for (int bits = 0; bits < 0x7e; ++bits)
    for (const double x : {naive_float8_value(bits),
                           (naive_float8_value(bits) + naive_float8_value(bits + 1)) / 2})
      for (const double one : {x, -x, x * (1 + 0x1p-20), x * (1 - 0x1p-20)})
        numbers.push_back(static_cast<float>(one));
  for (const double random : testing::random_numbers(500))
    numbers.push_back(static_cast<float>(random * 50));
  const auto count = std::ssize(numbers);
  const int64_t slot = 0;
  for (const Isa isa : available_isas()) {
    const ScopedIsa scoped(isa);
    for (const float scale : {1.0f, 0.37f}) {
      Tensor<std::uint8_t, 4> pages({1, 1, 1, count});
      PagedCache cache;
      const View<const int64_t, 1> slots(&slot, {1});
      const View<const float, 1> scales_view(&scale, {1});
      const View<std::uint8_t, 4> view = pages.view();
      cache.keys = view;
      cache.slots = slots;
      cache.key_scales = scales_view;
      copy_append(View<const float, 3>(numbers.data(), {1, 1, count}), {}, cache);
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        const float quotient = numbers[i] / scale;
        if (std::isnan(quotient))
          ASSERT_EQ(pages.values[i] & 0x7f, 0x7f);
        else
          ASSERT_EQ(pages.values[i], naive_float8(quotient)) << name(isa) << " " << quotient;
      }
    }
  }
}

template <typename U>
std::vector<U> long_prompt(const std::vector<int64_t>& slots, int64_t count_of_blocks) {
  const auto count = std::ssize(slots);
  const auto k = random_tensor<float, 3>({count, 8, 64}, 1);
  const RotaryTable table({.rotary_dim = 64, .pairing = Pairing::halves}, iota(0, count));
  Tensor<U, 4> keys({count_of_blocks, 16, 8, 64}), values({count_of_blocks, 16, 8, 64});
  Tensor<float, 3> key_scales({count_of_blocks, 16, 8}), value_scales(key_scales.extents);
  const View<U, 4> key_view = keys.view(), value_view = values.view();
  const View<float, 3> key_scale_view = key_scales.view(),
                       value_scale_view = value_scales.view();
  const View<const int64_t, 1> slot_view(slots.data(), {count});
  PagedCache cache{.keys = key_view, .values = value_view, .slots = slot_view};
  if (std::is_same_v<U, std::int8_t>)
    cache.key_head_scales = key_scale_view, cache.value_head_scales = value_scale_view;
  rotate_append(k.view(), k.view(), table, cache);
  keys.values.insert(keys.values.end(), values.values.begin(), values.values.end());
  return keys.values;
}

TEST(PagedAppendThreads, DoNotChangeBits) {
  std::vector<int64_t> shuffled = iota(0, 704);
  for (std::size_t i = 0; i < shuffled.size(); ++i)
    std::swap(shuffled[i], shuffled[i * 7919 % shuffled.size()]);
  const int before = threads();
  for (const auto& slots : {iota(0, 704), shuffled}) {
    set_threads(1);
    const auto floats = long_prompt<float>(slots, 44);
    const auto bytes = long_prompt<std::int8_t>(slots, 44);
    for (const int count : {2, 7}) {
      set_threads(count);
      EXPECT_EQ(long_prompt<float>(slots, 44), floats) << count;
      EXPECT_EQ(long_prompt<std::int8_t>(slots, 44), bytes) << count;
    }
  }
  set_threads(before);
}

// A long run is written by the functions for contiguous caches.
template <typename U>
void expect_same_tokens() {
  std::vector<int64_t> backwards = iota(0, 704);
  std::reverse(backwards.begin(), backwards.end());
  const auto one_run = long_prompt<U>(iota(0, 704), 44),
             by_token = long_prompt<U>(backwards, 44);
  const std::size_t size = 8 * 64, all = 704 * size;
  for (const std::size_t begin : {std::size_t{0}, all})  // keys, values
    for (std::size_t t = 0; t < 704; ++t)
      for (std::size_t i = 0; i < size; ++i)
        ASSERT_EQ(one_run[begin + t * size + i], by_token[begin + (703 - t) * size + i]) << t;
}
TEST(PagedAppendRuns, HaveTheBitsOfTokens) {
  expect_same_tokens<float>();
  expect_same_tokens<BFloat16>();
  expect_same_tokens<std::int8_t>();
}

// A cache [N, C, Hk, D] of sequences of different lengths: slot n C + length.
TEST(PagedAppendRagged, WritesAContiguousCache) {
  constexpr int64_t capacity = 10;
  const std::vector<int64_t> lengths = {0, 7, 3}, counts = {4, 3, 1};
  const RotaryFrequencies f = lower(Rotary{.rotary_dim = 8, .pairing = Pairing::halves});
  const auto k = random_tensor<float, 3>({8, 2, 8});
  std::vector<int64_t> slots, positions;
  for (std::size_t n = 0; n < 3; ++n)
    for (int64_t t = 0; t < counts[n]; ++t) {
      slots.push_back(static_cast<int64_t>(n) * capacity + lengths[n] + t);
      positions.push_back(lengths[n] + t);
    }
  Tensor<float, 4> cache({3, capacity, 2, 8}, 77.0f), want = cache;
  const View<float, 4> pages = cache.view();
  const View<const int64_t, 1> slot_view(slots.data(), {8});
  rotate_append(k.view(), {}, RotaryTable(f, positions), {.keys = pages, .slots = slot_view});
  int64_t row = 0;
  for (std::size_t n = 0; n < 3; row += counts[n++])
    rotate_append(k.view().slice(0, row, counts[n]),
                  RotaryTable(f, iota(lengths[n], counts[n])),
                  want.view()[static_cast<int64_t>(n)].slice(0, lengths[n], counts[n]));
  EXPECT_EQ(cache.values, want.values);
}

// The row of block_table: the token by default for [T, H, D], or given.
TEST(PagedAppendPlaces, TakeSequencesOfTokens) {
  const std::vector<std::int32_t> table = {2, 1, 0, 3, -1, 9}, sequences = {1, 1, 0, 7, -1, 2};
  const std::vector<int64_t> in_sequence = {0, 3, 1, 0, 0, 1};
  const auto k = random_tensor<float, 3>({6, 1, 2});
  const auto stored = [&](bool given) {
    Tensor<float, 4> pages({4, 2, 1, 2}, 77.0f);
    const View<float, 4> view = pages.view();
    const View<const std::int32_t, 2> table_view(table.data(), {3, 2});
    const View<const std::int32_t, 1> sequence_view(sequences.data(), {6});
    const View<const int64_t, 1> entry_view(in_sequence.data(), {6});
    PagedCache cache{.keys = view, .block_table = table_view, .entries = entry_view};
    if (given) cache.sequences = sequence_view;
    copy_append(k.view(), {}, cache);
    std::vector<float> first;
    for (int64_t slot = 0; slot < 8; ++slot) first.push_back(view(slot / 2, slot % 2, 0, 0));
    return first;
  };
  const auto x = [&](int64_t t) { return k.view()(t, 0, 0); };
  const float none = 77.0f;
  // Tokens 0 to 2 are rows 0 to 2 of the table; row 2 has no valid block.
  EXPECT_EQ(stored(false),
            (std::vector<float>{none, none, none, none, x(0), none, none, x(1)}));
  EXPECT_EQ(stored(true), (std::vector<float>{x(0), none, none, none, none, x(2), none, x(1)}));
}

TEST(PagedAppendErrors, NameTheRule) {
  Tensor<float, 3> k({2, 2, 8});
  Tensor<float, 4> pages({4, 4, 2, 8}), other({4, 4, 3, 8}), few({3, 4, 2, 8});
  Tensor<std::int8_t, 4> bytes({4, 4, 2, 8});
  Tensor<std::uint8_t, 4> float8s({4, 4, 2, 8});
  Tensor<float, 3> head_scales({4, 4, 2});
  const std::vector<int64_t> ids = {1, 2, 3};
  const float good[] = {1, 2, 3}, bad[] = {1, 0};
  const View<float, 4> page_view = pages.view(), other_view = other.view(),
                       few_view = few.view();
  const View<std::int8_t, 4> byte_view = bytes.view();
  const View<std::uint8_t, 4> float8_view = float8s.view();
  const View<float, 3> k_view = k.view(), short_scales(head_scales.values.data(), {4, 4, 1});
  const View<const int64_t, 1> slots(ids.data(), {2}), three(ids.data(), {3});
  const View<const float, 1> three_scales(good, {3}), one_scale(good, {1}), zero(bad, {2});
  const RotaryTable table({.rotary_dim = 8, .pairing = Pairing::halves}, iota(0, 2)),
      longer({.rotary_dim = 8, .pairing = Pairing::halves}, iota(0, 3));
  const auto says = [&](const PagedCache& cache, const ConstTensor& v = {}) {
    return message_of([&] { rotate_append(k_view, v, table, cache); });
  };
  EXPECT_EQ(says({.keys = page_view, .slots = slots}), "");
  EXPECT_EQ(says({.keys = page_view, .slots = slots}, k_view),
            "[rotary] v and the values of the cache must both be given, or both left out, got "
            "v");
  EXPECT_EQ(says({.keys = page_view}),
            "[rotary] either slots, or block_table and entries must be given, got no "
            "block_table");
  EXPECT_EQ(says({.keys = page_view, .slots = slots, .entries = slots}),
            "[rotary] either slots, or block_table and entries must be given, got no "
            "block_table");
  EXPECT_EQ(says({.keys = page_view, .slots = three}),
            "[rotary] slots must be [T] or [B, T] with B = 1 and T = 2, got [1, 3]");
  EXPECT_EQ(says({.keys = other_view, .slots = slots}),
            "[rotary] keys must be [P, S, Hk, D] with Hk = 2 and D = 8, got [4, 4, 3, 8]");
  EXPECT_EQ(says({.keys = page_view, .values = few_view, .slots = slots}, k_view),
            "[rotary] values must have the blocks and entries of keys, got [3, 4, 2, 8]");
  EXPECT_EQ(says({.keys = page_view, .values = byte_view, .slots = slots}, k_view),
            "[rotary] values must have elements of f32, as keys have, got i8");
  EXPECT_EQ(says({.keys = page_view, .slots = slots, .key_scales = one_scale}),
            "[rotary] scales of keys must be given if, and only if, they are f8e4m3, got f32");
  EXPECT_EQ(says({.keys = byte_view, .slots = slots}),
            "[rotary] head_scales of keys must be given if, and only if, they are i8, got i8");
  EXPECT_EQ(says({.keys = byte_view, .slots = slots, .key_head_scales = short_scales}),
            "[rotary] head_scales of keys must be [4, 4, 2], got [4, 4, 1]");
  EXPECT_EQ(says({.keys = float8_view, .slots = slots, .key_scales = three_scales}),
            "[rotary] scales of keys must be [1] or [Hk] with Hk = 2, got [3]");
  EXPECT_EQ(says({.keys = float8_view, .slots = slots, .key_scales = zero}),
            "[rotary] scales of keys must be positive and finite, got 0");
  EXPECT_EQ(says({.keys = page_view, .values = page_view, .slots = slots}, k_view),
            "[rotary] values must not overlap keys, got one array");
  EXPECT_EQ(message_of([&] {
              rotate_append(k_view, {}, longer, {.keys = page_view, .slots = slots});
            }),
            "[rotary] x must have the table's 3 tokens, got 2");
  const View<float, 3> own(pages.values.data(), {2, 2, 8});
  EXPECT_NE(
      message_of([&] { rotate_append(own, {}, table, {.keys = page_view, .slots = slots}); }),
      "");
}

}  // namespace paged_append_test
}  // namespace gnomon
