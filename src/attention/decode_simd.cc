// Products of a few rows with the keys and values of a cache, in its element type.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/attention/decode_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/attention/decode-inl.h"

HWY_BEFORE_NAMESPACE();
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

// Stores the sums of the lanes of four vectors to to[0] ... to[3].
template <class D, class V>
HWY_INLINE void StoreSums([[maybe_unused]] D d, V a, V b, V c, V e, float* HWY_RESTRICT to) {
#if HWY_TARGET == HWY_SCALAR
  to[0] = hn::GetLane(a), to[1] = hn::GetLane(b), to[2] = hn::GetLane(c),
  to[3] = hn::GetLane(e);
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
  hn::StoreU(sum, four, to);
#endif
}

// Computes scores [query_rows, tile_keys] of keys 0 to `count`, rounded up to a multiple of 4.
// The keys are `step` elements apart. q: query_rows rows, `stride` elements apart. size: a
// multiple of the vector length.
template <int query_rows, typename E>
HWY_INLINE void MultiplyKeys(const E* HWY_RESTRICT keys, std::int64_t step, std::int64_t count,
                             std::int64_t size, const float* HWY_RESTRICT q,
                             std::int64_t stride, float* HWY_RESTRICT scores) {
  const hn::ScalableTag<float> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  // Sixteen sums, or eight if there are half as many registers.
  constexpr int together = block_vectors == 4 || query_rows == 1 ? 4 : 2;
  for (std::int64_t j = 0; j < count; j += 4)
    for (int half = 0; half < 4; half += together) {
      const E* row[together];
      for (int k = 0; k < together; ++k)
        row[k] = keys + std::min(j + half + k, count - 1) * step;
      hn::Vec<decltype(d)> sum[query_rows][together];
#pragma GCC unroll 4
      for (int r = 0; r < query_rows; ++r)
#pragma GCC unroll 4
        for (int k = 0; k < together; ++k) sum[r][k] = hn::Zero(d);
      for (std::int64_t i = 0; i < size; i += lanes) {
        hn::Vec<decltype(d)> key[together];
#pragma GCC unroll 4
        for (int k = 0; k < together; ++k) key[k] = LoadCached(d, row[k] + i);
#pragma GCC unroll 4
        for (int r = 0; r < query_rows; ++r) {
          const auto query = hn::Load(d, q + r * stride + i);
#pragma GCC unroll 4
          for (int k = 0; k < together; ++k) sum[r][k] = hn::MulAdd(query, key[k], sum[r][k]);
        }
      }
#pragma GCC unroll 4
      for (int r = 0; r < query_rows; ++r) {
        float* to = scores + r * tile_keys + j + half;
        if constexpr (together == 4) {
          StoreSums(d, sum[r][0], sum[r][1], sum[r][2], sum[r][3], to);
        } else {
          HWY_ALIGN float four[4];
          StoreSums(d, sum[r][0], sum[r][1], hn::Zero(d), hn::Zero(d), four);
          to[0] = four[0], to[1] = four[1];
        }
      }
    }
}

// Computes out [query_rows, values] += weights [query_rows, count] values [count, values].
template <int query_rows, Factors factors, typename E>
HWY_INLINE void AddValues(const E* HWY_RESTRICT from, std::int64_t step, std::int64_t count,
                          std::int64_t values, const float* HWY_RESTRICT weights,
                          float* HWY_RESTRICT out, std::int64_t stride) {
  const hn::ScalableTag<float> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  constexpr int wide = block_vectors == 4 || query_rows == 1 ? 4 : 2;
  const auto columns = [&](auto width, std::int64_t at) HWY_ATTR {
    constexpr int vectors = decltype(width)::value;
    hn::Vec<decltype(d)> sum[query_rows][vectors];
#pragma GCC unroll 4
    for (int r = 0; r < query_rows; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sum[r][v] = hn::Zero(d);
    const E* HWY_RESTRICT row = from + at;
    for (std::int64_t j = 0; j < count; ++j, row += step) {
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
  };
  std::int64_t at = 0;
  for (; at + wide * lanes <= values; at += wide * lanes)
    columns(std::integral_constant<int, wide>(), at);
  for (; at < values; at += lanes) columns(std::integral_constant<int, 1>(), at);
}

// Calls body(pointer to row `row` of head `head`), with a pointer of the element type.
template <typename Body>
HWY_INLINE void WithElements(const Operand& from, std::int64_t b, std::int64_t row,
                             std::int64_t head, const Body& body) {
  const std::int64_t at = OffsetOf(from, b, row, head);
  if (from.e4m3) return body(static_cast<const std::uint8_t*>(from.data) + at);
  if (from.scales.data()) return body(static_cast<const std::int8_t*>(from.data) + at);
  if (from.dtype == DType::f32) return body(static_cast<const float*>(from.data) + at);
  if (from.dtype == DType::f16) return body(static_cast<const Half*>(from.data) + at);
  if (from.dtype == DType::bf16) return body(static_cast<const BFloat16*>(from.data) + at);
}

void MultiplyCachedKeys(const Operand& keys, std::int64_t b, std::int64_t first,
                        std::int64_t head, std::int64_t count, std::int64_t size,
                        const float* q, std::int64_t stride, std::int64_t rows, float* scores) {
  WithElements(keys, b, first, head, [&](const auto* from) HWY_ATTR {
    if (rows == 1)
      return MultiplyKeys<1>(from, keys.strides[1], count, size, q, stride, scores);
    for (std::int64_t row = 0; row < rows; row += decode_rows)
      MultiplyKeys<decode_rows>(from, keys.strides[1], count, size, q + row * stride, stride,
                                scores + row * tile_keys);
  });
}

void AddCachedValues(const Operand& values, std::int64_t b, std::int64_t first,
                     std::int64_t head, std::int64_t count, std::int64_t size,
                     const float* weights, Factors factors, std::int64_t rows, float* out,
                     std::int64_t stride) {
  const auto add = [&](auto of, const auto* from) HWY_ATTR {
    constexpr Factors factor = decltype(of)::value;
    if (rows == 1)
      return AddValues<1, factor>(from, values.strides[1], count, size, weights, out, stride);
    for (std::int64_t row = 0; row < rows; row += decode_rows)
      AddValues<decode_rows, factor>(from, values.strides[1], count, size,
                                     weights + row * tile_keys, out + row * stride, stride);
  };
  WithElements(values, b, first, head, [&](const auto* from) HWY_ATTR {
    if (factors == Factors::all)
      add(std::integral_constant<Factors, Factors::all>(), from);
    else
      add(std::integral_constant<Factors, Factors::nonzero>(), from);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();
