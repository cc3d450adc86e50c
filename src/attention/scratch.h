// Working memory of the kernels. It is allocated before the threads start, so that
// std::bad_alloc reaches the caller, and lent to one piece of work at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "gnomon/parallel.h"
#include "src/core/blocks.h"

namespace gnomon::internal {

// Rows are padded to whole vectors of the widest instruction set: 16 floats.
constexpr std::int64_t padded(std::int64_t count) { return (count + 15) / 16 * 16; }
// Stride of packed rows: an odd number of such vectors, so that consecutive rows map to
// different sets of a cache.
constexpr std::int64_t row_stride(std::int64_t count) { return (padded(count) / 16 | 1) * 16; }

// Returns how many of `pieces` pieces, in grains, run at the same time.
inline std::int64_t at_once(std::int64_t pieces, std::int64_t grain) {
  return std::min<std::int64_t>((pieces - 1) / grain + 1, threads());
}

template <typename A>
class ScratchPool {
 public:
  // Allocates `blocks` blocks of `elements` elements each.
  ScratchPool(std::int64_t blocks, std::int64_t elements)
      : blocks_(static_cast<std::size_t>(blocks),
                static_cast<std::size_t>(elements) * sizeof(A)),
        list_(1, static_cast<std::size_t>(blocks + 1) * sizeof(A*)),
        free_(static_cast<A**>(list_[0])) {
    for (std::int64_t i = blocks; i-- > 0;) free_[free_count_++] = at(i);  // fresh: last
  }
  // Returns the block with index `piece`, for a piece that keeps its block.
  A* at(std::int64_t piece) const noexcept {
    return static_cast<A*>(blocks_[static_cast<std::size_t>(piece)]);
  }
  // take() returns a free block, give() makes it free again.
  A* take() noexcept {
    const std::lock_guard lock(mutex_);
    return free_[--free_count_];
  }
  void give(A* block) noexcept {
    const std::lock_guard lock(mutex_);
    free_[free_count_++] = block;
  }

 private:
  BlockList blocks_, list_;
  A** free_;  // in list_[0]
  std::int64_t free_count_ = 0;
  std::mutex mutex_;
};

// An array that is initially zero.
template <typename A>
class Numbers {
 public:
  explicit Numbers(std::int64_t count)
      : block_(borrow(static_cast<std::size_t>(std::max<std::int64_t>(count, 1)) * sizeof(A))) {
    std::fill_n(data(), count, A(0));
  }
  ~Numbers() {
    if (block_.data) give_back(std::move(block_));
  }
  Numbers(Numbers&&) noexcept = default;
  Numbers& operator=(Numbers&&) = delete;
  A* data() const noexcept { return static_cast<A*>(block_.data.get()); }

 private:
  Block block_;
};

// Divides one block into parts that begin at whole vectors.
template <typename A>
class Carve {
 public:
  // Without a block it only counts elements.
  explicit Carve(A* block = nullptr) : block_(block) {}
  A* take(std::int64_t count) {
    A* part = block_ ? block_ + used_ : nullptr;
    used_ += padded(count);
    return part;
  }
  std::int64_t used() const { return used_; }

 private:
  A* block_;
  std::int64_t used_ = 0;
};

}  // namespace gnomon::internal
