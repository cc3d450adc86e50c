// Working memory of the kernels: allocated before the threads start, so that want of memory
// throws where it can be caught, and lent to one piece of work at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <vector>

#include "gnomon/parallel.h"
#include "hwy/aligned_allocator.h"

namespace gnomon::internal {

// Rows are padded to whole vectors of the widest instruction set: 16 floats.
constexpr std::int64_t padded(std::int64_t count) { return (count + 15) / 16 * 16; }

template <typename A>
class ScratchPool {
 public:
  // For loops of `pieces` pieces that each need `elements` numbers.
  ScratchPool(std::int64_t pieces, std::int64_t elements) {
    const std::int64_t count = pieces < threads() ? pieces : threads();
    for (std::int64_t i = 0; i < count; ++i) {
      blocks_.push_back(hwy::AllocateAligned<A>(static_cast<std::size_t>(elements)));
      if (!blocks_.back()) throw std::bad_alloc();
      free_.push_back(blocks_.back().get());
    }
  }
  A* take() noexcept {
    const std::lock_guard lock(mutex_);
    A* block = free_.back();
    free_.pop_back();
    return block;
  }
  void give(A* block) noexcept {
    const std::lock_guard lock(mutex_);
    free_.push_back(block);  // has room: `block` came from here
  }

 private:
  std::vector<hwy::AlignedFreeUniquePtr<A[]>> blocks_;
  std::vector<A*> free_;
  std::mutex mutex_;
};

// Cuts one block into parts, each beginning at a whole vector.
template <typename A>
class Carve {
 public:
  // Without a block it only counts.
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
