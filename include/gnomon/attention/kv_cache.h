// The keys and values of past tokens, for decoding. A cached key is turned for its position by
// one rotary schedule; the cache knows which, keeps the positions, and turns keys again when
// either changes. It never does so by itself: every change is a call.
//
//   KvCache<Half> cache({.capacity = 4096, .heads = 8, .key_size = 128, .value_size = 128},
//                       schedule(rotary));
//   cache.append<float>(k, v, consecutive(T, cache.tokens()));  // turned on their way in
//   attention({q, cache.keys(), cache.values()}, {.mask = {.visibility = Visibility::causal,
//             .offset = cache.tokens() - T}, .query_rotary = table}, out);
//
// Letters: B batch, C capacity, S tokens in the cache, T new tokens, Hk key heads, D head size
// of keys, Dv of values, A position axes. Entry j is row j of keys() and values(); all rows of
// a batch have as many entries, and rows of different lengths are padded (Positions).
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
  std::int64_t batch = 1;                     // B
  std::int64_t capacity = 0;                  // C, entries of a row; at least 1
  std::int64_t heads = 0;                     // Hk
  std::int64_t key_size = 0, value_size = 0;  // D, Dv
  std::int64_t axes = 1;                      // A: positions of a token; M-RoPE 3

  bool operator==(const KvCacheShape&) const = default;
};

// T: float, Half, BFloat16. One layer. Movable and copyable; a writer excludes all others.
//
// Memory: B C (Hk (D + Dv)) elements and 12 A bytes for each of B C entries, taken at once.
//
// Error of a key: as rotate_append when it comes in, and as shift_keys or rerotate_keys for
// every call that turns it again. After n turns, the one at append counted, a pair whose exact
// length is r is within ((1 + 2^-21 + h)^n - 1) r of exact, h being 0 for float, 2^-11 for Half
// (and n 2^-24 on top, where nothing grows: subnormals) and 2^-8 for BFloat16. Let e be the
// greatest softmax_scale sum_i |q'_i| |k'_i - exact_i| over the pairs i of a key that a query
// sees. Its attention over the cache is then within (exp(2 e) - 1) max |v| of attention over
// exact keys, besides what attention.h allows. (Float given to a cache of 16 bits: elements
// that do not turn, and values, are rounded once.)
//
// When a call throws std::invalid_argument, the cache is as it was.
template <typename T>
class KvCache {
 public:
  // New keys or values [B, T, Hk, D or Dv]; S is not deduced from them.
  template <typename S>
  using Rows = std::type_identity_t<View<const S, 4>>;

  // Without a schedule keys do not turn: models with a bias, or NoPE layers.
  //
  // Throws std::invalid_argument when an extent is below 1, or the schedule breaks its bounds,
  // names an axis beyond A, or does not fit D.
  explicit KvCache(const KvCacheShape& shape, std::optional<RotarySchedule> schedule = {});

  const KvCacheShape& shape() const noexcept { return shape_; }
  // What every key in the cache is turned with.
  const std::optional<RotarySchedule>& schedule() const noexcept { return schedule_; }
  std::int64_t tokens() const noexcept { return tokens_; }                  // S
  std::int64_t room() const noexcept { return shape_.capacity - tokens_; }  // C - S

  View<const T, 4> keys() const noexcept;    // [B, S, Hk, D], turned
  View<const T, 4> values() const noexcept;  // [B, S, Hk, Dv]
  // Of the entries, B rows of S tokens: what AttentionPlan takes. The reference holds; the
  // contents change with the cache.
  const Positions& positions(std::int64_t axis = 0) const;

  // Turns new keys and writes them behind the last entry, in one pass; copies the values.
  // k [B, T, Hk, D], v [B, T, Hk, Dv], not yet turned, of T or of float: append<float>(...).
  // axes: positions of T tokens in B or 1 rows, on A axes; or on one, for all axes alike.
  // table: made by the caller from these positions, as its layers share one; null: made here.
  // With a table nothing is allocated. Cost: reads k and v once; O(B S) positions move where B
  // > 1.
  //
  // Throws std::invalid_argument when shapes or positions do not fit, there is no room, a
  // position is beyond 2^31 in magnitude, or the table is of another schedule: it names the
  // field that differs. Keys turned by one schedule never lie beside keys of another.
  template <typename S = T>
  void append(Rows<S> k, Rows<S> v, std::span<const Positions> axes,
              const RotaryTable* table = nullptr);
  template <typename S = T>
  void append(Rows<S> k, Rows<S> v, const Positions& positions,
              const RotaryTable* table = nullptr) {
    append<S>(k, v, std::span(&positions, 1), table);
  }
  // Keys that something else has turned, with `turned_with`: refused unless it is the cache's
  // schedule. (Keys of another schedule: rerotate_keys, then this.)
  template <typename S = T>
  void append_turned(Rows<S> k, Rows<S> v, std::span<const Positions> axes,
                     const RotarySchedule& turned_with);
  template <typename S = T>
  void append_turned(Rows<S> k, Rows<S> v, const Positions& positions,
                     const RotarySchedule& turned_with) {
    append_turned<S>(k, v, std::span(&positions, 1), turned_with);
  }

  // Puts new entries before entry `first`. An entry behind them moves on, on all axes, by the
  // number of new ones of its sequence. Throws as append, and when `first` is not 0 to S.
  template <typename S = T>
  void insert(std::int64_t first, Rows<S> k, Rows<S> v, std::span<const Positions> axes,
              const RotaryTable* table = nullptr);
  template <typename S = T>
  void insert(std::int64_t first, Rows<S> k, Rows<S> v, const Positions& positions,
              const RotaryTable* table = nullptr) {
    insert<S>(first, k, v, std::span(&positions, 1), table);
  }

  // Takes entries first to first + count - 1 out and closes the gap: an entry behind them moves
  // back, on all axes, by the number of those of its sequence; padding stays. One shift of
  // every later key. Throws when they are not entries, or a growth overflows (shift_keys).
  void remove(std::int64_t first, std::int64_t count);
  // The same, but all positions stay: no key is turned.
  void drop(std::int64_t first, std::int64_t count);
  // Moves entries by `delta` positions (an axis: deltas [A]), in every row; a gap is left, or
  // closed, in what they attend by. Throws as shift_keys.
  void shift(std::int64_t first, std::int64_t count, std::int64_t delta);
  void shift(std::int64_t first, std::int64_t count, std::span<const std::int64_t> deltas);

  // The model's frequencies have changed, as dynamic NTK's and LongRoPE's do with the length
  // (first_change in gnomon/rotary/scaling.h says when): turns every key to the new schedule.
  // Throws as rerotate_keys, and for a cache without a schedule.
  void change_schedule(const RotarySchedule& to);

  // Keeps the first `tokens` entries. Throws when there are fewer.
  void truncate(std::int64_t tokens);
  void clear() noexcept;

 private:
  struct Move;  // entries that move alike

  // Rows of the stores: entries, and the room behind them.
  View<T, 4> key_rows() noexcept;
  View<T, 4> value_rows() noexcept;
  template <typename S>
  void check_new(const View<const S, 4>& k, const View<const S, 4>& v,
                 std::span<const Positions> axes) const;
  void check_schedule(const RotarySchedule& turned_with) const;
  void check_entries(std::int64_t first, std::int64_t count) const;
  void check(const std::vector<Move>& moves);
  void make(const std::vector<Move>& moves);
  std::vector<Move> moves_behind(std::int64_t first, std::span<const std::int32_t> sequences,
                                 std::int64_t sign) const;
  template <typename S>
  void put(std::int64_t first, View<const S, 4> k, View<const S, 4> v,
           std::span<const Positions> axes, const RotaryTable* table);

  KvCacheShape shape_;
  std::optional<RotarySchedule> schedule_;
  std::int64_t tokens_ = 0;
  std::vector<T> keys_, values_;  // [B, C, Hk, D], [B, C, Hk, Dv]
  std::vector<Positions> axes_;   // [A], of [B, S]
};

}  // namespace gnomon
