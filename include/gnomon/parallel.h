// Loops over threads, and who runs them: the caller's executor, or the default of the build
// (GNOMON_THREADS: openmp, std or none).
//
// The work is cut into pieces whose bounds depend on `count` and `grain` alone, never on the
// number of threads or the executor, so each piece computes the same bits in all of them. Sums
// over pieces are made by the caller, in the order of the pieces.
#pragma once

#include <cstdint>
#include <type_traits>

namespace gnomon {

// Runs the tasks of a loop, for example on the thread pool of an engine:
//
//   void run(void* pool, std::int64_t count, void (*task)(void*, std::int64_t), void* data) {
//     static_cast<Pool*>(pool)->for_each(count, [&](std::int64_t i) { task(data, i); });
//   }
//   gnomon::set_executor({.run = run, .context = &pool, .threads = pool.size()});
struct Executor {
  // Calls task(data, i) once for each i from 0 to count - 1, in any order and on any threads,
  // and returns when all calls have returned. count is at most `threads`. Tasks do not throw,
  // do not wait for each other, and do not start loops of their own.
  void (*run)(void* context, std::int64_t count, void (*task)(void* data, std::int64_t i),
              void* data) = nullptr;
  void* context = nullptr;  // given to `run`; borrowed until another executor is set
  int threads = 0;          // tasks that may run at the same time; at least 1

  bool operator==(const Executor&) const = default;
};

// Sets the executor of the whole process; an Executor without `run` restores the default. Not
// while loops run. Throws std::invalid_argument if `threads` is below 1.
void set_executor(const Executor& executor);
// The executor that was set; without `run` if there is none.
Executor executor() noexcept;

// Runs all tasks on the calling thread.
Executor serial_executor() noexcept;
// A pool of std::threads of the library, which starts its threads at the first loop and keeps
// them. It shares no thread with an OpenMP runtime. If several threads of the caller start
// loops at the same time, one of them has the pool and the others run their tasks themselves.
// 0 threads: as many as the machine has. Throws std::invalid_argument below 0 or above 4096.
Executor thread_pool_executor(int threads = 0);

// Threads that loops started from the calling thread may use, at least 1. With an executor: at
// most its `threads`. By default: OMP_NUM_THREADS if it is set, else those of the machine.
int threads() noexcept;
// At least 1; holds for loops started from the calling thread.
void set_threads(int count);

// The assignment of pieces to threads; results are the same.
enum class Share {
  as_they_come = 1,  // each thread takes the next piece: pieces of unequal work
  in_runs,           // each thread has a contiguous range of pieces, the same in each call:
                     // memory-bound work, whose data may still be in that core's cache
};

namespace internal {
using Piece = void (*)(void* body, std::int64_t begin, std::int64_t end);
void run_pieces(std::int64_t count, std::int64_t grain, Share share, Piece piece,
                void* body) noexcept;
}  // namespace internal

// Calls body(begin, end) for pieces [0, grain), [grain, 2 grain), ... of [0, count). Serial
// if there is one piece or one thread, and inside another such loop. `body` must not throw.
// Starting threads costs some 5 us: choose `grain` so that a piece is worth more than that.
template <typename Body>
void parallel_for(std::int64_t count, std::int64_t grain, Body&& body,
                  Share share = Share::as_they_come) noexcept {
  using Plain = std::remove_reference_t<Body>;
  internal::run_pieces(
      count, grain, share,
      [](void* self, std::int64_t begin, std::int64_t end) {
        (*static_cast<Plain*>(self))(begin, end);
      },
      const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace gnomon
