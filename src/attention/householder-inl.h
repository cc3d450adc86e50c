// Products of queries and keys through Householder factors (src/attention/householder.h), and
// their backward pass. A tile has one head, and its queries are in one tile of key rows.
#if defined(GNOMON_ATTENTION_HOUSEHOLDER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_ATTENTION_HOUSEHOLDER_INL_H_
#undef GNOMON_ATTENTION_HOUSEHOLDER_INL_H_
#else
#define GNOMON_ATTENTION_HOUSEHOLDER_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "src/attention/channel_gates-inl.h"
#include "src/attention/scores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

using internal::householder_block;

constexpr std::int64_t blocks_of_tile = tile_keys / householder_block;

// Buffers for the keys of a tile. Empty without Householder factors.
template <typename A>
struct HouseholderScratch {
  // Panels of moved keys, of w, and (backward) of the products; rows are in HouseholderRows.
  A *key_panels = nullptr, *w_panels = nullptr, *product_panels = nullptr;
  A* along = nullptr;  // products of rows with w, [tile_rows, tile_keys]
  // Backward: products of gradients with the products; queries as they meet each block
  // [blocks_of_tile, tile_rows, stride]; those at each tile of a piece [tiles, rows, stride].
  A *across = nullptr, *met = nullptr, *kept = nullptr;
  std::int64_t rows = 0;

  HouseholderScratch(const AttentionProblem& problem, std::int64_t row_count, Pass pass,
                     internal::Carve<A>& carve)
      : rows(row_count) {
    if (!problem.householder.w.data()) return;
    const std::int64_t stride = row_stride(problem.size);
    const std::int64_t columns = Panels<A>(tile_keys) * Panel<A>() * problem.size;
    key_panels = carve.take(columns), w_panels = carve.take(columns);
    along = carve.take(tile_rows * tile_keys);
    if (pass == Pass::forward) return;
    product_panels = carve.take(columns);
    across = carve.take(tile_rows * tile_keys);
    met = carve.take(blocks_of_tile * tile_rows * stride);
    kept = carve.take((problem.keys / tile_keys + 1) * rows * stride);
  }
};

// Returns row `row` of one of the arrays of HouseholderRows.
template <typename A>
A* HouseholderRow(const AttentionProblem& problem, const internal::Numbers<A>& of,
                  std::int64_t b, std::int64_t key_head, std::int64_t row) {
  return of.data() +
         ((b * problem.key_heads + key_head) * problem.keys + row) * row_stride(problem.size);
}

// Computes problem.householder_rows.
template <typename A>
void FindHouseholderRows(internal::TypedProblem<A>& problem);

// Fills the panels of a tile of keys.
template <typename A>
void PackHouseholder(const internal::TypedProblem<A>& problem, const Tile& tile,
                     const HouseholderScratch<A>& at);

// As MakeScores. The packed queries q of the tile are moved past its keys.
template <typename A>
bool MakeHouseholderScores(const internal::TypedProblem<A>& problem, const Tile& tile,
                           const SeenColumns& columns, A* q, A* bias_scratch,
                           const HouseholderScratch<A>& at, A* scores, A* slope = nullptr);

// Keeps the packed queries of a piece, for all heads of a key head, as they meet each tile of
// keys from `begin`; the queries are moved past all of them.
template <typename A>
void KeepQueries(const internal::TypedProblem<A>& problem, const Tile& piece,
                 std::int64_t begin, A* q, const HouseholderScratch<A>& at);

// Copies the kept queries of a tile to the packed rows q, from row `first`.
template <typename A>
void RestoreQueries(const AttentionProblem& problem, const Tile& tile, std::int64_t begin,
                    std::int64_t first, A* q, const HouseholderScratch<A>& at);

// Sums of gradients over the queries of one part, of one key head: of moved keys, products and
// w [S, stride], and of betas [S].
template <typename A>
struct HouseholderSums {
  A *moved = nullptr, *product = nullptr, *w = nullptr, *betas = nullptr;
  A* steps = nullptr;  // of a row within a block

  static std::int64_t Rows(const AttentionProblem& problem) {
    return problem.householder.w.data() ? problem.keys : 0;
  }
  HouseholderSums(internal::Carve<A>& carve, const AttentionProblem& problem) {
    const std::int64_t rows = Rows(problem), stride = row_stride(problem.size);
    moved = carve.take(rows * stride), product = carve.take(rows * stride);
    w = carve.take(rows * stride), betas = carve.take(rows);
    steps = carve.take(rows ? (householder_block + 1) * stride : 0);
  }
};

// Adds the gradients of a tile of scores to `sums`, to those of the keys within blocks,
// key_sums [S, stride], and to those of the queries. Before: a row of q_grad is the gradient of
// the query after the tile, as MakeHouseholderScores moved it; after: before the tile. The
// buffers are those of MakeHouseholderScores for the same tile. all: the columns of the tile.
template <typename A>
void HouseholderBackward(const internal::TypedProblem<A>& problem, const Tile& tile,
                         const Columns& all, const A* score_grad,
                         const HouseholderScratch<A>& at, const HouseholderSums<A>& sums,
                         A* key_sums, A* q_grad);

// Adds the gradients of the rows of each block, those of moved keys and products, to those of
// the keys, w and betas.
template <typename A>
void FinishHouseholderSums(const internal::TypedProblem<A>& problem, std::int64_t b,
                           std::int64_t key_head, const HouseholderSums<A>& sums, A* key_sums);

// Writes the gradients of w and betas of a key head, `factor` times the sums.
template <typename A>
void StoreHouseholderGradient(const BackwardProblem<A>& problem, std::int64_t b,
                              std::int64_t key_head, A factor, const HouseholderSums<A>& sums);

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
