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

// Uninitialised memory at the start of a cache line.
struct Block {
  struct Free {
    void operator()(void* data) const noexcept;
  };
  std::unique_ptr<void, Free> data;
  std::size_t bytes = 0;
};

// Returns a block that an earlier call gave back, or a new one. Throws std::bad_alloc.
Block borrow(std::size_t bytes);
void give_back(Block block) noexcept;

template <typename A>
class ScratchPool {
 public:
  // Allocates `blocks` blocks of `elements` elements each.
  ScratchPool(std::int64_t blocks, std::int64_t elements) {
    blocks_.reserve(static_cast<std::size_t>(blocks));
    free_.reserve(static_cast<std::size_t>(blocks));
    for (std::int64_t i = 0; i < blocks; ++i)
      blocks_.push_back(borrow(static_cast<std::size_t>(elements) * sizeof(A)));
    for (std::int64_t i = blocks; i-- > 0;) free_.push_back(at(i));  // fresh pages are last
  }
  ~ScratchPool() {
    for (Block& block : blocks_) give_back(std::move(block));
  }
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;
  // Returns the block with index `piece`, for a piece that keeps its block.
  A* at(std::int64_t piece) const noexcept {
    return static_cast<A*>(blocks_[static_cast<std::size_t>(piece)].data.get());
  }
  // take() returns a free block, give() makes it free again.
  A* take() noexcept {
    const std::lock_guard lock(mutex_);
    A* block = free_.back();
    free_.pop_back();
    return block;
  }
  void give(A* block) noexcept {
    const std::lock_guard lock(mutex_);
    free_.push_back(block);  // never allocates: `block` came from free_
  }

 private:
  std::vector<Block> blocks_;
  std::vector<A*> free_;
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
