#include "gnomon/cuda/append.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "cuda/devices.h"
#include "naive/rotary.h"
#include "src/cuda/elements.h"

namespace gnomon {
namespace cuda_append_test {

using std::int64_t;
using testing::as_double;
using testing::elements;
using testing::half_ulp;
using testing::in_all_orders;
using testing::iota;
using testing::message_of;
using testing::naive_rotate;
using testing::random_numbers;

// The value of an E4M3 number, from the definition: 1 bit of sign, 4 of exponent (bias 7), 3 of
// mantissa.
double value_of(int bits) {
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  const double size =
      exponent ? std::ldexp(8 + mantissa, exponent - 10) : std::ldexp(mantissa, -9);
  return bits & 0x80 ? -size : size;
}
bool is_nan(int bits) { return (bits & 0x7f) == 0x7f; }

// Returns the nearest E4M3 number, ties to an even mantissa.
int nearest(double x) {
  int best = 0;
  for (int bits = 0; bits < 256; ++bits) {
    if (is_nan(bits) || std::signbit(value_of(bits)) != std::signbit(x)) continue;
    const double distance = std::fabs(value_of(bits) - x),
                 least = std::fabs(value_of(best) - x);
    if (std::signbit(value_of(best)) != std::signbit(x) || distance < least ||
        (distance == least && bits % 2 == 0))
      best = bits;
  }
  return best;
}

TEST(CudaFloat8, RoundsToTheNearest) {
  std::vector<double> numbers = {0.0, -0.0, 448,     449,      463.9,
                                 464, 1e9,  0x1p-10, 0x1.8p-9, -3e-4};
  for (int bits = 0; bits < 128; ++bits)
    if (!is_nan(bits) && !is_nan(bits + 1))  // values, and the ties between them
      for (const double x : {value_of(bits), (value_of(bits) + value_of(bits + 1)) / 2})
        numbers.insert(numbers.end(), {x, -x, x * (1 + 0x1p-20), x * (1 - 0x1p-20)});
  for (const double random : random_numbers(2000)) numbers.push_back(random * 20);
  for (const double x : numbers) {
    const auto one = static_cast<float>(x);
    ASSERT_EQ(cuda::round_to_float8(one).bits, nearest(std::clamp<double>(one, -448, 448)))
        << x;
  }
  EXPECT_TRUE(is_nan(cuda::round_to_float8(NAN).bits));
}

// Tokens [B, T], a cache of 6 blocks with 4 entries, and where each token goes.
struct Setting {
  int64_t batch, tokens, heads, key_heads, size, value_size, rotary_dim, head_offset;
  Pairing pairing;
  bool by_table, heads_first, computed;
};
constexpr int64_t blocks = 6, entries = 4;

template <typename U>
double number(U element) {
  if constexpr (std::is_same_v<U, cuda::Float8>)
    return value_of(element.bits);
  else
    return as_double(element);
}

template <typename T, typename U>
void check(const Setting& s) {
  const bool narrow = std::is_same_v<U, cuda::Float8>;
  const int64_t count = s.batch * s.tokens;
  const auto size_of = [&](int64_t heads, int64_t size) {
    return static_cast<std::size_t>(count * heads * size);
  };
  const auto q = elements<T>(random_numbers(size_of(s.heads, s.size), 1)),
             k = elements<T>(random_numbers(size_of(s.key_heads, s.size), 2)),
             v = elements<T>(random_numbers(size_of(s.key_heads, s.value_size), 3));
  const std::vector<float> scales = {0.02f, 0.5f, 0.015f, 0.25f};
  std::vector<int64_t> positions = iota(1000, count), slots;
  std::vector<int64_t> in_sequence;
  // Sequence b has blocks 5 - b and b: its tokens begin at entry 2 of its first block.
  const std::vector<std::int32_t> block_table = {5, 0, 4, 1, 3, 2};
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t t = 0; t < s.tokens; ++t) {
      const int64_t at = t + 2;
      in_sequence.push_back(at);
      slots.push_back(block_table[static_cast<std::size_t>(2 * b + at / entries)] * entries +
                      at % entries);
    }
  slots.back() = -1;  // not written
  in_sequence.back() = 2 * entries;
  const RotaryFrequencies f = lower(Rotary{s.rotary_dim, s.pairing, 10'000.0, s.head_offset});
  const RotaryTable table(
      f, Positions{s.batch, s.tokens, positions, std::vector<std::int32_t>(positions.size())});
  const cuda::Array<float> cos(std::span(table.cos().data(), table.cos().size())),
      sin(std::span(table.sin().data(), table.sin().size())),
      scales_there{std::span<const float>(scales)};
  const cuda::Array<int64_t> ids{std::span<const int64_t>(positions)},
      slots_there{std::span<const int64_t>(slots)},
      entries_there{std::span<const int64_t>(in_sequence)};
  const cuda::Array<std::int32_t> block_table_there{std::span<const std::int32_t>(block_table)};
  const cuda::Frequencies frequencies(f);
  const cuda::Array<T> k_there{std::span<const T>(k)}, v_there{std::span<const T>(v)};
  const auto key_cache = static_cast<std::size_t>(blocks * entries * s.key_heads * s.size),
             value_cache =
                 static_cast<std::size_t>(blocks * entries * s.key_heads * s.value_size);

  struct Result {
    std::vector<T> q;
    std::vector<U> keys, values;
  } result;
  const auto run = [&] {
    const cuda::Array<T> q_there{std::span<const T>(q)};
    const cuda::Array<U> keys{std::span<const U>(std::vector<U>(key_cache))},
        values{std::span<const U>(std::vector<U>(value_cache))};
    const View<T, 4> q_view(q_there.data(), {s.batch, s.tokens, s.heads, s.size});
    const View<const T, 4> k_view(k_there.data(), {s.batch, s.tokens, s.key_heads, s.size}),
        v_view(v_there.data(), {s.batch, s.tokens, s.key_heads, s.value_size});
    // [P, S, Hk, D], in memory so or as [P, Hk, S, D].
    const auto strides = [&](int64_t size) {
      const int64_t block = entries * s.key_heads * size;
      return s.heads_first ? std::array<std::ptrdiff_t, 4>{block, size, entries * size, 1}
                           : std::array<std::ptrdiff_t, 4>{block, s.key_heads * size, size, 1};
    };
    const std::array<std::ptrdiff_t, 4> key_shape{blocks, entries, s.key_heads, s.size},
        value_shape{blocks, entries, s.key_heads, s.value_size};
    using Element = std::conditional_t<std::is_same_v<U, cuda::Float8>, std::uint8_t, U>;
    const View<Element, 4> key_view(reinterpret_cast<Element*>(keys.data()), key_shape,
                                    strides(s.size)),
        value_view(reinterpret_cast<Element*>(values.data()), value_shape,
                   strides(s.value_size));
    const View<const int64_t, 2> slot_view(slots_there.data(), {s.batch, s.tokens}),
        entry_view(entries_there.data(), {s.batch, s.tokens}),
        position_view(ids.data(), {s.batch, s.tokens});
    const View<const std::int32_t, 2> table_view(block_table_there.data(), {3, 2});
    const View<const float, 1> scale_view(scales_there.data(), {s.key_heads}),
        one_scale(scales_there.data(), {1});
    cuda::PagedCache cache{.keys = cuda::on_device(key_view),
                           .values = cuda::on_device(value_view)};
    if (narrow) {
      cache.keys.dtype = {TypeCode::float8_e4m3fn, 8};
      cache.values.dtype = {TypeCode::float8_e4m3fn, 8};
      cache.key_scales = cuda::on_device(scale_view);
      cache.value_scales = cuda::on_device(one_scale);
    }
    if (s.by_table) {
      cache.block_table = cuda::on_device(table_view);
      cache.entries = cuda::on_device(entry_view);
    } else {
      cache.slots = cuda::on_device(slot_view);
    }
    if (s.computed) {
      cuda::rotate_append_at(cuda::on_device(q_view), cuda::on_device(k_view),
                             cuda::on_device(v_view), cuda::on_device(position_view),
                             frequencies, cache);
    } else {
      const View<const float, 3> cos_view(cos.data(), {s.batch, s.tokens, s.rotary_dim / 2}),
          sin_view(sin.data(), {s.batch, s.tokens, s.rotary_dim / 2});
      cuda::rotate_append(cuda::on_device(q_view), cuda::on_device(k_view),
                          cuda::on_device(v_view),
                          {.pairing = s.pairing,
                           .head_offset = s.head_offset,
                           .cos = cuda::on_device(cos_view),
                           .sin = cuda::on_device(sin_view)},
                          cache);
    }
    result = {q_there.to_host(), keys.to_host(), values.to_host()};
    std::vector<std::uint8_t> bytes;
    const auto add = [&](const auto& all) {
      const auto* const from = reinterpret_cast<const std::uint8_t*>(all.data());
      bytes.insert(bytes.end(), from, from + all.size() * sizeof(all[0]));
    };
    add(result.q);
    add(result.keys);
    add(result.values);
    return bytes;
  };
  in_all_orders<std::uint8_t>(run);

  const auto wide = [&](const std::vector<T>& x, int64_t heads, int64_t size, bool rotated) {
    std::vector<double> numbers;
    for (const T one : x) numbers.push_back(as_double(one));
    if (rotated)
      naive_rotate(View<double, 3>(numbers.data(), {count, heads, size}), positions, f,
                   Direction::forward);
    return numbers;
  };
  const auto close = [&](double got, double want, double step) {
    return std::fabs(got - want) <= 1e-6 + step * std::fabs(want);
  };
  const auto q_want = wide(q, s.heads, s.size, true);
  for (std::size_t i = 0; i < q.size(); ++i)
    ASSERT_TRUE(close(as_double(result.q[i]), q_want[i], half_ulp<T>)) << "q " << i;
  const auto expect_cache = [&](const std::vector<U>& cache, const std::vector<double>& want,
                                int64_t size, bool one_scale) {
    std::vector<bool> written(cache.size());
    for (int64_t n = 0; n + 1 < count; ++n)
      for (int64_t h = 0; h < s.key_heads; ++h)
        for (int64_t d = 0; d < size; ++d) {
          const int64_t slot = slots[static_cast<std::size_t>(n)], block = slot / entries,
                        entry = slot % entries;
          const int64_t inner = s.heads_first ? h * entries + entry : entry * s.key_heads + h;
          const auto at =
              static_cast<std::size_t>((block * entries * s.key_heads + inner) * size + d);
          const double x = want[static_cast<std::size_t>((n * s.key_heads + h) * size + d)];
          const double scale =
              narrow ? scales[one_scale ? 0 : static_cast<std::size_t>(h)] : 1.0;
          written[at] = true;
          const double quotient = narrow ? std::clamp(x / scale, -448.0, 448.0) : x;
          // E4M3: half a step, 2^-4, or 2^-10 for subnormal numbers.
          const double got = number(cache[at]);
          ASSERT_TRUE(close(got, quotient, narrow ? 0x1p-4 : half_ulp<T>) ||
                      (narrow && std::fabs(got - quotient) <= 0x1p-10 + 1e-6))
              << got << " for " << quotient << " at " << at;
        }
    for (std::size_t i = 0; i < cache.size(); ++i)
      ASSERT_TRUE(written[i] || number(cache[i]) == 0.0) << "written: " << i;
  };
  expect_cache(result.keys, wide(k, s.key_heads, s.size, true), s.size, false);
  expect_cache(result.values, wide(v, s.key_heads, s.value_size, false), s.value_size, true);
}

std::vector<Setting> settings() {
  const auto halves = Pairing::halves, adjacent = Pairing::adjacent;
  return {
      {3, 2, 4, 2, 64, 64, 64, 0, halves, false, false, false},
      {3, 2, 4, 2, 64, 32, 32, 16, adjacent, true, false, true},  // part of the head
      {2, 3, 3, 1, 10, 6, 6, 3, halves, true, true, false},       // single elements
      {3, 4, 2, 4, 32, 32, 32, 0, adjacent, false, true, true},
      {3, 1, 8, 2, 128, 128, 128, 0, halves, true, true, true},     // decoding
      {1, 1, 32, 4, 128, 128, 128, 0, halves, true, false, false},  // a token in several blocks
      {3, 6, 57, 3, 128, 128, 128, 0, halves, true, false, false},  // groups of heads
      {3, 6, 57, 3, 160, 136, 128, 32, adjacent, false, false, true},
  };
}

TEST(CudaAppend, EqualsTheOracleInFloat) {
  for (const Setting& s : settings()) check<float, float>(s);
}
TEST(CudaAppend, EqualsTheOracleIn16Bits) {
  for (const Setting& s : settings()) {
    check<BFloat16, BFloat16>(s);
    check<Half, Half>(s);
  }
}
TEST(CudaAppend, EqualsTheOracleIn8Bits) {
  for (const Setting& s : settings()) {
    check<BFloat16, cuda::Float8>(s);
    check<Half, cuda::Float8>(s);
  }
}

TEST(CudaAppendErrors, NameTheRule) {
  const cuda::Array<float> there(4096);
  const cuda::Array<int64_t> ids(16);
  const View<float, 3> k_view(there.data(), {2, 2, 8});
  const View<float, 4> pages(there.data(), {4, 4, 2, 8}), other(there.data(), {4, 4, 3, 8});
  const View<const float, 2> cos(there.data(), {2, 4});
  const View<const int64_t, 1> slots(ids.data(), {2}), three(ids.data(), {3});
  const auto says = [&](const cuda::PagedCache& cache, const gnomon::ConstTensor& v) {
    return message_of([&] {
      cuda::rotate_append({}, cuda::on_device(k_view), v,
                          {.pairing = Pairing::halves,
                           .cos = cuda::on_device(cos),
                           .sin = cuda::on_device(cos)},
                          cache);
    });
  };
  cuda::PagedCache cache{.keys = cuda::on_device(pages), .slots = cuda::on_device(slots)};
  EXPECT_EQ(says(cache, {}), "");  // keys only
  EXPECT_EQ(says(cache, cuda::on_device(k_view)),
            "[rotate_append] v and the values of the cache must both be given, or both left "
            "out, got v");
  cache.slots = cuda::on_device(three);
  EXPECT_EQ(says(cache, {}),
            "[rotate_append] slots must be [B, T] with B = 1 and T = 2, got [3]");
  cache.slots = {};
  EXPECT_EQ(says(cache, {}),
            "[rotate_append] either slots, or block_table and entries must be given, "
            "got no block_table");
  cache = {.keys = cuda::on_device(other), .slots = cuda::on_device(slots)};
  EXPECT_EQ(
      says(cache, {}),
      "[rotate_append] keys must be [P, S, Hk, D] with Hk = 2 and D = 8, got [4, 4, 3, 8]");
  cache = {.keys = cuda::on_device(pages), .slots = cuda::on_device(slots)};
  cache.keys.dtype = {TypeCode::float8_e4m3fn, 8};
  EXPECT_EQ(says(cache, {}),
            "[rotate_append] keys of f8e4m3 requires k and v of f16 or bf16, got f32");
}

}  // namespace cuda_append_test
}  // namespace gnomon
