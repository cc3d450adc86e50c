// Contexts: the executor and the working memory of an engine, beside those of the process. Two
// engines in one process, each with a context, share no thread and no memory.
//
//   gnomon::Context context(executor_of(pool));      // or Context::with_threads(4)
//   ...
//   const gnomon::ContextScope scope(context);       // for calls of this thread
//   attention(input, plan, out);
//
// Results do not depend on contexts.
#pragma once

#include <cstddef>
#include <memory>

#include "gnomon/parallel.h"

namespace gnomon {

namespace internal {
struct ContextState;
}  // namespace internal

// A context keeps the working memory of its calls for the next calls: attention of the same
// shapes, and of decoding steps with at most as many keys, then allocates nothing. Memory grows
// to the most that calls required at the same time. Thread-safe: several threads may use one
// context at the same time. It must outlive its scopes.
class Context {
 public:
  // Runs loops on an executor, whose `context` is borrowed. Without `run`: on the executor of
  // the process. Throws std::invalid_argument if `threads` of an executor is below 1.
  explicit Context(const Executor& executor = {});
  // Returns a context with a pool of threads of its own, which start at the first loop and end
  // with the context. threads: 1 to 4096; 0: the number of hardware threads. In a process that
  // was forked, its loops run on the calling thread. Throws std::invalid_argument for others.
  static Context with_threads(int threads);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Returns the bytes of working memory that no call uses at the moment.
  std::size_t kept_bytes() const;
  // Frees this memory.
  void release();

 private:
  friend class ContextScope;
  struct OwnThreads {
    int count;
  };
  explicit Context(OwnThreads threads);
  std::unique_ptr<internal::ContextState> state_;
};

// While it lives, calls of this thread use the context. Scopes may be nested: the inner one
// holds.
class ContextScope {
 public:
  explicit ContextScope(Context& context) noexcept;
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  internal::ContextState* before_;
};

}  // namespace gnomon
