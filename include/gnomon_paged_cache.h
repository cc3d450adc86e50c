/* The C interface of paged KV caches (docs/attention/paged_kv_cache.md). Component
 * gnomon::core. Conventions as in gnomon.h. gnomon_ragged.h computes attention over them.
 *
 * Letters: P blocks of a cache, S entries of a block, N sequences, M blocks of a sequence;
 * others as in gnomon.h.
 */
#ifndef GNOMON_PAGED_CACHE_H_
#define GNOMON_PAGED_CACHE_H_

#include "gnomon.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A paged KV cache, and the places of new tokens in it: either slots, or block_table and
 * entries. NULL: not given. A cache of N sequences without blocks, [N, C, Hk, D], has slots
 * n C + entry. No two tokens may have one slot. */
typedef struct gnomon_paged_cache {
  size_t size;                      /* sizeof(gnomon_paged_cache) */
  const gnomon_tensor* keys;        /* [P, S, Hk, D], any strides, D contiguous */
  const gnomon_tensor* values;      /* [P, S, Hk, Dv]; NULL: keys only */
  const gnomon_tensor* slots;       /* int64 [T] or [B, T]: block S + entry; -1: not written */
  const gnomon_tensor* block_table; /* int32 [N, M], the blocks of each sequence */
  const gnomon_tensor* entries;     /* int64 [T] or [B, T], the index in the sequence */
  const gnomon_tensor* sequences;   /* int32 [T] or [B, T], the row of block_table; NULL: the
                                       batch row, or the token of [T, Hk, D] */
  const gnomon_tensor* key_scales; /* int8: float32 [P, S, Hk], written; float8_e4m3fn (code 10)
                                       or uint8: float32 [1] or [Hk], x / scale is stored */
  const gnomon_tensor* value_scales;
} gnomon_paged_cache;
/* Rotates new keys k [B, T, Hk, D] or [T, Hk, D] and writes them, with the values v, to a paged
 * cache: of the type of k, or float16 or bfloat16 for float32, or int8, or float8_e4m3fn. If
 * table is NULL, k is copied without rotation. */
gnomon_status gnomon_paged_append(const gnomon_tensor* k, const gnomon_tensor* v,
                                  const gnomon_rotary_table* table,
                                  const gnomon_paged_cache* cache);

typedef enum gnomon_cache_type {
  GNOMON_CACHE_F32 = 1,
  GNOMON_CACHE_F16 = 2,
  GNOMON_CACHE_BF16 = 3,
  GNOMON_CACHE_INT8 = 4, /* with a scale for each head vector */
  GNOMON_CACHE_E4M3 = 5  /* with the scales of the spec */
} gnomon_cache_type;

typedef struct gnomon_paged_kv_cache_spec {
  size_t size;                       /* sizeof(gnomon_paged_kv_cache_spec) */
  int64_t blocks;                    /* P, of all sequences together */
  int64_t block_size;                /* S, entries of a block; 0 means 16 */
  int64_t heads;                     /* Hk */
  int64_t head_dim, value_dim;       /* D, Dv; Dv 0: the values are the keys */
  int64_t axes;                      /* A; 0 means 1 */
  int32_t type;                      /* gnomon_cache_type; required */
  const gnomon_tensor* key_scales;   /* float32 [1] or [Hk] of E4M3: x / scale is stored */
  const gnomon_tensor* value_scales; /* the same; NULL for other types, and for Dv 0 */
} gnomon_paged_kv_cache_spec;

/* The keys and values of many sequences of one layer, in one pool of P blocks. Sequences share
 * the blocks of a common prefix. All keys are rotated with the frequencies of the cache. A call
 * that gives GNOMON_INVALID_ARGUMENT or GNOMON_OUT_OF_MEMORY changes nothing. */
typedef struct gnomon_paged_kv_cache gnomon_paged_kv_cache;
/* frequencies: copied; NULL: keys are not rotated. */
gnomon_status gnomon_paged_kv_cache_create(const gnomon_paged_kv_cache_spec* spec,
                                           const gnomon_frequencies* frequencies,
                                           gnomon_paged_kv_cache** out);
void gnomon_paged_kv_cache_destroy(gnomon_paged_kv_cache* cache);
/* Starts a sequence without entries. *sequence: its number. */
gnomon_status gnomon_paged_kv_cache_start(gnomon_paged_kv_cache* cache, int64_t* sequence);
/* Starts a sequence with the first `tokens` entries of another, -1: all of them. Both hold the
 * same blocks; a shared block that is not full is copied when one of them appends to it. */
gnomon_status gnomon_paged_kv_cache_fork(gnomon_paged_kv_cache* cache, int64_t sequence,
                                         int64_t tokens, int64_t* fork);
/* Keeps the first `tokens` entries of a sequence. */
gnomon_status gnomon_paged_kv_cache_truncate(gnomon_paged_kv_cache* cache, int64_t sequence,
                                             int64_t tokens);
/* Ends a sequence. Blocks that no other sequence holds become free. */
gnomon_status gnomon_paged_kv_cache_end(gnomon_paged_kv_cache* cache, int64_t sequence);
/* *tokens: the entries of a sequence. *room: the entries that it could get, if no other one
 * gets any; or NULL. */
gnomon_status gnomon_paged_kv_cache_tokens(const gnomon_paged_kv_cache* cache, int64_t sequence,
                                           int64_t* tokens, int64_t* room);
/* Returns the blocks that no sequence holds; 0 for NULL. */
int64_t gnomon_paged_kv_cache_free_blocks(const gnomon_paged_kv_cache* cache);
/* Rotates new keys k [rows, Hk, D] and writes them after the last entry of each sequence;
 * copies the values v [rows, Hk, Dv] (NULL for Dv 0). sequences: int64 [N], each number once.
 * starts: int64 [N + 1], sequence n gets rows starts[n] to starts[n + 1] - 1; NULL: row n.
 * positions of the rows: int64 [rows] or [A, 1, rows]; NULL: the index of each entry in its
 * sequence. table: the rows of these positions, shared between layers; NULL: computed here. */
gnomon_status gnomon_paged_kv_cache_append(gnomon_paged_kv_cache* cache, const gnomon_tensor* k,
                                           const gnomon_tensor* v,
                                           const gnomon_tensor* sequences,
                                           const gnomon_tensor* starts,
                                           const gnomon_tensor* positions,
                                           const gnomon_rotary_table* table);
/* Gives the pool: keys [P, S, Hk, D], values [P, S, Hk, Dv], and scales: float32 [P, S, Hk] of
 * int8, [1] or [Hk] of E4M3, else without data. Borrowed until the cache is destroyed. Each may
 * be NULL. */
gnomon_status gnomon_paged_kv_cache_tensors(const gnomon_paged_kv_cache* cache,
                                            gnomon_tensor* keys, gnomon_tensor* values,
                                            gnomon_tensor* key_scales,
                                            gnomon_tensor* value_scales);
/* Gives the blocks of sequences, int32 [N, M], and their entries, int64 [N], as attention takes
 * them. Blocks beyond those of a sequence are -1. Borrowed until the next call of this function
 * for this cache. Each may be NULL. */
gnomon_status gnomon_paged_kv_cache_block_table(gnomon_paged_kv_cache* cache,
                                                const gnomon_tensor* sequences,
                                                gnomon_tensor* block_table,
                                                gnomon_tensor* key_lengths);
/* Rotates all keys to other frequencies. Not for INT8 and E4M3. */
gnomon_status gnomon_paged_kv_cache_change_frequencies(gnomon_paged_kv_cache* cache,
                                                       const gnomon_frequencies* to);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* GNOMON_PAGED_CACHE_H_ */
