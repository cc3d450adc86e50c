// A paged KV cache: the keys and values of many sequences in one pool of blocks, for continuous
// batching. A sequence holds a list of blocks; two sequences with a common prefix share blocks.
//
//   PagedKvCache cache({.blocks = 4096, .heads = 8, .head_dim = 128, .value_dim = 128,
//                       .type = CacheType::bf16},
//                      lower(rotary));
//   const std::int64_t a = cache.start(), b = cache.start();
//   // A prompt of 100 tokens and one of 7, packed: k, v [107, 8, 128], not rotated.
//   const std::int64_t numbers[] = {a, b}, starts[] = {0, 100, 107};
//   cache.append(k, v, numbers, starts);
//   const std::int64_t draft = cache.fork(a);  // shares the blocks of a
//
// The entries are rows of `keys()` and `values()`: entry j of a sequence is row j % S of its
// block j / S. Attention reads them through `block_table` and `key_lengths`.
//
// Letters: P blocks, S entries of a block, N sequences of a call, M blocks of a sequence, T new
// tokens, Hk key heads, D head dimension of keys, Dv that of values, A position axes.
//
// Source: Kwon et al. "Efficient Memory Management for Large Language Model Serving with
// PagedAttention", 2023, https://arxiv.org/abs/2309.06180.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gnomon/dtype.h"
#include "gnomon/position/positions.h"
#include "gnomon/rotary/rotary.h"
#include "gnomon/tensor.h"
#include "gnomon/view.h"

namespace gnomon {

enum class CacheType {
  f32 = 1,
  f16,
  bf16,
  int8,  // with a scale for each head vector (gnomon/rotary/int8_keys.h)
  e4m3,  // with the scales of PagedKvCacheShape (gnomon/rotary/paged_append.h)
};

struct PagedKvCacheShape {
  std::int64_t blocks = 0;       // P, of all sequences together; at least 1
  std::int64_t block_size = 16;  // S, entries of a block; at least 1
  std::int64_t heads = 0;        // Hk
  // D, Dv. A Dv of 0: the values are the keys, one tensor for both (DeepSeek-V4, MLA), and new
  // values have no data.
  std::int64_t head_dim = 0, value_dim = 0;
  std::int64_t axes = 1;  // A, positions of each token; 3 for M-RoPE
  CacheType type = {};    // required
  // E4M3: a stored element is x / scale; [1] or [Hk], positive. Other types: empty.
  std::vector<float> key_scales = {}, value_scales = {};

  bool operator==(const PagedKvCacheShape&) const = default;
};

// The paged KV cache of one layer. Movable and copyable. Thread-safe: several threads may call
// const functions at the same time; a call that modifies the cache must run alone.
//
// As in a KvCache, all keys are rotated with one set of frequencies, and the cache stores the
// positions of its entries. Two caches that get the same calls have the same block tables, so
// the layers of a model can share one table.
//
// Memory: P S Hk (D + Dv) elements, 8 A bytes for each of the P S entries, and 8 Hk bytes of
// scales for int8, allocated by the constructor; 4 bytes for each block of a sequence.
//
// Error bound of a key and a value: that of rotate_append of gnomon/rotary/paged_append.h; each
// change of frequencies adds that of rerotate_keys, as in a KvCache.
//
// If a call throws std::invalid_argument or std::bad_alloc, the cache is unchanged.
class PagedKvCache {
 public:
  // Without frequencies keys are not rotated: for models with a bias, or NoPE layers.
  //
  // Throws std::invalid_argument if an extent is below 1, the scales do not match the type, or
  // the frequencies are invalid, have an axis beyond A, or do not fit D.
  explicit PagedKvCache(const PagedKvCacheShape& shape,
                        std::optional<RotaryFrequencies> frequencies = {});

  const PagedKvCacheShape& shape() const noexcept { return shape_; }
  // The frequencies with which all keys in the cache are rotated.
  const std::optional<RotaryFrequencies>& frequencies() const noexcept { return frequencies_; }

  // The pool, as RaggedBatch of gnomon/attention/attention.h and PagedCache of
  // gnomon/rotary/paged_append.h take it: keys [P, S, Hk, D], rotated, and values [P, S, Hk,
  // Dv], of f32, f16, bf16, i8 or f8e4m3. Scales: int8: float [P, S, Hk]; E4M3: float [1] or
  // [Hk]; otherwise without data. Borrowed from the cache until it is moved or destroyed.
  ConstTensor keys() const noexcept;
  ConstTensor values() const noexcept;
  ConstTensor key_scales() const noexcept;
  ConstTensor value_scales() const noexcept;

  // Starts a sequence without entries and returns its number. Numbers of ended sequences are
  // used again.
  std::int64_t start();
  // Starts a sequence with the first `tokens` entries of another, or all of them. No entry is
  // copied: both sequences hold the same blocks. A shared block that is not full is copied when
  // one of the sequences appends to it.
  std::int64_t fork(std::int64_t sequence);
  std::int64_t fork(std::int64_t sequence, std::int64_t tokens);
  // Keeps the first `tokens` entries, for example without rejected drafts.
  void truncate(std::int64_t sequence, std::int64_t tokens);
  // Ends a sequence. Blocks that no other sequence holds become free.
  void end(std::int64_t sequence);
  // Ends all sequences.
  void clear() noexcept;

  std::int64_t sequences() const noexcept;           // sequences that have not ended
  std::int64_t tokens(std::int64_t sequence) const;  // entries of a sequence
  std::int64_t free_blocks() const noexcept;         // blocks that no sequence holds
  // Returns the entries that could be appended to this sequence, if no other one gets any.
  std::int64_t room(std::int64_t sequence) const;
  // Returns the free blocks that `append` with these arguments takes, copies included.
  std::int64_t blocks_needed(std::span<const std::int64_t> sequences,
                             std::span<const std::int64_t> starts) const;
  // Returns the positions of the entries of a sequence, [1, tokens].
  Positions positions(std::int64_t sequence, std::int64_t axis = 0) const;

  // Rotates new keys and writes them after the last entry of each sequence; copies the values.
  // k [rows, Hk, D], v [rows, Hk, Dv], or [1, rows, Hk, D or Dv], not rotated, of float, Half
  // or BFloat16: the type of the cache, or any of them for int8 and E4M3, or float for Half and
  // BFloat16. sequences [N], each at most once. starts [N + 1]: sequence n gets rows starts[n]
  // to starts[n + 1] - 1, as `cu_seqlens` of flash-attn; other rows are not read. Empty: row n
  // is the new token of sequence n.
  // axes: positions of the rows, [1, rows] for each of the A axes, or one for all axes. Empty:
  // the index of the entry in its sequence, on all axes. table: the rotary table of these
  // positions, [1, rows], which the caller can share between layers; null: computed here.
  //
  // Cost: O(N + rows) integers, and that of rotate_append; a shared block that is written is
  // copied once. With a table it allocates nothing, except when the list of blocks of a
  // sequence, or the number of rows of a call, exceeds its greatest size so far by half.
  //
  // Throws std::invalid_argument if shapes, types or positions do not match, a number is not
  // that of a sequence or occurs twice, the free blocks do not suffice, or the table has other
  // frequencies than the cache (the message names the field that differs). So a cache never
  // contains keys of different frequencies.
  void append(const ConstTensor& k, const ConstTensor& v,
              std::span<const std::int64_t> sequences,
              std::span<const std::int64_t> starts = {}, std::span<const Positions> axes = {},
              const RotaryTable* table = nullptr);
  // The same for one sequence, which gets all rows.
  void append(const ConstTensor& k, const ConstTensor& v, std::int64_t sequence,
              std::span<const Positions> axes = {}, const RotaryTable* table = nullptr);
  // Appends keys that are already rotated with the frequencies `rotated_with`. Throws
  // std::invalid_argument if these are not the frequencies of the cache.
  void append_rotated(const ConstTensor& k, const ConstTensor& v,
                      std::span<const std::int64_t> sequences,
                      std::span<const std::int64_t> starts, std::span<const Positions> axes,
                      const RotaryFrequencies& rotated_with);

  // The blocks and the lengths of sequences, as RaggedBatch takes them. Returns int32 [N, M]
  // with M the most blocks of one of the sequences, at least 1; blocks beyond those of a
  // sequence are -1. Borrowed until the next call of block_table. Allocates nothing, except
  // when the size exceeds the greatest one so far.
  View<const std::int32_t, 2> block_table(std::span<const std::int64_t> sequences);
  // Returns the entries of each sequence, [N]. Borrowed until the next call of key_lengths.
  std::span<const std::int64_t> key_lengths(std::span<const std::int64_t> sequences);

  // Rotates all keys to new frequencies, as KvCache does. Throws as rerotate_keys, and if the
  // cache has no frequencies, or its type is int8 or E4M3.
  void change_frequencies(const RotaryFrequencies& to);

 private:
  struct Sequence {
    std::int64_t tokens = -1;  // -1: ended
    std::vector<std::int32_t> blocks = {};
  };
  // The new blocks of a sequence of a call.
  struct Growth {
    std::int64_t rows = 0, begin = 0;  // rows of k from `begin` on
    std::int64_t taken = 0;            // free blocks taken by the sequences before it
    bool copies = false;               // the first new block replaces a shared one
  };

  struct Scratch {
    std::vector<std::int32_t> writers;  // [P], sequences of the call that write the block
    std::vector<std::uint8_t> seen;     // whether the call contains each sequence
    std::vector<Growth> growth;         // [N]
  };

  Sequence& sequence_of(std::int64_t sequence);
  const Sequence& sequence_of(std::int64_t sequence) const;
  void release(Sequence& sequence, std::int64_t blocks) noexcept;
  std::int64_t grow(std::span<const std::int64_t> sequences,
                    std::span<const std::int64_t> starts, std::int64_t rows,
                    Scratch& scratch) const;
  std::int32_t free_block(std::int64_t index) const noexcept;
  std::int64_t check_new(const ConstTensor& k, const ConstTensor& v,
                         std::span<const Positions> axes) const;
  void check_frequencies(const RotaryFrequencies& rotated_with) const;
  void find_places(std::span<const std::int64_t> sequences, std::int64_t rows);
  void write(const ConstTensor& k, const ConstTensor& v, const RotaryTable* table);
  void put(const ConstTensor& k, const ConstTensor& v, std::span<const std::int64_t> sequences,
           std::span<const std::int64_t> starts, std::span<const Positions> axes,
           const RotaryTable* table, bool rotate);
  void copy_entries(std::int32_t from, std::int32_t to, std::int64_t count) noexcept;

  PagedKvCacheShape shape_;
  std::optional<RotaryFrequencies> frequencies_;
  std::vector<Sequence> sequences_;
  // The first ones: numbers of sequences that ended, and free blocks; the next one is the last.
  std::vector<std::int64_t> ended_;  // as long as sequences_
  std::vector<std::int32_t> free_;   // [P]
  std::int64_t ended_count_ = 0, free_count_ = 0;
  std::vector<std::int32_t> holders_;  // [P], sequences that hold each block
  std::vector<std::byte> keys_, values_;
  std::vector<float> key_head_scales_, value_head_scales_;  // int8: [P, S, Hk]
  std::vector<std::vector<std::int64_t>> positions_;        // [A], of [P, S]
  std::array<std::int64_t, 4> key_extents_{}, value_extents_{};
  std::int64_t key_scale_count_ = 0, value_scale_count_ = 0;
  // Buffers of calls.
  Scratch scratch_;
  std::vector<std::int64_t> slots_, ids_, lengths_;
  std::vector<std::int32_t> table_;
};

}  // namespace gnomon
