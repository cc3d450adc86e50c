// The state of a Context, and the context of a thread.
#pragma once

#include <memory>

#include "gnomon/context.h"
#include "src/core/blocks.h"

namespace gnomon::internal {

class Pool;

struct ContextState {
  Executor executor = {};
  std::shared_ptr<Pool> own_threads = {};
  KeptBlocks kept = {};
};

// The context whose scope encloses the calling thread, or null. Pieces of a loop have that of
// the thread that started it.
ContextState* bound_context() noexcept;
// Returns the context that was bound before.
ContextState* bind_context(ContextState* context) noexcept;

}  // namespace gnomon::internal
