#include "src/core/blocks.h"

#include <algorithm>
#include <new>
#include <utility>

#include "gnomon/parallel.h"
#include "src/core/context.h"
#include "src/core/fork.h"
#include "src/core/memory.h"

namespace gnomon::internal {
namespace {

// The process keeps two blocks for each thread (buffers, and sums of a backward pass), of at
// most this many bytes. A context keeps all.
constexpr std::size_t most_kept = std::size_t{8} << 20;

// Never destroyed, because threads may compute until the process ends.
KeptBlocks& of_process() {
  static auto* const blocks = new KeptBlocks;
  return *blocks;
}

// A forked child does not have the thread that may hold the mutex during the fork.
[[maybe_unused]] const int held_by_fork =
    at_fork([] { of_process().mutex.lock(); }, [] { of_process().mutex.unlock(); },
            [] { of_process().mutex.unlock(); });

}  // namespace

void Block::Free::operator()(void* data) const noexcept { free_long(data); }

Block KeptBlocks::take(std::size_t bytes) {
  const std::lock_guard lock(mutex);
  auto best = blocks.end();
  for (auto one = blocks.begin(); one != blocks.end(); ++one)
    if (one->bytes >= bytes && (best == blocks.end() || one->bytes < best->bytes)) best = one;
  if (best == blocks.end()) return {};
  std::swap(*best, blocks.back());
  Block block = std::move(blocks.back());
  blocks.pop_back();
  return block;
}

Block borrow(std::size_t bytes) {
  ContextState* const context = bound_context();
  Block block = (context ? context->kept : of_process()).take(bytes);
  if (block.data) return block;
  block.data.reset(allocate_long(bytes));
  block.bytes = bytes;
  return block;
}

void give_back(Block block) noexcept {
  ContextState* const context = bound_context();
  if (!context && block.bytes > most_kept) return;
  KeptBlocks& to = context ? context->kept : of_process();
  try {
    const std::lock_guard lock(to.mutex);
    to.blocks.push_back(std::move(block));
    if (!context && to.blocks.size() > 2 * static_cast<std::size_t>(threads()))
      to.blocks.erase(
          std::min_element(to.blocks.begin(), to.blocks.end(),
                           [](const Block& a, const Block& b) { return a.bytes < b.bytes; }));
  } catch (const std::bad_alloc&) {  // the block is freed
  }
}

}  // namespace gnomon::internal
