#include "gnomon/attention/segment_memory.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "gnomon/error.h"
#include "gnomon/rotary/cached_keys.h"
#include "src/core/size.h"

namespace gnomon {
namespace {

using std::int64_t;

int64_t capacity(const SegmentMemoryShape& shape) {
  return internal::checked_sum("segment_memory", "2 x memory + segment",
                               {shape.memory, shape.memory, shape.segment});
}

std::size_t elements(const SegmentMemoryShape& shape, int64_t head_dim) {
  return internal::checked_size("segment_memory", "batch x rows x heads x head_dim",
                                {shape.batch, capacity(shape), shape.heads, head_dim});
}

template <typename T>
View<T, 4> rows(std::vector<T>& store, const SegmentMemoryShape& shape, int64_t head_dim) {
  return {store.data(), {shape.batch, capacity(shape), shape.heads, head_dim}};
}

void check(const SegmentMemoryShape& shape) {
  const std::pair<const char*, int64_t> extents[] = {{"batch", shape.batch},
                                                     {"segment", shape.segment},
                                                     {"heads", shape.heads},
                                                     {"head_dim", shape.head_dim},
                                                     {"value_dim", shape.value_dim}};
  for (const auto& [what, extent] : extents)
    if (extent < 1) refuse("segment_memory", std::string(what) + " must be at least 1", extent);
  if (shape.memory < 0) refuse("segment_memory", "memory must not be negative", shape.memory);
}

}  // namespace

template <typename T>
SegmentMemory<T>::SegmentMemory(const SegmentMemoryShape& shape,
                                std::optional<RotaryFrequencies> frequencies)
    : shape_(shape), frequencies_(std::move(frequencies)) {
  check(shape);
  if (frequencies_) {
    RotaryTable(*frequencies_, consecutive(0));  // checks the frequencies
    if (shape.head_dim - frequencies_->rotary_dim() < frequencies_->head_offset)
      refuse("segment_memory",
             "head_dim must be at least head_offset + rotary_dim = " +
                 std::to_string(frequencies_->head_offset) + " + " +
                 std::to_string(frequencies_->rotary_dim()),
             shape.head_dim);
  }
  keys_.resize(elements(shape, shape.head_dim));
  values_.resize(elements(shape, shape.value_dim));
}

template <typename T>
int64_t SegmentMemory<T>::kept() const noexcept {
  return std::min(tokens_, shape_.memory);
}

template <typename T>
Segment<T> SegmentMemory<T>::append(View<const T, 4> k, View<const T, 4> v,
                                    const RotaryTable* table) {
  const int64_t count = k.extent(1);
  const std::array<std::int64_t, 4> of_k{shape_.batch, count, shape_.heads, shape_.head_dim};
  const std::array<std::int64_t, 4> of_v{shape_.batch, count, shape_.heads, shape_.value_dim};
  if (k.extents() != of_k)
    refuse("segment_memory", "k must be " + shape_text(of_k), shape_text(k.extents()));
  if (v.extents() != of_v)
    refuse("segment_memory", "v must be " + shape_text(of_v), shape_text(v.extents()));
  if (count > shape_.segment)
    refuse("segment_memory",
           "a segment must have at most " + std::to_string(shape_.segment) + " tokens", count);
  if (count > std::numeric_limits<int64_t>::max() - next_)
    refuse("segment_memory", "positions must fit 64 bits", next_);
  if (table && !frequencies_)
    refuse("segment_memory", "a memory without frequencies cannot take a rotary table",
           "a table");
  std::optional<RotaryTable> made;
  if (frequencies_ && !table) table = &made.emplace(*frequencies_, consecutive(count, next_));
  if (table) {
    if (const std::string text = difference(table->frequencies(), *frequencies_); !text.empty())
      refuse("segment_memory", "keys must be rotated with the frequencies of the memory", text);
    if (table->tokens() != count || (table->batch() != 1 && table->batch() != shape_.batch))
      refuse("segment_memory",
             "the table must be of 1 or " + std::to_string(shape_.batch) + " rows of " +
                 std::to_string(count) + " tokens",
             std::to_string(table->batch()) + " of " + std::to_string(table->tokens()));
  }
  const View<T, 4> key_rows = rows(keys_, shape_, shape_.head_dim);
  const View<T, 4> value_rows = rows(values_, shape_, shape_.value_dim);
  if (const int64_t keep = kept(); tokens_ + count > capacity(shape_)) {
    for (const View<T, 4>& all : {key_rows, value_rows})
      for (int64_t b = 0; b < shape_.batch; ++b) {
        T* const row = all.data() + b * all.stride(0);
        std::copy(row + (tokens_ - keep) * all.stride(1), row + tokens_ * all.stride(1), row);
      }
    tokens_ = keep;
  }
  if (table)
    rotate_append(k, *table, key_rows.slice(1, tokens_, count));
  else
    copy_append(k, key_rows.slice(1, tokens_, count));
  copy_append(v, value_rows.slice(1, tokens_, count));
  Segment<T> segment;
  segment.offset = kept();
  segment.first = next_ - segment.offset;
  segment.keys =
      View<const T, 4>(key_rows.slice(1, tokens_ - segment.offset, segment.offset + count));
  segment.values =
      View<const T, 4>(value_rows.slice(1, tokens_ - segment.offset, segment.offset + count));
  tokens_ += count;
  next_ += count;
  return segment;
}

template class SegmentMemory<float>;
template class SegmentMemory<Half>;
template class SegmentMemory<BFloat16>;
template class SegmentMemory<double>;

}  // namespace gnomon
