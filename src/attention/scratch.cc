#include "src/attention/scratch.h"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>

#include "src/core/memory.h"

namespace gnomon::internal {
namespace {

// Blocks are kept between calls, because fresh pages cost more than a short call.
constexpr std::size_t most_kept = std::size_t{8} << 20;  // bytes of a block

std::mutex mutex;
// Never destroyed, because threads may compute until the process ends.
std::vector<Block>& kept() {
  static auto* const blocks = new std::vector<Block>;
  return *blocks;
}
// A forked child does not have the thread that may hold the mutex during the fork.
[[maybe_unused]] const int held_by_fork =
    pthread_atfork([] { mutex.lock(); }, [] { mutex.unlock(); }, [] { mutex.unlock(); });

}  // namespace

void Block::Free::operator()(void* data) const noexcept { std::free(data); }

Block borrow(std::size_t bytes) {
  {
    const std::lock_guard lock(mutex);
    auto& blocks = kept();
    const auto fits = std::find_if(blocks.begin(), blocks.end(),
                                   [&](const Block& block) { return block.bytes >= bytes; });
    if (fits != blocks.end()) {
      Block block = std::move(*fits);
      blocks.erase(fits);
      return block;
    }
  }
  Block block;
  block.data.reset(allocate_long(bytes));
  block.bytes = bytes;
  return block;
}

void give_back(Block block) noexcept {
  if (block.bytes > most_kept) return;
  try {
    const std::lock_guard lock(mutex);
    auto& blocks = kept();
    // Keep two blocks for each thread: buffers, and sums of a backward pass. If there are more,
    // free the smallest.
    blocks.push_back(std::move(block));
    if (blocks.size() > 2 * static_cast<std::size_t>(threads()))
      blocks.erase(
          std::min_element(blocks.begin(), blocks.end(),
                           [](const Block& a, const Block& b) { return a.bytes < b.bytes; }));
  } catch (const std::bad_alloc&) {  // the block is freed
  }
}

}  // namespace gnomon::internal
