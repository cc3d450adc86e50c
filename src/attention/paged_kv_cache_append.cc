// PagedKvCache: new entries, and the rotation of all keys to other frequencies.
#include <algorithm>
#include <string>
#include <utility>

#include "gnomon/attention/paged_kv_cache.h"
#include "gnomon/error.h"
#include "gnomon/rotary/cached_keys.h"
#include "gnomon/rotary/paged_append.h"
#include "src/core/size.h"

namespace gnomon {

using internal::to_size;
namespace {

constexpr std::int64_t most_position = std::int64_t{1} << 31;  // the limit of RotaryTable

// A tensor of the cache that is written.
Tensor written(const ConstTensor& tensor) {
  Tensor same;
  static_cast<ConstTensor&>(same) = tensor;
  return same;
}

// The extents of [rows, Hk, D] or [1, rows, Hk, D] as those of [1, rows, Hk, D].
std::array<std::int64_t, 4> extents_of(const char* name, const ConstTensor& x) {
  if ((x.rank != 3 && x.rank != 4) || !x.shape)
    refuse(
        "paged_kv_cache",
        std::string(name) + " must be [rows, Hk, D] or [1, rows, Hk, D], with a number of axes",
        x.rank);
  const std::int64_t* const last = x.shape + x.rank - 3;
  return {x.rank == 4 ? x.shape[0] : 1, last[0], last[1], last[2]};
}

template <typename Element>
void reserve(std::vector<Element>& list, std::size_t size) {
  if (list.capacity() < size) list.reserve(std::max(size, list.capacity() * 3 / 2));
}

}  // namespace

std::int32_t PagedKvCache::free_block(std::int64_t index) const noexcept {
  return free_[to_size(free_count_ - 1 - index)];
}

// Fills scratch.growth and returns the free blocks that the sequences take.
std::int64_t PagedKvCache::grow(std::span<const std::int64_t> sequences,
                                std::span<const std::int64_t> starts, std::int64_t rows,
                                Scratch& scratch) const {
  if (!starts.empty() && starts.size() != sequences.size() + 1)
    refuse("paged_kv_cache",
           "starts must have " + std::to_string(sequences.size() + 1) +
               " elements, one more than sequences",
           std::ssize(starts));
  if (starts.empty() && std::ssize(sequences) != rows)
    refuse("paged_kv_cache",
           "without starts there must be one row for each of " +
               std::to_string(sequences.size()) + " sequences",
           rows);
  for (std::size_t n = 0; n < starts.size(); ++n) {
    const std::int64_t least = n == 0 ? 0 : starts[n - 1];
    if (starts[n] < least || starts[n] > rows)
      refuse("paged_kv_cache",
             "start " + std::to_string(n) + " must be " + std::to_string(least) + " to " +
                 std::to_string(rows),
             starts[n]);
  }
  for (const std::int64_t number : sequences) {
    const Sequence& one = sequence_of(number);
    scratch.seen[to_size(number)] = 0;
    if (!one.blocks.empty()) scratch.writers[to_size(one.blocks.back())] = 0;
  }
  scratch.growth.resize(sequences.size());
  std::int64_t taken = 0;
  for (std::size_t n = 0; n < sequences.size(); ++n) {
    const Sequence& one = sequences_[to_size(sequences[n])];
    if (scratch.seen[to_size(sequences[n])]++)
      refuse("paged_kv_cache", "each sequence must occur once in a call", sequences[n]);
    Growth& growth = scratch.growth[n];
    growth = {};
    growth.begin = starts.empty() ? static_cast<std::int64_t>(n) : starts[n];
    growth.rows = starts.empty() ? 1 : starts[n + 1] - starts[n];
    growth.taken = taken;
    if (growth.rows == 0) continue;
    // Of the sequences that hold a block, the last one that writes it needs no copy.
    if (one.tokens % shape_.block_size) {
      const std::size_t last = to_size(one.blocks.back());
      growth.copies = holders_[last] - scratch.writers[last] > 1;
      if (growth.copies) ++scratch.writers[last];
    }
    // tokens and rows are below 2^59, the limits of tensors.
    taken += (one.tokens + growth.rows + shape_.block_size - 1) / shape_.block_size -
             std::ssize(one.blocks) + (growth.copies ? 1 : 0);
  }
  return taken;
}

std::int64_t PagedKvCache::blocks_needed(std::span<const std::int64_t> sequences,
                                         std::span<const std::int64_t> starts) const {
  Scratch scratch;
  scratch.writers.resize(holders_.size());
  scratch.seen.resize(sequences_.size());
  const std::int64_t rows =
      starts.empty() ? static_cast<std::int64_t>(std::ssize(sequences)) : starts.back();
  if (rows > internal::most_elements)
    refuse("paged_kv_cache", "rows must be at most " + std::to_string(internal::most_elements),
           rows);
  return grow(sequences, starts, rows, scratch);
}

// Returns the rows of k.
std::int64_t PagedKvCache::check_new(const ConstTensor& k, const ConstTensor& v,
                                     std::span<const Positions> axes) const {
  const auto of_k = extents_of("k", k);
  const std::int64_t rows = of_k[1];
  const std::array<std::int64_t, 4> wanted_k{1, rows, shape_.heads, shape_.head_dim},
      wanted_v{1, rows, shape_.heads, shape_.value_dim};
  if (of_k != wanted_k || rows < 0 || rows > internal::most_elements)
    refuse("paged_kv_cache",
           "k must be [rows, Hk, D] or [1, rows, Hk, D] with Hk = " +
               std::to_string(shape_.heads) + " and D = " + std::to_string(shape_.head_dim),
           shape_text(of_k));
  if (shape_.value_dim == 0 ? v.has_data() : extents_of("v", v) != wanted_v)
    refuse("paged_kv_cache",
           shape_.value_dim == 0 ? "v must not be given, because the values are the keys"
                                 : "v must be " + shape_text(wanted_v),
           shape_text(extents_of("v", v)));
  if (!axes.empty() && axes.size() != 1 && std::ssize(axes) != shape_.axes)
    refuse("paged_kv_cache",
           "positions must have 1 axis (used for all axes) or " + std::to_string(shape_.axes),
           std::ssize(axes));
  for (const Positions& axis : axes) {
    if (axis.batch != 1 || axis.tokens != rows || std::ssize(axis.ids) != rows)
      refuse("paged_kv_cache", "positions must be 1 row of " + std::to_string(rows) + " tokens",
             std::to_string(axis.batch) + " of " + std::to_string(axis.tokens));
    if (!frequencies_) continue;
    for (const std::int64_t id : axis.ids)
      if (id < -most_position || id > most_position)
        refuse("paged_kv_cache", "positions must be at most 2^31 in magnitude", id);
  }
  return rows;
}

void PagedKvCache::check_frequencies(const RotaryFrequencies& rotated_with) const {
  if (!frequencies_)
    refuse("paged_kv_cache", "a cache without frequencies cannot take rotated keys",
           "frequencies");
  const std::string text = difference(rotated_with, *frequencies_);
  if (!text.empty())
    refuse("paged_kv_cache", "keys must be rotated with the frequencies of the cache", text);
}

// Writes the slot of each row, -1 for rows of no sequence, and its index in its sequence.
void PagedKvCache::find_places(std::span<const std::int64_t> sequences, std::int64_t rows) {
  slots_.assign(to_size(rows), -1);
  ids_.assign(to_size(rows), 0);
  for (std::size_t n = 0; n < sequences.size(); ++n) {
    const Sequence& one = sequences_[to_size(sequences[n])];
    const Growth& growth = scratch_.growth[n];
    // Blocks from `held` on are new.
    const std::int64_t held = std::ssize(one.blocks) - (growth.copies ? 1 : 0);
    for (std::int64_t row = 0; row < growth.rows;) {
      const std::int64_t at = one.tokens + row, index = at / shape_.block_size,
                         entry = at % shape_.block_size;
      const std::int64_t block =
          index < held ? one.blocks[to_size(index)] : free_block(growth.taken + index - held);
      const std::int64_t count = std::min(growth.rows - row, shape_.block_size - entry);
      for (std::int64_t i = 0; i < count; ++i) {
        const std::size_t to = to_size(growth.begin + row + i);
        slots_[to] = block * shape_.block_size + entry + i;
        ids_[to] = at + i;
      }
      row += count;
    }
  }
}

// Writes rows to their slots.
void PagedKvCache::write(const ConstTensor& k, const ConstTensor& v, const RotaryTable* table) {
  const View<const std::int64_t, 1> slots(slots_.data(), {std::ssize(slots_)});
  PagedCache cache;
  cache.keys = written(keys());
  cache.slots = slots;
  if (shape_.value_dim > 0) cache.values = written(values());
  if (shape_.type == CacheType::int8) {
    cache.key_head_scales = written(key_scales());
    if (shape_.value_dim > 0) cache.value_head_scales = written(value_scales());
  } else if (shape_.type == CacheType::e4m3) {
    cache.key_scales = key_scales();
    if (shape_.value_dim > 0) cache.value_scales = value_scales();
  }
  if (table)
    rotate_append(k, v, *table, cache);
  else
    copy_append(k, v, cache);
}

void PagedKvCache::copy_entries(std::int32_t from, std::int32_t to,
                                std::int64_t count) noexcept {
  const auto copy = [&](auto& all) {
    const std::size_t block = all.size() / to_size(shape_.blocks);
    std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(to_size(from) * block),
                block / to_size(shape_.block_size) * to_size(count),
                all.begin() + static_cast<std::ptrdiff_t>(to_size(to) * block));
  };
  copy(keys_);
  copy(values_);
  copy(key_head_scales_);
  copy(value_head_scales_);
  for (auto& axis : positions_) copy(axis);
}

// Everything that can throw is before the entries change that a sequence holds.
void PagedKvCache::put(const ConstTensor& k, const ConstTensor& v,
                       std::span<const std::int64_t> sequences,
                       std::span<const std::int64_t> starts, std::span<const Positions> axes,
                       const RotaryTable* table, bool rotate) {
  const std::int64_t rows = check_new(k, v, axes);
  const std::int64_t needed = grow(sequences, starts, rows, scratch_);
  if (needed > free_count_)
    refuse("paged_kv_cache",
           "new tokens must fit the " + std::to_string(free_count_) +
               " free blocks; blocks needed",
           needed);
  if (rows == 0) return;
  find_places(sequences, rows);
  for (std::size_t n = 0; n < sequences.size(); ++n) {
    Sequence& one = sequences_[to_size(sequences[n])];
    const std::int64_t tokens = one.tokens + scratch_.growth[n].rows;
    if (frequencies_ && tokens > most_position)
      refuse("paged_kv_cache", "a sequence must have at most 2^31 tokens", tokens);
    reserve(one.blocks, to_size((tokens + shape_.block_size - 1) / shape_.block_size));
  }
  std::optional<RotaryTable> made;
  if (rotate && !table && frequencies_) {
    Positions of_entries;
    if (axes.empty()) of_entries = explicit_ids(ids_);
    const Positions& first = axes.empty() ? of_entries : axes[0];
    const std::vector<Positions> alike(axes.size() > 1 ? 0 : to_size(shape_.axes), first);
    table = &made.emplace(*frequencies_, alike.empty() ? axes : std::span(alike));
  }
  for (std::size_t n = 0; n < sequences.size(); ++n) {
    const Sequence& one = sequences_[to_size(sequences[n])];
    if (scratch_.growth[n].copies)
      copy_entries(one.blocks.back(), free_block(scratch_.growth[n].taken),
                   one.tokens % shape_.block_size);
  }
  write(k, v, table);
  for (std::size_t a = 0; a < positions_.size(); ++a)
    for (std::size_t row = 0; row < slots_.size(); ++row)
      if (slots_[row] >= 0)
        positions_[a][to_size(slots_[row])] =
            axes.empty() ? ids_[row] : axes[axes.size() == 1 ? 0 : a].ids[row];
  for (std::size_t n = 0; n < sequences.size(); ++n) {
    Sequence& one = sequences_[to_size(sequences[n])];
    const Growth& growth = scratch_.growth[n];
    one.tokens += growth.rows;
    if (growth.copies) {
      --holders_[to_size(one.blocks.back())];
      one.blocks.pop_back();
    }
    for (std::int64_t index = growth.taken;
         std::ssize(one.blocks) * shape_.block_size < one.tokens; ++index) {
      one.blocks.push_back(free_block(index));
      holders_[to_size(one.blocks.back())] = 1;
    }
  }
  free_count_ -= needed;
}

void PagedKvCache::append(const ConstTensor& k, const ConstTensor& v,
                          std::span<const std::int64_t> sequences,
                          std::span<const std::int64_t> starts, std::span<const Positions> axes,
                          const RotaryTable* table) {
  if (table) check_frequencies(table->frequencies());
  put(k, v, sequences, starts, axes, table, true);
}

void PagedKvCache::append(const ConstTensor& k, const ConstTensor& v, std::int64_t sequence,
                          std::span<const Positions> axes, const RotaryTable* table) {
  const std::int64_t starts[] = {0, extents_of("k", k)[1]};
  append(k, v, std::span(&sequence, 1), starts, axes, table);
}

void PagedKvCache::append_rotated(const ConstTensor& k, const ConstTensor& v,
                                  std::span<const std::int64_t> sequences,
                                  std::span<const std::int64_t> starts,
                                  std::span<const Positions> axes,
                                  const RotaryFrequencies& rotated_with) {
  check_frequencies(rotated_with);
  put(k, v, sequences, starts, axes, nullptr, false);
}

// Also rotates free blocks, which are not read. A block of two sequences is rotated once.
void PagedKvCache::change_frequencies(const RotaryFrequencies& to) {
  if (!frequencies_)
    refuse("paged_kv_cache", "change_frequencies requires a cache with frequencies",
           to.rotary_dim());
  if (shape_.type == CacheType::int8 || shape_.type == CacheType::e4m3)
    refuse("paged_kv_cache", "change_frequencies requires elements of f32, f16 or bf16",
           shape_.type == CacheType::int8 ? "int8" : "e4m3");
  RotaryFrequencies next = to;
  std::vector<Positions> axes;
  for (const auto& all : positions_) {
    Positions axis = consecutive(shape_.block_size, 0, shape_.blocks);
    for (std::size_t at = 0; at < all.size(); ++at)
      axis.ids[at] = holders_[at / to_size(shape_.block_size)] ? all[at] : 0;
    axes.push_back(std::move(axis));
  }
  rerotate_keys(written(keys()), *frequencies_, to, std::span<const Positions>(axes));
  *frequencies_ = std::move(next);
}

}  // namespace gnomon
