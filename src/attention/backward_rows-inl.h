// Buffers and packed query rows of a backward pass.
#if defined(GNOMON_ATTENTION_BACKWARD_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_ATTENTION_BACKWARD_ROWS_INL_H_
#undef GNOMON_ATTENTION_BACKWARD_ROWS_INL_H_
#else
#define GNOMON_ATTENTION_BACKWARD_ROWS_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "src/attention/channel_gates-inl.h"
#include "src/attention/householder-inl.h"
#include "src/attention/scores-inl.h"
#include "src/attention/walk-inl.h"
#include "src/core/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

using internal::BackwardProblem;

// Buffers for products of pairs of bfloat16 (multiply-inl.h). Pairs of queries: row n has
// queries 2 n and 2 n + 1 of a tile.
template <typename A>
struct BackwardPairs {
  A *q, *out_grad;          // pairs of queries, from PairRow of a tile
  A *weights, *score_grad;  // of one tile: pairs of queries, tile_keys apart
  A *key, *key_score_grad;  // of one tile: pairs of keys

  BackwardPairs(const internal::TypedProblem<A>& problem, std::int64_t rows,
                internal::Carve<A>& carve) {
    const bool used = problem.pairs;
    const std::int64_t half = used ? (rows + problem.group()) / 2 + 1 : 0;
    const std::int64_t size = row_stride(problem.size), values = row_stride(problem.value_dim);
    q = carve.take(half * size);
    out_grad = carve.take(half * values);
    const std::int64_t of_tile = used ? tile_rows / 2 * tile_keys : 0;
    weights = carve.take(of_tile);
    score_grad = carve.take(of_tile);
    key = carve.take(used ? tile_keys / 2 * size : 0);
    key_score_grad = carve.take(of_tile);
  }
};

// Returns the row of pairs of the first queries of a tile, whose rows start at `first`. A head
// with an odd number of queries has a row more.
inline std::int64_t PairRow(const AttentionProblem& problem, const Tile& tile,
                            std::int64_t first) {
  return (first + tile.head % problem.group()) / 2;
}

template <typename A>
struct BackwardScratch {
  internal::Carve<A> carve;
  // Buffers for `rows` queries.
  A *q, *out_grad, *q_grad, *lse, *delta, *relative_q, *relative_q_grad;
  // Buffers for one tile.
  A *row_scratch, *key, *key_panels, *value_panels, *scores, *score_grad, *slope;
  AddedScratch<A> added;
  BackwardWalk<A> walk;
  ChannelScratch<A> channels;
  HouseholderScratch<A> householder;
  BackwardPairs<A> pairs;

  BackwardScratch(const internal::TypedProblem<A>& problem, std::int64_t rows, A* block)
      : carve(block),
        added(problem, carve),
        walk(problem, carve, rows),
        channels(problem, rows, Pass::backward, carve),
        householder(problem, rows, Pass::backward, carve),
        pairs(problem, rows, carve) {
    const std::int64_t size = row_stride(problem.size), values = row_stride(problem.value_dim);
    const std::int64_t columns = Panels<A>(tile_keys) * Panel<A>();
    q = carve.take(rows * size);
    out_grad = carve.take(rows * values);
    q_grad = carve.take(rows * size);
    lse = carve.take(rows);
    delta = carve.take(rows);
    relative_q = carve.take(rows * RelativeStride(problem));
    relative_q_grad = carve.take(rows * RelativeStride(problem));
    row_scratch = carve.take(16 * std::max(size, values));
    key = channels.keys ? channels.keys : carve.take(tile_keys * size);
    key_panels = carve.take(columns * problem.size);
    value_panels = carve.take(columns * problem.value_dim);
    scores = carve.take(tile_rows * tile_keys);
    score_grad = carve.take(tile_rows * tile_keys);
    slope = carve.take(problem.softmax.cap ? tile_rows * tile_keys : 0);
  }
};

template <typename A>
HWY_INLINE A Dot(const A* HWY_RESTRICT x, const A* HWY_RESTRICT y, std::int64_t count) {
  const hn::ScalableTag<A> tag;
  auto sum = hn::Zero(tag);
  for (std::int64_t i = 0; i < count; i += static_cast<std::int64_t>(hn::Lanes(tag)))
    sum = hn::MulAdd(hn::Load(tag, x + i), hn::Load(tag, y + i), sum);
  return SumLanes(tag, sum);
}

// Packs the queries of a tile's head and their rows of out_grad as pairs of bfloat16: along the
// head dimension, and of queries.
inline void PackPairRows(const BackwardProblem<float>& problem, const Tile& tile,
                         const BackwardScratch<float>& at, std::int64_t first) {
  const auto pack = [&](const Operand& from, std::int64_t size, float* rows, float* pairs) {
    const std::int64_t stride = row_stride(pairs_of(size)), width = row_stride(size);
    rows += first * stride;
    pairs += PairRow(problem, tile, first) * width;
    for (std::int64_t i = 0; i < tile.queries; ++i)
      LoadPairs(from, problem.position.queries, tile.batch, tile.query + i, tile.head, size,
                rows + i * stride);
    std::fill_n(at.row_scratch, stride, 0.f);  // follows an odd number of queries
    for (std::int64_t i = 0; i < tile.queries; i += 2)
      InterleaveRows(rows + i * stride,
                     i + 1 < tile.queries ? rows + (i + 1) * stride : at.row_scratch,
                     padded(size), pairs + i / 2 * width);
  };
  pack(problem.q, problem.size, at.q, at.pairs.q);
  pack(problem.out_grad, problem.value_dim, at.out_grad, at.pairs.out_grad);
}

// Packs the queries of a tile's head to the rows of the buffers from `first`.
template <typename A>
void PackQueryRows(const BackwardProblem<A>& problem, const Tile& rows,
                   const BackwardScratch<A>& at, std::int64_t first) {
  const std::int64_t size = problem.size, values = problem.value_dim;
  const std::int64_t stride = row_stride(size), value_stride = row_stride(values);
  const Positions* of_queries = problem.position.queries;
  const A factor = static_cast<A>(QueryFactor(problem));
  double sink = 0;
  for (std::int64_t i = 0; i < rows.queries; ++i) {
    const std::int64_t query = rows.query + i, row = first + i;
    A* out_grad =
        problem.pairs ? at.row_scratch + value_stride : at.out_grad + row * value_stride;
    if (!problem.pairs) {
      A* q = at.q + row * stride;
      LoadQuery(problem, rows.batch, query, rows.head, q);
      ShiftRow(problem, rows.head, q);
      ScaleRow(factor, padded(size), q);
      PackRelativeQuery(problem, rows.batch, query, rows.head,
                        at.relative_q + row * RelativeStride(problem));
    }
    LoadRow(problem.out, of_queries, rows.batch, query, rows.head, values, at.row_scratch);
    LoadRow(problem.out_grad, of_queries, rows.batch, query, rows.head, values, out_grad);
    const A delta = Dot(at.row_scratch, out_grad, padded(values));
    at.delta[row] = delta;
    // A row that saw no key must give weights of 0.
    const A lse = problem.lse(rows.batch, rows.head, query);
    constexpr A infinity = std::numeric_limits<A>::infinity();
    at.lse[row] = lse == -infinity ? infinity : static_cast<A>(log2_of_e) * lse;
    if (!problem.has_sinks()) continue;
    // The gradients of the scores of a row sum to this, and without a sink to 0.
    const double log_weight =
        problem.sink(rows.batch, rows.head, query) - static_cast<double>(lse);
    const double lost =
        lse == -infinity ? 0 : static_cast<double>(delta) * std::exp(log_weight);
    sink -= lost;
    if (problem.query_sink_grad.data())
      problem.query_sink_grad(rows.batch, rows.head, query) = static_cast<float>(-lost);
    if (problem.column_sums)
      problem.column_sums[problem.sums_at(rows) * problem.keys + query + problem.mask.offset] -=
          lost;
  }
  if (problem.sink_sums) problem.sink_sums[problem.sums_at(rows)] += sink;
  if constexpr (sizeof(A) == 4)
    if (problem.pairs) PackPairRows(problem, rows, at, first);
}

// Packs a tile of keys and values of the key head of `tile.head`.
template <typename A>
void PackKeysAndValues(const BackwardProblem<A>& problem, const Tile& tile,
                       const BackwardScratch<A>& at) {
  const Positions* of_keys = problem.position.keys;
  const std::int64_t key_head = tile.head / problem.group();
  if constexpr (sizeof(A) == 4)
    if (problem.pairs) {
      PackPairKeys(problem.k, of_keys, tile.batch, tile.key, tile.keys, key_head, problem.size,
                   at.row_scratch, PackedRows<float>{nullptr, at.key_panels});
      PackPairValues(problem.k, of_keys, tile.batch, tile.key, tile.keys, key_head,
                     problem.size, at.row_scratch, at.pairs.key);
      PackPairKeys(problem.v, of_keys, tile.batch, tile.key, tile.keys, key_head,
                   problem.value_dim, at.row_scratch,
                   PackedRows<float>{nullptr, at.value_panels});
      return;
    }
  PackKeyRows(problem.k, of_keys, problem.position.key_rotary, tile.batch, tile.key, tile.keys,
              key_head, problem.size, at.row_scratch,
              PackedRows<A>{at.key, at.key_panels, problem.polar_dim()});
  PackKeyRows(problem.v, of_keys, nullptr, tile.batch, tile.key, tile.keys, key_head,
              problem.value_dim, at.row_scratch, PackedRows<A>{nullptr, at.value_panels});
}

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
