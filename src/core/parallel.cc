#include "gnomon/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <utility>

#include "gnomon/error.h"
#include "src/core/context.h"
#include "src/core/float_mode.h"
#include "src/core/thread_pool.h"

#if defined(GNOMON_THREADS_OPENMP)
#include <omp.h>
#include <pthread.h>
#endif

namespace gnomon {
namespace {

using internal::Task;

// OpenMP ends the process if it cannot start a thread.
constexpr int most_threads = 4096;

// The default executor of the build: run, threads, set_threads, and whether the caller is
// already inside a parallel region.
#if defined(GNOMON_THREADS_OPENMP)
int build_threads() noexcept { return omp_get_max_threads(); }
void build_set_threads(int count) noexcept { omp_set_num_threads(count); }
bool build_inside() noexcept { return omp_in_parallel(); }
// A forked child has no threads, and libgomp waits forever for those of its parent: the loops
// of a child run on the pool of std::threads, which starts again. Also if another library has
// used OpenMP before the fork.
bool forked = false;
[[maybe_unused]] const int fork_noticed =
    pthread_atfork(nullptr, nullptr, [] { forked = true; });
// The team always has the same size, because libgomp ends and starts threads when it changes.
void build_run(std::int64_t count, Task task, void* data) noexcept {
  if (forked) return internal::run_on_pool(count, task, data);
#pragma omp parallel
  for (std::int64_t i = omp_get_thread_num(); i < count; i += omp_get_num_threads())
    task(data, i);
}
#else
thread_local int build_limit = 0;  // 0: no limit
bool build_inside() noexcept { return false; }
void build_set_threads(int count) noexcept { build_limit = count; }
#if defined(GNOMON_THREADS_STD)
int build_threads() noexcept {
  // An atomic, not a static const: a child forked during its initialisation would wait for it.
  static std::atomic<int> most{0};
  if (!most.load(std::memory_order_relaxed)) most = internal::default_threads();
  return build_limit ? build_limit : most.load(std::memory_order_relaxed);
}
void build_run(std::int64_t count, Task task, void* data) noexcept {
  internal::run_on_pool(count, task, data);
}
#else
int build_threads() noexcept { return 1; }
void build_run(std::int64_t count, Task task, void* data) noexcept {
  for (std::int64_t i = 0; i < count; ++i) task(data, i);
}
#endif
#endif

Executor of_process = {};
// The executor of the loops that this thread starts; its `run` may be null.
const Executor& current() noexcept {
  const internal::ContextState* const context = internal::bound_context();
  return context && context->executor.run ? context->executor : of_process;
}
thread_local int limit = 0;        // set by set_threads for an executor; 0: no limit
thread_local bool inside = false;  // true while a piece runs on this thread

struct Loop {
  std::int64_t count, grain, pieces, runners;
  Share share;
  internal::Piece piece;
  void* body;
  internal::ContextState* context = internal::bound_context();
  std::atomic<std::int64_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr error = {};  // the first one

  void run(std::int64_t begin, std::int64_t end) const {
    for (std::int64_t i = begin; i < end; ++i)
      piece(body, i * grain, std::min(count, (i + 1) * grain));
  }
};

// The work of one thread. No exception may leave a task of an executor.
void run_share(void* data, std::int64_t runner) noexcept {
  auto& loop = *static_cast<Loop*>(data);
  const bool before = inside;
  inside = true;
  internal::ContextState* const context_before = internal::bind_context(loop.context);
  const internal::DefaultFloatMode mode;
  try {
    if (loop.share == Share::contiguous) {
      const std::int64_t each = loop.pieces / loop.runners, more = loop.pieces % loop.runners;
      const std::int64_t begin = runner * each + std::min(runner, more);
      loop.run(begin, begin + each + (runner < more ? 1 : 0));
    } else {
      for (std::int64_t i = loop.next++; i < loop.pieces; i = loop.next++) loop.run(i, i + 1);
    }
  } catch (...) {
    loop.next = loop.pieces;
    if (!loop.failed.exchange(true)) loop.error = std::current_exception();
  }
  internal::bind_context(context_before);
  inside = before;
}

}  // namespace

void set_executor(const Executor& executor) {
  if (executor.run && executor.threads < 1)
    refuse("threads", "an executor must have at least 1 thread", executor.threads);
  of_process = executor.run ? executor : Executor{};
}

Executor executor() noexcept { return of_process; }

Executor serial_executor() noexcept {
  return {.run =
              [](void*, std::int64_t count, Task task, void* data) {
                for (std::int64_t i = 0; i < count; ++i) task(data, i);
              },
          .threads = 1};
}

Executor thread_pool_executor(int threads) {
  if (threads < 0 || threads > most_threads)
    refuse("threads", "the threads of a pool must be 0 to 4096", threads);
  return {.run = [](void* pool, std::int64_t count, Task task,
                    void* data) { internal::run_on_pool(count, task, data, pool); },
          .threads = threads ? threads : internal::default_threads()};
}

int threads() noexcept {
  const Executor& executor = current();
  if (!executor.run) return build_threads();
  return limit ? std::min(limit, executor.threads) : executor.threads;
}

void set_threads(int count) {
  if (count < 1 || count > most_threads) refuse("threads", "count must be 1 to 4096", count);
  limit = count;
  build_set_threads(count);
}

namespace internal {

void run_pieces(std::int64_t count, std::int64_t grain, Share share, Piece piece, void* body) {
  if (count <= 0) return;
  grain = std::max<std::int64_t>(grain, 1);
  const DefaultFloatMode mode;
  if (count <= grain) return piece(body, 0, count);  // takes some ns, for a decoding step
  const std::int64_t pieces = (count - 1) / grain + 1;
  const Executor& executor = current();
  const bool nested = inside || (!executor.run && build_inside());
  const std::int64_t runners = nested ? 1 : std::min<std::int64_t>(pieces, threads());
  Loop loop{.count = count,
            .grain = grain,
            .pieces = pieces,
            .runners = runners,
            .share = share,
            .piece = piece,
            .body = body};
  if (runners == 1) return loop.run(0, pieces);
  if (executor.run)
    executor.run(executor.context, runners, run_share, &loop);
  else
    build_run(runners, run_share, &loop);
  if (loop.error) std::rethrow_exception(std::move(loop.error));
}

}  // namespace internal
}  // namespace gnomon
