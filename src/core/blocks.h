// Blocks of working memory, which calls borrow from the context of their thread, or from the
// process.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace gnomon::internal {

// Uninitialised memory at the start of a cache line.
struct Block {
  struct Free {
    void operator()(void* data) const noexcept;
  };
  std::unique_ptr<void, Free> data;
  std::size_t bytes = 0;
};

// Blocks that no call uses. Fresh pages cost more than a short call, so blocks are kept.
struct KeptBlocks {
  std::mutex mutex;
  std::vector<Block> blocks;

  // Returns the smallest block of at least so many bytes, or a block without data.
  Block take(std::size_t bytes);
};

// Returns a block that an earlier call gave back, or a new one. Throws std::bad_alloc.
Block borrow(std::size_t bytes);
void give_back(Block block) noexcept;

// Blocks of one size, given back at the end. Also the list itself is a block, so that a call
// allocates nothing if an earlier one has given back enough.
class BlockList {
 public:
  // Throws std::bad_alloc.
  BlockList(std::size_t count, std::size_t bytes) : list_(borrow((count + 1) * sizeof(Block))) {
    try {
      for (; count_ < count; ++count_) new (first() + count_) Block(borrow(bytes));
    } catch (...) {
      give_all_back();
      throw;
    }
  }
  ~BlockList() { give_all_back(); }
  BlockList(const BlockList&) = delete;
  BlockList& operator=(const BlockList&) = delete;
  void* operator[](std::size_t index) const noexcept { return first()[index].data.get(); }

 private:
  Block* first() const noexcept { return static_cast<Block*>(list_.data.get()); }
  void give_all_back() noexcept {
    while (count_ > 0) {
      Block& block = first()[--count_];
      give_back(std::move(block));
      block.~Block();
    }
    give_back(std::move(list_));
  }

  Block list_;
  std::size_t count_ = 0;
};

}  // namespace gnomon::internal
