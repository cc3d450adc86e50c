// Terms that depend on what lies between a key and the query, for this query: contextual
// positions, which sum gates, edges, which are summed themselves, and stick-breaking, which
// multiplies rests. Key tiles are walked
// from the diagonal leftwards, with one running number for each row. The backward pass first
// walks the same way and stores the running numbers at the right end of each tile; then it goes
// from the left, with a running sum of gradients. Scores are in units of ln 2.
#if defined(GNOMON_ATTENTION_WALK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_ATTENTION_WALK_INL_H_
#undef GNOMON_ATTENTION_WALK_INL_H_
#else
#define GNOMON_ATTENTION_WALK_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "src/attention/scores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

using internal::BackwardProblem;
using internal::TypedProblem;

// What a walk along a row stores.
enum class Stores { scores = 1, scores_and_gates, nothing };

// Buffers of the rows of a piece. `running` is a double for each row: the sum of the gates or
// edges of the keys to the right, or the part of the stick that they left.
template <typename A>
struct WalkRows {
  double* running = nullptr;
  A* products =
      nullptr;  // q . e of each row, [rows, width], if the plan has contextual vectors
  std::int64_t width = 0;
  A* edge_queries = nullptr;                   // [rows, row_stride(P)], if the plan has edges
  A *edge_panels = nullptr, *edges = nullptr;  // of one tile

  WalkRows(const TypedProblem<A>& problem, internal::Carve<A>& carve, std::int64_t rows)
      : width(problem.relative.contextual.width()) {
    if (!problem.walks()) return;
    running = Doubles(carve, rows);
    products = carve.take(rows * width);
    if (!problem.edges.bias) return;
    const std::int64_t size = problem.edges.size();
    edge_queries = carve.take(rows * row_stride(size));
    edge_panels = carve.take(Panels<A>(tile_keys) * Panel<A>() * size);
    edges = carve.take(tile_rows * tile_keys);
  }
  static double* Doubles(internal::Carve<A>& carve, std::int64_t count) {
    return reinterpret_cast<double*>(
        carve.take(count * static_cast<std::int64_t>(sizeof(double) / sizeof(A))));
  }
};

// Buffers of the backward pass.
template <typename A>
struct BackwardWalk : WalkRows<A> {
  std::int64_t rows;
  double* starts = nullptr;   // running numbers at the right end of each tile, [tiles, rows]
  A* gradient = nullptr;      // sums of gradients of the keys to the left, [rows]
  A* product_grad = nullptr;  // gradient of `products`
  A *gates = nullptr, *positions = nullptr;  // of one tile; edges: derivatives as gates
  A* edge_query_grad = nullptr;              // [rows, row_stride(P)]

  BackwardWalk(const TypedProblem<A>& problem, internal::Carve<A>& carve, std::int64_t count)
      : WalkRows<A>(problem, carve, count), rows(count) {
    if (!problem.walks()) return;
    starts = WalkRows<A>::Doubles(carve, (problem.keys / tile_keys + 2) * rows);
    gradient = carve.take(rows);
    product_grad = carve.take(rows * this->width);
    gates = carve.take(tile_rows * tile_keys);
    positions = carve.take(problem.relative.contextual.empty() ? 0 : tile_rows * tile_keys);
    edge_query_grad =
        carve.take(problem.edges.bias ? rows * row_stride(problem.edges.size()) : 0);
  }
  double* starts_of(std::int64_t tile) const { return starts + tile * rows; }
};

// Prepares the rows from `first` for a walk: those of the queries and heads of `rows`. q:
// packed queries of these rows.
template <typename A>
void StartWalk(const TypedProblem<A>& problem, const Tile& rows, const A* q,
               const WalkRows<A>& walk, std::int64_t first);

// Whether no key further left changes the results of the rows, or their running numbers.
bool WalkEnded(const AttentionProblem& problem, const double* running, std::int64_t rows);

// Converts the scores of a tile: adds the terms of contextual positions or sums of edges, or
// replaces scores by weights (stick-breaking). Updates the running numbers of its rows.
template <typename A>
void Walk(const TypedProblem<A>& problem, const Tile& tile, const SeenColumns& columns,
          const WalkRows<A>& walk, std::int64_t first, A* scores);

// The same in the backward pass, from the running numbers at the right end of the tile. Stores
// gates and positions.
template <typename A>
void WalkBackward(const TypedProblem<A>& problem, const Tile& tile, const SeenColumns& columns,
                  const BackwardWalk<A>& walk, const double* starts, std::int64_t first,
                  A* scores);

// Updates only the running numbers.
template <typename A>
void WalkPast(const TypedProblem<A>& problem, const Tile& tile, const SeenColumns& columns,
              const BackwardWalk<A>& walk, std::int64_t first, A* scores);

// Contextual positions: adds the gradient that the scores of a tile have through gates to
// score_grad, which contains that of the softmax, and adds to the gradient of the products.
template <typename A>
void GateBackward(const TypedProblem<A>& problem, const Tile& tile, const SeenColumns& columns,
                  const BackwardWalk<A>& walk, std::int64_t first, A* score_grad);

// Stick-breaking: replaces score_grad (on entry: the gradient of the weights) by that of the
// scores. It and the weights become 0 in the columns of `all` outside those of the row.
template <typename A>
void StickBackward(const Tile& tile, const SeenColumns& columns, const Columns& all,
                   const BackwardWalk<A>& walk, std::int64_t first, A* weights, A* score_grad);

// Edges: packs the queries of rows of one head.
template <typename A>
void PackEdgeQueries(const TypedProblem<A>& problem, const Tile& rows, const WalkRows<A>& walk,
                     std::int64_t first);

// Edges: adds their sums to the scores of a tile of one head, updates the running numbers, and
// stores the derivatives of the edges in gates, as `stores` says.
template <typename A>
void WalkEdges(const TypedProblem<A>& problem, const Tile& tile, const SeenColumns& columns,
               const WalkRows<A>& walk, const double* starts, std::int64_t first, Stores stores,
               A* scores, A* gates);

// Edges: adds the gradients of a tile to those of its queries and keys. all: the columns of
// the tile. A column of score_grad that a row does not see is zero.
template <typename A>
void EdgesBackward(const BackwardProblem<A>& problem, const Tile& tile,
                   const SeenColumns& columns, const Columns& all, const BackwardWalk<A>& walk,
                   std::int64_t first, const A* score_grad);

// Edges: writes the gradient of the queries of rows of one head.
template <typename A>
void StoreEdgeQueryGrad(const BackwardProblem<A>& problem, const Tile& rows,
                        const BackwardWalk<A>& walk, std::int64_t first);

// Contextual positions: adds the gradient of the products of `rows` rows from `first` to those
// of the packed queries, q_grad, and of the vectors, sums (or null). The rows are of one head.
template <typename A>
void FinishWalk(const TypedProblem<A>& problem, std::int64_t head, std::int64_t rows,
                const BackwardWalk<A>& walk, std::int64_t first, const A* q, A* q_grad,
                A* sums);

// Stores the running numbers of `rows` rows, which are packed, at the right end of each tile of
// the keys [begin, end) of a key head. tile_of(g, i): the tile of the rows from g
// queries + i. at: the buffers of the backward pass.
template <typename A, typename Scratch, typename TileOf>
void WalkKeys(const BackwardProblem<A>& problem, std::int64_t b, std::int64_t key_head,
              std::int64_t queries, const internal::KeyRange& range, const Scratch& at,
              const TileOf& tile_of) {
  const std::int64_t size = problem.size, stride = row_stride(size), group = problem.group();
  const std::int64_t rows = group * queries;
  for (std::int64_t g = 0; g < group; ++g) {
    Tile rows_of_head = tile_of(g, 0);
    rows_of_head.queries = queries;
    StartWalk(problem, rows_of_head, at.q + g * queries * stride, at.walk, g * queries);
  }
  std::fill_n(at.walk.gradient, rows, A(0));
  std::fill_n(at.walk.product_grad, rows * at.walk.width, A(0));
  if (problem.edges.bias)
    std::fill_n(at.walk.edge_query_grad, rows * row_stride(problem.edges.size()), A(0));
  if (range.begin >= range.end) return;
  const std::int64_t begin = range.begin / tile_keys;
  for (std::int64_t n = (range.end - 1) / tile_keys; n >= begin; --n) {
    std::copy_n(at.walk.running, rows, at.walk.starts_of(n));
    if (n == begin || WalkEnded(problem, at.walk.running, rows)) continue;
    const std::int64_t key = n * tile_keys, keys = std::min(tile_keys, range.end - key);
    if (!problem.edges.bias)
      PackKeyRows(problem.k, problem.position.keys, problem.position.key_rotary, b, key, keys,
                  key_head, size, at.row_scratch, PackedRows<A>{nullptr, at.key_panels});
    for (std::int64_t g = 0; g < group; ++g)
      for (std::int64_t i = 0; i < queries; i += tile_rows) {
        Tile tile = tile_of(g, i);
        tile.key = key, tile.keys = keys;
        tile = trimmed(problem, tile);
        const std::int64_t first = g * queries + i;
        if (!tile.keys || WalkEnded(problem, at.walk.running + first, tile.rows())) continue;
        SeenColumns columns;
        FindColumns<A>(problem, tile, columns);
        if (problem.edges.bias) {  // of the scores, only those that are hidden matter
          std::fill_n(at.scores, tile.rows() * tile_keys, A(0));
          FinishScores<A>(problem, tile, columns, at.added.bias, at.scores);
        } else {
          MakeScores<A>(problem, tile, columns, {at.q + first * stride, nullptr}, at.key_panels,
                        at.added, at.scores);
        }
        WalkPast(problem, tile, columns, at.walk, first, at.scores);
      }
  }
}

// Contextual positions: adds the gradient of the products of all rows to those of the packed
// queries and of the vectors. Edges: writes the gradient of the queries.
template <typename A, typename Scratch, typename TileOf>
void FinishWalks(const BackwardProblem<A>& problem, std::int64_t key_head, std::int64_t queries,
                 const Scratch& at, const TileOf& tile_of) {
  const std::int64_t stride = row_stride(problem.size), group = problem.group();
  for (std::int64_t g = 0; g < group; ++g) {
    const std::int64_t row = g * queries;
    if (problem.edges.bias) {
      Tile rows = tile_of(g, 0);
      rows.queries = queries;
      StoreEdgeQueryGrad(problem, rows, at.walk, row);
      continue;
    }
    A* sums = problem.contextual_sums;
    if (sums) sums += problem.sums_at(tile_of(g, 0)) * problem.relative.contextual.numbers();
    FinishWalk(problem, key_head * group + g, queries, at.walk, row, at.q + row * stride,
               at.q_grad + row * stride, sums);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
