// Rotary keys in a KV cache. A key is rotated once, for its own position, when it is added to
// the cache. Later changes are rotations by a difference:
//
//   new keys              a' = rotation(a, p f)                  rotate_append
//   moved by d positions  a' = rotation(a, d f)                  shift_keys
//   frequencies f become g  a' = rotation(a, p (g - f)) * ratio    rerotate_keys
//
// rotation(a, t) rotates a pair by t radians. Rotations of a pair add up (Su et al. 2021,
// arXiv:2104.09864, section 3.4.2). The keys therefore need not be computed again if the cache
// drops its oldest tokens (Xiao et al. 2023, arXiv:2309.17453), or if the frequencies of the
// model depend on the length (dynamic NTK, LongRoPE).
//
// Letters: B batch, T tokens, S cached tokens, H key heads, D head dimension, R rotary
// dimension, A position axes (M-RoPE: 3), i the pair.
//
// Naive version: tests/naive/rotary.h, `naive_shift_keys`, `naive_rerotate_keys`.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "gnomon/position/positions.h"
#include "gnomon/rotary/rotary.h"
#include "gnomon/tensor.h"

namespace gnomon {

// Rotates new keys and writes them to a cache in one pass. k is not changed. Elements that are
// not rotated are copied. k, slot: [B, T, H, D] or [T, H, D], any strides, D contiguous, no
// overlap. Element types of k to slot: float, Half, BFloat16 and double to the same type, float
// to Half or BFloat16.
//
// Error bound: same type: bit-identical to `rotate`. float to 16 bits: computed in float,
// rounded once. Cost: reads k once and writes slot once. Allocates nothing. Tokens are divided
// among threads; the result does not depend on the number of threads.
//
// Throws std::invalid_argument as `rotate`, and if the shapes of slot and k differ.
void rotate_append(const ConstTensor& k, const RotaryTable& table, const Tensor& slot);

// Writes x to a cache without rotation: values, and keys of layers without rotary. Shapes and
// element types as rotate_append. Same type: a bit-exact copy.
void copy_append(const ConstTensor& x, const Tensor& slot);

// Moves cached keys by `delta` positions, in place: a key rotated for position p becomes the
// key for p + delta, for any p. All tokens share one row of cos and sin. table_scale is already
// in the keys and is not applied again. With `growth` (xPos), a pair is multiplied by
// m = exp(growth delta); otherwise m = 1. cached: [B, S, H, D] or [S, H, D], any strides, D
// contiguous. Element types: float, Half, BFloat16, double. To move some of the tokens, pass a
// slice: cached.slice(...).
//
// deltas: one per axis, [A]. A single delta moves all axes by the same amount, which is correct
// for plain rotary and for text in M-RoPE. A zero delta is a bit-exact no-op.
//
// Error bound of one shift, relative to an exact rotation of the stored keys:
//
//   |x' - exact| <= 3 * 2^-24 * m * (|a| + |b|)      float, double; 16 bits: one more rounding
//
// Errors of shifts add up. After n shifts without growth, for a pair of length r = hypot(a, b):
//
//   length of (pair - exact) <= ((1 + 2^-21 + h)^n - 1) r       (half: + n 2^-24, subnormals)
//
// h is the rounding of a 16-bit element: 2^-11 for half, 2^-8 for bfloat16, and 0 for float and
// double, whose rounding 2^-21 contains. In bfloat16 each shift adds up to 0.4 % of the length
// of a key, so prefer few large shifts to many small ones.
//
// Cost: reads and writes the keys once. Allocates O(A R) elements per call.
//
// Throws std::invalid_argument if the frequencies violate their bounds, an axis has no delta, a
// delta exceeds 2^31 in magnitude, m overflows float, or a head does not fit (see `rotate`).
void shift_keys(const Tensor& cached, const RotaryFrequencies& frequencies, std::int64_t delta);
void shift_keys(const Tensor& cached, const RotaryFrequencies& frequencies,
                std::span<const std::int64_t> deltas);

// Converts cached keys from one set of frequencies to another, in place. Each pair is rotated
// by p (to.inv_freq - from.inv_freq), computed in double, and multiplied by m, the ratio of the
// two table_scales times the ratio of the two growth factors at p. cached: as shift_keys.
// positions: the positions of the keys, [B, S] or [1, S]; axes: one such Positions per axis.
// Equal frequencies are a bit-exact no-op.
//
// Error bound: as shift_keys with this m. If the angle w = |p (to.inv_freq - from.inv_freq)|
// exceeds 2^26 radians, add w 2^-53 m (|a| + |b|).
//
// Cost: reads and writes the keys once and computes one row of cos and sin per token. Scratch
// memory: at most 512 rows of 12 R bytes each.
//
// Throws std::invalid_argument as shift_keys, and if the frequencies differ in pairing,
// head_offset, rotary_dim or axes (the message names the difference), from.table_scale is 0, or
// the positions are not [B, S] or [1, S]. If it throws, the keys are unchanged.
void rerotate_keys(const Tensor& cached, const RotaryFrequencies& from,
                   const RotaryFrequencies& to, std::span<const Positions> axes);
inline void rerotate_keys(const Tensor& cached, const RotaryFrequencies& from,
                          const RotaryFrequencies& to, const Positions& positions) {
  rerotate_keys(cached, from, to, std::span(&positions, 1));
}

// Returns the first difference between two sets of frequencies as text, empty if they are
// equal. Error messages contain this text. Example:
//
//   inv_freq[3] = 0.25 where the other has 0.5
std::string difference(const RotaryFrequencies& one, const RotaryFrequencies& other);

}  // namespace gnomon
