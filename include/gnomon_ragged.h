/* The C interface of ragged batches and paged caches (docs/attention/ragged.md). Component
 * gnomon::core. Conventions as in gnomon.h.
 *
 * Letters: N sequences, T_n and S_n query and key rows of sequence n, P blocks of a paged
 * cache, M blocks of a sequence; others as in gnomon.h.
 */
#ifndef GNOMON_RAGGED_H_
#define GNOMON_RAGGED_H_

#include "gnomon.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The rows of the sequences of one call. At most one of the query tensors, and of the key
 * tensors, is not NULL; without one, all sequences have all rows of [N, T, H, D]. All 1-D
 * tensors are contiguous. */
typedef struct gnomon_ragged_batch {
  size_t size;                        /* sizeof(gnomon_ragged_batch) */
  const gnomon_tensor* query_starts;  /* int64 [N + 1]: q is [1, rows, H, D] */
  const gnomon_tensor* query_lengths; /* int64 [N]: q is [N, T, H, D] */
  const gnomon_tensor* key_starts;    /* int64 [N + 1]: k and v are [1, rows, Hk, D] */
  const gnomon_tensor* key_lengths;   /* int64 [N]: k and v are [N, S, Hk, D], or pages */
  const gnomon_tensor* offsets; /* int64 [N], keys before the first query; NULL: S_n - T_n */
  const gnomon_tensor* block_table; /* int32 [N, M]: k and v are [P, page, Hk, D] */
} gnomon_ragged_batch;

/* Like gnomon_attention, for sequences of different lengths. Rows of q outside the sequences
 * get 0, and -infinity in lse. k and v may be E4M3 (float8_e4m3fn of DLPack, or unsigned bytes)
 * with scales float32 [1] or [Hk], also in gnomon_attention. The mask of the plan must have the
 * offset 0 or -1. The plan may have a window, slopes or a strip, a cap, sinks and a table that
 * rotates queries, [1, rows] or [1 or N, T]; others are refused. */
gnomon_status gnomon_attention_ragged(const gnomon_attention_input* input,
                                      const gnomon_ragged_batch* batch,
                                      const gnomon_layer_plan* plan, const gnomon_tensor* out,
                                      const gnomon_tensor* lse);

/* Computes the positions of the rows of a ragged batch, for gnomon_rotary_table_create: row i
 * of sequence n is at offsets[n] + i. Either starts, int64 [N + 1], and ids is int64 [1, T]; or
 * lengths, int64 [N], and ids is int64 [N, T]. offsets: int64 [N], or NULL: 0. sequences:
 * int32, the shape of ids, or NULL: n, or -1 for other rows, whose id is 0. */
gnomon_status gnomon_ragged_positions(const gnomon_tensor* starts, const gnomon_tensor* lengths,
                                      const gnomon_tensor* offsets, const gnomon_tensor* ids,
                                      const gnomon_tensor* sequences);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* GNOMON_RAGGED_H_ */
