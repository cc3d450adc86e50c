// A KV cache: the keys and values of past tokens, for decoding. All cached keys are rotated
// with one set of rotary frequencies, which the cache stores together with the positions of the
// keys. If a call changes the frequencies or the positions, the cache rotates the keys again.
// It never does so without such a call.
//
//   KvCache<Half> cache({.capacity = 4096, .heads = 8, .head_dim = 128, .value_dim = 128},
//                       lower(rotary));
//   cache.append<float>(k, v, consecutive(T, cache.tokens()));  // rotates k
//   attention({q, cache.keys(), cache.values()}, {.mask = {.visibility = Visibility::causal,
//             .offset = cache.tokens() - T}, .query_rotary = table}, out);
//
// Letters: B batch, C capacity, S tokens in the cache, T new tokens, Hk key heads, D head
// dimension of keys, Dv head dimension of values, A position axes. Entry j is row j of keys()
// and values(). All rows of a batch have the same number of entries: shorter rows are padded
// (Positions).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "gnomon/dtype.h"
#include "gnomon/position/positions.h"
#include "gnomon/rotary/rotary.h"
#include "gnomon/view.h"

namespace gnomon {

struct KvCacheShape {
  std::int64_t batch = 1;     // B
  std::int64_t capacity = 0;  // C, entries of each row; at least 1
  std::int64_t heads = 0;     // Hk
  // D, Dv. A Dv of 0: the values are the keys, one tensor for both (DeepSeek-V4), `values()`
  // returns the keys, and new values have no data.
  std::int64_t head_dim = 0, value_dim = 0;
  std::int64_t axes = 1;  // A, positions of each token; 3 for M-RoPE
  // For layers with a sliding window: a query sees at most the last `window` entries, its own
  // included (`sliding_window` of configs; AttentionMask::left is window - 1). If new tokens
  // exceed the room, `append` overwrites the entries that no later query sees. 0: keeps all.
  std::int64_t window = 0;

  bool operator==(const KvCacheShape&) const = default;
};

// The KV cache of one layer. T: float, Half, BFloat16. Movable and copyable. Thread-safe:
// several threads may read at the same time; a call that modifies the cache must run alone.
//
// Memory: B C Hk (D + Dv) elements, and 12 A bytes for each of the B C entries, allocated by
// the constructor.
//
// With a window, attention over the cache, with mask.offset tokens() - T and mask.left window -
// 1, is within the error bound of attention over all keys with this window.
//
// Error bound of a key: that of rotate_append for append, and that of shift_keys or
// rerotate_keys for each call that rotates the key again. After n rotations, including the one
// of append, a pair of exact length r is within ((1 + 2^-21 + h)^n - 1) r of the exact pair,
// with h = 0 for float, 2^-11 for Half (plus n 2^-24 for subnormals, if the frequencies have no
// growth) and 2^-8 for BFloat16.
//
// Error bound of attention over the cache: let e be the greatest softmax_scale sum_i |q'_i|
// |k'_i - exact_i|, over the pairs i of a key that a query sees. The output is within (exp(2 e)
// - 1) max |v| of attention over exact keys, plus the bound of attention.h. If float rows are
// appended to a cache of 16 bits, values and elements that do not rotate are rounded once.
//
// If a call throws std::invalid_argument or std::bad_alloc, the cache is unchanged.
template <typename T>
class KvCache {
 public:
  // New keys or values [B, T, Hk, D or Dv]. S is not deduced.
  template <typename S>
  using NewRows = std::type_identity_t<View<const S, 4>>;

  // Without frequencies keys are not rotated: for models with a bias, or NoPE layers.
  //
  // Throws std::invalid_argument if an extent is below 1, or the frequencies are invalid, has
  // an axis beyond A, or does not fit D.
  explicit KvCache(const KvCacheShape& shape,
                   std::optional<RotaryFrequencies> frequencies = {});

  const KvCacheShape& shape() const noexcept { return shape_; }
  // The frequencies with which all keys in the cache are rotated.
  const std::optional<RotaryFrequencies>& frequencies() const noexcept { return frequencies_; }
  std::int64_t tokens() const noexcept { return tokens_; }  // S
  // Returns the number of new tokens that `append` takes: C - S; with a window W at least C - W
  // + 1, because all but the last W - 1 entries can be overwritten.
  std::int64_t room() const noexcept;
  // Entries that `append` has overwritten since the cache was empty, those of a window. Entry 0
  // was entry dropped() then, so the default position of the next token is dropped() +
  // tokens().
  std::int64_t dropped() const noexcept { return dropped_; }

  View<const T, 4> keys() const noexcept;    // [B, S, Hk, D], rotated
  View<const T, 4> values() const noexcept;  // [B, S, Hk, Dv]
  // Returns the positions of the entries, B rows of S tokens, as AttentionPlan::keys requires
  // them. The reference stays valid; its contents change with the cache.
  const Positions& positions(std::int64_t axis = 0) const;

  // Rotates new keys and writes them after the last entry, in one pass; copies the values. k
  // [B, T, Hk, D], v [B, T, Hk, Dv], not rotated, of type T or float: append<float>(...). axes:
  // positions of the T tokens, in B or 1 rows, for each of the A axes, or one for all axes.
  // table: the rotary table of these positions, which the caller can share between layers;
  // null: computed here.
  //
  // Cost: reads k and v once; if B > 1, O(B S) positions are moved. Allocates nothing if a
  // table is given. With a window W, W - 1 entries are moved once in every C - W + 1 tokens:
  // less than one entry for each new token if C is 2 W. A prompt of more than C - W + 1 tokens
  // is appended, and attended to, in parts.
  //
  // Throws std::invalid_argument if shapes or positions do not match, the capacity is exceeded,
  // a position exceeds 2^31 in magnitude, or the table has other frequencies than the cache
  // (the message names the field that differs). So a cache never contains keys of different
  // frequencies.
  template <typename S = T>
  void append(NewRows<S> k, NewRows<S> v, std::span<const Positions> axes,
              const RotaryTable* table = nullptr);
  template <typename S = T>
  void append(NewRows<S> k, NewRows<S> v, const Positions& positions,
              const RotaryTable* table = nullptr) {
    append<S>(k, v, std::span(&positions, 1), table);
  }
  // Appends keys that are already rotated with the frequencies `rotated_with`. Throws
  // std::invalid_argument if these are not the frequencies of the cache. (For keys of other
  // frequencies, call rerotate_keys first.)
  template <typename S = T>
  void append_rotated(NewRows<S> k, NewRows<S> v, std::span<const Positions> axes,
                      const RotaryFrequencies& rotated_with);
  template <typename S = T>
  void append_rotated(NewRows<S> k, NewRows<S> v, const Positions& positions,
                      const RotaryFrequencies& rotated_with) {
    append_rotated<S>(k, v, std::span(&positions, 1), rotated_with);
  }

  // Inserts new entries before entry `at`. The positions of later entries increase, on all
  // axes, by the number of new entries of their sequence, and their keys are rotated. Throws as
  // append, and if `at` is not in 0 to S.
  template <typename S = T>
  void insert(std::int64_t at, NewRows<S> k, NewRows<S> v, std::span<const Positions> axes,
              const RotaryTable* table = nullptr);
  template <typename S = T>
  void insert(std::int64_t at, NewRows<S> k, NewRows<S> v, const Positions& positions,
              const RotaryTable* table = nullptr) {
    insert<S>(at, k, v, std::span(&positions, 1), table);
  }

  // Removes entries [begin, end). The positions of later entries decrease, on all axes, by the
  // number of removed entries of their sequence; padding keeps its positions.
  // Cost: one shift of all later keys. Throws std::invalid_argument if the range is not within
  // the entries, or a growth factor overflows (shift_keys).
  void remove(std::int64_t begin, std::int64_t end);
  // Removes entries like `remove`, but all positions stay, so no key is rotated.
  void drop(std::int64_t begin, std::int64_t end);
  // Adds `delta` to the positions of entries [begin, end), in every row, and rotates their
  // keys; deltas [A]: one for each axis. The entries keep their rows. Throws as shift_keys.
  void shift(std::int64_t begin, std::int64_t end, std::int64_t delta);
  void shift(std::int64_t begin, std::int64_t end, std::span<const std::int64_t> deltas);

  // Rotates all keys to new frequencies. Required if the frequencies of a model change with the
  // length, as those of dynamic NTK and LongRoPE do (first_change in gnomon/rotary/scaling.h
  // gives the length). Throws as rerotate_keys, and if the cache has no frequencies.
  void change_frequencies(const RotaryFrequencies& to);

  // Keeps the first `tokens` entries. Throws std::invalid_argument if there are fewer.
  void truncate(std::int64_t tokens);
  void clear() noexcept;

 private:
  struct Move;  // entries that move by the same deltas

  // All C rows of the buffers: the entries and the free rows after them.
  View<T, 4> key_rows() noexcept;
  View<T, 4> value_rows() noexcept;
  template <typename S>
  void check_new(const View<const S, 4>& k, const View<const S, 4>& v,
                 std::span<const Positions> axes, std::int64_t room) const;
  template <typename S>
  void slide(const View<const S, 4>& k, const View<const S, 4>& v, const RotaryTable* table);
  void check_frequencies(const RotaryFrequencies& rotated_with) const;
  void check_entries(std::int64_t begin, std::int64_t end) const;
  void prepare(std::vector<Move>& moves) const;
  void make(const std::vector<Move>& moves);
  std::vector<Move> moves_after(std::int64_t begin, std::span<const std::int32_t> sequences,
                                std::int64_t sign) const;
  template <typename S>
  void put(std::int64_t at, View<const S, 4> k, View<const S, 4> v,
           std::span<const Positions> axes, const RotaryTable* table);

  KvCacheShape shape_;
  std::optional<RotaryFrequencies> frequencies_;
  std::int64_t tokens_ = 0, dropped_ = 0;
  std::vector<T> keys_, values_;  // [B, C, Hk, D], [B, C, Hk, Dv]
  std::vector<Positions> axes_;   // [A], of [B, S]
};

}  // namespace gnomon
