#include "src/core/context.h"

#include <utility>

#include "gnomon/error.h"
#include "src/core/thread_pool.h"

namespace gnomon {
namespace internal {
namespace {

thread_local ContextState* bound = nullptr;

}  // namespace

ContextState* bound_context() noexcept { return bound; }
ContextState* bind_context(ContextState* context) noexcept {
  return std::exchange(bound, context);
}

}  // namespace internal

Context::Context(const Executor& executor) : state_(new internal::ContextState) {
  if (executor.run && executor.threads < 1)
    refuse("threads", "an executor must have at least 1 thread", executor.threads);
  if (executor.run) state_->executor = executor;
}

Context::Context(OwnThreads threads) : Context(thread_pool_executor(threads.count)) {
  state_->own_threads = internal::make_pool();
  state_->executor.context = state_->own_threads.get();
}

Context Context::with_threads(int threads) { return Context(OwnThreads{threads}); }

Context::~Context() = default;

std::size_t Context::kept_bytes() const {
  const std::lock_guard lock(state_->kept.mutex);
  std::size_t bytes = 0;
  for (const internal::Block& block : state_->kept.blocks) bytes += block.bytes;
  return bytes;
}

void Context::release() {
  std::vector<internal::Block> freed;
  const std::lock_guard lock(state_->kept.mutex);
  freed.swap(state_->kept.blocks);
}

ContextScope::ContextScope(Context& context) noexcept
    : before_(internal::bind_context(context.state_.get())) {}
ContextScope::~ContextScope() { internal::bind_context(before_); }

}  // namespace gnomon
