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
#include "src/rotary/pair_rotator-inl.h"
#include "src/rotary/rotate.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Rotates pairs [begin, end) of all heads of `tokens` tokens. Factors start at pair `begin`.
template <Pairing pairing, typename T, typename U>
void RotateTokens(const Heads<T, U>& heads, const CosSinRows& factors, std::int64_t begin,
                  std::int64_t end, std::int64_t tokens) {
  using Rotator = PairRotator<pairing, T, U>;
  using A = typename Rotator::A;
  // Cosines, and sines; together 32 KB with 4 bytes, for 64 tokens of 64 pairs.
  constexpr std::int64_t buffer_elements = 4096;
  HWY_ALIGN A cos_buffer[buffer_elements], sin_buffer[buffer_elements];
  constexpr std::int64_t stride = Rotator::stride;
  const std::int64_t half = pairing == Pairing::halves ? heads.pairs : 1;
  // Written to another array that is not a small buffer.
  const bool apart = static_cast<const void*>(heads.from) != heads.to &&
                     tokens * heads.count * heads.pairs > prefetch_bytes;
  // If the tokens of a head are consecutive in memory, they are processed in blocks, so that
  // both the heads and the factors of a block are read in long runs.
  const bool by_head = tokens > 1 && heads.by_head();
  for (std::int64_t first = begin; first < end; first += Rotator::chunk) {
    const std::int64_t pairs = HWY_MIN(Rotator::chunk, end - first);
    const std::int64_t slots = buffer_elements / Rotator::Factors(pairs);
    const std::int64_t block = !by_head ? 1 : factors.token == 0 ? tokens : slots;
    const bool direct = Rotator::HasTableOrder() && factors.sign == 1;
    const std::int64_t each = factors.token == 0 ? 0
                              : direct           ? factors.token
                                                 : Rotator::Factors(pairs);
    const A *cos = cos_buffer, *sin = sin_buffer;
    const auto prepare = [&](std::int64_t t, std::int64_t slot) HWY_ATTR {
      const std::int64_t at = t * factors.token + first - begin;
      if (t + 2 < tokens)  // the factors of a token are needed before its first head
        for (std::int64_t i = at + 2 * factors.token; i < at + 2 * factors.token + pairs;
             i += 16) {
          hwy::Prefetch(factors.cos + i);
          hwy::Prefetch(factors.sin + i);
        }
      if constexpr (Rotator::HasTableOrder())
        if (direct) {
          if (slot == 0) cos = factors.cos + at, sin = factors.sin + at;
          return;
        }
      Rotator::Prepare(factors.cos + at, factors.sin + at, static_cast<A>(factors.sign), pairs,
                       cos_buffer + slot * each, sin_buffer + slot * each);
    };
    if (each == 0) prepare(0, 0);
    const std::int64_t size = sizeof(T);
    const Lead lead =
        by_head ? Lead::Of(Rotator::lead_by_head, heads.from_token * size,
                           HWY_MIN(block, tokens), 1)
                : Lead::Of(Rotator::lead, heads.from_head * size, heads.count, tokens);
    for (std::int64_t t = 0; t < tokens; t += block) {
      const std::int64_t count = HWY_MIN(block, tokens - t);
      for (std::int64_t i = 0; each != 0 && i < count; ++i) prepare(t + i, i);
      const T* const from = heads.from + t * heads.from_token + stride * first;
      U* const to = heads.to + t * heads.to_token + stride * first;
      if (!by_head) {
        Rotator::template Rows<true>(
            {.from = from,
             .to = to,
             .from_step = heads.from_head,
             .to_step = heads.to_head,
             .count = heads.count,
             .ahead = lead.From(from, heads.from_head, heads.count, heads.from_token),
             .ahead_to = lead.From(to, heads.to_head, heads.count, heads.to_token),
             .apart = apart},
            half, cos, sin, 0, pairs);
        continue;
      }
      for (std::int64_t h = 0; h < heads.count; ++h) {
        const T* const x = from + h * heads.from_head;
        U* const out = to + h * heads.to_head;
        // After the last head, the first head of the next tokens.
        const bool last = h + 1 == heads.count;
        const std::int64_t run =
            last ? count * heads.from_token - h * heads.from_head : heads.from_head;
        const std::int64_t run_to =
            last ? count * heads.to_token - h * heads.to_head : heads.to_head;
        Rotator::template Rows<false>(
            {.from = x,
             .to = out,
             .from_step = heads.from_token,
             .to_step = heads.to_token,
             .count = count,
             .ahead = lead.From(x, heads.from_token, count, run),
             .ahead_to = lead.From(out, heads.to_token, count, run_to),
             .apart = apart},
            half, cos, sin, each, pairs);
      }
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
