#include "gnomon/attention/kv_cache.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "gnomon/error.h"
#include "gnomon/rotary/cached_keys.h"
#include "src/core/overflow.h"
#include "src/core/overlap.h"
#include "src/core/size.h"
#include "src/rotary/key_shift.h"

namespace gnomon {

using internal::to_size;
namespace {

constexpr std::int64_t farthest = std::int64_t{1} << 31;  // the limit of RotaryTable

// Inserts `count` columns before column `at`: rows [B, S] become [B, S + count].
template <typename Element>
void open_gap(std::vector<Element>& rows, std::int64_t batch, std::int64_t tokens,
              std::int64_t at, std::int64_t count) {
  rows.resize(to_size(batch * (tokens + count)));
  const auto begin = rows.begin();
  for (std::int64_t b = batch; b-- > 0;) {
    const auto from = begin + b * tokens, to = begin + b * (tokens + count);
    std::move_backward(from + at, from + tokens, to + tokens + count);
    std::move_backward(from, from + at, to + at);
  }
}

// Erases columns [begin, end): rows [B, S] become [B, S - (end - begin)].
template <typename Element>
void close_gap(std::vector<Element>& rows, std::int64_t batch, std::int64_t tokens,
               std::int64_t begin, std::int64_t end) {
  const std::int64_t rest = tokens - (end - begin);
  for (std::int64_t b = 0; b < batch; ++b) {
    const auto from = rows.begin() + b * tokens, to = rows.begin() + b * rest;
    std::move(from, from + begin, to);
    std::move(from + end, from + tokens, to + begin);
  }
  rows.resize(to_size(batch * rest));
}

std::size_t elements(const KvCacheShape& shape, std::int64_t head_dim) {
  return internal::checked_size("kv_cache", "batch x capacity x heads x head_dim",
                                {shape.batch, shape.capacity, shape.heads, head_dim});
}

}  // namespace

template <typename T>
struct KvCache<T>::Move {
  std::int64_t row, begin, end;
  std::vector<std::int64_t> deltas;  // [A]
  std::optional<rotary_internal::KeyShift> shift = {};
};

template <typename T>
KvCache<T>::KvCache(const KvCacheShape& shape, std::optional<RotaryFrequencies> frequencies)
    : shape_(shape), frequencies_(std::move(frequencies)) {
  const std::pair<const char*, std::int64_t> extents[] = {{"batch", shape.batch},
                                                          {"capacity", shape.capacity},
                                                          {"heads", shape.heads},
                                                          {"head_dim", shape.head_dim},
                                                          {"axes", shape.axes}};
  for (const auto& [what, extent] : extents)
    if (extent < 1) refuse("kv_cache", std::string(what) + " must be at least 1", extent);
  if (shape.value_dim < 0)
    refuse("kv_cache", "value_dim must not be negative", shape.value_dim);
  if (shape.window < 0 || shape.window > shape.capacity)
    refuse("kv_cache", "window must be 0 to the capacity of " + std::to_string(shape.capacity),
           shape.window);
  const Positions none = consecutive(0, 0, shape.batch);
  axes_.assign(to_size(shape.axes), none);
  if (frequencies_) {
    RotaryTable(*frequencies_, std::span<const Positions>(axes_));  // checks the frequencies
    if (shape.head_dim - frequencies_->rotary_dim() < frequencies_->head_offset)
      refuse("kv_cache",
             "head_dim must be at least head_offset + rotary_dim = " +
                 std::to_string(frequencies_->head_offset) + " + " +
                 std::to_string(frequencies_->rotary_dim()),
             shape.head_dim);
  }
  keys_.resize(elements(shape, shape.head_dim));
  values_.resize(elements(shape, shape.value_dim));
  for (Positions& axis : axes_) {
    axis.ids.reserve(to_size(shape.batch * shape.capacity));
    axis.sequences.reserve(to_size(shape.batch * shape.capacity));
  }
}

template <typename T>
std::int64_t KvCache<T>::room() const noexcept {
  const std::int64_t kept = shape_.window ? std::min(tokens_, shape_.window - 1) : tokens_;
  return shape_.capacity - kept;
}

template <typename T>
View<T, 4> KvCache<T>::key_rows() noexcept {
  return {keys_.data(), {shape_.batch, shape_.capacity, shape_.heads, shape_.head_dim}};
}
template <typename T>
View<T, 4> KvCache<T>::value_rows() noexcept {
  return {values_.data(), {shape_.batch, shape_.capacity, shape_.heads, shape_.value_dim}};
}
template <typename T>
View<const T, 4> KvCache<T>::keys() const noexcept {
  return View<const T, 4>(const_cast<KvCache*>(this)->key_rows()).slice(1, 0, tokens_);
}
template <typename T>
View<const T, 4> KvCache<T>::values() const noexcept {
  if (shape_.value_dim == 0) return keys();
  return View<const T, 4>(const_cast<KvCache*>(this)->value_rows()).slice(1, 0, tokens_);
}

template <typename T>
const Positions& KvCache<T>::positions(std::int64_t axis) const {
  if (axis < 0 || axis >= shape_.axes)
    refuse("kv_cache", "axis must be 0 to " + std::to_string(shape_.axes - 1), axis);
  return axes_[to_size(axis)];
}

template <typename T>
template <typename S>
void KvCache<T>::check_new(const View<const S, 4>& k, const View<const S, 4>& v,
                           std::span<const Positions> axes, std::int64_t room) const {
  const std::int64_t count = k.extent(1);
  const std::array<std::int64_t, 4> of_k{shape_.batch, count, shape_.heads, shape_.head_dim};
  const std::array<std::int64_t, 4> of_v{shape_.batch, count, shape_.heads, shape_.value_dim};
  if (k.extents() != of_k)
    refuse("kv_cache", "k must be " + shape_text(of_k), shape_text(k.extents()));
  if (v.extents() != of_v && (shape_.value_dim > 0 || v.data()))
    refuse("kv_cache", "v must be " + shape_text(of_v), shape_text(v.extents()));
  if (count > room)
    refuse("kv_cache",
           "new tokens must fit the room of " + std::to_string(room) + " behind " +
               std::to_string(tokens_) + " entries",
           count);
  if (axes.size() != 1 && std::ssize(axes) != shape_.axes)
    refuse("kv_cache",
           "positions must have 1 axis (used for all axes) or " + std::to_string(shape_.axes),
           static_cast<std::int64_t>(std::ssize(axes)));
  for (const Positions& axis : axes) {
    if (axis.tokens != count || axis.batch != axes[0].batch ||
        (axis.batch != 1 && axis.batch != shape_.batch))
      refuse("kv_cache",
             "positions must be of 1 or " + std::to_string(shape_.batch) + " rows of " +
                 std::to_string(count) + " tokens",
             std::to_string(axis.batch) + " of " + std::to_string(axis.tokens));
    for (const std::size_t length : {axis.ids.size(), axis.sequences.size()})
      if (length != internal::checked_size("kv_cache", "batch x tokens", {axis.batch, count}))
        refuse("kv_cache",
               "positions must have an id and a sequence for each of " +
                   std::to_string(axis.batch * count) + " tokens",
               static_cast<std::int64_t>(length));
    if (!frequencies_) continue;
    for (const std::int64_t id : axis.ids)
      if (id < -farthest || id > farthest)
        refuse("kv_cache", "positions must be at most 2^31 in magnitude", id);
  }
}

template <typename T>
void KvCache<T>::check_frequencies(const RotaryFrequencies& rotated_with) const {
  if (!frequencies_)
    refuse("kv_cache", "a cache without frequencies cannot take rotated keys", "frequencies");
  const std::string text = difference(rotated_with, *frequencies_);
  if (!text.empty())
    refuse("kv_cache", "keys must be rotated with the frequencies of the cache", text);
}

template <typename T>
void KvCache<T>::check_entries(std::int64_t begin, std::int64_t end) const {
  if (begin < 0 || begin > tokens_)
    refuse("kv_cache", "an entry must be 0 to " + std::to_string(tokens_), begin);
  if (end < begin || end > tokens_)
    refuse("kv_cache",
           "the end of entries from " + std::to_string(begin) + " must be " +
               std::to_string(begin) + " to " + std::to_string(tokens_),
           end);
}

// Checks moves, and allocates all that `make` requires, which cannot fail.
template <typename T>
void KvCache<T>::prepare(std::vector<Move>& moves) const {
  for (Move& move : moves) {
    for (std::size_t a = 0; a < axes_.size(); ++a)
      for (const std::int64_t id : axes_[a].row(move.row).subspan(
               to_size(move.begin), to_size(move.end - move.begin))) {
        std::int64_t to = 0;
        if (internal::add_overflow(id, move.deltas[a], &to))
          refuse("kv_cache", "a position must not overflow when it moves by", move.deltas[a]);
        if (frequencies_ && (to < -farthest || to > farthest))
          refuse("kv_cache", "positions must be at most 2^31 in magnitude", to);
      }
    if (frequencies_) move.shift.emplace(*frequencies_, move.deltas);
  }
}

template <typename T>
void KvCache<T>::make(const std::vector<Move>& moves) {
  for (const Move& move : moves) {
    if (move.shift)
      move.shift->apply(
          key_rows().slice(0, move.row, 1).slice(1, move.begin, move.end - move.begin));
    for (std::size_t a = 0; a < axes_.size(); ++a)
      for (std::int64_t j = move.begin; j < move.end; ++j)
        axes_[a].ids[to_size(move.row * tokens_ + j)] += move.deltas[a];
  }
}

// Returns the moves of the entries from `begin`: each moves by the number of elements of
// `sequences` ([B, any]) that are equal to its sequence. Padding and other sequences do not
// move.
template <typename T>
auto KvCache<T>::moves_after(std::int64_t begin, std::span<const std::int32_t> sequences,
                             std::int64_t sign) const -> std::vector<Move> {
  std::vector<Move> moves;
  const std::size_t each = sequences.size() / to_size(shape_.batch);
  for (std::int64_t b = 0; b < shape_.batch; ++b) {
    std::map<std::int32_t, std::int64_t> counts;
    for (const std::int32_t sequence : sequences.subspan(to_size(b) * each, each))
      if (sequence != Positions::padding) ++counts[sequence];
    for (std::int64_t j = begin; j < tokens_; ++j) {
      const auto found = counts.find(axes_[0].sequences[to_size(b * tokens_ + j)]);
      if (found == counts.end()) continue;
      const std::int64_t delta = sign * found->second;
      if (!moves.empty() && moves.back().row == b && moves.back().deltas[0] == delta &&
          moves.back().end == j)
        ++moves.back().end;
      else
        moves.push_back({b, j, j + 1, std::vector<std::int64_t>(axes_.size(), delta), {}});
    }
  }
  return moves;
}

// Removes the entries that no query sees after the new ones, if these exceed the free rows.
// Throws if `put` would throw after it.
template <typename T>
template <typename S>
void KvCache<T>::slide(const View<const S, 4>& k, const View<const S, 4>& v,
                       const RotaryTable* table) {
  const std::int64_t count = k.extent(1), gone = tokens_ - (shape_.window - 1);
  if (count <= shape_.capacity - tokens_) return;
  if (table &&
      (table->tokens() != count || (table->batch() != 1 && table->batch() != shape_.batch)))
    refuse("kv_cache",
           "the table must be of 1 or " + std::to_string(shape_.batch) + " rows of " +
               std::to_string(count) + " tokens",
           std::to_string(table->batch()) + " of " + std::to_string(table->tokens()));
  const auto check_rows = [](const char* name, const View<const S, 4>& x,
                             const View<T, 4>& rows) {
    if (x.data() && x.stride(3) != 1)
      refuse("kv_cache",
             std::string("the elements of a head of ") + name + " must be contiguous: stride 1",
             x.stride(3));
    internal::check_disjoint({"kv_cache", "the cache"}, rows, name, x);
  };
  for (const View<T, 4>& rows : {key_rows(), value_rows()}) {
    check_rows("k", k, rows);
    check_rows("v", v, rows);
  }
  drop(0, gone);
  dropped_ += gone;
}

// If `table` is null, keys are copied.
template <typename T>
template <typename S>
void KvCache<T>::put(std::int64_t at, View<const S, 4> k, View<const S, 4> v,
                     std::span<const Positions> axes, const RotaryTable* table) {
  const std::int64_t count = k.extent(1);
  std::vector<Move> moves;
  if (at == tokens_) {
    slide(k, v, table);
    at = tokens_;
  } else {
    std::vector<std::int32_t> sequences;
    for (std::int64_t b = 0; b < shape_.batch; ++b)
      for (std::int64_t t = 0; t < count; ++t)
        sequences.push_back(axes[0].sequences[to_size(b % axes[0].batch * count + t)]);
    moves = moves_after(at, sequences, 1);
    prepare(moves);
  }
  // Write behind the last entry first: these rows are not in use yet.
  const View<T, 4> slot = key_rows().slice(1, tokens_, count);
  if (table)
    rotate_append(k, *table, slot);
  else
    copy_append(k, slot);
  if (shape_.value_dim > 0) copy_append(v, value_rows().slice(1, tokens_, count));
  make(moves);
  for (const View<T, 4>& rows : {key_rows(), value_rows()})
    for (std::int64_t b = 0; b < shape_.batch; ++b) {
      T* const row = rows.data() + b * rows.stride(0);
      std::rotate(row + at * rows.stride(1), row + tokens_ * rows.stride(1),
                  row + (tokens_ + count) * rows.stride(1));
    }
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    const Positions& from = axes[axes.size() == 1 ? 0 : a];
    Positions& to = axes_[a];
    open_gap(to.ids, shape_.batch, tokens_, at, count);
    open_gap(to.sequences, shape_.batch, tokens_, at, count);
    to.tokens += count;
    for (std::int64_t b = 0; b < shape_.batch; ++b) {
      const std::int64_t row = b % from.batch * count, to_row = b * to.tokens + at;
      std::copy_n(from.ids.begin() + row, count, to.ids.begin() + to_row);
      std::copy_n(from.sequences.begin() + row, count, to.sequences.begin() + to_row);
    }
  }
  tokens_ += count;
}

template <typename T>
template <typename S>
void KvCache<T>::insert(std::int64_t at, NewRows<S> k, NewRows<S> v,
                        std::span<const Positions> axes, const RotaryTable* table) {
  check_entries(at, at);
  check_new<S>(k, v, axes, at == tokens_ ? room() : shape_.capacity - tokens_);
  if (table) {
    check_frequencies(table->frequencies());
    put<S>(at, k, v, axes, table);
  } else if (frequencies_) {
    const std::vector<Positions> alike(axes.size() == 1 ? to_size(shape_.axes) : 0, axes[0]);
    const RotaryTable made(*frequencies_, alike.empty() ? axes : alike);
    put<S>(at, k, v, axes, &made);
  } else {
    put<S>(at, k, v, axes, nullptr);
  }
}

template <typename T>
template <typename S>
void KvCache<T>::append(NewRows<S> k, NewRows<S> v, std::span<const Positions> axes,
                        const RotaryTable* table) {
  insert<S>(tokens_, k, v, axes, table);
}

template <typename T>
template <typename S>
void KvCache<T>::append_rotated(NewRows<S> k, NewRows<S> v, std::span<const Positions> axes,
                                const RotaryFrequencies& rotated_with) {
  check_new<S>(k, v, axes, room());
  check_frequencies(rotated_with);
  put<S>(tokens_, k, v, axes, nullptr);
}

template <typename T>
void KvCache<T>::drop(std::int64_t begin, std::int64_t end) {
  check_entries(begin, end);
  for (const View<T, 4>& rows : {key_rows(), value_rows()})
    for (std::int64_t b = 0; b < shape_.batch; ++b) {
      T* const row = rows.data() + b * rows.stride(0);
      std::move(row + end * rows.stride(1), row + tokens_ * rows.stride(1),
                row + begin * rows.stride(1));
    }
  for (Positions& axis : axes_) {
    close_gap(axis.ids, shape_.batch, tokens_, begin, end);
    close_gap(axis.sequences, shape_.batch, tokens_, begin, end);
    axis.tokens -= end - begin;
  }
  tokens_ -= end - begin;
}

template <typename T>
void KvCache<T>::remove(std::int64_t begin, std::int64_t end) {
  check_entries(begin, end);
  std::vector<std::int32_t> sequences;
  for (std::int64_t b = 0; b < shape_.batch; ++b) {
    const auto row = axes_[0].sequences.begin() + b * tokens_;
    sequences.insert(sequences.end(), row + begin, row + end);
  }
  std::vector<Move> moves = moves_after(end, sequences, -1);
  prepare(moves);
  make(moves);
  drop(begin, end);
}

template <typename T>
void KvCache<T>::shift(std::int64_t begin, std::int64_t end,
                       std::span<const std::int64_t> deltas) {
  check_entries(begin, end);
  if (std::ssize(deltas) != shape_.axes)
    refuse("kv_cache",
           "there must be one delta for each of " + std::to_string(shape_.axes) + " axes",
           static_cast<std::int64_t>(std::ssize(deltas)));
  std::vector<Move> moves;
  for (std::int64_t b = 0; b < shape_.batch; ++b)
    moves.push_back({b, begin, end, {deltas.begin(), deltas.end()}, {}});
  prepare(moves);
  make(moves);
}

template <typename T>
void KvCache<T>::shift(std::int64_t begin, std::int64_t end, std::int64_t delta) {
  shift(begin, end, std::vector<std::int64_t>(axes_.size(), delta));
}

template <typename T>
void KvCache<T>::change_frequencies(const RotaryFrequencies& to) {
  if (!frequencies_)
    refuse("kv_cache", "change_frequencies requires a cache with frequencies", to.rotary_dim());
  RotaryFrequencies next = to;
  rerotate_keys(key_rows().slice(1, 0, tokens_), *frequencies_, to,
                std::span<const Positions>(axes_));
  *frequencies_ = std::move(next);
}

template <typename T>
void KvCache<T>::truncate(std::int64_t tokens) {
  if (tokens < 0 || tokens > tokens_)
    refuse("kv_cache", "tokens to keep must be 0 to " + std::to_string(tokens_), tokens);
  drop(tokens, tokens_);
}

template <typename T>
void KvCache<T>::clear() noexcept {
  for (Positions& axis : axes_) {
    axis.ids.clear();
    axis.sequences.clear();
    axis.tokens = 0;
  }
  tokens_ = dropped_ = 0;
}

#define GNOMON_INSTANTIATE_APPEND(T, S)                                                   \
  template void KvCache<T>::append<S>(NewRows<S>, NewRows<S>, std::span<const Positions>, \
                                      const RotaryTable*);                                \
  template void KvCache<T>::append_rotated<S>(                                            \
      NewRows<S>, NewRows<S>, std::span<const Positions>, const RotaryFrequencies&);      \
  template void KvCache<T>::insert<S>(std::int64_t, NewRows<S>, NewRows<S>,               \
                                      std::span<const Positions>, const RotaryTable*);
template class KvCache<float>;
template class KvCache<Half>;
template class KvCache<BFloat16>;
GNOMON_INSTANTIATE_APPEND(float, float)
GNOMON_INSTANTIATE_APPEND(Half, Half)
GNOMON_INSTANTIATE_APPEND(Half, float)
GNOMON_INSTANTIATE_APPEND(BFloat16, BFloat16)
GNOMON_INSTANTIATE_APPEND(BFloat16, float)
#undef GNOMON_INSTANTIATE_APPEND

}  // namespace gnomon
