// Sums of edges along the rows of tiles (src/attention/walk-inl.h), and their gradients.
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/attention/edges_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "src/attention/lane_shifts-inl.h"
#include "src/attention/walk-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

template <typename A>
void PackEdgeQueries(const TypedProblem<A>& problem, const Tile& rows, const WalkRows<A>& walk,
                     std::int64_t first) {
  const std::int64_t size = problem.edges.size(), stride = row_stride(size);
  for (std::int64_t i = 0; i < rows.queries; ++i) {
    A* to = walk.edge_queries + (first + i) * stride;
    std::fill_n(to, stride, A(0));
    if (IsPadding(problem.position.queries, rows.batch, rows.query + i)) continue;
    for (std::int64_t p = 0; p < size; ++p)
      to[p] = static_cast<A>(problem.edges.queries(rows.batch, rows.query + i, rows.head, p));
  }
}

// ln sigmoid(x) and its derivative, sigmoid(-x), without overflow.
template <class V>
struct Edge {
  V value, slope;
};
template <class D, class V>
HWY_INLINE Edge<V> EdgeOf(D d, V x) {
  const V one = hn::Set(d, hn::TFromD<D>(1)), power = hn::Exp(d, hn::Neg(hn::Abs(x)));
  const V share = hn::Div(one, hn::Add(one, power));
  const auto negative = hn::Lt(x, hn::Zero(d));
  return {hn::Sub(hn::IfThenElse(negative, x, hn::Zero(d)), hn::Log1p(d, power)),
          hn::IfThenElse(negative, share, hn::Mul(power, share))};
}

template <typename A>
void WalkEdges(const TypedProblem<A>& problem, const Tile& tile, const SeenColumns& columns,
               const WalkRows<A>& walk, const double* starts, std::int64_t first, Stores stores,
               A* HWY_RESTRICT scores, A* HWY_RESTRICT gates) {
  const hn::ScalableTag<A> tag;
  const LaneShifts<A> shifts;
  constexpr std::int64_t lanes = LaneShifts<A>::lanes;
  const std::int64_t size = problem.edges.size();
  MakePanels(problem.edge_rows->of(tile.batch, tile.head, tile.key), tile.keys, size,
             walk.edge_panels);
  MultiplyPanels<A>(tile, columns, size, walk.edge_queries + first * row_stride(size),
                    walk.edge_panels, nullptr, walk.edges);
  const auto zero = hn::Zero(tag), nothing = hn::Set(tag, -std::numeric_limits<A>::infinity());
  const A slope =
      static_cast<A>(problem.edges.bias->slopes[static_cast<std::size_t>(tile.head)]);
  const auto natural = hn::Set(tag, slope), scale = hn::Set(tag, slope * A(log2_of_e));
  for (std::int64_t i = 0; i < tile.rows(); ++i) {
    const Columns& seen = columns[i / block_rows];
    double& running = walk.running[first + i];
    const double start = starts ? starts[first + i] : running;
    A sum = 0;  // of this tile
    for (std::int64_t j = seen.end - lanes; j >= seen.begin; j -= lanes) {
      A* score = scores + i * tile_keys + j;
      const auto own = hn::Load(tag, score);
      const auto hidden = hn::Eq(own, nothing);
      const auto edge = EdgeOf(tag, hn::Load(tag, walk.edges + i * tile_keys + j));
      const auto sums =
          shifts.SumsFromRight(hn::IfThenZeroElse(hidden, hn::Mul(scale, edge.value)));
      if (stores != Stores::nothing) {  // without the edge of the key itself
        const auto right = hn::Add(hn::Set(tag, static_cast<A>(start + double{sum})),
                                   shifts.Down(sums, 0, zero));
        hn::Store(hn::IfThenElse(hidden, nothing, hn::Add(own, right)), tag, score);
      }
      if (stores == Stores::scores_and_gates)
        hn::Store(hn::IfThenZeroElse(hidden, hn::Mul(natural, edge.slope)), tag,
                  gates + i * tile_keys + j);
      sum += hn::GetLane(sums);
    }
    running = start + double{sum};
  }
}

// The edge of a key is in the scores of all keys to its left.
template <typename A>
void EdgesBackward(const BackwardProblem<A>& problem, const Tile& tile,
                   const SeenColumns& columns, const Columns& all, const BackwardWalk<A>& walk,
                   std::int64_t first, const A* HWY_RESTRICT score_grad) {
  const hn::ScalableTag<A> tag;
  const LaneShifts<A> shifts;
  constexpr std::int64_t lanes = LaneShifts<A>::lanes;
  const std::int64_t size = problem.edges.size(), stride = row_stride(size);
  for (std::int64_t i = 0; i < tile.rows(); ++i) {
    A* HWY_RESTRICT grad = walk.gates + i * tile_keys;
    const Columns& seen = columns[i / block_rows];
    const bool none = seen.begin == seen.end;
    const std::int64_t begin = none ? all.end : seen.begin, end = none ? all.end : seen.end;
    std::fill(grad + all.begin, grad + begin, A(0));
    A& total = walk.gradient[first + i];
    for (std::int64_t j = begin; j < end; j += lanes) {
      const auto sums =
          hn::Add(hn::Set(tag, total),
                  shifts.SumsFromLeft(hn::Load(tag, score_grad + i * tile_keys + j)));
      const auto left =
          hn::IfThenElse(hn::FirstN(tag, 1), hn::Set(tag, total), shifts.Up(sums, 0));
      const auto slope = hn::Load(tag, grad + j);
      hn::Store(hn::IfThenZeroElse(hn::Eq(slope, hn::Zero(tag)), hn::Mul(slope, left)), tag,
                grad + j);
      total = LaneShifts<A>::Last(sums);
    }
    std::fill(grad + end, grad + all.end, A(0));
  }
  const A* keys = problem.edge_rows->of(tile.batch, tile.head, tile.key);
  const A* queries = walk.edge_queries + first * stride;
  MultiplyWeights(tile, columns, size, walk.gates, keys, FactorsOf(keys, tile.keys, size),
                  walk.edge_query_grad + first * stride);
  if (!problem.edge_key_sums) return;
  Product<A> product;
  product.depth = tile.rows(), product.factors = FactorsOf(queries, tile.rows(), size);
  product.a = walk.gates + all.begin, product.a_stride = tile_keys;
  product.b = queries, product.b_row = stride;
  product.c = problem.edge_key_sums +
              (problem.sums_at(tile) * problem.keys + tile.key + all.begin) * stride;
  product.c_row = stride;
  Multiply<Left::by_column, Into::add>(product, std::min(all.end, tile.keys) - all.begin,
                                       padded(size));
}

template <typename A>
void StoreEdgeQueryGrad(const BackwardProblem<A>& problem, const Tile& rows,
                        const BackwardWalk<A>& walk, std::int64_t first) {
  const View<float, 4>& to = problem.edge_query_grad;
  if (!to.data()) return;
  const std::int64_t size = problem.edges.size();
  for (std::int64_t i = 0; i < rows.queries; ++i)
    for (std::int64_t p = 0; p < size; ++p)
      to(rows.batch, rows.query + i, rows.head, p) =
          static_cast<float>(walk.edge_query_grad[(first + i) * row_stride(size) + p]);
}

#define GNOMON_EDGES(A)                                                                        \
  template void PackEdgeQueries(const TypedProblem<A>&, const Tile&, const WalkRows<A>&,       \
                                std::int64_t);                                                 \
  template void WalkEdges(const TypedProblem<A>&, const Tile&, const SeenColumns&,             \
                          const WalkRows<A>&, const double*, std::int64_t, Stores, A*, A*);    \
  template void EdgesBackward(const BackwardProblem<A>&, const Tile&, const SeenColumns&,      \
                              const Columns&, const BackwardWalk<A>&, std::int64_t, const A*); \
  template void StoreEdgeQueryGrad(const BackwardProblem<A>&, const Tile&,                     \
                                   const BackwardWalk<A>&, std::int64_t);
GNOMON_EDGES(float)
GNOMON_EDGES(double)
#undef GNOMON_EDGES

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();
