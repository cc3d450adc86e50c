#include "src/rotary/float8.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/rotary/float8_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/core/dispatch.h"
#include "src/core/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

// Returns the E4M3 number in the low byte of each lane.
template <class D, class V = hn::Vec<hn::Rebind<std::uint32_t, D>>>
HWY_INLINE V Float8Bits(D d, hn::Vec<D> v) {
  const hn::Rebind<std::uint32_t, D> bits;
  const auto set = [&](std::uint32_t value) { return hn::Set(bits, value); };
  const V sign = hn::And(hn::ShiftRight<24>(hn::BitCast(bits, v)), set(0x80));
  const auto size = hn::Min(hn::Abs(v), hn::Set(d, 448.0f));
  const V magnitude = hn::BitCast(bits, size);
  // 3 bits of mantissa remain. The bias 127 becomes 7.
  const V odd = hn::And(hn::ShiftRight<20>(magnitude), set(1));
  const V normal = hn::Sub(hn::ShiftRight<20>(hn::Add(hn::Add(magnitude, set(0x7ffff)), odd)),
                           set(120u << 3));
  // A subnormal result is a multiple of 2^-9, the unit of floats at 2^14.
  const auto large = hn::Set(d, 0x1p14f);
  const V small = hn::Sub(hn::BitCast(bits, hn::Add(size, large)), hn::BitCast(bits, large));
  const auto below = hn::RebindMask(bits, hn::Lt(size, hn::Set(d, 0x1p-6f)));
  const V number = hn::IfThenElse(below, small, normal);
  return hn::Or(sign, hn::IfThenElse(hn::RebindMask(bits, hn::IsNaN(v)), set(0x7f), number));
}

template <typename T>
HWY_INLINE void ToFloat8(const T* HWY_RESTRICT from, std::int64_t size, float scale,
                         std::uint8_t* HWY_RESTRICT to) {
  ForVectors<float>(size, [&](auto d, std::int64_t i) {
    const hn::Rebind<std::int32_t, decltype(d)> whole;
    const hn::Rebind<std::uint8_t, decltype(d)> byte;
    const auto number = Float8Bits(d, hn::Div(LoadElements(d, from + i), hn::Set(d, scale)));
    hn::StoreU(hn::DemoteTo(byte, hn::BitCast(whole, number)), byte, to + i);
  });
}

#define GNOMON_FLOAT8(T, Name)                                                           \
  void Float8Of##Name(const T* from, std::int64_t size, float scale, std::uint8_t* to) { \
    ToFloat8(from, size, scale, to);                                                     \
  }
GNOMON_FLOAT8(float, F32)
GNOMON_FLOAT8(Half, F16)
GNOMON_FLOAT8(BFloat16, BF16)
#undef GNOMON_FLOAT8

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gnomon {

HWY_EXPORT(Float8OfF32);
HWY_EXPORT(Float8OfF16);
HWY_EXPORT(Float8OfBF16);

namespace rotary_internal {

template <>
Float8Kernel<float> float8_kernel() {
  return GNOMON_DISPATCH(Float8OfF32);
}
template <>
Float8Kernel<Half> float8_kernel() {
  return GNOMON_DISPATCH(Float8OfF16);
}
template <>
Float8Kernel<BFloat16> float8_kernel() {
  return GNOMON_DISPATCH(Float8OfBF16);
}

}  // namespace rotary_internal
}  // namespace gnomon
#endif  // HWY_ONCE
