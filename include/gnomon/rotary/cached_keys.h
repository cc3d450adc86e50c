// Keys in a KV cache. A cached key is turned once, for its own position; what happens to a
// cache afterwards is a turn by a difference:
//
//   new keys              a' = turn(a, p f)                      rotate_append
//   moved by d positions  a' = turn(a, d f)                      shift_keys
//   schedule f becomes g  a' = turn(a, p (g - f)) * ratio        rerotate_keys
//
// for turns of a pair add up (Su et al. 2021, arXiv:2104.09864, section 3.4.2). So a cache that
// drops its oldest tokens (Xiao et al. 2023, arXiv:2309.17453), or whose model changes its
// frequencies with the length (dynamic NTK, LongRoPE), need not be computed again.
//
// Letters: B batch, T tokens, S cached tokens, H key heads, D head size, R rotated elements, A
// position axes (M-RoPE: 3), i the pair.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "gnomon/position/positions.h"
#include "gnomon/rotary/rotary.h"
#include "gnomon/tensor.h"

namespace gnomon {

// Rotates new keys and writes them to their place in a cache, in one pass: each element of k is
// read once and each of slot written once; k stays as it is. Elements that do not turn are
// copied. k, slot: [B, T, H, D] or [T, H, D], any strides, D contiguous, no overlap. T to U:
// float, Half, BFloat16 and double to themselves, float to Half or BFloat16.
//
// Error: T to T the same bits as `rotate`; float to 16 bits that sum in float, rounded once.
// Threads split the tokens; the result does not depend on their number. Allocates nothing.
//
// Throws std::invalid_argument as `rotate`, and when slot has another shape than k.
void rotate_append(const ConstTensor& k, const RotaryTable& table, const Tensor& slot);

// The same for what does not turn: values, and keys of layers without rotary. Same type: the
// same bits.
void copy_append(const ConstTensor& x, const Tensor& slot);

// Moves cached keys by `delta` positions, in place: keys turned for p become keys for
// p + delta, for any p, since a turn of delta f is added. One row of cos and sin serves all
// tokens. table_scale is in the keys already and is not applied again; with `growth` (xPos) a
// pair is multiplied by m = exp(growth delta), else m = 1. cached: [B, S, H, D] or [S, H, D],
// any strides, D contiguous. Element types: float, Half, BFloat16, double. Tokens that other
// deltas move are other views: cached.slice(...).
//
// deltas: one for every axis [A]. A single delta moves all axes alike, which is right for plain
// rotary and, in M-RoPE, for text. A delta of 0 leaves every bit.
//
// Error of one shift against an exact turn of what is in the cache, r = hypot(a, b):
//
//   |x' - exact| <= 3 * 2^-24 * m * (|a| + |b|)        float, double; 16 bits: rounded once
//   more
//
// Shifts add up. The pair (a, b) after n of them (no growth), h half an ulp of 1 (2^-24 float,
// 2^-11 half, 2^-8 bfloat16; 0 for float and double, whose rounding the sum above has):
//
//   length of (pair - exact) <= ((1 + 2^-21 + h)^n - 1) r       (half: + n 2^-24, subnormals)
//
// Of one key 0.4 % for each shift in bfloat16 at worst, so move far rather than often.
// Cost: reads and writes the keys once; O(A R) numbers are allocated, once a call.
//
// Throws std::invalid_argument when the schedule breaks its bounds, an axis has no delta, a
// delta is beyond 2^31 in magnitude, m overflows float, or a head does not fit as in `rotate`.
void shift_keys(const Tensor& cached, const RotarySchedule& schedule, std::int64_t delta);
void shift_keys(const Tensor& cached, const RotarySchedule& schedule,
                std::span<const std::int64_t> deltas);

// Turns keys of one schedule into keys of another, in place, by one rotation of
// p (to.inv_freq - from.inv_freq), computed in double, times m: the ratio of the two
// table_scales and of what the two growths make of p. positions: where the keys are, of
// B or 1 rows of S tokens, or one for every axis. Equal schedules leave every bit.
//
// Error: as shift_keys with this m, and for positions so far that the angle
// w = |p (to.inv_freq - from.inv_freq)| exceeds 2^26 radians, w 2^-53 m (|a| + |b|) on top.
// Cost: reads and writes the keys once, and makes a row of cos and sin for every token; scratch
// of at most 512 rows, 12 R bytes each.
//
// Throws std::invalid_argument as shift_keys, and when the schedules differ in pairing, first,
// dim or axes (naming where), from.table_scale is 0, or the positions are not those of S tokens
// and B or 1 rows. Whatever it throws, the keys are as they were.
void rerotate_keys(const Tensor& cached, const RotarySchedule& from, const RotarySchedule& to,
                   std::span<const Positions> axes);
inline void rerotate_keys(const Tensor& cached, const RotarySchedule& from,
                          const RotarySchedule& to, const Positions& positions) {
  rerotate_keys(cached, from, to, std::span(&positions, 1));
}

// The first difference between two schedules, as messages name it; empty where they are equal:
//
//   inv_freq[3] = 0.25 where the other has 0.5
std::string difference(const RotarySchedule& one, const RotarySchedule& other);

}  // namespace gnomon
