// Rotation without a table, for decoding: the angles of a few tokens are made on the way.
//
//   a' = a cos t - b sin t        t = position * inv_freq[i]
//   b' = a sin t + b cos t
//
// A RotaryTable is made once and read often; one step of a decoder needs a row of it once for
// each sequence of the batch, and these are at positions of their own. Here nothing is kept or
// allocated, and a step may come to any position. The result is to the bit that of a table.
//
// Letters: B batch, T tokens, H heads, D head size, R rotated elements, A position axes
// (M-RoPE: 3), i the pair.
#pragma once

#include <cstdint>

#include "gnomon/dtype.h"
#include "gnomon/rotary/rotary.h"
#include "gnomon/tensor.h"

namespace gnomon {

// Rotates queries and keys in place, as `rotate` with a table of the same schedule. q, k:
// [B, T, H, D] or [T, H, D], any strides, D contiguous; they may differ in heads and head size.
// Element types: float, Half, BFloat16, double. positions: int64, [A, B, T], or [A, 1, T]
// shared by the batch, or [T] shared by the batch and all axes.
//
// Error: as `rotate`. Cost: that of `rotate`, and for each token two cos and sin of every pair
// (64 pairs: some 0.2 us with AVX-512). Allocates nothing; starts no thread for less than 2^17
// elements.
//
// Throws std::invalid_argument when the schedule breaks the bounds beside its fields or names
// an axis beyond A, q and k differ in B or T, positions are not theirs or beyond 2^31 in
// magnitude, or a head does not fit as in `rotate`. Nothing is written then.
void rotate_at(const Tensor& q, const Tensor& k, const ConstTensor& positions,
               const RotarySchedule& schedule);
// One alone: where queries and keys have schedules of their own (xPos), or k is cached already.
void rotate_at(const Tensor& x, const ConstTensor& positions, const RotarySchedule& schedule);

// A step of a decoder: rotates q in place, and new keys on their way to their place in a cache,
// which they are copied to as by rotate_append (cached_keys.h). slot: as k, no overlap.
// Element types of k to slot: each to itself, float to Half or BFloat16.
void rotate_append_at(const Tensor& q, const ConstTensor& k, const ConstTensor& positions,
                      const RotarySchedule& schedule, const Tensor& slot);

}  // namespace gnomon
