// Runs of consecutive elements in rows of a tile, for *_simd.cc files.
#if defined(GNOMON_BIAS_RUNS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_BIAS_RUNS_INL_H_
#undef GNOMON_BIAS_RUNS_INL_H_
#else
#define GNOMON_BIAS_RUNS_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"
#include "src/bias/tile.h"
#include "src/core/elements-inl.h"

// 1 if the target can read and write part of a vector without touching the rest.
#undef GNOMON_HAS_MASKS
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
#define GNOMON_HAS_MASKS 1
#else
#define GNOMON_HAS_MASKS 0
#endif

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using internal::Ids;
using std::int64_t;

template <typename A>
using Vectors = hn::ScalableTag<A>;

// to[i] = make(i) for i from 0 to count - 1. If `available` (at least count) allows, the last
// vector is written whole; the following run overwrites the excess elements.
template <typename A, typename Make>
HWY_INLINE void Write(int64_t count, int64_t available, A* HWY_RESTRICT to, const Make& make) {
  const Vectors<A> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < count; i += lanes) {
    if (i + lanes <= available) {
      hn::StoreU(make(i), d, to + i);
    } else {
#if GNOMON_HAS_MASKS
      hn::BlendedStore(make(i), hn::FirstN(d, static_cast<std::size_t>(count - i)), d, to + i);
#else
      HWY_ALIGN A last[hn::MaxLanes(Vectors<A>())];
      hn::Store(make(i), d, last);
      std::copy_n(last, count - i, to + i);
#endif
    }
  }
}

// Loads the first `count` elements (at most a vector) at `from`, then zeros. `available`
// elements at `from` are readable.
template <class D, typename A = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> Read(D d, int64_t count, int64_t available, const A* HWY_RESTRICT from) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (count >= lanes) return hn::LoadU(d, from);
#if GNOMON_HAS_MASKS
  (void)available;
  return hn::MaskedLoad(hn::FirstN(d, static_cast<std::size_t>(count)), d, from);
#else
  if (available >= lanes)
    return hn::IfThenElseZero(hn::FirstN(d, static_cast<std::size_t>(count)),
                              hn::LoadU(d, from));
  HWY_ALIGN A last[hn::MaxLanes(D())] = {};
  std::copy_n(from, count, last);
  return hn::Load(d, last);
#endif
}

// Loads a vector at `from`, all of which must be readable.
template <class D, typename A>
HWY_INLINE hn::Vec<D> ReadWhole(D d, const A* from) {
  if constexpr (std::is_same_v<hn::TFromD<D>, A>)
    return hn::LoadU(d, from);
  else
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<A, D>(), from));
}

template <class D>
HWY_INLINE double Sum(D d, hn::Vec<D> v) {
  return static_cast<double>(SumLanes(d, v));
}

// Returns the end of the run that starts at `begin`. next(j): whether j continues the run of j
// - 1.
template <typename Next>
HWY_INLINE int64_t RunEnd(int64_t begin, int64_t keys, const Next& next) {
  int64_t end = begin + 1;
  while (end < keys && next(end)) ++end;
  return end;
}

// Loads the first `count` elements at `from` as doubles, then zeros.
template <class D>
HWY_INLINE hn::Vec<D> ReadDoubles(D d, int64_t count, int64_t available, const float* from) {
  return hn::PromoteTo(d, Read(hn::Rebind<float, D>(), count, available, from));
}
template <class D>
HWY_INLINE hn::Vec<D> ReadDoubles(D d, int64_t count, int64_t available, const double* from) {
  return Read(d, count, available, from);
}

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif  // include guard
