// Softmax weights of scores in units of ln 2: exp2, and the soft cap.
#if defined(GNOMON_ATTENTION_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_ATTENTION_SOFTMAX_INL_H_
#undef GNOMON_ATTENTION_SOFTMAX_INL_H_
#else
#define GNOMON_ATTENTION_SOFTMAX_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Scores are in units of ln 2, so that a weight is 2^(score - greatest score).
constexpr double log2_of_e = 1.4426950408889634074, ln_of_2 = 0.69314718055994530942;

// Weights below 2^-100 (double: 2^-960) of the greatest weight are 0, because denormals, and
// products that become denormal, would slow the products fourfold.
template <typename A>
constexpr A LeastExponent() {
  return sizeof(A) == 4 ? A(-100) : A(-960);
}

// 2^x = 2^n (1 + r series), with n the integer nearest to x, for |x| < 2^21. n is in the lowest
// bits of `shifted`.
template <class V>
struct PowerParts {
  V shifted, r, series;
};

template <class Tag, class V>
HWY_INLINE PowerParts<V> PowerOfTwo(Tag tag, V x) {
  using A = hn::TFromD<Tag>;
  constexpr bool single = sizeof(A) == 4;
  const auto shifter = hn::Set(tag, single ? A(0x1.8p23) : A(0x1.8p52));
  const V shifted = hn::Add(x, shifter);
  const V r = hn::Sub(x, hn::Sub(shifted, shifter));
  // Float: coefficients of least greatest relative error with constant 1, within 1.1e-7.
  // Double: the Taylor series of exp(r ln 2), whose next term is below 5e-18.
  constexpr double coefficients[2][13] = {
      {0x1.62e42fefa39efp-1, 0x1.ebfbdff82c58fp-3, 0x1.c6b08d704a0c0p-5, 0x1.3b2ab6fba4e77p-7,
       0x1.5d87fe78a6731p-10, 0x1.430912f86c787p-13, 0x1.ffcbfc588b0c7p-17,
       0x1.62c0223a5c824p-20, 0x1.b5253d395e7c4p-24, 0x1.e4cf5158b8ecap-28,
       0x1.e8cac7351bb25p-32, 0x1.c3bd650fc2986p-36, 0x1.816193166d0f9p-40},
      {0x1.62e42ap-1, 0x1.ebf9bcp-3, 0x1.c6b752p-5, 0x1.3cea88p-7, 0x1.5bba14p-10}};
  constexpr int terms = single ? 5 : 13;
  V series = hn::Set(tag, static_cast<A>(coefficients[single][terms - 1]));
#pragma GCC unroll 16
  for (int k = terms - 2; k >= 0; --k)
    series = hn::MulAdd(series, r, hn::Set(tag, static_cast<A>(coefficients[single][k])));
  return {shifted, r, series};
}

template <class Tag, class V>
HWY_INLINE V TimesPower(Tag tag, V x, V shifted) {  // x 2^n
  constexpr int mantissa = sizeof(hn::TFromD<Tag>) == 4 ? 23 : 52;
  const hn::RebindToSigned<Tag> bits;
  return hn::BitCast(
      tag, hn::Add(hn::BitCast(bits, x), hn::ShiftLeft<mantissa>(hn::BitCast(bits, shifted))));
}

// Computes 2^x for x <= 0 (or slightly above) within 2 ulp. The result is exactly 1 at x = 0,
// and 0 below LeastExponent(). NaN stays NaN.
template <class Tag, class V>
HWY_INLINE V WeightOfScore(Tag tag, V x) {
  using A = hn::TFromD<Tag>;
  const PowerParts<V> parts = PowerOfTwo(tag, x);
  const V power =
      TimesPower(tag, hn::MulAdd(parts.series, parts.r, hn::Set(tag, A(1))), parts.shifted);
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(tag, LeastExponent<A>())), power);
}

// Computes tanh(y) for x = 2 y / ln 2 to a few ulp, as (2^x - 1) / (2^x + 1) without
// cancellation.
template <class Tag, class V>
HWY_INLINE V TanhOfDoubled(Tag tag, V x) {
  using A = hn::TFromD<Tag>;
  const A most = sizeof(A) == 4 ? A(30) : A(60);  // beyond it, tanh rounds to 1
  const V within = hn::Min(hn::Max(x, hn::Set(tag, -most)), hn::Set(tag, most));
  const PowerParts<V> parts = PowerOfTwo(tag, hn::IfThenElse(hn::IsNaN(x), x, within));
  const V one = hn::Set(tag, A(1)), power = TimesPower(tag, one, parts.shifted);
  const V less_one = hn::MulAdd(hn::Mul(parts.series, parts.r), power, hn::Sub(power, one));
  return hn::Div(less_one, hn::Add(less_one, hn::Set(tag, A(2))));
}

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
