#include "gnomon/parallel.h"

#include <omp.h>

#include <algorithm>

#include "gnomon/error.h"

namespace gnomon {

int threads() noexcept { return omp_get_max_threads(); }

void set_threads(int count) {
  if (count < 1) refuse("threads", "count must be at least 1", count);
  omp_set_num_threads(count);
}

namespace internal {

void run_pieces(std::int64_t count, std::int64_t grain, Share share, Piece piece,
                void* body) noexcept {
  if (count <= 0) return;
  grain = std::max<std::int64_t>(grain, 1);
  const std::int64_t pieces = (count - 1) / grain + 1;
  const auto run = [&](std::int64_t i) {
    const std::int64_t begin = i * grain;
    piece(body, begin, begin + std::min(grain, count - begin));
  };
  if (pieces == 1 || threads() == 1 || omp_in_parallel()) {
    for (std::int64_t i = 0; i < pieces; ++i) run(i);
    return;
  }
  if (share == Share::in_runs) {
#pragma omp parallel for schedule(static)
    for (std::int64_t i = 0; i < pieces; ++i) run(i);
    return;
  }
#pragma omp parallel for schedule(dynamic)
  for (std::int64_t i = 0; i < pieces; ++i) run(i);
}

}  // namespace internal
}  // namespace gnomon
