// Sequences of different lengths in one call of attention (continuous batching), and keys and
// values in the blocks of a paged cache.
//
// Letters: N sequences, T_n query rows and S_n key rows of sequence n, Hq query heads, Hk key
// heads, D head dimension, P blocks of a paged cache, M blocks of a sequence.
//
// Naive version: tests/naive/attention.h, `naive_attention`, for each sequence.
#pragma once

#include <cstdint>
#include <span>

#include "gnomon/tensor.h"

namespace gnomon {

// The rows of the sequences of one call. A plain value that borrows its arrays. Give at most
// one of the query arrays; without one, q is [N, T, Hq, D] and all sequences have T rows. Give
// key_starts, or key_lengths, or neither: k and v are then [N, S, Hk, D] and have S rows.
//
// Starts must not decrease, lie below 0 or pass the rows of the tensor. They need not begin at
// 0 nor end at the last row. Rows of q outside the sequences get an output of 0 and a
// log-sum-exp of -infinity. Rows of k and v outside the sequences, and blocks that hold no row
// of a sequence, are not read.
struct RaggedBatch {
  // [N + 1]: q is [1, rows, Hq, D], and sequence n has rows query_starts[n] to
  // query_starts[n + 1] (`cu_seqlens_q` of flash-attn).
  std::span<const std::int64_t> query_starts = {};
  // [N]: q is [N, T, Hq, D], and sequence n has its first query_lengths[n] rows.
  std::span<const std::int64_t> query_lengths = {};
  // [N + 1]: k and v are [1, rows, Hk, D], as query_starts.
  std::span<const std::int64_t> key_starts = {};
  // [N]: k and v are [N, S, Hk, D], a cache with room, or blocks of a paged cache, and sequence
  // n has its first key_lengths[n] rows.
  std::span<const std::int64_t> key_lengths = {};
  // [N], not negative: query row i of sequence n corresponds to its key row i + offsets[n].
  // Empty: S_n - T_n, so the last query row corresponds to the last key row.
  std::span<const std::int64_t> offsets = {};
  // int32 [N, M], any strides: k and v are [P, page, Hk, D], any strides, the last axis
  // contiguous; so [P, Hk, page, D] is valid, transposed. Key row j of sequence n is row j %
  // page of block block_table[n][j / page]. Requires key_lengths. Scales of int8 keys and
  // values are [P, page, Hk]. A tensor of a View borrows its shape: the View must live as long.
  ConstTensor block_table = {};

  // Returns true if nothing is given: all sequences have the same lengths.
  bool empty() const noexcept {
    return query_starts.empty() && query_lengths.empty() && key_starts.empty() &&
           key_lengths.empty() && offsets.empty() && !block_table.has_data();
  }
};

}  // namespace gnomon
