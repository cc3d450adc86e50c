// Rotation of pairs within *_simd.cc files: rotary and the tiles of attention.
#if defined(GNOMON_ROTARY_PAIR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_ROTARY_PAIR_INL_H_
#undef GNOMON_ROTARY_PAIR_INL_H_
#else
#define GNOMON_ROTARY_PAIR_INL_H_
#endif

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "gnomon/rotary/rotary.h"
#include "hwy/highway.h"
#include "src/core/elements-inl.h"
#include "src/rotary/rotate.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Fused multiply-adds are explicit, so the result of a pair has the same bits in every lane of
// a vector and in every file that rotates pairs.
template <class V>
HWY_INLINE void RotateVectors(V a, V b, V cos, V sin, V& rotated_a, V& rotated_b) {
  rotated_a = hn::NegMulAdd(b, sin, hn::Mul(a, cos));
  rotated_b = hn::MulAdd(a, sin, hn::Mul(b, cos));
}

template <typename T, typename U>
HWY_INLINE void CopyElements(const T* HWY_RESTRICT from, std::int64_t size,
                             U* HWY_RESTRICT to) {
  if (size == 0) return;
  if constexpr (std::is_same_v<T, U>)
    std::memcpy(to, from, static_cast<std::size_t>(size) * sizeof(T));  // keeps signalling NaNs
  else if constexpr (std::is_same_v<U, Accumulator<T>>)
    FromElements(from, size, to);
  else
    ToElements(from, T(1), size, to);
}

// Rotates pairs with either pairing. If begin = 0, also copies the elements before and after
// the pairs. Defined for the types of rotate_kernel().
template <typename T, typename U>
void RotateHeads(const Heads<T, U>& heads, const CosSinRows& factors, Pairing pairing,
                 std::int64_t begin, std::int64_t end, std::int64_t tokens);

// Rotates all pairs of one head in place. x points to the first rotated element.
template <typename A>
HWY_INLINE void RotatePairs(A* x, const float* HWY_RESTRICT cos, const float* HWY_RESTRICT sin,
                            A sign, Pairing pairing, std::int64_t pairs) {
  const Heads<A, A> one{.from = x, .to = x, .count = 1, .pairs = pairs};
  RotateHeads(one, {cos, sin, 0, static_cast<float>(sign)}, pairing, 0, pairs, 1);
}

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
