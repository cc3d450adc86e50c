#include "gnomon/attention/paged_kv_cache.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "gnomon/error.h"
#include "src/core/size.h"

namespace gnomon {

using internal::to_size;
namespace {

DataType data_type(CacheType type) {
  switch (type) {
    case CacheType::f32:
      return data_type_of<float>;
    case CacheType::f16:
      return data_type_of<Half>;
    case CacheType::bf16:
      return data_type_of<BFloat16>;
    case CacheType::int8:
      return data_type_of<std::int8_t>;
    case CacheType::e4m3:
      return {TypeCode::float8_e4m3fn, 8};
  }
  refuse("paged_kv_cache", "type must be f32, f16, bf16, int8 or e4m3", static_cast<int>(type));
}

void check_scales(const char* name, const std::vector<float>& scales, bool needed,
                  std::int64_t heads) {
  const auto count = std::ssize(scales);
  if (needed ? count != 1 && count != heads : count != 0)
    refuse("paged_kv_cache",
           std::string(name) +
               (needed ? " of e4m3 must have 1 or " + std::to_string(heads) + " elements"
                       : " must be empty unless the type is e4m3"),
           count);
  for (const float scale : scales)
    if (!(scale > 0 && std::isfinite(scale)))
      refuse("paged_kv_cache", std::string(name) + " must be positive and finite",
             double{scale});
}

std::int64_t rounded_up(std::int64_t tokens, std::int64_t block_size) {
  return tokens / block_size + (tokens % block_size ? 1 : 0);
}

ConstTensor tensor_of(const void* data, DataType type, std::int32_t rank,
                      const std::int64_t* shape) {
  ConstTensor tensor;
  tensor.data = const_cast<void*>(data);
  tensor.dtype = type;
  tensor.rank = rank;
  tensor.shape = const_cast<std::int64_t*>(shape);
  return tensor;
}
}  // namespace

PagedKvCache::PagedKvCache(const PagedKvCacheShape& shape,
                           std::optional<RotaryFrequencies> frequencies)
    : shape_(shape), frequencies_(std::move(frequencies)) {
  const std::pair<const char*, std::int64_t> extents[] = {{"blocks", shape.blocks},
                                                          {"block_size", shape.block_size},
                                                          {"heads", shape.heads},
                                                          {"head_dim", shape.head_dim},
                                                          {"axes", shape.axes}};
  for (const auto& [what, extent] : extents)
    if (extent < 1) refuse("paged_kv_cache", std::string(what) + " must be at least 1", extent);
  if (shape.blocks > std::numeric_limits<std::int32_t>::max())
    refuse("paged_kv_cache", "blocks must be at most 2^31 - 1", shape.blocks);
  if (shape.value_dim < 0)
    refuse("paged_kv_cache", "value_dim must not be negative", shape.value_dim);
  const std::size_t bytes = data_type(shape.type).bits / 8;
  const bool e4m3 = shape.type == CacheType::e4m3;
  check_scales("key_scales", shape.key_scales, e4m3, shape.heads);
  check_scales("value_scales", shape.value_scales, e4m3 && shape.value_dim > 0, shape.heads);
  if (frequencies_) {
    const std::vector<Positions> none(to_size(shape.axes), consecutive(0));
    RotaryTable(*frequencies_, std::span<const Positions>(none));  // checks the frequencies
    if (shape.head_dim - frequencies_->rotary_dim() < frequencies_->head_offset)
      refuse("paged_kv_cache",
             "head_dim must be at least head_offset + rotary_dim = " +
                 std::to_string(frequencies_->head_offset) + " + " +
                 std::to_string(frequencies_->rotary_dim()),
             shape.head_dim);
  }
  const auto elements = [&](std::int64_t head_dim) {
    return internal::checked_size("paged_kv_cache", "blocks x block_size x heads x head_dim",
                                  {shape.blocks, shape.block_size, shape.heads, head_dim});
  };
  key_extents_ = {shape.blocks, shape.block_size, shape.heads, shape.head_dim};
  value_extents_ = {shape.blocks, shape.block_size, shape.heads, shape.value_dim};
  keys_.resize(elements(shape.head_dim) * bytes);
  values_.resize(elements(shape.value_dim) * bytes);
  if (shape.type == CacheType::int8) {
    key_head_scales_.resize(elements(1));
    if (shape.value_dim > 0) value_head_scales_.resize(elements(1));
  }
  key_scale_count_ = std::ssize(shape.key_scales);
  value_scale_count_ = std::ssize(shape.value_scales);
  positions_.assign(to_size(shape.axes),
                    std::vector<std::int64_t>(to_size(shape.blocks * shape.block_size)));
  holders_.resize(to_size(shape.blocks));
  scratch_.writers.resize(to_size(shape.blocks));
  free_.resize(to_size(shape.blocks));
  clear();
}

ConstTensor PagedKvCache::keys() const noexcept {
  return tensor_of(keys_.data(), data_type(shape_.type), 4, key_extents_.data());
}
ConstTensor PagedKvCache::values() const noexcept {
  if (shape_.value_dim == 0) return keys();
  return tensor_of(values_.data(), data_type(shape_.type), 4, value_extents_.data());
}
ConstTensor PagedKvCache::key_scales() const noexcept {
  if (shape_.type == CacheType::int8)
    return tensor_of(key_head_scales_.data(), data_type_of<float>, 3, key_extents_.data());
  if (shape_.type != CacheType::e4m3) return {};
  return tensor_of(shape_.key_scales.data(), data_type_of<float>, 1, &key_scale_count_);
}
ConstTensor PagedKvCache::value_scales() const noexcept {
  if (shape_.value_dim == 0) return key_scales();
  if (shape_.type == CacheType::int8)
    return tensor_of(value_head_scales_.data(), data_type_of<float>, 3, value_extents_.data());
  if (shape_.type != CacheType::e4m3) return {};
  return tensor_of(shape_.value_scales.data(), data_type_of<float>, 1, &value_scale_count_);
}

const PagedKvCache::Sequence& PagedKvCache::sequence_of(std::int64_t sequence) const {
  if (sequence < 0 || sequence >= std::ssize(sequences_) ||
      sequences_[to_size(sequence)].tokens < 0)
    refuse("paged_kv_cache", "a number must be that of a sequence of the cache", sequence);
  return sequences_[to_size(sequence)];
}
PagedKvCache::Sequence& PagedKvCache::sequence_of(std::int64_t sequence) {
  return const_cast<Sequence&>(std::as_const(*this).sequence_of(sequence));
}

std::int64_t PagedKvCache::sequences() const noexcept {
  return std::ssize(sequences_) - ended_count_;
}
std::int64_t PagedKvCache::tokens(std::int64_t sequence) const {
  return sequence_of(sequence).tokens;
}
std::int64_t PagedKvCache::free_blocks() const noexcept { return free_count_; }

std::int64_t PagedKvCache::room(std::int64_t sequence) const {
  const Sequence& one = sequence_of(sequence);
  const std::int64_t used = one.tokens % shape_.block_size;
  const std::int64_t of_free = free_blocks() * shape_.block_size;
  if (used == 0) return of_free;
  if (holders_[to_size(one.blocks.back())] == 1) return of_free + shape_.block_size - used;
  return std::max<std::int64_t>(0, of_free - used);  // a free block replaces the shared one
}

Positions PagedKvCache::positions(std::int64_t sequence, std::int64_t axis) const {
  const Sequence& one = sequence_of(sequence);
  if (axis < 0 || axis >= shape_.axes)
    refuse("paged_kv_cache", "axis must be 0 to " + std::to_string(shape_.axes - 1), axis);
  std::vector<std::int64_t> ids(to_size(one.tokens));
  for (std::int64_t j = 0; j < one.tokens; ++j) {
    const std::int64_t block = one.blocks[to_size(j / shape_.block_size)];
    ids[to_size(j)] =
        positions_[to_size(axis)][to_size(block * shape_.block_size + j % shape_.block_size)];
  }
  return explicit_ids(ids);
}

std::int64_t PagedKvCache::start() {
  if (ended_count_ > 0) {
    const std::int64_t number = ended_[to_size(--ended_count_)];
    sequences_[to_size(number)].tokens = 0;
    return number;
  }
  ended_.resize(sequences_.size() + 1);
  scratch_.seen.resize(sequences_.size() + 1);
  sequences_.emplace_back().tokens = 0;
  return std::ssize(sequences_) - 1;
}

std::int64_t PagedKvCache::fork(std::int64_t sequence) {
  return fork(sequence, tokens(sequence));
}

std::int64_t PagedKvCache::fork(std::int64_t sequence, std::int64_t tokens) {
  const std::int64_t all = sequence_of(sequence).tokens;
  if (tokens < 0 || tokens > all)
    refuse("paged_kv_cache", "tokens of a fork must be 0 to " + std::to_string(all), tokens);
  const std::int64_t number = start();
  const auto& from = sequences_[to_size(sequence)].blocks;
  Sequence& to = sequences_[to_size(number)];
  try {
    to.blocks.assign(from.begin(), from.begin() + rounded_up(tokens, shape_.block_size));
  } catch (...) {
    end(number);
    throw;
  }
  to.tokens = tokens;
  for (const std::int32_t block : to.blocks) ++holders_[to_size(block)];
  return number;
}

// Keeps the first `blocks` blocks. The others will be used again in their order.
void PagedKvCache::release(Sequence& sequence, std::int64_t blocks) noexcept {
  while (std::ssize(sequence.blocks) > blocks) {
    const std::int32_t block = sequence.blocks.back();
    sequence.blocks.pop_back();
    if (--holders_[to_size(block)] == 0) free_[to_size(free_count_++)] = block;
  }
}

void PagedKvCache::truncate(std::int64_t sequence, std::int64_t tokens) {
  Sequence& one = sequence_of(sequence);
  if (tokens < 0 || tokens > one.tokens)
    refuse("paged_kv_cache", "tokens to keep must be 0 to " + std::to_string(one.tokens),
           tokens);
  release(one, rounded_up(tokens, shape_.block_size));
  one.tokens = tokens;
}

void PagedKvCache::end(std::int64_t sequence) {
  Sequence& one = sequence_of(sequence);
  release(one, 0);
  one.tokens = -1;
  ended_[to_size(ended_count_++)] = sequence;
}

void PagedKvCache::clear() noexcept {
  ended_count_ = free_count_ = 0;
  for (std::int64_t number = std::ssize(sequences_); number-- > 0;) {
    sequences_[to_size(number)].tokens = -1;
    sequences_[to_size(number)].blocks.clear();
    ended_[to_size(ended_count_++)] = number;
  }
  std::fill(holders_.begin(), holders_.end(), 0);
  for (std::int64_t block = shape_.blocks; block-- > 0;)
    free_[to_size(free_count_++)] = static_cast<std::int32_t>(block);
}

View<const std::int32_t, 2> PagedKvCache::block_table(std::span<const std::int64_t> sequences) {
  std::size_t most = 1;
  for (const std::int64_t number : sequences)
    most = std::max(most, sequence_of(number).blocks.size());
  table_.resize(std::max(table_.size(), sequences.size() * most));
  auto to = table_.begin();
  for (const std::int64_t number : sequences) {
    const auto& blocks = sequences_[to_size(number)].blocks;
    to = std::copy(blocks.begin(), blocks.end(), to);
    to = std::fill_n(to, most - blocks.size(), -1);
  }
  return {table_.data(), {std::ssize(sequences), static_cast<std::int64_t>(most)}};
}

std::span<const std::int64_t> PagedKvCache::key_lengths(
    std::span<const std::int64_t> sequences) {
  lengths_.resize(sequences.size());
  for (std::size_t n = 0; n < sequences.size(); ++n) lengths_[n] = tokens(sequences[n]);
  return lengths_;
}

}  // namespace gnomon
