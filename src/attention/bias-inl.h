// The bias of one tile of scores, and the gradient of the bias from one tile.
#if defined(GNOMON_ATTENTION_BIAS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_ATTENTION_BIAS_INL_H_
#undef GNOMON_ATTENTION_BIAS_INL_H_
#else
#define GNOMON_ATTENTION_BIAS_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <variant>
#include <vector>

#include "src/attention/pack-inl.h"
#include "src/attention/softmax-inl.h"
#include "src/attention/tile.h"
#include "src/core/elements-inl.h"
#include "src/core/overloaded.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using internal::AttentionProblem;
using internal::BackwardProblem;
using internal::key_id;
using internal::query_id;
using internal::Tile;
using internal::tile_keys;
using internal::tile_rows;

// A range of columns of a tile, in whole vectors.
struct Columns {
  std::int64_t begin = 0, end = 0;
  std::int64_t last = end;  // no row sees the columns from `last` to `end`

  bool operator==(const Columns&) const = default;
};

// The visible columns of each block of six rows of a tile.
using SeenColumns = Columns[tile_rows / block_rows];

// Number of elements of the buffer for the bias of a tile: rows, or a strip for each head,
// whose loads may extend one vector past the end.
constexpr std::int64_t form_scratch_size = tile_rows * (tile_keys + 32);
inline std::int64_t BiasScratchSize(const AttentionProblem& problem) {
  const bool by_token = problem.position.cumulative || problem.position.key_slopes.data();
  return form_scratch_size + (by_token ? tile_rows * tile_keys : 0);
}

// Returns the length of the run of consecutive ids that starts at `first`, at most `count`.
template <typename Id>
std::int64_t RunOf(const Id& id, std::int64_t first, std::int64_t count) {
  std::int64_t run = 1;
  while (run < count && id(first + run) == id(first) + run) ++run;
  return run;
}

// Returns true if distances increase by one along keys and decrease by one along queries.
inline bool IsRegular(const AttentionProblem& problem, const Tile& tile) {
  if (!problem.position.queries) return true;
  const auto of_query = [&](std::int64_t i) { return query_id(problem, tile.batch, i); };
  const auto of_key = [&](std::int64_t j) { return key_id(problem, tile.batch, j); };
  return RunOf(of_query, tile.query, tile.queries) == tile.queries &&
         RunOf(of_key, tile.key, tile.keys) == tile.keys;
}

// The bias of a tile: a bias of -infinity hides a key.
enum class TileBias { none = 1, visible, hiding };

// Computes the bias of a tile: rows[r] [tile.keys padded] is that of row r, in units of ln 2.
// scratch: a buffer of BiasScratchSize elements.
template <typename A>
TileBias FillBias(const internal::TypedProblem<A>& problem, const Tile& tile, A* scratch,
                  const A** rows);

// Adds a tile of score gradients [queries, tile_keys] of one head to the sums of the head, in
// the order of queries, and writes the gradient of a dense bias. all: the columns of the tile;
// a column that a row does not see is zero.
template <typename A>
void AddBiasGradient(const BackwardProblem<A>& problem, const Tile& tile, const Columns& all,
                     const SeenColumns& seen, const A* grad, A* scratch);

// Adds a tile of score gradients of one head to the sums by key.
template <typename A>
void AddColumnSums(const BackwardProblem<A>& problem, const Tile& tile, const SeenColumns& seen,
                   const A* grad);

// Adds a tile of score gradients of one head to the gradients of the slopes of keys.
template <typename A>
void AddKeySlopeSums(const BackwardProblem<A>& problem, const Tile& tile,
                     const SeenColumns& seen, const A* grad);

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
