// Attention backward: scores are computed again, tile by tile, from the saved log-sum-exp.
//
//   p = exp(score - lse)     dp = do . v     ds = p (dp - do . out)
//   dq' = scale ds k'        dk' = scale ds q'        dv = p do        dbias = ds
//
// If scores are capped, ds is also multiplied by the derivative of the cap.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "gnomon/parallel.h"
#include "src/attention/problem.h"
#include "src/attention/scratch.h"
#include "src/attention/tile.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/attention/backward_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/attention/backward_pairs-inl.h"
#include "src/attention/backward_rows-inl.h"
#include "src/attention/channel_gates-inl.h"
#include "src/attention/householder-inl.h"
#include "src/attention/key_sums-inl.h"
#include "src/attention/multiply-inl.h"
#include "src/attention/pack-inl.h"
#include "src/attention/reach-inl.h"
#include "src/attention/scores-inl.h"
#include "src/attention/walk-inl.h"
#include "src/attention/weigh-inl.h"
#include "src/core/dispatch.h"
#include "src/core/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

using internal::BackwardPlan;
using internal::BackwardProblem;

// Computes gates times gradients of scores, which is the gradient of the bias, in the relative
// buffer. Adds the gradients of the gates to their sums. A gradient of 0 is not multiplied: the
// gate may be NaN, and the bias of a hidden key -infinity.
template <typename A>
const A* Ungate(const BackwardProblem<A>& problem, const Tile& tile, const Columns& all,
                const SeenColumns& columns, const BackwardScratch<A>& at) {
  const A* bias[tile_rows];
  const bool biased = FillBias(problem, tile, at.added.bias, bias) != TileBias::none;
  for (std::int64_t i = 0; i < tile.queries; ++i) {
    const std::int64_t query = tile.query + i;
    const A* HWY_RESTRICT grad = at.score_grad + i * tile_keys;
    const Columns& seen = columns[i / block_rows];
    if (biased && problem.gate_sums) {
      double sum = 0;
      for (std::int64_t j = seen.begin; j < std::min(seen.end, tile.keys); ++j)
        if (grad[j] != 0) sum += static_cast<double>(grad[j]) * static_cast<double>(bias[i][j]);
      problem.gate_sums[(tile.batch * problem.heads + tile.head) * problem.queries + query] +=
          sum * ln_of_2;
    }
    const A gate = static_cast<A>(problem.gate(tile.batch, tile.head, query));
    for (std::int64_t j = all.begin; j < all.end; ++j)
      at.added.relative.rows[i * tile_keys + j] = grad[j] == 0 ? A(0) : gate * grad[j];
  }
  return at.added.relative.rows;
}

// The factors of products with the rows of a tile.
struct TileFactors {
  Factors q = Factors::all, out_grad = Factors::all, key = Factors::all;
  Factors relative_q = Factors::all;
};

// Adds the gradients of the relative vectors of a tile, and their terms in the gradients of its
// queries and keys.
template <typename A>
void RelativeBackward(const BackwardProblem<A>& problem, const Tile& tile, std::int64_t first,
                      const SeenColumns& columns, const TileFactors& factors,
                      const BackwardScratch<A>& at, const KeySums<A>& sums) {
  const std::int64_t stride = row_stride(problem.size);
  const auto& relative = problem.relative;
  const auto& scratch = at.added.relative;
  const auto sums_of = [&](const internal::RelativeSums<A>& all, std::size_t t,
                           const RelativeTable<A>& table) -> A* {
    return all.of_table.empty()
               ? nullptr
               : all.of_table[t].data() + problem.sums_at(tile) * table.numbers();
  };
  for (std::size_t t = 0; t < relative.keys.size(); ++t)
    RowTermsBackward(problem, relative.keys[t], tile, columns, at.score_grad, scratch,
                     at.q + first * stride, factors.q, at.q_grad + first * stride,
                     sums_of(problem.key_vectors, t, relative.keys[t]));
  const std::int64_t row = first * RelativeStride(problem);
  for (std::size_t t = 0; t < relative.projected.size(); ++t)
    RowTermsBackward(problem, relative.projected[t], tile, columns, at.score_grad, scratch,
                     at.relative_q + row, factors.relative_q, at.relative_q_grad + row,
                     sums_of(problem.projected_vectors, t, relative.projected[t]));
  for (std::size_t t = 0; t < relative.queries.size(); ++t)
    KeyTermsBackward(problem, relative.queries[t], tile, columns, at.score_grad, scratch,
                     at.key, factors.key, sums.key + tile.key * stride,
                     sums_of(problem.query_vectors, t, relative.queries[t]));
  for (std::size_t t = 0; t < relative.values.size(); ++t)
    RowTermsBackward<A>(problem, relative.values[t], tile, columns, at.scores, scratch,
                        at.out_grad + first * row_stride(problem.value_dim), factors.out_grad,
                        nullptr, sums_of(problem.value_vectors, t, relative.values[t]));
}

// One tile of one head. Its queries are in the rows of the buffers from `first`. of_keys: the
// factors of products with the `packed` keys of the buffer, found when first needed.
template <typename A>
void BackwardTile(const BackwardProblem<A>& problem, const Tile& tile, std::int64_t first,
                  const BackwardScratch<A>& at, std::int64_t packed,
                  std::optional<Factors>& of_keys, const KeySums<A>& sums) {
  const std::int64_t size = problem.size, values = problem.value_dim;
  const std::int64_t stride = row_stride(size), value_stride = row_stride(values);
  A* q = at.q + first * stride;
  const A* out_grad = at.out_grad + first * value_stride;
  SeenColumns columns;
  FindColumns<A>(problem, tile, columns);
  const Columns all = Together(tile, columns);
  if (all.begin >= all.end) return;
  A* slope = problem.softmax.cap ? at.slope : nullptr;
  // The running numbers of all rows at the right end of the tile.
  const double* starts = problem.walks() ? at.walk.starts_of(tile.key / tile_keys) : nullptr;
  if (problem.stick_breaking && WalkEnded(problem, starts + first, tile.rows())) return;
  const QueryRows<A> rows{q, at.relative_q + first * RelativeStride(problem)};
  const bool gated = at.channels.keys;
  const bool hides =
      gated ? MakeGatedScores(problem, tile, columns, first, q, at.added.bias, at.channels,
                              at.scores, slope)
      : at.householder.key_panels
          ? MakeHouseholderScores(problem, tile, columns, q, at.added.bias, at.householder,
                                  at.scores, slope)
          : MakeScores(problem, tile, columns, rows, at.key_panels, at.added, at.scores, slope);
  if (starts) WalkBackward(problem, tile, columns, at.walk, starts, first, at.scores);
  TileFactors factors;
  if (hides || !problem.relative.empty()) {
    if (!of_keys) of_keys = FactorsOf(at.key, packed, size);
    factors = {FactorsOf(q, tile.rows(), size), FactorsOf(out_grad, tile.rows(), values),
               *of_keys, FactorsOf(rows.relative, tile.rows(), RelativeSize(problem))};
  }
  const A* met[tile_rows];
  const bool meets =
      ComputeValueTerms(problem, tile, columns, out_grad, at.added.relative, met);
  MultiplyPanels<A>(tile, columns, values, out_grad, at.value_panels, meets ? met : nullptr,
                    at.score_grad);
  if (problem.stick_breaking)
    StickBackward(tile, columns, all, at.walk, first, at.scores, at.score_grad);
  else
    Weigh<A>(tile, columns, all, at.lse + first, at.delta + first, at.scores, at.score_grad);
  if (problem.edges.bias)
    EdgesBackward(problem, tile, columns, all, at.walk, first, at.score_grad);
  if (problem.contextual_positions())
    GateBackward(problem, tile, columns, at.walk, first, at.score_grad);
  AddBiasGradient(problem, tile, all, columns,
                  problem.gated() ? Ungate(problem, tile, all, columns, at) : at.score_grad,
                  at.added.bias);
  if (problem.column_sums) AddColumnSums(problem, tile, columns, at.score_grad);
  if (problem.key_slope_sums) AddKeySlopeSums(problem, tile, columns, at.score_grad);
  if (!problem.relative.empty())
    RelativeBackward(problem, tile, first, columns, factors, at, sums);
  if (slope) TimesSlope<A>(tile, columns, slope, at.score_grad);
  const std::int64_t keys = std::min(all.end, tile.keys) - all.begin;
  Product<A> product;
  product.depth = tile.rows(), product.factors = factors.out_grad;
  product.a = at.scores + all.begin, product.a_stride = tile_keys;
  product.b = out_grad, product.b_row = value_stride;
  product.c = sums.value + (tile.key + all.begin) * value_stride;
  product.c_row = value_stride;
  Multiply<Left::by_column, Into::add>(product, keys, padded(values));
  if (gated)
    return GatedProductsBackward(problem, tile, columns, all, first, q, at.score_grad,
                                 at.channels, at.q_grad + first * stride);
  if (at.householder.key_panels)
    return HouseholderBackward(problem, tile, all, at.score_grad, at.householder,
                               sums.householder, sums.key, at.q_grad + first * stride);
  product.a = at.score_grad + all.begin, product.factors = factors.q;
  product.b = q, product.b_row = stride;
  product.c = sums.key + (tile.key + all.begin) * stride, product.c_row = stride;
  Multiply<Left::by_column, Into::add>(product, keys, padded(size));
  MultiplyWeights(tile, columns, size, at.score_grad, at.key, factors.key,
                  at.q_grad + first * stride);
}

// Replaces the gradient of the first query of a tile, in polar form, by that of its elements,
// and adds that of the phases to their sums. scratch: two rows.
template <typename A>
void ContractQuery(const BackwardProblem<A>& problem, const Tile& tile, A scale, A* scratch,
                   A* grad) {
  const std::int64_t head_dim = problem.head_dim;
  A* phase_grad = scratch + row_stride(problem.size);
  LoadRow(problem.q, problem.position.queries, tile.batch, tile.query, tile.head, head_dim,
          scratch);
  FromPolar(head_dim, PhasesOf(problem, tile.head), scratch, grad, phase_grad);
  if (!problem.phase_sums) return;
  double* sums = problem.phase_sums + problem.sums_at(tile) * head_dim;
  for (std::int64_t n = 0; n < head_dim; ++n)
    sums[n] += static_cast<double>(scale) * static_cast<double>(phase_grad[n]);
}

// The queries [query, query + queries) of the heads that share a key head. Writes the gradients
// of the queries, and adds the gradients of keys and values to `sums`.
template <typename A>
void BackwardPiece(const BackwardProblem<A>& problem, std::int64_t b, std::int64_t key_head,
                   std::int64_t query, std::int64_t queries, std::int64_t part,
                   const BackwardScratch<A>& at, const KeySums<A>& sums) {
  const std::int64_t size = problem.size, stride = row_stride(size), group = problem.group();
  const auto tile_of = [&](std::int64_t g, std::int64_t i) {
    Tile tile{b,
              key_head * group + g,
              1,
              query + i,
              RowsOfTile(problem, query + i, std::min(tile_rows, queries - i)),
              0,
              0};
    tile.part = part;
    return tile;
  };
  for (std::int64_t g = 0; g < group; ++g) {
    for (std::int64_t i = 0; i < queries; i += tile_of(g, i).queries)
      PackQueryRows(problem, tile_of(g, i), at, g * queries + i);
    if (at.channels.keys)
      FindDecays(problem, b, key_head * group + g, query, queries, g * queries, at.channels);
  }
  std::fill_n(at.q_grad, group * queries * stride, A(0));
  std::fill_n(at.relative_q_grad, group * queries * RelativeStride(problem), A(0));

  const std::int64_t begin = visible_keys(problem, b, query).begin / tile_keys * tile_keys;
  const std::int64_t end = visible_keys(problem, b, query + queries - 1).end;
  if (problem.walks()) WalkKeys(problem, b, key_head, queries, {begin, end}, at, tile_of);
  const Tile piece{b, key_head * group, group, query, queries, 0, 0};
  if (at.householder.kept && begin < end)
    KeepQueries(problem, piece, begin, at.q, at.householder);
  for (std::int64_t key = begin; key < end; key += tile_keys) {
    const std::int64_t keys = std::min(tile_keys, end - key);
    Tile of_piece = piece;
    of_piece.key = key, of_piece.keys = keys;
    if (!within_reach(problem, of_piece)) continue;
    if (at.householder.kept) PackHouseholder(problem, of_piece, at.householder);
    PackKeysAndValues(problem, of_piece, at);
    std::optional<Factors> factors;
    for (std::int64_t g = 0; g < group; ++g) {
      const Tile of_head{b, key_head * group + g, 1, query, queries, key, keys};
      if (at.channels.keys) ScaleKeys(problem, of_head, at.channels);
      for (std::int64_t i = 0; i < queries; i += tile_of(g, i).queries) {
        Tile tile = tile_of(g, i);
        tile.key = key, tile.keys = keys;
        tile = trimmed(problem, tile);
        if (!tile.keys) continue;
        if (at.householder.kept)
          RestoreQueries(problem, tile, begin, g * queries + i, at.q, at.householder);
        if constexpr (sizeof(A) == 4)
          if (problem.pairs) {
            BackwardPairTile(problem, tile, g * queries + i, at, keys, factors, sums);
            continue;
          }
        BackwardTile(problem, tile, g * queries + i, at, keys, factors, sums);
      }
      if (at.channels.keys)
        TakeKeySums(problem, of_head, KeyFactor<A>(problem), at.channels,
                    sums.key + key * stride, sums.gates + (key * group + g) * stride,
                    group * stride);
    }
  }

  if (problem.contextual_positions() || problem.edges.bias)
    FinishWalks(problem, key_head, queries, at, tile_of);
  const A scale = static_cast<A>(problem.softmax.scale);
  for (std::int64_t g = 0; g < group; ++g)
    for (std::int64_t i = 0; i < queries; ++i) {
      A* row = at.q_grad + (g * queries + i) * stride;
      if (at.channels.keys)
        TakeQuerySums(size, KeyFactor<A>(problem), at.q + (g * queries + i) * stride, row,
                      sums.gates + ((query + i + problem.mask.offset) * group + g) * stride);
      RotateRow(problem.position.query_rotary, b, query + i, Direction::inverse, row);
      if (problem.position.polar)
        ContractQuery(problem, tile_of(g, i), scale, at.row_scratch, row);
      StoreRow(problem.q_grad, b, query + i, key_head * group + g, problem.head_dim, scale,
               row);
      StoreRelativeGrad(problem, b, query + i, key_head * group + g,
                        at.relative_q_grad + (g * queries + i) * RelativeStride(problem));
    }
}

template <typename A>
void BackwardAll(BackwardProblem<A>& problem) {
  const std::int64_t pairs = problem.batch * problem.key_heads;
  if (!pairs) return;
  FindReach<A>(problem);
  FindHouseholderRows(problem);
  problem.pairs = sizeof(A) == 4 && problem.takes_bfloat16() && HasPairs();
  const BackwardPlan plan(problem);
  internal::Carve<A> of_sums;
  KeySums<A>(of_sums, problem);
  const std::int64_t rows = plan.queries * problem.group(), tasks = pairs * plan.parts;
  const std::int64_t lent = internal::at_once(tasks, plan.grain);
  internal::ScratchPool<A> pool(lent, BackwardScratch<A>(problem, rows, nullptr).carve.used());
  // Sums of one key head for each part, until the last part is done and all are added. Few
  // blocks are in use at the same time, but no order of the tasks is promised.
  internal::ScratchPool<A> sum_pool(plan.parts == 1 ? lent : tasks, of_sums.used());
  std::vector<A*> of_task(static_cast<std::size_t>(tasks));
  std::vector<std::atomic<std::int64_t>> done(static_cast<std::size_t>(pairs));
  parallel_for(tasks, plan.grain, [&](std::int64_t begin, std::int64_t end) {
    A* block = pool.take();
    const BackwardScratch<A> scratch(problem, rows, block);
    for (std::int64_t n = begin; n < end; ++n) {
      const std::int64_t pair = n / plan.parts, part = n % plan.parts;
      const std::int64_t b = pair / problem.key_heads, head = pair % problem.key_heads;
      A** const blocks = of_task.data() + pair * plan.parts;
      blocks[part] = sum_pool.take();
      std::fill_n(blocks[part], of_sums.used(), A(0));
      const auto sums_of = [&](std::int64_t of_part) {
        internal::Carve<A> carve(blocks[of_part]);
        return KeySums<A>(carve, problem);
      };
      const KeySums<A> sums = sums_of(part);
      for (std::int64_t chunk = 0; chunk * plan.queries < problem.queries; ++chunk) {
        if (plan.part_of(chunk) != part) continue;
        const std::int64_t query = chunk * plan.queries;
        BackwardPiece(problem, b, head, query, std::min(plan.queries, problem.queries - query),
                      part, scratch, sums);
      }
      if (done[static_cast<std::size_t>(pair)].fetch_add(1) + 1 < plan.parts) continue;
      const KeySums<A> total = sums_of(0);
      for (std::int64_t other = 1; other < plan.parts; ++other)
        AddKeySums(problem, sums_of(other), total);
      StoreKeySums(problem, b, head, total);
      for (std::int64_t other = 0; other < plan.parts; ++other) sum_pool.give(blocks[other]);
    }
    pool.give(block);
  });
}

void BackwardFloat(BackwardProblem<float>& problem) { BackwardAll(problem); }
void BackwardDouble(BackwardProblem<double>& problem) { BackwardAll(problem); }

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gnomon {

HWY_EXPORT(BackwardFloat);
HWY_EXPORT(BackwardDouble);

void internal::run_backward(BackwardProblem<float>& problem) {
  GNOMON_DISPATCH(BackwardFloat)(problem);
}
void internal::run_backward(BackwardProblem<double>& problem) {
  GNOMON_DISPATCH(BackwardDouble)(problem);
}

}  // namespace gnomon
#endif  // HWY_ONCE
