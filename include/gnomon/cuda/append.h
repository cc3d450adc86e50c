// New keys and values of a paged KV cache on a CUDA device: keys are rotated and written to the
// cache, values are written, and queries are rotated in place, in one launch.
//
// Letters: B batch, T tokens, Hq query heads, Hk key heads, D head dimension of q and k, Dv
// that of v, R rotary dimension.
//
// Naive version: tests/naive/rotary.h, `naive_rotate`.
#pragma once

#include "gnomon/cuda/device.h"
#include "gnomon/cuda/rotate.h"
#include "gnomon/rotary/paged_append.h"
#include "gnomon/tensor.h"

namespace gnomon::cuda {

using gnomon::PagedCache;

// Rotates q in place, and writes the rotated k, and v, to the cache. q [B, T, Hq, D], k
// [B, T, Hk, D], v [B, T, Hk, Dv], or the same without B; any strides, the last axis
// contiguous; one element type: float, Half or BFloat16. The cache has this type, or E4M3 if it
// is f16 or bf16. q without data: only keys and values.
// Elements that are not rotated are copied. k and v are not changed.
//
// Error bound: as `rotate`; the rotated element is rounded once to the type of the cache (E4M3:
// after the division by the scale in float). Deterministic, if no two tokens have one slot.
//
// Cost: reads q, k and v once, and writes q and the entries once.
//
// Throws as `rotate`, and std::invalid_argument if the shapes or types of k, v and the cache do
// not match, or neither or both kinds of places are given, or scales are missing or not needed.
void rotate_append(const Tensor& q, const ConstTensor& k, const ConstTensor& v,
                   const Rotation& rotation, const PagedCache& cache, Stream stream = nullptr);
// Computes cos and sin instead of reading a table. positions as in rotate_at.
void rotate_append_at(const Tensor& q, const ConstTensor& k, const ConstTensor& v,
                      const ConstTensor& positions, const Frequencies& frequencies,
                      const PagedCache& cache, Stream stream = nullptr);

}  // namespace gnomon::cuda
