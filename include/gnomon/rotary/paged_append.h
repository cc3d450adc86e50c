// New keys and values of a paged KV cache: keys are rotated and written to the blocks of their
// sequences, and values are written, in one pass.
//
//   PagedCache cache{.keys = keys, .values = values, .slots = slots};  // keys [P, S, Hk, D]
//   rotate_append(k, v, table, cache);
//
// Letters: B batch, T tokens, Hk key heads, D head dimension of k, Dv that of v, P blocks of
// the cache, S entries of a block, N sequences, M blocks of a sequence.
//
// Naive version: tests/naive/rotary.h, `naive_paged_append`.
#pragma once

#include "gnomon/rotary/rotary.h"
#include "gnomon/tensor.h"

namespace gnomon {

// A paged cache, and the places of the new tokens in it. A plain value that borrows the
// tensors. Give either `slots` (vLLM), or `block_table` and `entries` (FlashInfer).
//
// A cache of N sequences of different lengths without blocks, [N, C, Hk, D], is a cache of N
// blocks of C entries: the slot of entry j of sequence n is n C + j.
struct PagedCache {
  // [P, S, Hk, D] and [P, S, Hk, Dv], any strides, the last axis contiguous; so [P, Hk, S, D]
  // is valid, transposed. One element type: that of k and v; or E4M3 (DLPack's float8_e4m3fn,
  // or u8); on the CPU also f16 or bf16 for k and v of f32, and int8. A cache without values
  // (the latent cache of MLA) has no `values`.
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
  // float [1] or [Hk], for E4M3: a stored element is x / scale, to the nearest, ties to even,
  // at most 448 in magnitude.
  ConstTensor key_scales = {}, value_scales = {};
  // float [P, S, Hk], any strides, for int8: the scale of each stored head vector, written with
  // it (gnomon/rotary/int8_keys.h).
  Tensor key_head_scales = {}, value_head_scales = {};
};

// Rotates new keys and writes them to the cache; writes the values. k [B, T, Hk, D], v [B, T,
// Hk, Dv], or the same without B; any strides, the last axis contiguous; one element type:
// float, Half, BFloat16, or double to a cache of double. k and v are not changed. table: T
// tokens, B or 1 rows. Elements of keys that are not rotated are copied.
//
// Error bound: cache of the same type: bit-identical to `rotate`; values are copied bit by bit.
// float to 16 bits: computed in float, rounded once. int8: that of rotate_append of
// int8_keys.h, with the same bits. E4M3: half a step of x / scale, which is at most 2^-4 of its
// magnitude, or 2^-10 for magnitudes below 2^-6, after one rounding of the quotient to float;
// NaN stays NaN. The rotation is computed in float.
//
// No two tokens may have one slot: the entry then contains elements of either token. Otherwise
// deterministic.
//
// Cost: reads k and v once and writes the entries once. Tokens are divided among threads; the
// result does not depend on the number of threads. Tokens with consecutive slots are written
// together, also across blocks that follow each other in memory, at the speed of a contiguous
// cache. Allocates nothing.
//
// Throws std::invalid_argument as `rotate`, and if the shapes or types of k, v and the cache do
// not match, neither or both kinds of places are given, scales are missing or not needed, k and
// the cache overlap, or D or Dv of an int8 cache is above 4096.
void rotate_append(const ConstTensor& k, const ConstTensor& v, const RotaryTable& table,
                   const PagedCache& cache);

// Writes keys that are rotated already, or that belong to a layer without rotary, and values.
// Otherwise as rotate_append.
void copy_append(const ConstTensor& k, const ConstTensor& v, const PagedCache& cache);

}  // namespace gnomon
