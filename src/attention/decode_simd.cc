// Products of a few rows with the keys and values of a cache, in its element type.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/attention/decode_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/attention/decode-inl.h"
#include "src/attention/pairs-inl.h"

GNOMON_BEFORE_PAIRS();
namespace gnomon {
namespace HWY_NAMESPACE {

template <class D, typename E>
HWY_INLINE hn::Vec<D> LoadCached(D d, const E* from) {
  if constexpr (std::is_same_v<E, std::uint8_t>) {
    return LoadE4m3(d, from);
  } else if constexpr (sizeof(E) == 1) {
    const hn::Rebind<std::int8_t, D> narrow;
    return hn::ConvertTo(d,
                         hn::PromoteTo(hn::Rebind<std::int32_t, D>(), hn::LoadU(narrow, from)));
  } else {
    return LoadElements(d, from);
  }
}

// Stores `factor` times the sums of the lanes of `keys` vectors for each of `rows` rows,
// `stride` apart, for four vectors at a time. keys: 2 or 4.
template <int keys, class D, class V>
HWY_INLINE void StoreSums([[maybe_unused]] D d, float factor, V a, V b, V c, V e,
                          float* HWY_RESTRICT to, [[maybe_unused]] std::int64_t stride) {
  float* HWY_RESTRICT second = keys == 4 ? to + 2 : to + stride;
#if HWY_TARGET == HWY_SCALAR
  to[0] = factor * hn::GetLane(a), to[1] = factor * hn::GetLane(b);
  second[0] = factor * hn::GetLane(c), second[1] = factor * hn::GetLane(e);
#else
  const hn::Repartition<std::uint64_t, D> pairs;
  const auto ab =
      hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)));
  const auto ce =
      hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e)));
  // Each block of four lanes holds partial sums of the four vectors.
  const auto shares = hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, ab, ce)),
                              hn::BitCast(d, hn::InterleaveUpper(pairs, ab, ce)));
  constexpr std::size_t lanes = hn::MaxLanes(D());
  const hn::CappedTag<float, 4> four;
  HWY_ALIGN float blocks[lanes];
  hn::Store(shares, d, blocks);
  auto sum = hn::Load(four, blocks);
  for (std::size_t i = 4; i < lanes; i += 4) sum = hn::Add(sum, hn::Load(four, blocks + i));
  sum = hn::Mul(hn::Set(four, factor), sum);
  if constexpr (keys == 4) {
    hn::StoreU(sum, four, to);
  } else {
    const hn::CappedTag<float, 2> two;
    hn::StoreU(hn::LowerHalf(two, sum), two, to);
    hn::StoreU(hn::UpperHalf(two, sum), two, second);
  }
#endif
}

#if GNOMON_PAIRS
// As AddValues, with pairs: weights [query_rows, tile_keys / 2], values: a multiple of 32.
template <int query_rows, Factors factors>
HWY_INLINE void AddPairValues(const float* const* from, std::int64_t count, std::int64_t values,
                              const float* HWY_RESTRICT weights, float* HWY_RESTRICT out,
                              std::int64_t stride) {
  const hn::ScalableTag<float> d;
  const auto columns = [&](auto width, std::int64_t at) GNOMON_PAIRS_ATTR {
    constexpr int vectors = decltype(width)::value;
    hn::Vec<decltype(d)> sum[query_rows][vectors];
#pragma GCC unroll 4
    for (int r = 0; r < query_rows; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sum[r][v] = hn::Zero(d);
    for (std::int64_t j = 0; j < count; j += 2) {
      hn::Vec<decltype(d)> value[vectors];
#pragma GCC unroll 2
      for (int v = 0; v < vectors; v += 2)
        InterleavePairs(d, from[j] + (at + 16 * v) / 2, from[j + 1] + (at + 16 * v) / 2,
                        value[v], value[v + 1]);
#pragma GCC unroll 4
      for (int r = 0; r < query_rows; ++r) {
        const float one = weights[(r * tile_keys + j) / 2];
        if (factors == Factors::nonzero && PairMultiply::IsZero(one)) continue;
        const auto weight = hn::Set(d, one);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v)
          sum[r][v] = PairMultiply::Add<factors>(d, weight, value[v], sum[r][v]);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < query_rows; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        float* to = out + r * stride + at + 16 * v;
        hn::Store(hn::Add(hn::Load(d, to), sum[r][v]), d, to);
      }
  };
  std::int64_t at = 0;
  for (; at + 64 <= values; at += 64) columns(std::integral_constant<int, 4>(), at);
  for (; at < values; at += 32) columns(std::integral_constant<int, 2>(), at);
}
#endif

// Keys that are multiplied together by decode_rows rows.
constexpr int keys_of_product = block_vectors == 4 ? 4 : 2;

// Bytes of a head between the rows that are read and those that are prefetched.
constexpr std::int64_t bytes_ahead = 2048;

// Prefetches `bytes` bytes.
HWY_INLINE void PrefetchBytes(const void* from, std::int64_t bytes) {
  const char* begin = static_cast<const char*>(from);
  for (std::int64_t i = 0; i < bytes; i += 64) hwy::Prefetch(begin + i);
  hwy::Prefetch(begin + bytes - 1);
}

// Computes `factor` times the products of `keys` keys with `query_rows` rows of queries,
// `stride` elements apart: to [query_rows, keys], rows tile_keys apart. size: a multiple of the
// vector length. query_rows * keys: a multiple of 4.
template <class Operation, int query_rows, int keys, typename E>
HWY_INLINE void MultiplyKeys(const E* const* key, std::int64_t size,
                             const float* HWY_RESTRICT q, std::int64_t stride, float factor,
                             float* HWY_RESTRICT to) {
  const hn::ScalableTag<float> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> sum[query_rows][keys];
#pragma GCC unroll 4
  for (int r = 0; r < query_rows; ++r)
#pragma GCC unroll 4
    for (int k = 0; k < keys; ++k) sum[r][k] = hn::Zero(d);
  for (std::int64_t i = 0; i < size; i += lanes) {
    hn::Vec<decltype(d)> one[keys];
#pragma GCC unroll 4
    for (int k = 0; k < keys; ++k) one[k] = LoadCached(d, key[k] + i);
#pragma GCC unroll 4
    for (int r = 0; r < query_rows; ++r) {
      const auto query = hn::Load(d, q + r * stride + i);
#pragma GCC unroll 4
      for (int k = 0; k < keys; ++k)
        sum[r][k] = Operation::template Add<Factors::all>(d, query, one[k], sum[r][k]);
    }
  }
  constexpr int rows = 4 / keys;  // of four sums
#pragma GCC unroll 4
  for (int r = 0; r < query_rows; r += rows)
    StoreSums<keys>(d, factor, sum[r][0], sum[r][1], sum[r + (keys == 2)][2 % keys],
                    sum[r + (keys == 2)][keys - 1], to + r * tile_keys, tile_keys);
}

// Computes out [query_rows, values] += weights [query_rows, count] values [count, values]. The
// sums of values_together rows are added, so the result does not depend on how rows are divided
// into calls.
template <int query_rows, Factors factors, typename E>
HWY_INLINE void AddValues(const E* const* from, std::int64_t count, std::int64_t values,
                          const float* HWY_RESTRICT weights, float* HWY_RESTRICT out,
                          std::int64_t stride) {
  const hn::ScalableTag<float> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  constexpr int wide = query_rows == 1 ? 4 : block_vectors;
  const auto columns = [&](auto width, std::int64_t at) GNOMON_PAIRS_ATTR {
    constexpr int vectors = decltype(width)::value;
    for (std::int64_t first = 0; first < count; first += values_together<E>) {
      hn::Vec<decltype(d)> sum[query_rows][vectors];
#pragma GCC unroll 4
      for (int r = 0; r < query_rows; ++r)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) sum[r][v] = hn::Zero(d);
      const std::int64_t last = std::min(first + values_together<E>, count);
      for (std::int64_t j = first; j < last; ++j) {
        const E* HWY_RESTRICT row = from[j] + at;
        hn::Vec<decltype(d)> value[vectors];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) value[v] = LoadCached(d, row + v * lanes);
#pragma GCC unroll 4
        for (int r = 0; r < query_rows; ++r) {
          const float one = weights[r * tile_keys + j];
          if (factors == Factors::nonzero && one == 0) continue;
          const auto weight = hn::Set(d, one);
#pragma GCC unroll 4
          for (int v = 0; v < vectors; ++v) sum[r][v] = hn::MulAdd(weight, value[v], sum[r][v]);
        }
      }
#pragma GCC unroll 4
      for (int r = 0; r < query_rows; ++r)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) {
          float* to = out + r * stride + at + v * lanes;
          hn::Store(hn::Add(hn::Load(d, to), sum[r][v]), d, to);
        }
    }
  };
  std::int64_t at = 0;
  for (; at + wide * lanes <= values; at += wide * lanes)
    columns(std::integral_constant<int, wide>(), at);
  for (; at < values; at += lanes) columns(std::integral_constant<int, 1>(), at);
}

// Calls body(rows of one head, count, first row, head) for up to `together` rows at a time: all
// heads, then the next rows; or all rows of a head, then the next head. Prefetches the rows
// that follow. Row pointers from `count` repeat the last row.
template <int together, typename E, typename Body>
HWY_INLINE void ForCached(const CachedRows& cached, std::int64_t size, const Body& body) {
  const auto each = static_cast<std::int64_t>(cached.of.bytes());
  const std::int64_t last = cached.end - 1;
  const std::int64_t bytes = size * each, next_head = cached.of.strides[2] * each;
  const std::int64_t rows_ahead =
      std::clamp<std::int64_t>(bytes_ahead / std::max<std::int64_t>(1, bytes), 4, 16);
  const auto row_at = [&](std::int64_t row) {
    return static_cast<const char*>(cached.of.data) +
           each * OffsetOf(cached.of, cached.batch, std::min(row, last), cached.head);
  };
  const std::int64_t outer = cached.by_heads() ? cached.heads : 1, inner = cached.heads / outer;
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t j = 0; j < cached.count; j += together) {
      const std::int64_t count = std::min<std::int64_t>(together, cached.count - j);
      const char *first[together], *ahead[together];
      for (int k = 0; k < together; ++k) {
        first[k] =
            row_at(cached.row + j + std::min<std::int64_t>(k, count - 1)) + o * next_head;
        ahead[k] = row_at(cached.row + j + rows_ahead + k) + o * next_head;
      }
      struct {
        std::int64_t row, head;
      } next{};  // to prefetch
      for (std::int64_t h = 0; h < inner; ++h) {
        // In memory order, because one stream is read faster than several.
        for (int k = 0; k < together; ++k, ++next.head) {
          if (next.head == inner) ++next.row, next.head = 0;
          PrefetchBytes(ahead[next.row] + next.head * next_head, bytes);
        }
        const E* rows[together];
        for (int k = 0; k < together; ++k)
          rows[k] = reinterpret_cast<const E*>(first[k] + h * next_head);
        body(rows, count, j, o + h);
      }
    }
}

// Calls body(a number of the element type of the cache).
template <typename Body>
HWY_INLINE void WithElements(const Operand& from, const Body& body) {
  if (from.e4m3) return body(std::uint8_t());
  if (from.scales.data()) return body(std::int8_t());
  if (from.dtype == DType::f32) return body(float());
  if (from.dtype == DType::f16) return body(Half());
  if (from.dtype == DType::bf16) return body(BFloat16());
}

// The products of MultiplyCachedKeys: Operation with elements of type E.
template <class Operation, typename E>
HWY_INLINE void MultiplyCached(const CachedRows& keys, std::int64_t size, const float* q,
                               std::int64_t stride, float factor, std::int64_t rows,
                               float* scores) {
  const std::int64_t all = internal::in_fours(rows);
  const std::int64_t depth = std::is_same_v<Operation, FusedMultiply> ? size : size / 2;
  ForCached<keys_together, E>(
      keys, size,
      [&](const E* const* from, std::int64_t, std::int64_t j, std::int64_t h)
          GNOMON_PAIRS_ATTR {
            const float* of_head = q + h * all * stride;
            float* to = scores + h * all * tile_keys + j;
            if (rows == 1)
              return MultiplyKeys<Operation, 1, keys_together>(from, depth, of_head, stride,
                                                               factor, to);
            for (std::int64_t row = 0; row < rows; row += decode_rows)
              for (std::int64_t k = 0; k < keys_together; k += keys_of_product)
                MultiplyKeys<Operation, decode_rows, keys_of_product>(
                    from + k, depth, of_head + row * stride, stride, factor,
                    to + row * tile_keys + k);
          });
}

void MultiplyCachedKeys(const CachedRows& keys, std::int64_t size, const float* q,
                        std::int64_t stride, std::int64_t rows, float* scores) {
  WithElements(keys.of, [&]<typename E>(E) GNOMON_PAIRS_ATTR {
    MultiplyCached<FusedMultiply, E>(keys, size, q, stride, 1.f, rows, scores);
  });
}

// Calls add(integral constant of `factors`).
template <typename Add>
HWY_INLINE void WithFactors(Factors factors, const Add& add) {
  if (factors == Factors::all)
    add(std::integral_constant<Factors, Factors::all>());
  else
    add(std::integral_constant<Factors, Factors::nonzero>());
}

void AddCachedValues(const CachedRows& values, std::int64_t size, const float* weights,
                     Factors factors, std::int64_t rows, float* out, std::int64_t stride) {
  const std::int64_t all = internal::in_fours(rows);
  std::fill_n(out, values.heads * all * stride, 0.f);
  WithElements(values.of, [&]<typename E>(E) GNOMON_PAIRS_ATTR {
    WithFactors(factors, [&](auto of) GNOMON_PAIRS_ATTR {
      constexpr Factors factor = decltype(of)::value;
      const auto add = [&](const E* const* from, std::int64_t count, std::int64_t j,
                           std::int64_t h) GNOMON_PAIRS_ATTR {
        const float* of_head = weights + h * all * tile_keys + j;
        float* to = out + h * all * stride;
        if (rows == 1) return AddValues<1, factor>(from, count, size, of_head, to, stride);
        for (std::int64_t row = 0; row < rows; row += decode_rows)
          AddValues<decode_rows, factor>(from, count, size, of_head + row * tile_keys,
                                         to + row * stride, stride);
      };
      if (rows <= decode_rows)
        ForCached<values_together<E>, E>(values, size, add);
      else
        ForCached<4 * values_together<E>, E>(values, size, add);
    });
  });
}

#if GNOMON_PAIRS
void MultiplyCachedPairs(const CachedRows& keys, std::int64_t size, const float* q,
                         std::int64_t stride, float factor, std::int64_t rows, float* scores) {
  MultiplyCached<PairMultiply, float>(keys, size, q, stride, factor, rows, scores);
}
void AddCachedPairs(const CachedRows& values, std::int64_t size, const float* weights,
                    Factors factors, std::int64_t rows, float* out, std::int64_t stride) {
  const std::int64_t all = internal::in_fours(rows);
  std::fill_n(out, values.heads * all * stride, 0.f);
  WithFactors(factors, [&](auto of) GNOMON_PAIRS_ATTR {
    constexpr Factors factor = decltype(of)::value;
    ForCached<pair_values_together, float>(
        values, size,
        [&](const float* const* from, std::int64_t count, std::int64_t j,
            std::int64_t h) GNOMON_PAIRS_ATTR {
          const float* of_head = weights + (h * all * tile_keys + j) / 2;
          float* to = out + h * all * stride;
          if (rows == 1)
            return AddPairValues<1, factor>(from, count, size, of_head, to, stride);
          for (std::int64_t row = 0; row < rows; row += decode_rows)
            AddPairValues<decode_rows, factor>(from, count, size, of_head + row * tile_keys / 2,
                                               to + row * stride, stride);
        });
  });
}
#else
void MultiplyCachedPairs(const CachedRows&, std::int64_t, const float*, std::int64_t, float,
                         std::int64_t, float*) {}
void AddCachedPairs(const CachedRows&, std::int64_t, const float*, Factors, std::int64_t,
                    float*, std::int64_t) {}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();
