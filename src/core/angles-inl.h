// cos and sin of position x frequency in vectors of doubles. Include it only in *_simd.cc files
// that are compiled with -ffp-contract=off: the error terms require that each product is
// rounded.
#if defined(GNOMON_CORE_ANGLES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_CORE_ANGLES_INL_H_
#undef GNOMON_CORE_ANGLES_INL_H_
#else
#define GNOMON_CORE_ANGLES_INL_H_
#endif

#include <cstdint>
#include <type_traits>

#include "gnomon/dtype.h"
#include "hwy/highway.h"
#include "src/core/elements-inl.h"

// Whether the target has a fused multiply-add instruction.
#undef GNOMON_FUSED
#define GNOMON_FUSED \
  (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON)

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<double>;
using V = hn::Vec<D>;

// a b = high + low, exactly.
HWY_INLINE void Product(V a, V b, V& high, V& low) {
  high = hn::Mul(a, b);
#if GNOMON_FUSED
  low = hn::MulSub(a, b, high);
#else  // no fused multiply-add: Dekker 1971, splitting into halves of 26 bits
  const V splitter = hn::Set(D(), 134217729.0);
  const V a_part = hn::Mul(splitter, a), b_part = hn::Mul(splitter, b);
  const V a_high = hn::Sub(a_part, hn::Sub(a_part, a)), a_low = hn::Sub(a, a_high);
  const V b_high = hn::Sub(b_part, hn::Sub(b_part, b)), b_low = hn::Sub(b, b_high);
  const V rest = hn::Sub(high, hn::Mul(a_high, b_high));
  low = hn::Sub(hn::Mul(a_low, b_low),
                hn::Sub(hn::Sub(rest, hn::Mul(a_low, b_high)), hn::Mul(a_high, b_low)));
#endif
}

// a + b = sum + error, exactly (Knuth).
HWY_INLINE void Sum(V a, V b, V& sum, V& error) {
  sum = hn::Add(a, b);
  const V b_there = hn::Sub(sum, a);
  error = hn::Add(hn::Sub(a, hn::Sub(sum, b_there)), hn::Sub(b, b_there));
}

// cos and sin of position x frequency, with an error of at most 2^-51, for products up to 2^51.
HWY_INLINE void RowProducts(V position, V frequency, V& cosine, V& sine) {
  const D d;
  V angle, rest;
  Product(position, frequency, angle, rest);
  // Subtract k pi/2, with pi/2 in three doubles: the error of the remainder is 2^-70. Adding
  // 1.5 x 2^52 rounds the quotient to the integer k, which is then in the low bits of
  // `shifted`.
  const V magic = hn::Set(d, 0x1.8p52);
  const V shifted = hn::MulAdd(angle, hn::Set(d, 0x1.45f306dc9c883p-1), magic);
  const V k = hn::Sub(shifted, magic);
  V high, low, error, x, y;
  // Exact: the result is a multiple of 2^-53 below 1 (if k is not 0, angle is such a multiple,
  // and the high part of k pi/2, too).
  const V near_half_pi = hn::Set(d, 0x1.921fb54442d18p+0);
#if GNOMON_FUSED
  const V part = hn::NegMulAdd(k, near_half_pi, angle);
#else
  Product(k, near_half_pi, high, low);
  const V part = hn::Sub(hn::Sub(angle, high), low);
#endif
  Product(k, hn::Set(d, 0x1.1a62633145c07p-54), high, low);
  Sum(part, hn::Neg(high), x, error);
  y = hn::Add(hn::Sub(error, low), rest);
  y = hn::NegMulAdd(k, hn::Set(d, -0x1.f1976b7ed8fbcp-110), y);
  Sum(x, y, x, y);

  // Taylor polynomials: the next terms are below 2^-56 for |x| up to 0.92.
  const V z = hn::Mul(x, x);
  const auto term = [&](double coefficient) { return hn::Set(d, coefficient); };
  V s = term(1.0 / 355687428096000);  // 17!
  s = hn::MulAdd(s, z, term(-1.0 / 1307674368000));
  s = hn::MulAdd(s, z, term(1.0 / 6227020800));
  s = hn::MulAdd(s, z, term(-1.0 / 39916800));
  s = hn::MulAdd(s, z, term(1.0 / 362880));
  s = hn::MulAdd(s, z, term(-1.0 / 5040));
  s = hn::MulAdd(s, z, term(1.0 / 120));
  s = hn::MulAdd(s, z, term(-1.0 / 6));
  V c = term(1.0 / 20922789888000);  // 16!
  c = hn::MulAdd(c, z, term(-1.0 / 87178291200));
  c = hn::MulAdd(c, z, term(1.0 / 479001600));
  c = hn::MulAdd(c, z, term(-1.0 / 3628800));
  c = hn::MulAdd(c, z, term(1.0 / 40320));
  c = hn::MulAdd(c, z, term(-1.0 / 720));
  c = hn::MulAdd(c, z, term(1.0 / 24));
  const V one = term(1.0), half = hn::Mul(z, term(0.5));
  // sin(x + y) = sin x + y cos x and cos(x + y) = cos x - y sin x, because y is tiny.
  const V sin_x = hn::Add(x, hn::MulAdd(hn::Mul(s, z), x, hn::Mul(y, hn::Sub(one, half))));
  const V cos_x =
      hn::Sub(one, hn::Sub(half, hn::Sub(hn::Mul(hn::Mul(c, z), z), hn::Mul(x, y))));

  // The quadrant of the angle, 0 to 3. Odd quadrants exchange cos and sin.
  const hn::RebindToUnsigned<D> whole;
  const auto quarter = hn::BitCast(whole, shifted);
  const auto one_bit = hn::Set(whole, 1), sign_bit = hn::Set(whole, 2);
  const auto odd = hn::RebindMask(d, hn::Eq(hn::And(quarter, one_bit), one_bit));
  const V sin_part = hn::IfThenElse(odd, cos_x, sin_x);
  const V cos_part = hn::IfThenElse(odd, sin_x, cos_x);
  const auto sin_sign = hn::ShiftLeft<62>(hn::And(quarter, sign_bit));
  const auto cos_sign = hn::ShiftLeft<62>(hn::And(hn::Add(quarter, one_bit), sign_bit));
  sine = hn::Xor(sin_part, hn::BitCast(d, sin_sign));
  cosine = hn::Xor(cos_part, hn::BitCast(d, cos_sign));
}

// The rotation by angle a followed by b: a product of complex numbers.
HWY_INLINE void Compose(V a_cos, V a_sin, V b_cos, V b_sin, V& cosine, V& sine) {
  cosine = hn::NegMulAdd(a_sin, b_sin, hn::Mul(a_cos, b_cos));
  sine = hn::MulAdd(a_sin, b_cos, hn::Mul(a_cos, b_sin));
}

// Converts v to float and sets the last bit to odd if the conversion is not exact. A further
// rounding to at most 22 bits then gives the same result as rounding v once. (Below 2^-126
// floats have fewer bits, so an entry of bfloat16 may there be off by another 2^-150.)
HWY_INLINE hn::Vec<hn::Rebind<float, D>> OddFloats(V v) {
  const hn::RebindToUnsigned<D> whole;
  constexpr std::uint64_t below = (std::uint64_t{1} << 29) - 1;  // bits that a float lacks
  const auto bits = hn::BitCast(whole, v), low = hn::Set(whole, below);
  const auto sticky = hn::Add(hn::And(bits, low), low);
  const auto odd = hn::AndNot(low, hn::Or(bits, sticky));
  return hn::DemoteTo(hn::Rebind<float, D>(), hn::BitCast(D(), odd));
}

// Rounds floats to T and returns the bits.
template <typename T, class F>
HWY_INLINE auto ToBits16([[maybe_unused]] F d, hn::Vec<F> v) {
  const hn::Rebind<std::uint16_t, F> narrow;
  if constexpr (std::is_same_v<T, BFloat16>) {
    const hn::Rebind<std::uint32_t, F> whole;  // as RoundToBFloat16, but without NaN
    const auto bits = hn::BitCast(whole, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(whole, 1u));
    const auto rounded = hn::Add(hn::Add(bits, hn::Set(whole, 0x7fffu)), odd);
    return hn::TruncateTo(narrow, hn::ShiftRight<16>(rounded));
  } else {
#if GNOMON_CONVERTS_HALF
    return hn::BitCast(narrow, hn::DemoteTo(hn::Rebind<hwy::float16_t, F>(), v));
#else
    return hn::TruncateTo(narrow, HalfBitsOfFloat(d, v));
#endif
  }
}

// The storage type of entries of T, and v rounded to it once.
template <typename T>
struct EntryOf {
  using type = std::uint16_t;
};
template <>
struct EntryOf<float> {
  using type = float;
};
template <>
struct EntryOf<double> {
  using type = double;
};
template <typename T>
using Entry = typename EntryOf<T>::type;

template <typename T>
HWY_INLINE hn::Vec<hn::Rebind<Entry<T>, D>> ToEntries(V v) {
  const hn::Rebind<float, D> single;
  if constexpr (std::is_same_v<T, double>) {
    return v;
  } else if constexpr (std::is_same_v<T, float>) {
    return hn::DemoteTo(single, v);
  } else {
    return ToBits16<T>(single, OddFloats(v));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
