// Rows of elements to the type they are summed in, and back, for *_simd.cc files.
#if defined(GNOMON_CORE_ELEMENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_CORE_ELEMENTS_INL_H_
#undef GNOMON_CORE_ELEMENTS_INL_H_
#else
#define GNOMON_CORE_ELEMENTS_INL_H_
#endif

#include <bit>
#include <cstdint>
#include <type_traits>

#include "gnomon/dtype.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

template <typename A, typename T>
HWY_INLINE void FromElements(const T* HWY_RESTRICT from, std::int64_t size,
                             A* HWY_RESTRICT to) {
  namespace hn = hwy::HWY_NAMESPACE;
  std::int64_t d = 0;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  if constexpr (std::is_same_v<T, Half>) {
    const hn::ScalableTag<float> tag;
    const hn::Rebind<hwy::float16_t, decltype(tag)> narrow;
    const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(tag));
    const auto* halves = reinterpret_cast<const hwy::float16_t*>(from);
    for (; d + lanes <= size; d += lanes)
      hn::StoreU(hn::PromoteTo(tag, hn::LoadU(narrow, halves + d)), tag, to + d);
  }
#endif
  for (; d < size; ++d) to[d] = static_cast<A>(from[d]);
}

// factor * from, rounded once, to nearest even.
template <typename A, typename T>
HWY_INLINE void ToElements(const A* HWY_RESTRICT from, A factor, std::int64_t size,
                           T* HWY_RESTRICT to) {
  namespace hn = hwy::HWY_NAMESPACE;
  std::int64_t d = 0;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  if constexpr (std::is_same_v<T, Half>) {
    const hn::ScalableTag<float> tag;
    const hn::Rebind<hwy::float16_t, decltype(tag)> narrow;
    const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(tag));
    auto* halves = reinterpret_cast<hwy::float16_t*>(to);
    for (; d + lanes <= size; d += lanes)
      hn::StoreU(hn::DemoteTo(narrow, hn::Mul(hn::Set(tag, factor), hn::LoadU(tag, from + d))),
                 narrow, halves + d);
  }
#endif
  if constexpr (std::is_same_v<T, BFloat16>) {
    for (; d < size; ++d) {  // in integers, which compilers vectorise
      const auto bits = std::bit_cast<std::uint32_t>(factor * from[d]);
      const std::uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
      const std::uint32_t quiet = bits >> 16 | 0x40u;
      to[d].bits =
          static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
    }
  }
  for (; d < size; ++d) to[d] = static_cast<T>(factor * from[d]);
}

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
