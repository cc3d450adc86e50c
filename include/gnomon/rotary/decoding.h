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
#include <span>
#include <type_traits>

#include "gnomon/dtype.h"
#include "gnomon/rotary/rotary.h"
#include "gnomon/view.h"

namespace gnomon {

// Rotates queries and keys in place, as `rotate` with a table of the same schedule. q, k:
// [B, T, H, D], any strides, D contiguous; they may differ in heads and head size. Element
// types: float, Half, BFloat16, double. positions: [A, B, T], or [A, 1, T] shared by the batch.
//
// Error: as `rotate`. Cost: that of `rotate`, and for each token two cos and sin of every pair
// (64 pairs: some 0.2 us with AVX-512). Allocates nothing; starts no thread for less than 2^17
// elements.
//
// Throws std::invalid_argument when the schedule breaks the bounds beside its fields or names
// an axis beyond A, q and k differ in B or T, positions are not theirs or beyond 2^31 in
// magnitude, or a head does not fit as in `rotate`. Nothing is written then.
template <typename T>
void rotate_at(View<T, 4> q, View<T, 4> k, const RotarySchedule& schedule,
               View<const std::int64_t, 3> positions);
// One alone: where queries and keys have schedules of their own (xPos), or k is cached already.
template <typename T>
void rotate_at(View<T, 4> x, const RotarySchedule& schedule,
               View<const std::int64_t, 3> positions);
// One sequence: x, q, k [T, H, D], at positions [T] (of every axis).
template <typename T>
void rotate_at(View<T, 3> q, View<T, 3> k, const RotarySchedule& schedule,
               std::span<const std::int64_t> positions);
template <typename T>
void rotate_at(View<T, 3> x, const RotarySchedule& schedule,
               std::span<const std::int64_t> positions);

// A step of a decoder: turns q in place, and new keys on their way to their place in a cache,
// which they are copied to as by rotate_append (cached_keys.h). slot: as k, no overlap.
// Element types T to U: each to itself, float to Half or BFloat16.
template <typename T, typename U>
void rotate_append_at(View<T, 4> q, std::type_identity_t<View<const T, 4>> k,
                      const RotarySchedule& schedule, View<const std::int64_t, 3> positions,
                      View<U, 4> slot);
template <typename T, typename U>
void rotate_append_at(View<T, 3> q, std::type_identity_t<View<const T, 3>> k,
                      const RotarySchedule& schedule, std::span<const std::int64_t> positions,
                      View<U, 3> slot);

}  // namespace gnomon
