// Pairs turned by given cosines and sines, for *_simd.cc files: here and in attention's tiles.
#if defined(GNOMON_ROTARY_TURN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_ROTARY_TURN_INL_H_
#undef GNOMON_ROTARY_TURN_INL_H_
#else
#define GNOMON_ROTARY_TURN_INL_H_
#endif

#include <cstdint>
#include <type_traits>

#include "gnomon/dtype.h"
#include "gnomon/rotary/rotary.h"
#include "hwy/highway.h"
#include "src/core/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

constexpr std::int64_t turn_chunk = 256;  // pairs held in the summing type at a time

// Cosines or sines in the summing type.
template <class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> LoadFactors(D d, const float* HWY_RESTRICT factors) {
  namespace hn = hwy::HWY_NAMESPACE;
  if constexpr (std::is_same_v<hn::TFromD<D>, float>)
    return hn::LoadU(d, factors);
  else
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, D>(), factors));
}

// The products and sums are spelt out, so a pair has the same bits wherever it stands in a
// vector, and in every file that turns pairs.
template <class V>
HWY_INLINE void TurnVectors(V a, V b, V cos, V sin, V& turned_a, V& turned_b) {
  namespace hn = hwy::HWY_NAMESPACE;
  turned_a = hn::NegMulAdd(b, sin, hn::Mul(a, cos));
  turned_b = hn::MulAdd(a, sin, hn::Mul(b, cos));
}

// Pairs [begin, end) that fill vectors of d, from elements a[i], b[i] to to_a[i], to_b[i].
// Returns the first pair that is left.
template <class D, typename A = hwy::HWY_NAMESPACE::TFromD<D>>
HWY_INLINE std::int64_t TurnApart(D d, const A* a, const A* b, A* to_a, A* to_b,
                                  const float* HWY_RESTRICT cos, const float* HWY_RESTRICT sin,
                                  A sign, std::int64_t begin, std::int64_t end) {
  namespace hn = hwy::HWY_NAMESPACE;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, sign);
  std::int64_t i = begin;
  for (; i + lanes <= end; i += lanes) {
    hn::Vec<D> x, y;
    TurnVectors(hn::LoadU(d, a + i), hn::LoadU(d, b + i), LoadFactors(d, cos + i),
                hn::Mul(factor, LoadFactors(d, sin + i)), x, y);
    hn::StoreU(x, d, to_a + i);
    hn::StoreU(y, d, to_b + i);
  }
  return i;
}

// to_a[i], to_b[i]: a[i], b[i] turned by the angles of cos and `sign` sin. In place where they
// are the same; a partial overlap is not allowed, here and below.
template <typename A>
HWY_INLINE void TurnHalves(const A* a, const A* b, A* to_a, A* to_b,
                           const float* HWY_RESTRICT cos, const float* HWY_RESTRICT sin, A sign,
                           std::int64_t pairs) {
  namespace hn = hwy::HWY_NAMESPACE;
  const std::int64_t rest =
      TurnApart(hn::ScalableTag<A>(), a, b, to_a, to_b, cos, sin, sign, 0, pairs);
  TurnApart(hn::CappedTag<A, 1>(), a, b, to_a, to_b, cos, sin, sign, rest, pairs);
}

// x[2i], x[2i + 1], likewise.
template <typename A>
HWY_INLINE void TurnAdjacent(const A* x, A* to, const float* HWY_RESTRICT cos,
                             const float* HWY_RESTRICT sin, A sign, std::int64_t pairs) {
  namespace hn = hwy::HWY_NAMESPACE;
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<A> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, sign);
  for (; i + lanes <= pairs; i += lanes) {
    hn::Vec<decltype(d)> a, b, turned_a, turned_b;
    hn::LoadInterleaved2(d, x + 2 * i, a, b);
    TurnVectors(a, b, LoadFactors(d, cos + i), hn::Mul(factor, LoadFactors(d, sin + i)),
                turned_a, turned_b);
    hn::StoreInterleaved2(turned_a, turned_b, d, to + 2 * i);
  }
#endif
  for (; i < pairs; ++i)
    TurnApart(hn::CappedTag<A, 1>(), x + 2 * i, x + 2 * i + 1, to + 2 * i, to + 2 * i + 1,
              cos + i, sin + i, sign, 0, 1);
}

// All pairs of x, which begins at the first rotated element.
template <typename A>
HWY_INLINE void TurnPairs(const A* x, A* to, const float* HWY_RESTRICT cos,
                          const float* HWY_RESTRICT sin, A sign, Pairing pairing,
                          std::int64_t pairs) {
  if (pairing == Pairing::halves)
    TurnHalves(x, x + pairs, to, to + pairs, cos, sin, sign, pairs);
  else
    TurnAdjacent(x, to, cos, sin, sign, pairs);
}

// The same for any element types: each element is read once, and rounded once on its way out.
template <typename T, typename U>
HWY_INLINE void TurnElements(const T* from, U* to, const float* HWY_RESTRICT cos,
                             const float* HWY_RESTRICT sin, float sign, Pairing pairing,
                             std::int64_t pairs) {
  using A = Accumulator<T>;
  const A direction = static_cast<A>(sign);
  if constexpr (std::is_same_v<T, A> && std::is_same_v<U, A>) {
    TurnPairs(from, to, cos, sin, direction, pairing, pairs);
  } else {
    HWY_ALIGN A wide[2 * turn_chunk];
    for (std::int64_t begin = 0; begin < pairs; begin += turn_chunk) {
      const std::int64_t count = HWY_MIN(turn_chunk, pairs - begin);
      const bool halves = pairing == Pairing::halves;
      const T* const a = from + (halves ? begin : 2 * begin);
      const T* const b = halves ? a + pairs : a + count;  // adjacent: just the second half
      A *const wide_a = wide, *const wide_b = wide + count;
      const float *const c = cos + begin, *const s = sin + begin;
      if constexpr (std::is_same_v<T, A>) {
        if (halves)
          TurnHalves(a, b, wide_a, wide_b, c, s, direction, count);
        else
          TurnAdjacent(a, wide, c, s, direction, count);
      } else {
        FromElements(a, count, wide_a);
        FromElements(b, count, wide_b);
        TurnPairs(wide, wide, c, s, direction, pairing, count);
      }
      U* const to_a = to + (halves ? begin : 2 * begin);
      ToElements(wide_a, A(1), count, to_a);
      ToElements(wide_b, A(1), count, halves ? to_a + pairs : to_a + count);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
