// Multiply-adds of pairs of bfloat16: MultiplyPairs in multiply-inl.h.
#if defined(GNOMON_ATTENTION_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_ATTENTION_PAIRS_INL_H_
#undef GNOMON_ATTENTION_PAIRS_INL_H_
#else
#define GNOMON_ATTENTION_PAIRS_INL_H_
#endif

#include <bit>
#include <cstdint>

#include "src/attention/multiply-inl.h"

GNOMON_BEFORE_PAIRS();
namespace gnomon {
namespace HWY_NAMESPACE {

#if GNOMON_PAIRS
struct PairMultiply {
  static constexpr bool scales = true, prefetches = false;
  template <Factors factors, class D, class V>
  static HWY_INLINE V Add(D tag, V a, V b, V sum) {
    if (factors == Factors::nonzero) {
      const hn::Repartition<std::uint16_t, D> halves;
      const auto factor = hn::BitCast(halves, a);
      b = hn::BitCast(
          tag, hn::IfThenElseZero(hn::Ne(factor, hn::Zero(halves)), hn::BitCast(halves, b)));
    }
    sum.raw = _mm512_dpbf16_ps(sum.raw, std::bit_cast<__m512bh>(a.raw),
                               std::bit_cast<__m512bh>(b.raw));
    return sum;
  }
  static bool IsZero(float a) { return std::bit_cast<std::uint32_t>(a) == 0; }
};
#endif

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
