// Rotation of heads by given cosines and sines, for rotate_*_simd.cc. Other files include
// pair-inl.h, which compiles in much less time.
//
// The factors (cosines and sines) of a token are stored in the order of the vectors of a head.
// For `adjacent` this is [c0 c0 c1 c1 ...] and [-s0 s0 -s1 s1 ...], so that one shuffle of x is
// enough. Two bfloat16 in 32 bits are separated by a shift, so for bfloat16 the factors of even
// pairs come before those of odd pairs. The factors are reordered once for all heads and stay
// in registers as far as they fit.
#if defined(GNOMON_ROTARY_ROTATE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_ROTARY_ROTATE_INL_H_
#undef GNOMON_ROTARY_ROTATE_INL_H_
#else
#define GNOMON_ROTARY_ROTATE_INL_H_
#endif

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "gnomon/dtype.h"
#include "gnomon/rotary/rotary.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "src/core/elements-inl.h"
#include "src/rotary/pair-inl.h"
#include "src/rotary/rotate.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Heads with a constant step.
template <typename T, typename U>
struct HeadRows {
  const T* from;
  U* to;
  std::int64_t from_step, to_step;
  std::int64_t count;
  const T* next;  // the head that is read after the last one, for prefetching
  U* next_to;     // the head that is written after the last one

  // Prefetch distance, in heads.
  std::int64_t early() const {
    const std::int64_t bytes = from_step * static_cast<std::int64_t>(sizeof(T));
    return bytes <= 0 ? 1 : (prefetch_bytes + bytes - 1) / bytes;
  }
  // Addresses that are read and written `early` heads after head h.
  const T* ahead(std::int64_t h, std::int64_t early) const {
    const std::int64_t then = h + early;
    return then < count ? from + then * from_step : next + (then - count) * from_step;
  }
  U* ahead_to(std::int64_t h, std::int64_t early) const {
    const std::int64_t then = h + early;
    return then < count ? to + then * to_step : next_to + (then - count) * to_step;
  }
  bool in_place() const { return static_cast<const void*>(from) == to; }
};

// Rotates the pairs of heads with elements T and writes elements U.
template <Pairing pairing, typename T, typename U>
class PairRotator {
 public:
  using A = Accumulator<T>;

  static constexpr std::int64_t chunk = 256;  // pairs at a time
  // Distance between pairs.
  static constexpr std::int64_t stride = pairing == Pairing::halves ? 1 : 2;
  // Number of cosines (and of sines) for `pairs` pairs.
  static constexpr std::int64_t Factors(std::int64_t pairs) { return spread * pairs; }

  // Writes the factors of `pairs` pairs in the order of the vectors.
  static HWY_INLINE void Prepare(const float* HWY_RESTRICT cos, const float* HWY_RESTRICT sin,
                                 A sign, std::int64_t pairs, A* HWY_RESTRICT to_cos,
                                 A* HWY_RESTRICT to_sin) {
    constexpr D d;
    const V factor = hn::Set(d, sign);
    std::int64_t i = 0;
    if constexpr (!halves && !split) {
      for (; i + lanes <= pairs; i += lanes) {
        const V c = LoadElements(d, cos + i), s = hn::Mul(factor, LoadElements(d, sin + i));
        hn::StoreInterleaved2(c, c, d, to_cos + 2 * i);
        hn::StoreInterleaved2(hn::Neg(s), s, d, to_sin + 2 * i);
      }
      for (; i < pairs; ++i) {
        to_cos[2 * i] = to_cos[2 * i + 1] = static_cast<A>(cos[i]);
        to_sin[2 * i + 1] = sign * static_cast<A>(sin[i]);
        to_sin[2 * i] = -to_sin[2 * i + 1];
      }
      return;
    }
    if constexpr (halves && split) {
      for (; i + block <= pairs; i += block) {
        V even, odd;
        hn::LoadInterleaved2(d, cos + i, even, odd);
        hn::StoreU(even, d, to_cos + i);
        hn::StoreU(odd, d, to_cos + i + lanes);
        hn::LoadInterleaved2(d, sin + i, even, odd);
        hn::StoreU(hn::Mul(factor, even), d, to_sin + i);
        hn::StoreU(hn::Mul(factor, odd), d, to_sin + i + lanes);
      }
      for (std::int64_t size = lanes / 2; size > 0; size /= 2)  // same order as in Tail
        if (i + 2 * size <= pairs) {
          for (std::int64_t j = 0; j < 2 * size; ++j) {
            const std::int64_t at = i + (j % 2 ? size : 0) + j / 2;
            to_cos[at] = cos[i + j];
            to_sin[at] = sign * sin[i + j];
          }
          i += 2 * size;
        }
    }
    for (; i + lanes <= pairs; i += lanes) {
      hn::StoreU(LoadElements(d, cos + i), d, to_cos + i);
      hn::StoreU(hn::Mul(factor, LoadElements(d, sin + i)), d, to_sin + i);
    }
    for (; i < pairs; ++i) {
      to_cos[i] = static_cast<A>(cos[i]);
      to_sin[i] = sign * static_cast<A>(sin[i]);
    }
  }

  // Rotates pairs [begin, pairs) of one head by prepared factors. The second element of a pair
  // is `half` elements after the first. In place, or without overlap.
  static HWY_INLINE void Head(const T* x, U* to, std::int64_t half, const A* HWY_RESTRICT cos,
                              const A* HWY_RESTRICT sin, std::int64_t begin,
                              std::int64_t pairs) {
    std::int64_t i = begin;
    for (; i + block <= pairs; i += block)
      RotatePairs<split>(D(), x + stride * i, to + stride * i, half,
                         LoadFactors<split>(D(), cos + spread * i),
                         LoadFactors<split>(D(), sin + spread * i));
    if constexpr (lanes > least) Tail<hn::Half<D>>(x, to, half, cos, sin, i, pairs);
  }

  // Rotates several heads by the same factors.
  static HWY_INLINE void Rows(const HeadRows<T, U>& rows, std::int64_t half,
                              const A* HWY_RESTRICT cos, const A* HWY_RESTRICT sin,
                              std::int64_t pairs) {
    RowsOf<most_unrolled, true>(rows, half, cos, sin, 0, pairs);
  }
  // Rotates several heads; the factors of two heads are factor_step apart.
  static HWY_INLINE void RowsApart(const HeadRows<T, U>& rows, std::int64_t half,
                                   const A* HWY_RESTRICT cos, const A* HWY_RESTRICT sin,
                                   std::int64_t factor_step, std::int64_t pairs) {
    RowsOf<most_unrolled, false>(rows, half, cos, sin, factor_step, pairs);
  }

 private:
  using D = hn::ScalableTag<A>;
  using V = hn::Vec<D>;
  static constexpr std::int64_t lanes = static_cast<std::int64_t>(hn::MaxLanes(D()));
  // Whether the two elements of a pair are loaded into two vectors. Always true for one lane.
  static constexpr bool halves = pairing == Pairing::halves || lanes == 1;
  // Whether two elements are loaded as 32 bits and separated in the register.
  static constexpr bool split =
      std::is_same_v<T, BFloat16> && std::is_same_v<U, BFloat16> && lanes > 1;
  static constexpr std::int64_t least = halves || split ? 1 : 2;   // lanes per pair
  static constexpr std::int64_t spread = halves || split ? 1 : 2;  // cosines per pair
  static constexpr int vectors = halves && split ? 2 : 1;          // cosine vectors per block
  static constexpr std::int64_t block = lanes * vectors / spread;  // pairs
  // Maximum number of unrolled blocks of a head: as many as fit into registers. 0 for one lane,
  // and for 16-bit to float (used by 8-bit keys).
  static constexpr int most_unrolled = lanes == 1 || (sizeof(T) < sizeof(U)) ? 0
                                       : lanes * sizeof(A) >= 32             ? 8 / vectors
                                                                             : 4 / vectors;

  // User-provided constructors, since implicit ones are not compiled for the target instruction
  // set.
  template <class Tag, int count>
  struct FactorVectors {
    hn::Vec<Tag> at[static_cast<std::size_t>(count)];

    HWY_INLINE FactorVectors() {}
    HWY_INLINE explicit FactorVectors(hn::Vec<Tag> one) : at{one} {}
    HWY_INLINE FactorVectors(hn::Vec<Tag> one, hn::Vec<Tag> two) : at{one, two} {}
  };

  template <bool apart, class Tag>
  static HWY_INLINE auto LoadFactors(Tag d, const A* HWY_RESTRICT from) {
    if constexpr (apart && halves)
      return FactorVectors<Tag, 2>(hn::LoadU(d, from), hn::LoadU(d, from + hn::MaxLanes(d)));
    else
      return FactorVectors<Tag, 1>(hn::LoadU(d, from));
  }

  template <class Tag, int count>
  static HWY_INLINE void RotateOne(Tag d, const T* x, U* to, std::int64_t half,
                                   const FactorVectors<Tag, count>& cos,
                                   const FactorVectors<Tag, count>& sin) {
    const auto a = LoadElements(d, x);
    if constexpr (halves) {
      hn::Vec<Tag> rotated_a, rotated_b;
      RotateVectors(a, LoadElements(d, x + half), cos.at[0], sin.at[0], rotated_a, rotated_b);
      StoreElements(rotated_a, d, to);
      StoreElements(rotated_b, d, to + half);
    } else {
      StoreElements(hn::MulAdd(hn::Reverse2(d, a), sin.at[0], hn::Mul(a, cos.at[0])), d, to);
    }
  }

  // Every lane contains two bfloat16; the even one is the lower half.
  template <class Tag>
  static HWY_INLINE void LoadApart(Tag d, const T* x, hn::Vec<Tag>& even, hn::Vec<Tag>& odd) {
    const hn::RebindToUnsigned<Tag> bits;
    const hn::Repartition<std::uint16_t, Tag> narrow;
    const auto both =
        hn::BitCast(bits, hn::LoadU(narrow, reinterpret_cast<const std::uint16_t*>(x)));
    even = hn::BitCast(d, hn::ShiftLeft<16>(both));
    odd = hn::BitCast(d, hn::And(both, hn::Set(bits, 0xffff0000u)));
  }
  template <class Tag>
  static HWY_INLINE void StoreTogether(hn::Vec<Tag> even, hn::Vec<Tag> odd, Tag d, U* to) {
    const hn::RebindToUnsigned<Tag> bits;
    const hn::Repartition<std::uint16_t, Tag> narrow;
    const auto both = hn::OrAnd(hn::ShiftRight<16>(RoundProductToBFloat16(d, even)),
                                RoundProductToBFloat16(d, odd), hn::Set(bits, 0xffff0000u));
    hn::StoreU(hn::BitCast(narrow, both), narrow, reinterpret_cast<std::uint16_t*>(to));
  }

  template <class Tag, int count>
  static HWY_INLINE void RotateApart(Tag d, const T* x, U* to, std::int64_t half,
                                     const FactorVectors<Tag, count>& cos,
                                     const FactorVectors<Tag, count>& sin) {
    hn::Vec<Tag> even, odd;
    LoadApart(d, x, even, odd);
    if constexpr (halves) {
      hn::Vec<Tag> even_b, odd_b;
      LoadApart(d, x + half, even_b, odd_b);
      RotateVectors(even, even_b, cos.at[0], sin.at[0], even, even_b);
      RotateVectors(odd, odd_b, cos.at[1], sin.at[1], odd, odd_b);
      StoreTogether(even, odd, d, to);
      StoreTogether(even_b, odd_b, d, to + half);
    } else {
      RotateVectors(even, odd, cos.at[0], sin.at[0], even, odd);
      StoreTogether(even, odd, d, to);
    }
  }

  template <bool apart, class Tag, int count>
  static HWY_INLINE void RotatePairs(Tag d, const T* x, U* to, std::int64_t half,
                                     const FactorVectors<Tag, count>& cos,
                                     const FactorVectors<Tag, count>& sin) {
    if constexpr (apart)
      RotateApart(d, x, to, half, cos, sin);
    else
      RotateOne(d, x, to, half, cos, sin);
  }

  // Rotates the pairs that do not fill a block, with vectors of 1/2, 1/4, ... of the lanes.
  template <class Tag>
  static HWY_INLINE void Tail(const T* x, U* to, std::int64_t half, const A* HWY_RESTRICT cos,
                              const A* HWY_RESTRICT sin, std::int64_t i, std::int64_t pairs) {
    constexpr Tag d;
    constexpr auto size = static_cast<std::int64_t>(hn::MaxLanes(d));
    if (i == pairs) return;
    if (i + size * vectors / spread <= pairs) {
      RotatePairs<split>(d, x + stride * i, to + stride * i, half,
                         LoadFactors<split>(d, cos + spread * i),
                         LoadFactors<split>(d, sin + spread * i));
      i += size * vectors / spread;
    }
    if constexpr (size > least)
      Tail<hn::Half<Tag>>(x, to, half, cos, sin, i, pairs);
    else if constexpr (split && halves)
      if (i < pairs) {  // odd number of pairs
        constexpr hn::CappedTag<A, 1> one;
        RotatePairs<false>(one, x + i, to + i, half, LoadFactors<false>(one, cos + i),
                           LoadFactors<false>(one, sin + i));
      }
  }

  template <typename X>
  static HWY_INLINE void Prefetch(const X* x, std::int64_t elements) {
    constexpr std::int64_t line = 64 / sizeof(X);
    for (std::int64_t at = 0; at < elements; at += line) hwy::Prefetch(x + at);
  }

  // Rotates rows with at most `blocks` whole blocks per row (`blocks` = 0: any number). Whole
  // blocks are unrolled. Factors that all rows share stay in registers.
  template <int blocks, bool shared>
  static HWY_INLINE void RowsOf(const HeadRows<T, U>& rows, std::int64_t half,
                                const A* HWY_RESTRICT cos, const A* HWY_RESTRICT sin,
                                std::int64_t factor_step, std::int64_t pairs) {
    [[maybe_unused]] const std::int64_t early = rows.early();
    [[maybe_unused]] const bool in_place = rows.in_place();
    if constexpr (blocks == 0) {
      for (std::int64_t h = 0; h < rows.count; ++h) {
        Prefetch(rows.ahead(h, early), 2 * pairs);
        if (!in_place) Prefetch(rows.ahead_to(h, early), 2 * pairs);
        Head(rows.from + h * rows.from_step, rows.to + h * rows.to_step, half,
             cos + h * factor_step, sin + h * factor_step, 0, pairs);
      }
    } else if (pairs / block != blocks) {
      RowsOf<blocks - 1, shared>(rows, half, cos, sin, factor_step, pairs);
    } else {
      const auto each = [](const auto& body) HWY_ATTR __attribute__((always_inline)) {
        [&]<int... n>(std::integer_sequence<int, n...>) HWY_ATTR
            __attribute__((always_inline)) {
              (body(std::integral_constant<int, n>()), ...);
            }(std::make_integer_sequence<int, blocks>());
      };
      FactorVectors<D, vectors> c[blocks], s[blocks];
      const auto load = [&](std::int64_t at) HWY_ATTR __attribute__((always_inline)) {
        each([&](auto n) HWY_ATTR __attribute__((always_inline)) {
          c[n] = LoadFactors<split>(D(), cos + at + spread * block * n);
          s[n] = LoadFactors<split>(D(), sin + at + spread * block * n);
        });
      };
      if constexpr (shared) load(0);
      for (std::int64_t h = 0; h < rows.count; ++h) {
        if constexpr (!shared) load(h * factor_step);
        const T* const x = rows.from + h * rows.from_step;
        U* const to = rows.to + h * rows.to_step;
        const T* const ahead = rows.ahead(h, early);
        if (!in_place) Prefetch(rows.ahead_to(h, early), 2 * pairs);
        each([&](auto n) HWY_ATTR __attribute__((always_inline)) {
          constexpr std::int64_t at = stride * block * n, line = 64 / sizeof(T);
          if constexpr (pairing == Pairing::halves) {
            hwy::Prefetch(ahead + 2 * at);
            if constexpr (at % line == 0) hwy::Prefetch(ahead + 2 * at + line);
          } else if constexpr (at % line == 0) {
            hwy::Prefetch(ahead + at);
          }
          RotatePairs<split>(D(), x + at, to + at, half, c[n], s[n]);
        });
        Head(x, to, half, cos + h * factor_step, sin + h * factor_step, blocks * block, pairs);
      }
    }
  }
};

// Rotates pairs [begin, end) of all heads of `tokens` tokens. Factors start at pair `begin`.
template <Pairing pairing, typename T, typename U>
void RotateTokens(const Heads<T, U>& heads, const CosSinRows& factors, std::int64_t begin,
                  std::int64_t end, std::int64_t tokens) {
  using Rotator = PairRotator<pairing, T, U>;
  using A = typename Rotator::A;
  constexpr std::int64_t buffer_elements =
      2048;  // cosines, and sines; together 16 KB of L1 with 4 bytes
  HWY_ALIGN A cos[buffer_elements], sin[buffer_elements];
  constexpr std::int64_t stride = Rotator::stride;
  const std::int64_t half = pairing == Pairing::halves ? heads.pairs : 1;
  // If the tokens of a head are consecutive in memory, they are processed in blocks, so that
  // both the heads and the factors of a block are read in long runs.
  const bool by_head = tokens > 1 && heads.by_head();
  for (std::int64_t first = begin; first < end; first += Rotator::chunk) {
    const std::int64_t pairs = HWY_MIN(Rotator::chunk, end - first);
    const std::int64_t each = factors.token == 0 ? 0 : Rotator::Factors(pairs);
    const std::int64_t block = !by_head ? 1 : each == 0 ? tokens : buffer_elements / each;
    const auto prepare = [&](std::int64_t t, std::int64_t slot) HWY_ATTR {
      const std::int64_t at = t * factors.token + first - begin;
      if (t + 2 < tokens)  // the factors of a token are needed before its first head
        for (std::int64_t i = at + 2 * factors.token; i < at + 2 * factors.token + pairs;
             i += 16) {
          hwy::Prefetch(factors.cos + i);
          hwy::Prefetch(factors.sin + i);
        }
      Rotator::Prepare(factors.cos + at, factors.sin + at, static_cast<A>(factors.sign), pairs,
                       cos + slot * each, sin + slot * each);
    };
    if (each == 0) prepare(0, 0);
    for (std::int64_t t = 0; t < tokens; t += block) {
      const std::int64_t count = HWY_MIN(block, tokens - t);
      for (std::int64_t i = 0; each != 0 && i < count; ++i) prepare(t + i, i);
      const T* const from = heads.from + t * heads.from_token + stride * first;
      U* const to = heads.to + t * heads.to_token + stride * first;
      if (!by_head) {
        Rotator::Rows({.from = from,
                       .to = to,
                       .from_step = heads.from_head,
                       .to_step = heads.to_head,
                       .count = heads.count,
                       .next = from + heads.from_token,
                       .next_to = to + heads.to_token},
                      half, cos, sin, pairs);
        continue;
      }
      for (std::int64_t h = 0; h < heads.count; ++h)
        Rotator::RowsApart({.from = from + h * heads.from_head,
                            .to = to + h * heads.to_head,
                            .from_step = heads.from_token,
                            .to_step = heads.to_token,
                            .count = count,
                            .next = from + (h + 1) * heads.from_head,
                            .next_to = to + (h + 1) * heads.to_head},
                           half, cos, sin, each, pairs);
    }
  }
}

template <typename T, typename U>
void RotateHeads(const Heads<T, U>& heads, const CosSinRows& factors, Pairing pairing,
                 std::int64_t begin, std::int64_t end, std::int64_t tokens) {
  if (heads.count == 0) return;
  if (pairing == Pairing::halves)
    RotateTokens<Pairing::halves>(heads, factors, begin, end, tokens);
  else
    RotateTokens<Pairing::adjacent>(heads, factors, begin, end, tokens);
  if (begin != 0 || heads.before + heads.after == 0) return;
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t h = 0; h < heads.count; ++h) {
      const T* const x = heads.from + t * heads.from_token + h * heads.from_head;
      U* const to = heads.to + t * heads.to_token + h * heads.to_head;
      CopyElements(x - heads.before, heads.before, to - heads.before);
      CopyElements(x + 2 * heads.pairs, heads.after, to + 2 * heads.pairs);
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

// The kernel of each instruction set, Rotate##Name, from elements T to elements U.
#undef GNOMON_ROTATE
#define GNOMON_ROTATE(T, U, Name)                                                         \
  template void RotateHeads(const Heads<T, U>&, const CosSinRows&, Pairing, std::int64_t, \
                            std::int64_t, std::int64_t);                                  \
  void Rotate##Name(const Heads<T, U>& heads, const CosSinRows& factors, Pairing pairing, \
                    std::int64_t begin, std::int64_t end, std::int64_t tokens) {          \
    RotateHeads(heads, factors, pairing, begin, end, tokens);                             \
  }
// The kernel that is chosen for this machine.
#undef GNOMON_ROTATE_KERNEL
#define GNOMON_ROTATE_KERNEL(T, U, Name)  \
  HWY_EXPORT(Rotate##Name);               \
  template <>                             \
  RotateKernel<T, U> rotate_kernel() {    \
    return GNOMON_DISPATCH(Rotate##Name); \
  }

#endif
