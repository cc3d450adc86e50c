// New keys and values of a paged KV cache on a CUDA device: keys are rotated and written to the
// cache, values are written, and queries are rotated in place, in one launch.
//
// Letters: B batch, T tokens, Hq query heads, Hk key heads, D head dimension of q and k, Dv
// that of v, R rotary dimension, P blocks of the cache, S entries of a block, N sequences, M
// blocks of a sequence.
//
// Naive version: tests/naive/rotary.h, `naive_rotate`.
#pragma once

#include "gnomon/cuda/device.h"
#include "gnomon/cuda/rotate.h"
#include "gnomon/tensor.h"

namespace gnomon::cuda {

// A paged cache, and the places of the new tokens in it. A plain value that borrows the
// tensors. Give either `slots` (vLLM), or `block_table` and `entries` (FlashInfer).
struct PagedCache {
  // [P, S, Hk, D] and [P, S, Hk, Dv], any strides, the last axis contiguous; so [P, Hk, S, D]
  // is valid, transposed. Element type: that of k and v, or E4M3 (DLPack's float8_e4m3fn, or
  // u8) if that is f16 or bf16. A cache without values (the latent cache of MLA) has no
  // `values`.
  Tensor keys, values = {};
  // int64 [T] or [B, T]: block x S + entry of each token. A token with a slot outside [0, P S)
  // is not written: engines pad with -1.
  ConstTensor slots = {};
  // int32 [N, M]: the blocks of each sequence, in order.
  ConstTensor block_table = {};
  // int64 [T] or [B, T]: the index of each token in its sequence. A token beyond the sequence's
  // M S entries, or with a negative index or block, is not written.
  ConstTensor entries = {};
  // int32 [T] or [B, T]: the row of block_table of each token. Without data: the row b of the
  // batch for [B, T, H, D], and row t for [T, H, D] (one new token for each sequence).
  ConstTensor sequences = {};
  // float [1] or [Hk], for E4M3: a stored element is x / scale, to the nearest, at most 448.
  ConstTensor key_scales = {}, value_scales = {};
};

// Rotates q in place, and writes the rotated k, and v, to the cache. q [B, T, Hq, D], k
// [B, T, Hk, D], v [B, T, Hk, Dv], or the same without B; any strides, the last axis
// contiguous; one element type: float, Half or BFloat16. q without data: only keys and values.
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
