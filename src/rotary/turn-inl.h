// Pairs turned by given cosines and sines, for *_simd.cc files: here and in attention's tiles.
#if defined(GNOMON_ROTARY_TURN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_ROTARY_TURN_INL_H_
#undef GNOMON_ROTARY_TURN_INL_H_
#else
#define GNOMON_ROTARY_TURN_INL_H_
#endif

#include <cstdint>
#include <type_traits>

#include "gnomon/rotary/rotary.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

// a[i], b[i] turned by the angles of cos and `sign` sin.
template <typename A>
HWY_INLINE void TurnHalves(A* HWY_RESTRICT a, A* HWY_RESTRICT b, const float* HWY_RESTRICT cos,
                           const float* HWY_RESTRICT sin, A sign, std::int64_t pairs) {
  for (std::int64_t i = 0; i < pairs; ++i) {
    const A c = static_cast<A>(cos[i]), s = sign * static_cast<A>(sin[i]);
    const A left = a[i], right = b[i];
    a[i] = left * c - right * s;
    b[i] = left * s + right * c;
  }
}

// x[2i], x[2i + 1], likewise.
template <typename A>
HWY_INLINE void TurnAdjacent(A* HWY_RESTRICT x, const float* HWY_RESTRICT cos,
                             const float* HWY_RESTRICT sin, A sign, std::int64_t pairs) {
  namespace hn = hwy::HWY_NAMESPACE;
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (std::is_same_v<A, float>) {
    const hn::ScalableTag<float> d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    const auto factor = hn::Set(d, sign);
    for (; i + lanes <= pairs; i += lanes) {
      hn::Vec<decltype(d)> left, right;
      hn::LoadInterleaved2(d, x + 2 * i, left, right);
      const auto c = hn::LoadU(d, cos + i), s = hn::Mul(factor, hn::LoadU(d, sin + i));
      hn::StoreInterleaved2(hn::NegMulAdd(right, s, hn::Mul(left, c)),
                            hn::MulAdd(left, s, hn::Mul(right, c)), d, x + 2 * i);
    }
  }
#endif
  for (; i < pairs; ++i) {
    const A c = static_cast<A>(cos[i]), s = sign * static_cast<A>(sin[i]);
    const A left = x[2 * i], right = x[2 * i + 1];
    x[2 * i] = left * c - right * s;
    x[2 * i + 1] = left * s + right * c;
  }
}

// All pairs of x, which begins at the first rotated element.
template <typename A>
HWY_INLINE void TurnPairs(A* HWY_RESTRICT x, const float* HWY_RESTRICT cos,
                          const float* HWY_RESTRICT sin, A sign, Pairing pairing,
                          std::int64_t pairs) {
  if (pairing == Pairing::halves)
    TurnHalves(x, x + pairs, cos, sin, sign, pairs);
  else
    TurnAdjacent(x, cos, sin, sign, pairs);
}

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
