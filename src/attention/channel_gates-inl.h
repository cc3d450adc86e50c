// Products of queries and keys whose channels decay (src/attention/channel_gates.h), and their
// backward pass. A tile has one head, and its queries are in one tile of key rows: RowsOfTile.
#if defined(GNOMON_ATTENTION_CHANNEL_GATES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_ATTENTION_CHANNEL_GATES_INL_H_
#undef GNOMON_ATTENTION_CHANNEL_GATES_INL_H_
#else
#define GNOMON_ATTENTION_CHANNEL_GATES_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "src/attention/channel_gates.h"
#include "src/attention/scores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

using internal::gate_block;

enum class Pass { forward = 1, backward };

// Buffers. Exponents and gates are in units of ln 2. Empty without gates of channels.
template <typename A>
struct ChannelScratch {
  std::int64_t blocks = 0;  // greatest number of blocks of the queries of a piece
  // Of the queries of a piece: decays from the start of the row's block [rows, stride]; sums of
  // gates from the start of the tile to the start of the block [group, blocks, stride].
  A *decays = nullptr, *before = nullptr;
  // Of the keys of a tile: rows, their gates, and rows scaled by the decay to the last key of
  // the tile and of the block.
  A *keys = nullptr, *gates = nullptr, *of_tile = nullptr, *of_block = nullptr;
  A *tile_panels = nullptr, *block_panels = nullptr;
  double* block_sums = nullptr;               // [blocks of a tile, stride]
  double *sum = nullptr, *between = nullptr;  // [stride]
  // Of the queries of a tile: rows times decays, the decays, and gradients before decays.
  A *scaled = nullptr, *factors = nullptr, *product = nullptr;
  A* exponents = nullptr;  // [stride]
  // Backward: the decays of keys, and sums of gradients of scaled and of unscaled keys.
  A *tile_decays = nullptr, *block_decays = nullptr;
  A *tile_sums = nullptr, *own_block_sums = nullptr, *direct_sums = nullptr;

  ChannelScratch(const AttentionProblem& problem, std::int64_t rows, Pass pass,
                 internal::Carve<A>& carve) {
    if (!problem.channel_gates.data()) return;
    const std::int64_t stride = row_stride(problem.size), group = problem.group();
    constexpr std::int64_t wide = sizeof(double) / sizeof(A);
    const std::int64_t columns = Panels<A>(tile_keys) * Panel<A>() * problem.size;
    const auto of_keys = [&] { return carve.take(tile_keys * stride); };
    blocks = rows / group / gate_block + 2;
    decays = carve.take(rows * stride), before = carve.take(group * blocks * stride);
    keys = of_keys(), gates = of_keys(), of_tile = of_keys(), of_block = of_keys();
    tile_panels = carve.take(columns), block_panels = carve.take(columns);
    block_sums = reinterpret_cast<double*>(carve.take(tile_keys / gate_block * stride * wide));
    sum = reinterpret_cast<double*>(carve.take(stride * wide));
    between = reinterpret_cast<double*>(carve.take(stride * wide));
    scaled = carve.take(tile_rows * stride), factors = carve.take(tile_rows * stride);
    exponents = carve.take(stride);
    if (pass == Pass::forward) return;
    product = carve.take(tile_rows * stride);
    tile_decays = of_keys(), block_decays = of_keys();
    tile_sums = of_keys(), own_block_sums = of_keys(), direct_sums = of_keys();
  }
  A* before_of(const AttentionProblem& problem, std::int64_t head, std::int64_t row) const {
    return before + (head % problem.group() * blocks + row / gate_block % blocks) *
                        row_stride(problem.size);
  }
};

// Returns the number of queries, at most `most`, that a tile from row `query` has.
inline std::int64_t RowsOfTile(const AttentionProblem& problem, std::int64_t query,
                               std::int64_t most) {
  if (problem.product == PairProduct::dot) return most;
  return std::min(most, tile_keys - (query + problem.mask.offset) % tile_keys);
}

// Computes the decays of the queries [query, query + queries) of a head, whose rows in the
// buffers start at `first`.
template <typename A>
void FindDecays(const AttentionProblem& problem, std::int64_t b, std::int64_t head,
                std::int64_t query, std::int64_t queries, std::int64_t first,
                const ChannelScratch<A>& at);

// Scales the keys of a tile for its head; at.keys has the rows. Backward: clears the sums.
template <typename A>
void ScaleKeys(const AttentionProblem& problem, const Tile& tile, const ChannelScratch<A>& at);

// As MakeScores. q: the packed rows of the tile, whose decays start at row `first`.
template <typename A>
bool MakeGatedScores(const internal::TypedProblem<A>& problem, const Tile& tile,
                     const SeenColumns& columns, std::int64_t first, const A* q,
                     A* bias_scratch, const ChannelScratch<A>& at, A* scores,
                     A* slope = nullptr);

// Adds the gradients of a tile of scores to those of its queries, and to the sums of the
// buffers. all: the columns of the tile. A column that a row does not see is zero.
template <typename A>
void GatedProductsBackward(const internal::TypedProblem<A>& problem, const Tile& tile,
                           const SeenColumns& columns, const Columns& all, std::int64_t first,
                           const A* q, const A* score_grad, const ChannelScratch<A>& at,
                           A* q_grad);

// Adds the sums of a tile of keys to key_sums [keys of the tile, stride], and its terms of the
// gradient of the sums of gates, times `factor`, to gate_sums, whose rows are `step` apart.
template <typename A>
void TakeKeySums(const AttentionProblem& problem, const Tile& tile, A factor,
                 const ChannelScratch<A>& at, A* key_sums, A* gate_sums, std::int64_t step);

// Adds factor q q_grad to gate_sums [stride]. An element without a gradient adds nothing.
template <typename A>
void TakeQuerySums(std::int64_t size, A factor, const A* q, const A* q_grad, A* gate_sums);

// Writes the gradient of the gates of a head, the sums of gate_sums over the later rows of each
// sequence.
template <typename A>
void StoreGateGradient(const BackwardProblem<A>& problem, std::int64_t b, std::int64_t head,
                       const A* gate_sums, std::int64_t step);

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
