#include "src/attention/channel_gates.h"

#include <numbers>

#include "gnomon/parallel.h"
#include "src/attention/tile.h"
#include "src/core/size.h"

namespace gnomon::internal {

using std::int64_t;

std::vector<double> sums_of_tiles(const AttentionProblem& problem) {
  const int64_t tiles = problem.keys / tile_keys, size = problem.size;
  std::vector<double> sums(checked_size("attention", "batch x heads x tiles x head_dim",
                                        {problem.batch, problem.heads, tiles, size}));
  parallel_for(problem.batch * problem.heads * tiles, 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t b = n / tiles / problem.heads, h = n / tiles % problem.heads;
      const std::int32_t* sequence = sequences(problem.position.keys, b);
      double* sum = sums.data() + n * size;
      for (int64_t j = n % tiles * tile_keys; j < (n % tiles + 1) * tile_keys; ++j) {
        if (sequence && sequence[j] == Positions::padding) continue;
        for (int64_t d = 0; d < size; ++d)
          sum[d] += static_cast<double>(problem.channel_gates(b, j, h, d));
      }
      for (int64_t d = 0; d < size; ++d) sum[d] *= std::numbers::log2e;
    }
  });
  return sums;
}

}  // namespace gnomon::internal
