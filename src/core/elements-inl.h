// Conversion of elements to vectors of their accumulator type, and back, for *_simd.cc files.
#if defined(GNOMON_CORE_ELEMENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_CORE_ELEMENTS_INL_H_
#undef GNOMON_CORE_ELEMENTS_INL_H_
#else
#define GNOMON_CORE_ELEMENTS_INL_H_
#endif

#include <cstdint>
#include <type_traits>

#include "gnomon/dtype.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

// Whether the instruction set has conversions of binary16.
#undef GNOMON_CONVERTS_HALF
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
#define GNOMON_CONVERTS_HALF 1
#else
#define GNOMON_CONVERTS_HALF 0
#endif

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Prefetch distance of memory streams, in bytes. It is more than a page, because hardware
// prefetch stops at page boundaries, and not a multiple of the page size, because a load waits
// for a store to the same offset in another page.
constexpr std::int64_t prefetch_bytes = 5632;
// The same for prefetches to the second-level cache, where many instructions are executed for
// each byte: the misses that the first level can have in flight are then too few.
constexpr std::int64_t far_prefetch_bytes = 24064;

// Loads the cache line of p into the second-level cache.
template <typename T>
HWY_INLINE void PrefetchFar(const T* p) {
#if HWY_COMPILER_GCC || HWY_COMPILER_CLANG
  __builtin_prefetch(p, /*write=*/0, /*locality=*/2);
#else
  hwy::Prefetch(p);
#endif
}

// Loads the cache line of p, to be written.
template <typename T>
HWY_INLINE void PrefetchToWrite(const T* p) {
#if HWY_COMPILER_GCC || HWY_COMPILER_CLANG
  __builtin_prefetch(p, /*write=*/1, /*locality=*/2);
#else
  hwy::Prefetch(p);
#endif
}

// Returns v, as an operand that the compiler knows nothing of: it neither fuses the operation
// that computes v with the next one, nor loads v again for each use, as GCC does.
template <class V>
HWY_INLINE V InRegister(V v) {
#if HWY_COMPILER_GCC || HWY_COMPILER_CLANG
#if HWY_TARGET == HWY_AVX3
  asm("" : "+v"(v.raw));
#elif HWY_TARGET == HWY_AVX2
  asm("" : "+x"(v.raw));
#elif HWY_TARGET == HWY_NEON
  asm("" : "+w"(v.raw));
#endif
#endif
  return v;
}

// Returns the sum of the lanes of v, in the same order for all versions of Highway: 1.3, whose
// WebAssembly has double, adds lanes 0 and 3 first, and 1.0.3 lanes 0 and 2.
template <class D>
HWY_INLINE hn::TFromD<D> SumLanes(D d, hn::Vec<D> v) {
#if HWY_TARGET == HWY_WASM
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    const hn::Vec<D> pairs = hn::Add(v, hn::Shuffle1032(v));
    return hn::GetLane(hn::Add(pairs, hn::Shuffle0321(pairs)));
  }
#endif
  return hn::GetLane(hn::SumOfLanes(d, v));
}

// Converts the binary16 in each lane of h to float. No intermediate result is a subnormal
// float, so the caller's flush-to-zero mode has no effect.
template <class D, class V = hn::Vec<hn::Rebind<std::uint32_t, D>>>
HWY_INLINE hn::Vec<D> FloatOfHalfBits(D d, V h) {
  const hn::Rebind<std::uint32_t, D> bits;
  const auto set = [&](std::uint32_t value) { return hn::Set(bits, value); };
  const V magnitude = hn::ShiftLeft<13>(hn::And(h, set(0x7fff)));
  const V exponent = hn::And(magnitude, set(0x0f800000));
  V f = hn::Add(magnitude, set(112u << 23));
  f = hn::Add(f, hn::IfThenElseZero(hn::Eq(exponent, set(0x0f800000)), set(112u << 23)));
  const auto small = hn::BitCast(
      bits, hn::Sub(hn::BitCast(d, hn::Add(f, set(1u << 23))), hn::Set(d, 0x1p-14f)));
  f = hn::IfThenElse(hn::Eq(exponent, hn::Zero(bits)), small, f);
  return hn::BitCast(d, hn::Or(f, hn::ShiftLeft<16>(hn::And(h, set(0x8000)))));
}

// Rounds v to binary16, to nearest even, in the lower half of each lane.
template <class D, class V = hn::Vec<hn::Rebind<std::uint32_t, D>>>
HWY_INLINE V HalfBitsOfFloat(D d, hn::Vec<D> v) {
  const hn::Rebind<std::uint32_t, D> bits;
  const hn::Rebind<std::int32_t, D> order;
  const auto set = [&](std::uint32_t value) { return hn::Set(bits, value); };
  const V all = hn::BitCast(bits, v), magnitude = hn::And(all, set(0x7fffffff));
  const auto below = [&](V a, std::uint32_t limit) {
    return hn::RebindMask(
        bits, hn::Lt(hn::BitCast(order, a), hn::Set(order, static_cast<std::int32_t>(limit))));
  };
  const V odd = hn::And(hn::ShiftRight<13>(magnitude), set(1));
  V h = hn::ShiftRight<13>(hn::Add(hn::Add(magnitude, set(0u - (112u << 23) + 0xfffu)), odd));
  // The unit of a subnormal result is the unit of floats at 1/2.
  const V small = hn::Sub(
      hn::BitCast(bits, hn::Add(hn::BitCast(d, magnitude), hn::Set(d, 0.5f))), set(126u << 23));
  h = hn::IfThenElse(below(magnitude, 113u << 23), small, h);
  const V beyond = hn::IfThenElse(below(magnitude, 0x7f800001u), set(0x7c00), set(0x7e00));
  h = hn::IfThenElse(below(magnitude, 143u << 23), h, beyond);
  return hn::Or(h, hn::ShiftRight<16>(hn::And(all, set(0x80000000u))));
}

// Rounds v to bfloat16, to nearest even, in the upper half of each lane. The lower half is
// undefined. A NaN must be quiet with zeros in its lower half, as NaNs converted from bfloat16
// are.
template <class D, class V = hn::Vec<hn::Rebind<std::uint32_t, D>>>
HWY_INLINE V RoundProductToBFloat16(D /* float */, hn::Vec<D> v) {
  const hn::Rebind<std::uint32_t, D> bits;
  const V all = hn::BitCast(bits, v);
#if HWY_TARGET == HWY_AVX3
  const V rounded = hn::Add(all, hn::Set(bits, 0x7fffu));  // a masked add follows
  return hn::IfThenElse(hn::TestBit(all, hn::Set(bits, 0x10000u)),
                        hn::Add(rounded, hn::Set(bits, 1u)), rounded);
#else
  const V odd = hn::And(hn::ShiftRight<16>(all), hn::Set(bits, 1u));
  return hn::Add(hn::Add(all, hn::Set(bits, 0x7fffu)), odd);
#endif
}

// Rounds any v, including NaN, to bfloat16, in the upper half of each lane.
template <class D, class V = hn::Vec<hn::Rebind<std::uint32_t, D>>>
HWY_INLINE V RoundToBFloat16(D d, hn::Vec<D> v) {
  const hn::Rebind<std::uint32_t, D> bits;
  const V quiet = hn::Or(hn::BitCast(bits, v), hn::Set(bits, 0x400000u));
  return hn::IfThenElse(hn::RebindMask(bits, hn::IsNaN(v)), quiet,
                        RoundProductToBFloat16(d, v));
}

// Loads Lanes(d) elements as accumulators. D is a tag of float or double.
template <class D, typename T>
HWY_INLINE hn::Vec<D> LoadElements([[maybe_unused]] D d, const T* from) {
  if constexpr (std::is_same_v<T, hn::TFromD<D>>) {
    return hn::LoadU(d, from);
  } else if constexpr (std::is_same_v<T, float>) {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, D>(), from));
#if GNOMON_CONVERTS_HALF
  } else if constexpr (std::is_same_v<T, Half>) {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<hwy::float16_t, D>(),
                                      reinterpret_cast<const hwy::float16_t*>(from)));
#endif
  } else {
    const hn::Rebind<std::uint32_t, D> wide;
    const auto bits =
        hn::PromoteTo(wide, hn::LoadU(hn::Rebind<std::uint16_t, D>(),
                                      reinterpret_cast<const std::uint16_t*>(from)));
    if constexpr (std::is_same_v<T, Half>)
      return FloatOfHalfBits(d, bits);
    else
      return hn::BitCast(d, hn::ShiftLeft<16>(bits));
  }
}

// Rounds once, to nearest even, and stores. Double accumulators are stored as double only.
template <class D, typename T>
HWY_INLINE void StoreElements(hn::Vec<D> v, D d, T* to) {
  if constexpr (std::is_same_v<T, hn::TFromD<D>>) {
    hn::StoreU(v, d, to);
#if GNOMON_CONVERTS_HALF
  } else if constexpr (std::is_same_v<T, Half>) {
    const hn::Rebind<hwy::float16_t, D> narrow;
    hn::StoreU(hn::DemoteTo(narrow, v), narrow, reinterpret_cast<hwy::float16_t*>(to));
#endif
  } else {
    const hn::Rebind<std::uint16_t, D> narrow;
    const hn::Rebind<std::int32_t, D> wide;
    const auto bits = [&] {
      if constexpr (std::is_same_v<T, Half>)
        return HalfBitsOfFloat(d, v);
      else
        return hn::ShiftRight<16>(RoundToBFloat16(d, v));
    }();
    hn::StoreU(hn::DemoteTo(narrow, hn::BitCast(wide, bits)), narrow,
               reinterpret_cast<std::uint16_t*>(to));
  }
}

// Calls body(d, i) for whole vectors of d, starting at element 0, then for single elements.
template <typename A, typename Body>
HWY_INLINE void ForVectors(std::int64_t size, const Body& body) {
  const hn::ScalableTag<A> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= size; i += lanes) body(d, i);
  for (; i < size; ++i) body(hn::CappedTag<A, 1>(), i);
}

template <typename A, typename T>
HWY_INLINE void FromElements(const T* HWY_RESTRICT from, std::int64_t size,
                             A* HWY_RESTRICT to) {
  ForVectors<A>(
      size, [&](auto d, std::int64_t i) { hn::StoreU(LoadElements(d, from + i), d, to + i); });
}

// Computes factor * from, rounded once, to nearest even.
template <typename A, typename T>
HWY_INLINE void ToElements(const A* HWY_RESTRICT from, A factor, std::int64_t size,
                           T* HWY_RESTRICT to) {
  ForVectors<A>(size, [&](auto d, std::int64_t i) {
    StoreElements(hn::Mul(hn::Set(d, factor), hn::LoadU(d, from + i)), d, to + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
