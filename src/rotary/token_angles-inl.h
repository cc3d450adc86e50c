// cos and sin of given angles, for *_simd.cc files that are compiled with -ffp-contract=off.
#if defined(GNOMON_ROTARY_TOKEN_ANGLES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_ROTARY_TOKEN_ANGLES_INL_H_
#undef GNOMON_ROTARY_TOKEN_ANGLES_INL_H_
#else
#define GNOMON_ROTARY_TOKEN_ANGLES_INL_H_
#endif

#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"
#include "src/core/angles-inl.h"
#include "src/core/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

// Loads angles as doubles. Magnitudes from 2^46 on become NaN: their product overflows.
template <typename Angle>
HWY_INLINE V LoadAngles(const Angle* from) {
  const D d;
  const V angle = LoadElements(d, from);
  return hn::MulAdd(hn::Mul(angle, hn::Set(d, 0x1p978)), hn::Zero(d), angle);
}

#if HWY_TARGET != HWY_SCALAR
using DF = hn::ScalableTag<float>;
using VF = hn::Vec<DF>;
using DU = hn::RebindToUnsigned<DF>;
using VU = hn::Vec<DU>;

// cos and sin of r + quarters pi/2, for |r| up to 0.795. Minimax polynomials: errors 2^-28.9
// and 2^-33; with rounding 2^-24.
HWY_INLINE void OfQuarters(VF r, VU quarters, VF& cosine, VF& sine) {
  const DF d;
  const DU whole;
  const VF z = hn::Mul(r, r);
  VF s = hn::MulAdd(hn::Set(d, -1.9487204779e-4f), z, hn::Set(d, 8.3319115792e-3f));
  s = hn::MulAdd(s, z, hn::Set(d, -1.6666649465e-1f));
  s = hn::MulAdd(hn::Mul(s, z), r, r);
  VF c = hn::MulAdd(hn::Set(d, 2.4429582829e-5f), z, hn::Set(d, -1.3887292115e-3f));
  c = hn::MulAdd(c, z, hn::Set(d, 4.1666645375e-2f));
  c = hn::MulAdd(hn::MulAdd(c, z, hn::Set(d, -0.5f)), z, hn::Set(d, 1.0f));
  const auto one = hn::Set(whole, 1u), two = hn::Set(whole, 2u);
  const auto odd = hn::RebindMask(d, hn::TestBit(quarters, one));
  const auto sin_sign = hn::ShiftLeft<30>(hn::And(quarters, two));
  const auto cos_sign = hn::ShiftLeft<30>(hn::And(hn::Add(quarters, one), two));
  sine = hn::Xor(hn::IfThenElse(odd, c, s), hn::BitCast(d, sin_sign));
  cosine = hn::Xor(hn::IfThenElse(odd, s, c), hn::BitCast(d, cos_sign));
}

// Subtracts k pi/2, with pi/2 in two doubles: the remainder of an angle below 2^46 has an error
// of 2^-53. The low bits of `shifted` are k.
HWY_INLINE V Remainder(V angle, V& shifted) {
  const D d;
  const V magic = hn::Set(d, 0x1.8p52), near_half_pi = hn::Set(d, 0x1.921fb54442d18p+0);
  shifted = hn::MulAdd(angle, hn::Set(d, 0x1.45f306dc9c883p-1), magic);
  const V k = hn::Sub(shifted, magic);
#if GNOMON_FUSED
  const V part = hn::NegMulAdd(k, near_half_pi, angle);
#else
  V high, low;
  Product(k, near_half_pi, high, low);
  const V part = hn::Sub(hn::Sub(angle, high), low);
#endif
  return hn::NegMulAdd(k, hn::Set(d, 0x1.1a62633145c07p-54), part);
}

template <typename Angle>
HWY_INLINE void FloatsOfAngles(const Angle* from, VF& cosine, VF& sine) {
  const DF d;
  [[maybe_unused]] const DU whole;
#if GNOMON_FUSED
  if constexpr (std::is_same_v<Angle, float>) {
    // The same reduction in float, with pi/2 in two floats. The first difference is exact: a
    // multiple of 2^-23 below 1.
    const VF angle = hn::LoadU(d, from);
    if (hn::AllTrue(d, hn::Le(hn::Abs(angle), hn::Set(d, 0x1p16f)))) {
      const VF magic = hn::Set(d, 0x1.8p23f);
      const VF shifted = hn::MulAdd(angle, hn::Set(d, 0x1.45f306p-1f), magic);
      const VF k = hn::Sub(shifted, magic);
      VF r = hn::NegMulAdd(k, hn::Set(d, 0x1.921fb6p+0f), angle);
      r = hn::NegMulAdd(k, hn::Set(d, -0x1.777a5cp-25f), r);
      return OfQuarters(r, hn::BitCast(whole, shifted), cosine, sine);
    }
  }
#endif
  const D wide;
  const hn::Rebind<float, D> half;
  const hn::Repartition<std::uint32_t, D> bits;
  V low, high;
  const V r_low = Remainder(LoadAngles(from), low);
  const V r_high = Remainder(LoadAngles(from + hn::Lanes(wide)), high);
  OfQuarters(hn::Combine(d, hn::DemoteTo(half, r_high), hn::DemoteTo(half, r_low)),
             hn::ConcatEven(bits, hn::BitCast(bits, high), hn::BitCast(bits, low)), cosine,
             sine);
}
#endif  // HWY_SCALAR

// Writes Step() cosines and sines.
template <typename Angle, typename F>
struct AngleVectors {
#if HWY_TARGET == HWY_SCALAR
  static constexpr bool narrow = false;
#else
  static constexpr bool narrow = std::is_same_v<F, float>;
#endif
  static HWY_INLINE std::int64_t Step() {
    return static_cast<std::int64_t>(hn::Lanes(D())) * (narrow ? 2 : 1);
  }
  static HWY_INLINE void Write(const Angle* from, F* cos, F* sin) {
#if HWY_TARGET != HWY_SCALAR
    if constexpr (narrow) {
      VF c, s;
      FloatsOfAngles(from, c, s);
      hn::StoreU(c, DF(), cos);
      hn::StoreU(s, DF(), sin);
      return;
    }
#endif
    if constexpr (!narrow) {
      V c, s;
      RowProducts(LoadAngles(from), hn::Set(D(), 1.0), c, s);
      const hn::Rebind<F, D> to;
      hn::StoreU(ToEntries<F>(c), to, cos);
      hn::StoreU(ToEntries<F>(s), to, sin);
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
