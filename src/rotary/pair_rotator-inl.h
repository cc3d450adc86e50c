// The rotation of the pairs of heads: one pairing, one type in and one out.
#if defined(GNOMON_ROTARY_PAIR_ROTATOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_ROTARY_PAIR_ROTATOR_INL_H_
#undef GNOMON_ROTARY_PAIR_ROTATOR_INL_H_
#else
#define GNOMON_ROTARY_PAIR_ROTATOR_INL_H_
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
#include "src/rotary/bfloat16_pairs-inl.h"
#include "src/rotary/pair-inl.h"
#include "src/rotary/rotate.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Addresses a fixed number of heads ahead, for prefetching: of head 0, and of head `wrap`, with
// which the next run of heads begins.
template <typename X>
struct Ahead {
  const X *first, *wrapped;
  std::int64_t wrap;
};

// Distance of prefetches: whole runs, then heads.
struct Lead {
  std::int64_t runs = 0, heads = 0;

  // `most`: maximum number of runs. Beyond it, the run after `most` runs is loaded.
  HWY_INLINE static Lead Of(std::int64_t bytes, std::int64_t head_bytes, std::int64_t count,
                            std::int64_t most) {
    if (head_bytes <= 0) return {};
    const std::int64_t heads = (bytes + head_bytes - 1) / head_bytes;
    if (heads < count) return {0, heads};
    const std::int64_t runs = heads / count;
    return runs < most ? Lead{runs, heads - runs * count} : Lead{most, 0};
  }
  template <typename X>
  HWY_INLINE Ahead<X> From(const X* begin, std::int64_t step, std::int64_t count,
                           std::int64_t run) const {
    const X* const first = begin + runs * run;
    return {first + heads * step, first + run, HWY_MAX(count - heads, 0)};
  }
};

// Heads with a constant step.
template <typename T, typename U>
struct HeadRows {
  const T* from;
  U* to;
  std::int64_t from_step, to_step;
  std::int64_t count;
  Ahead<T> ahead;     // the heads that are read later
  Ahead<U> ahead_to;  // the heads that are written later
  bool apart;         // whether the heads that are written are prefetched, too
};

// Rotates the pairs of heads with elements T and writes elements U.
template <Pairing pairing, typename T, typename U>
class PairRotator {
 public:
  using A = Accumulator<T>;

  static constexpr std::int64_t chunk = 256;  // pairs at a time
  // Distance between pairs.
  static constexpr std::int64_t stride = pairing == Pairing::halves ? 1 : 2;
  // Prefetch distances. The instructions for bfloat16 are many for each byte.
  static constexpr bool far = std::is_same_v<T, BFloat16>;
  static constexpr std::int64_t lead = far ? far_prefetch_bytes : prefetch_bytes;
  static constexpr std::int64_t lead_by_head = HWY_MIN(lead, far_prefetch_bytes / 2);
  // Whether cosines and sines are used as they are in the table, if the sign is 1.
  static constexpr bool HasTableOrder() { return halves && !split && std::is_same_v<A, float>; }
  // Maximum number of cosines (and of sines) that Prepare writes for `pairs` pairs.
  static constexpr std::int64_t Factors(std::int64_t pairs) {
    if (!reordered) return spread * pairs;
    return pairs < block ? 2 * block : (pairs + block - 1) / block * block;
  }

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
    if constexpr (reordered) return ReorderFactors<D>(cos, sin, sign, pairs, to_cos, to_sin);
    for (; i + lanes <= pairs; i += lanes) {
      hn::StoreU(LoadElements(d, cos + i), d, to_cos + i);
      hn::StoreU(hn::Mul(factor, LoadElements(d, sin + i)), d, to_sin + i);
    }
    for (; i < pairs; ++i) {
      to_cos[i] = static_cast<A>(cos[i]);
      to_sin[i] = sign * static_cast<A>(sin[i]);
    }
  }

  // Rotates the pairs of one head by prepared factors. The second element of a pair is `half`
  // elements after the first. In place, or without overlap.
  static HWY_INLINE void Head(const T* x, U* to, std::int64_t half, const A* HWY_RESTRICT cos,
                              const A* HWY_RESTRICT sin, std::int64_t pairs) {
    if (pairs < block) {
      if constexpr (has_half_blocks<reordered, D>)
        Short<D>(x, to, half, cos, sin, pairs);
      else if constexpr (lanes > least)
        Short<hn::Half<D>>(x, to, half, cos, sin, pairs);
      return;
    }
    std::int64_t i = 0;
    for (; i + 2 * block <= pairs; i += block)
      RotatePairs<split>(D(), x + stride * i, to + stride * i, half,
                         LoadFactors<split>(D(), cos + spread * i),
                         LoadFactors<split>(D(), sin + spread * i));
    RotateLast<D>(x, to, half, cos, sin, i, pairs, LoadFactors<split>(D(), cos + spread * i),
                  LoadFactors<split>(D(), sin + spread * i));
  }

  // Rotates several heads, by the same factors if `shared`. Otherwise, the factors of two heads
  // are factor_step apart.
  template <bool shared>
  static HWY_INLINE void Rows(const HeadRows<T, U>& rows, std::int64_t half,
                              const A* HWY_RESTRICT cos, const A* HWY_RESTRICT sin,
                              std::int64_t factor_step, std::int64_t pairs) {
    RowsOf<most_unrolled, shared>(rows, half, cos, sin, factor_step, pairs);
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
  // Whether the factors of even pairs come before those of odd pairs, block by block
  // (ReorderFactors).
  static constexpr bool reordered = halves && split;
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

  // The elements of a block, as they are in memory for `apart`.
  template <class Tag>
  struct Elements {
    hn::Vec<Tag> a, b;

    HWY_INLINE Elements() {}
  };

  template <bool apart, class Tag>
  static HWY_INLINE Elements<Tag> LoadBlock(Tag d, const T* x, std::int64_t half) {
    Elements<Tag> loaded;
    const auto load = [&](const T* from) HWY_ATTR __attribute__((always_inline)) {
      if constexpr (apart) {
        const hn::Repartition<std::uint16_t, Tag> narrow;
        return hn::BitCast(d, hn::LoadU(narrow, reinterpret_cast<const std::uint16_t*>(from)));
      } else {
        return LoadElements(d, from);
      }
    };
    loaded.a = load(x);
    if constexpr (halves) loaded.b = load(x + half);
    return loaded;
  }

  // Rotates the elements of a block and writes them.
  template <bool apart, class Tag, int count>
  static HWY_INLINE void RotateBlock(Tag d, const Elements<Tag>& x, U* to, std::int64_t half,
                                     const FactorVectors<Tag, count>& cos,
                                     const FactorVectors<Tag, count>& sin) {
    hn::Vec<Tag> a = x.a, b;
    if constexpr (apart && halves) {
      hn::Vec<Tag> even, odd, even_b, odd_b;
      SeparatePairs(d, x.a, even, odd);
      SeparatePairs(d, x.b, even_b, odd_b);
      RotateVectors(even, even_b, cos.at[0], sin.at[0], even, even_b);
      RotateVectors(odd, odd_b, cos.at[1], sin.at[1], odd, odd_b);
      StorePairs(d, even, odd, to);
      StorePairs(d, even_b, odd_b, to + half);
    } else if constexpr (apart) {
      hn::Vec<Tag> even, odd;
      SeparatePairs(d, x.a, even, odd);
      RotateVectors(even, odd, cos.at[0], sin.at[0], even, odd);
      StorePairs(d, even, odd, to);
    } else if constexpr (halves) {
      RotateVectors(x.a, x.b, cos.at[0], sin.at[0], a, b);
      StoreElements(a, d, to);
      StoreElements(b, d, to + half);
    } else {
      StoreElements(hn::MulAdd(hn::Reverse2(d, a), sin.at[0], hn::Mul(a, cos.at[0])), d, to);
    }
  }

  template <bool apart, class Tag, int count>
  static HWY_INLINE void RotatePairs(Tag d, const T* x, U* to, std::int64_t half,
                                     const FactorVectors<Tag, count>& cos,
                                     const FactorVectors<Tag, count>& sin) {
    RotateBlock<apart>(d, LoadBlock<apart>(d, x, half), to, half, cos, sin);
  }

  // Rotates the last whole block, which starts at pair i, and the pairs that do not fill a
  // block, with a block, or half a block, that ends with the last pair. Both are loaded before
  // they are written.
  template <class Tag, int count>
  static HWY_INLINE void RotateLast(const T* x, U* to, std::int64_t half,
                                    const A* HWY_RESTRICT cos, const A* HWY_RESTRICT sin,
                                    std::int64_t i, std::int64_t pairs,
                                    const FactorVectors<Tag, count>& whole_cos,
                                    const FactorVectors<Tag, count>& whole_sin) {
    constexpr Tag d;
    constexpr std::int64_t step = static_cast<std::int64_t>(hn::MaxLanes(d)) * vectors / spread;
    const std::int64_t last = pairs - step;
    const auto whole = LoadBlock<split>(d, x + stride * i, half);
    if (i == last)
      return RotateBlock<split>(d, whole, to + stride * i, half, whole_cos, whole_sin);
    if constexpr (has_half_blocks<reordered, Tag>)
      if (2 * (last - i) <= step) {
        const std::int64_t begin = pairs - step / 2;
        const auto part = LoadHalfBlock(d, x + begin, half);
        RotateBlock<split>(d, whole, to + i, half, whole_cos, whole_sin);
        return RotateHalfBlock(d, part, to + begin, half, cos + i + step, sin + i + step);
      }
    const auto rest = LoadBlock<split>(d, x + stride * last, half);
    const std::int64_t at = reordered ? i + step : spread * last;
    RotateBlock<split>(d, whole, to + stride * i, half, whole_cos, whole_sin);
    RotateBlock<split>(d, rest, to + stride * last, half, LoadFactors<split>(d, cos + at),
                       LoadFactors<split>(d, sin + at));
  }

  // Rotates fewer pairs than fill two blocks of Tag.
  template <class Tag>
  static HWY_INLINE void Short(const T* x, U* to, std::int64_t half, const A* HWY_RESTRICT cos,
                               const A* HWY_RESTRICT sin, std::int64_t pairs) {
    constexpr Tag d;
    constexpr std::int64_t size = static_cast<std::int64_t>(hn::MaxLanes(d));
    if constexpr (has_half_blocks<reordered, Tag>)
      if (pairs > size && pairs < 2 * size) {
        const auto first = LoadHalfBlock(d, x, half);
        const auto last = LoadHalfBlock(d, x + pairs - size, half);
        RotateHalfBlock(d, first, to, half, cos, sin);
        return RotateHalfBlock(d, last, to + pairs - size, half, cos + 2 * size,
                               sin + 2 * size);
      }
    if (pairs >= size * vectors / spread) {
      RotateLast<Tag>(x, to, half, cos, sin, 0, pairs, LoadFactors<split>(d, cos),
                      LoadFactors<split>(d, sin));
    } else if constexpr (size > least) {
      Short<hn::Half<Tag>>(x, to, half, cos, sin, pairs);
    } else if constexpr (reordered) {
      constexpr hn::CappedTag<A, 1> one;
      if (pairs == 1)
        RotatePairs<false>(one, x, to, half, LoadFactors<false>(one, cos),
                           LoadFactors<false>(one, sin));
    }
  }

  template <typename X>
  static HWY_INLINE void PrefetchLine(const X* x) {
    if constexpr (far)
      PrefetchFar(x);
    else
      hwy::Prefetch(x);
  }
  template <typename X>
  static HWY_INLINE void Prefetch(const X* x, std::int64_t elements) {
    constexpr std::int64_t line = 64 / sizeof(X);
    std::int64_t at = 0;
    for (; at + 3 * line < elements; at += 4 * line)
      for (std::int64_t i = 0; i < 4 * line; i += line) PrefetchLine(x + at + i);
    for (; at < elements; at += line) PrefetchLine(x + at);
  }

  // Rotates rows with at most `blocks` whole blocks per row.
  template <int blocks, bool shared>
  static HWY_INLINE void RowsOf(const HeadRows<T, U>& rows, std::int64_t half,
                                const A* HWY_RESTRICT cos, const A* HWY_RESTRICT sin,
                                std::int64_t factor_step, std::int64_t pairs) {
    if constexpr (blocks > 0)
      if (pairs / block != blocks)
        return RowsOf<blocks - 1, shared>(rows, half, cos, sin, factor_step, pairs);
    Unrolled<blocks, shared>(rows, half, cos, sin, factor_step, pairs);
  }

  // Rotates rows with `blocks` whole blocks per row (0: any number). Whole blocks are unrolled.
  // Factors that all rows share stay in registers. Not inline: the registers are then those of
  // one loop.
  template <int blocks, bool shared>
  static HWY_NOINLINE void Unrolled(const HeadRows<T, U>& rows, std::int64_t half,
                                    const A* HWY_RESTRICT cos, const A* HWY_RESTRICT sin,
                                    std::int64_t factor_step, std::int64_t pairs) {
    const auto each = [](const auto& body) HWY_ATTR __attribute__((always_inline)) {
      [&]<int... n>(std::integer_sequence<int, n...>) HWY_ATTR __attribute__((always_inline)) {
        (body(std::integral_constant<int, n>()), ...);
      }(std::make_integer_sequence<int, blocks>());
    };
    constexpr std::int64_t line = 64 / sizeof(T);
    FactorVectors<D, vectors> c[blocks + 1], s[blocks + 1];
    const auto load = [&](std::int64_t at) HWY_ATTR __attribute__((always_inline)) {
      each([&](auto n) HWY_ATTR __attribute__((always_inline)) {
        c[n] = LoadFactors<split>(D(), cos + at + spread * block * n);
        s[n] = LoadFactors<split>(D(), sin + at + spread * block * n);
      });
    };
    if constexpr (shared) load(0);
    const T* x = rows.from;
    U* to = rows.to;
    const std::int64_t from_step = rows.from_step, to_step = rows.to_step;
    for (std::int64_t h = 0, next = 0; h < rows.count; h = next) {
      const bool wrapped = h >= rows.ahead.wrap;
      const T* ahead = wrapped ? rows.ahead.wrapped : rows.ahead.first;
      next = wrapped ? rows.count : HWY_MIN(rows.ahead.wrap, rows.count);
      for (; h < next; ++h) {
        if constexpr (!shared && blocks > 0) load(0);
        if (rows.apart) PrefetchTo(rows, h, 2 * pairs);
        if constexpr (blocks == 0) {
          Prefetch(ahead, 2 * pairs);
          Head(x, to, half, cos, sin, pairs);
        } else {
          each([&](auto n) HWY_ATTR __attribute__((always_inline)) {
            constexpr std::int64_t at = stride * block * n;
            if constexpr (pairing == Pairing::halves) {
              PrefetchLine(ahead + 2 * at);
              if constexpr (at % line == 0) PrefetchLine(ahead + 2 * at + line);
            } else if constexpr (at % line == 0) {
              PrefetchLine(ahead + at);
            }
            if constexpr (n + 1 < blocks)
              RotatePairs<split>(D(), x + at, to + at, half, c[n], s[n]);
            else
              RotateLast<D>(x, to, half, cos, sin, block * n, pairs, c[n], s[n]);
          });
          if (pairs != blocks * block)
            Prefetch(ahead + 2 * blocks * block, 2 * (pairs - blocks * block));
        }
        x += from_step;
        to += to_step;
        ahead += from_step;
        if constexpr (!shared) {
          cos += factor_step;
          sin += factor_step;
        }
      }
    }
  }

  static HWY_INLINE void PrefetchTo(const HeadRows<T, U>& rows, std::int64_t h,
                                    std::int64_t elements) {
    const Ahead<U>& ahead = rows.ahead_to;
    Prefetch(h < ahead.wrap ? ahead.first + h * rows.to_step
                            : ahead.wrapped + (h - ahead.wrap) * rows.to_step,
             elements);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
