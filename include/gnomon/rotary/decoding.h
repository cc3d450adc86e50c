// Rotation without a table, for decoding. cos and sin are computed during the rotation.
//
//   a' = a cos t - b sin t        t = position * inv_freq[i]
//   b' = a sin t + b cos t
//
// A RotaryTable is built once and read many times. A decoding step needs only one row per
// sequence of the batch, and every sequence can be at a different position. The functions of
// this header store and allocate nothing and accept any position. Results are bit-identical to
// those of a table.
//
// Letters: B batch, T tokens, H heads, D head dimension, R rotary dimension, A position axes
// (M-RoPE: 3), i the pair.
//
// Naive version: tests/naive/rotary.h, `naive_rotate`.
#pragma once

#include <cstdint>

#include "gnomon/dtype.h"
#include "gnomon/rotary/rotary.h"
#include "gnomon/tensor.h"

namespace gnomon {

// Rotates queries and keys in place, as `rotate` with a table of the same frequencies. q, k:
// [B, T, H, D] or [T, H, D], any strides, D contiguous; H and D may differ between q and k.
// Element types: float, Half, BFloat16, double. positions: int64, [A, B, T], or [A, 1, T]
// shared by the batch, or [T] shared by the batch and all axes.
//
// Error bound: as `rotate`. Cost: as `rotate`, plus two cos and sin per token and pair (64
// pairs: about 0.2 us with AVX-512). Allocates nothing. No thread is started for less than 2^17
// elements.
//
// Throws std::invalid_argument if the frequencies violate the bounds stated next to its fields
// or names an axis >= A, q and k differ in B or T, positions have another shape or exceed 2^31
// in magnitude, or a head does not fit (see `rotate`). If it throws, nothing is written.
void rotate_at(const Tensor& q, const Tensor& k, const ConstTensor& positions,
               const RotaryFrequencies& frequencies);
// Rotates one tensor in place: for queries and keys with different frequencies (xPos), or if
// the keys are already in the cache. Otherwise as above.
void rotate_at(const Tensor& x, const ConstTensor& positions,
               const RotaryFrequencies& frequencies);

// One decoding step: rotates q in place, and writes the rotated new keys to a cache in one pass
// (as rotate_append in cached_keys.h); k is not changed. slot: same shape as k, no overlap.
// Element types of k to slot: each to the same type, float to Half or BFloat16. Errors and cost
// as rotate_at; also throws if the shapes of slot and k differ.
void rotate_append_at(const Tensor& q, const ConstTensor& k, const ConstTensor& positions,
                      const RotaryFrequencies& frequencies, const Tensor& slot);

}  // namespace gnomon
