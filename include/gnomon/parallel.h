// Loops over threads. The work is cut into pieces whose bounds depend on `count` and `grain`
// alone, never on the number of threads, so whatever a piece computes is the same for 1, 2 or
// 7 threads; sums over pieces are for the caller to make, in the order of the pieces.
#pragma once

#include <cstdint>
#include <type_traits>

namespace gnomon {

// Threads that loops started from the calling thread may use; OMP_NUM_THREADS at first.
int threads() noexcept;
// At least 1; holds for loops started from the calling thread.
void set_threads(int count);

// How pieces come to threads; results are the same.
enum class Share {
  as_they_come = 1,  // to whoever is free: pieces of unequal work
  in_runs,  // to each thread a run of them, the same at each call: equal work on memory,
            // which may still be in that core's cache
};

namespace internal {
using Piece = void (*)(void* body, std::int64_t begin, std::int64_t end);
void run_pieces(std::int64_t count, std::int64_t grain, Share share, Piece piece,
                void* body) noexcept;
}  // namespace internal

// Calls body(begin, end) for pieces [0, grain), [grain, 2 grain), ... of [0, count). Serial
// when there is one piece, one thread, or when already inside such a loop. `body` must not
// throw. Starting threads costs some 5 us: choose `grain` so that a piece is worth more than
// that.
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
