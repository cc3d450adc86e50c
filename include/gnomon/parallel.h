// Parallel loops. They run on the caller's executor, or on the default executor of the build
// (GNOMON_THREADS: openmp, std or none).
//
// A loop is split into pieces. The bounds of the pieces depend only on `count` and `grain`, not
// on the number of threads or the executor, so the results have the same bits for all of them.
// The caller of a loop adds sums over pieces in the order of the pieces.
//
// Pieces compute in the default mode of floating-point arithmetic on all threads: rounding to
// the nearest, denormal numbers kept, no traps. The mode of the caller has no effect on them,
// and is as before after the loop.
#pragma once

#include <cstdint>
#include <type_traits>

namespace gnomon {

// An executor runs the tasks of a loop, for example on the thread pool of an engine:
//
//   void run(void* pool, std::int64_t count, void (*task)(void*, std::int64_t), void* data) {
//     static_cast<Pool*>(pool)->for_each(count, [&](std::int64_t i) { task(data, i); });
//   }
//   gnomon::set_executor({.run = run, .context = &pool, .threads = pool.size()});
struct Executor {
  // Must call task(data, i) once for each i from 0 to count - 1, in any order and on any
  // threads, and must return after all these calls have returned. count is at most `threads`.
  // Tasks do not throw, do not wait for each other, and do not start loops. `run` may throw
  // only before it calls a task.
  void (*run)(void* context, std::int64_t count, void (*task)(void* data, std::int64_t i),
              void* data) = nullptr;
  void* context = nullptr;  // passed to `run`; borrowed until another executor is set
  int threads = 0;          // tasks that may run at the same time; at least 1

  bool operator==(const Executor&) const = default;
};

// Sets the executor of the whole process. An Executor without `run` restores the default. Must
// not be called while loops run. Throws std::invalid_argument if `threads` is below 1.
void set_executor(const Executor& executor);
// Returns the executor that was set. Its `run` is null if none was set.
Executor executor() noexcept;

// Returns an executor that runs all tasks on the calling thread.
Executor serial_executor() noexcept;
// Returns a pool of std::threads that belongs to the library. The pool starts its threads at
// the first loop and keeps them. It shares no thread with an OpenMP runtime. If several threads
// of the caller start loops at the same time, one loop uses the pool and the other threads run
// their tasks themselves. `threads` 0: the number of hardware threads. Throws
// std::invalid_argument if `threads` is below 0 or above 4096.
Executor thread_pool_executor(int threads = 0);

// Returns the largest number of threads of loops that the calling thread starts, at least 1.
// With an executor: at most its `threads`. Default: OMP_NUM_THREADS if it is set, else the
// number of hardware threads.
int threads() noexcept;
// Sets the largest number of threads of loops that the calling thread starts, 1 to 4096.
void set_threads(int count);

// How pieces are assigned to threads. Results do not depend on it.
enum class Share {
  dynamic = 1,  // each thread takes the next piece. For unequal pieces.
  contiguous,   // each thread has a contiguous range of pieces, the same in each call. For
                // memory-bound work: data may still be in that core's cache.
};

namespace internal {
using Piece = void (*)(void* body, std::int64_t begin, std::int64_t end);
void run_pieces(std::int64_t count, std::int64_t grain, Share share, Piece piece, void* body);
}  // namespace internal

// Calls body(begin, end) for the pieces [0, grain), [grain, 2 grain), ... of [0, count). The
// loop is serial if there is one piece or one thread, or if it is inside another such loop.
// If calls of `body` throw, pieces may be skipped, and the first exception reaches the caller
// after all running pieces have ended. Starting threads costs about 5 us: choose `grain` so
// that a piece takes longer.
template <typename Body>
void parallel_for(std::int64_t count, std::int64_t grain, Body&& body,
                  Share share = Share::dynamic) {
  using Plain = std::remove_reference_t<Body>;
  internal::run_pieces(
      count, grain, share,
      [](void* self, std::int64_t begin, std::int64_t end) {
        (*static_cast<Plain*>(self))(begin, end);
      },
      const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace gnomon
