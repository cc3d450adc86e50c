// Pairs of bfloat16 for pair_rotator-inl.h: two elements in 32 bits are loaded together and
// separated in the register.
//
// A block has two vectors with the first and the second elements of 2 Lanes(d) pairs. Half a
// block has the first elements of Lanes(d) pairs in the lower half of one vector, and their
// second elements in the upper half. It requires fewer instructions than a block, for pairs
// that fill half of it.
#if defined(GNOMON_ROTARY_BFLOAT16_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_ROTARY_BFLOAT16_PAIRS_INL_H_
#undef GNOMON_ROTARY_BFLOAT16_PAIRS_INL_H_
#else
#define GNOMON_ROTARY_BFLOAT16_PAIRS_INL_H_
#endif

#include <cstdint>

#include "gnomon/dtype.h"
#include "hwy/highway.h"
#include "src/core/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Whether vectors of Tag have half blocks. `reordered`: whether the factors are reordered.
template <bool reordered, class Tag>
inline constexpr bool has_half_blocks = reordered && hn::MaxLanes(Tag()) >= 4;

// Every lane contains two bfloat16; the even one is the lower half.
template <class Tag>
HWY_INLINE void SeparatePairs(Tag d, hn::Vec<Tag> both, hn::Vec<Tag>& even, hn::Vec<Tag>& odd) {
  const hn::RebindToUnsigned<Tag> bits;
  const auto all = hn::BitCast(bits, both);
  even = hn::BitCast(d, hn::ShiftLeft<16>(all));
  odd = hn::BitCast(d, hn::And(all, hn::Set(bits, 0xffff0000u)));
}

// Rounds even and odd elements to bfloat16, in the order of memory.
template <class Tag, class Narrow = hn::Repartition<std::uint16_t, Tag>>
HWY_INLINE hn::Vec<Narrow> JoinPairs(Tag d, hn::Vec<Tag> even, hn::Vec<Tag> odd) {
  const hn::RebindToUnsigned<Tag> bits;
  return hn::BitCast(Narrow(),
                     hn::OrAnd(hn::ShiftRight<16>(RoundProductToBFloat16(d, even)),
                               RoundProductToBFloat16(d, odd), hn::Set(bits, 0xffff0000u)));
}

template <class Tag>
HWY_INLINE void StorePairs(Tag d, hn::Vec<Tag> even, hn::Vec<Tag> odd, BFloat16* to) {
  const hn::Repartition<std::uint16_t, Tag> narrow;
  hn::StoreU(JoinPairs(d, even, odd), narrow, reinterpret_cast<std::uint16_t*>(to));
}

#if HWY_TARGET != HWY_SCALAR
// The second element of a pair is `half` elements after the first.
template <class Tag>
HWY_INLINE hn::Vec<Tag> LoadHalfBlock(Tag d, const BFloat16* x, std::int64_t half) {
  const hn::Repartition<std::uint16_t, Tag> narrow;
  const hn::Half<decltype(narrow)> h;
  return hn::BitCast(
      d, hn::Combine(narrow, hn::LoadU(h, reinterpret_cast<const std::uint16_t*>(x + half)),
                     hn::LoadU(h, reinterpret_cast<const std::uint16_t*>(x))));
}

// Rotates half a block by the factors of ReorderHalfBlock, and writes it.
template <class Tag>
HWY_INLINE void RotateHalfBlock(Tag d, hn::Vec<Tag> x, BFloat16* to, std::int64_t half,
                                const float* HWY_RESTRICT cos, const float* HWY_RESTRICT sin) {
  const hn::Repartition<std::uint16_t, Tag> narrow;
  const hn::Half<decltype(narrow)> h;
  hn::Vec<Tag> even, odd;
  SeparatePairs(d, x, even, odd);
  even = hn::MulAdd(hn::ConcatLowerUpper(d, even, even), hn::LoadU(d, sin),
                    hn::Mul(even, hn::LoadU(d, cos)));
  odd = hn::MulAdd(hn::ConcatLowerUpper(d, odd, odd), hn::LoadU(d, sin + hn::MaxLanes(d)),
                   hn::Mul(odd, hn::LoadU(d, cos + hn::MaxLanes(d))));
  const auto rotated = JoinPairs(d, even, odd);
  hn::StoreU(hn::LowerHalf(h, rotated), h, reinterpret_cast<std::uint16_t*>(to));
  hn::StoreU(hn::UpperHalf(h, rotated), h, reinterpret_cast<std::uint16_t*>(to + half));
}
#endif

// Writes the factors of half a block of Tag: two vectors of cosines, of even and of odd pairs,
// each twice, and two of sines, of which the first half is negated.
template <class Tag>
HWY_INLINE void ReorderHalfBlock(const float* HWY_RESTRICT cos, const float* HWY_RESTRICT sin,
                                 float sign, float* HWY_RESTRICT to_cos,
                                 float* HWY_RESTRICT to_sin) {
  constexpr std::int64_t size = static_cast<std::int64_t>(hn::MaxLanes(Tag()));
  for (std::int64_t i = 0; i < size; ++i) {
    float* const c = to_cos + i / 2 + i % 2 * size;
    float* const s = to_sin + i / 2 + i % 2 * size;
    c[0] = c[size / 2] = cos[i];
    s[size / 2] = sign * sin[i];
    s[0] = -s[size / 2];
  }
}

// Writes the factors of all blocks: of even pairs, then of odd pairs. The pairs that do not
// fill a block are in a block, or half a block, that ends with the last pair. Fewer pairs than
// a block of Tag are in two half blocks of the widest vectors that they fill, or in one block.
template <class Tag>
HWY_INLINE void ReorderFactors(const float* HWY_RESTRICT cos, const float* HWY_RESTRICT sin,
                               float sign, std::int64_t pairs, float* HWY_RESTRICT to_cos,
                               float* HWY_RESTRICT to_sin) {
  constexpr Tag d;
  constexpr std::int64_t size = static_cast<std::int64_t>(hn::MaxLanes(d));
  constexpr bool half_blocks = has_half_blocks<true, Tag>;
  if (pairs < 2 * size) {
    if (half_blocks && pairs > size) {
      ReorderHalfBlock<Tag>(cos, sin, sign, to_cos, to_sin);
      return ReorderHalfBlock<Tag>(cos + pairs - size, sin + pairs - size, sign,
                                   to_cos + 2 * size, to_sin + 2 * size);
    }
    if constexpr (size > 1)
      return ReorderFactors<hn::Half<Tag>>(cos, sin, sign, pairs, to_cos, to_sin);
    if (pairs == 1) {
      to_cos[0] = cos[0];
      to_sin[0] = sign * sin[0];
    }
    return;
  }
  const auto factor = hn::Set(d, sign);
  for (std::int64_t to = 0; to < pairs; to += 2 * size) {
    if (half_blocks && pairs - to <= size)
      return ReorderHalfBlock<Tag>(cos + pairs - size, sin + pairs - size, sign, to_cos + to,
                                   to_sin + to);
    const std::int64_t i = HWY_MIN(to, pairs - 2 * size);
    hn::Vec<Tag> even, odd;
    hn::LoadInterleaved2(d, cos + i, even, odd);
    hn::StoreU(even, d, to_cos + to);
    hn::StoreU(odd, d, to_cos + to + size);
    hn::LoadInterleaved2(d, sin + i, even, odd);
    hn::StoreU(hn::Mul(factor, even), d, to_sin + to);
    hn::StoreU(hn::Mul(factor, odd), d, to_sin + to + size);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
