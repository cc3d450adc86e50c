// Terms that depend on what lies between a key and the query, for this query: contextual
// positions, which sum gates, and stick-breaking, which multiplies rests. Key tiles are walked
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

using internal::TypedProblem;

// Buffers of the rows of a piece. `running` is a double for each row: the sum of the gates of
// the keys to the right, or the part of the stick that they left.
template <typename A>
struct WalkRows {
  double* running = nullptr;
  A* products =
      nullptr;  // q . e of each row, [rows, width], if the plan has contextual vectors
  std::int64_t width = 0;

  WalkRows(const TypedProblem<A>& problem, internal::Carve<A>& carve, std::int64_t rows)
      : width(problem.relative.contextual.width()) {
    if (!problem.walks()) return;
    running = Doubles(carve, rows);
    products = carve.take(rows * width);
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
  A *gates = nullptr, *positions = nullptr;  // of one tile

  BackwardWalk(const TypedProblem<A>& problem, internal::Carve<A>& carve, std::int64_t count)
      : WalkRows<A>(problem, carve, count), rows(count) {
    if (!problem.walks()) return;
    starts = WalkRows<A>::Doubles(carve, (problem.keys / tile_keys + 2) * rows);
    gradient = carve.take(rows);
    product_grad = carve.take(rows * this->width);
    gates = carve.take(tile_rows * tile_keys);
    positions = carve.take(problem.relative.contextual.empty() ? 0 : tile_rows * tile_keys);
  }
  double* starts_of(std::int64_t tile) const { return starts + tile * rows; }
};

// Prepares the rows from `first` for a walk: those of `queries` queries of `heads` heads, from
// head `head`, ordered by query. q: packed queries of these rows.
template <typename A>
void StartWalk(const TypedProblem<A>& problem, std::int64_t head, std::int64_t heads,
               std::int64_t queries, const A* q, const WalkRows<A>& walk, std::int64_t first);

// Whether no key further left changes the results of the rows, or their running numbers.
bool WalkEnded(const AttentionProblem& problem, const double* running, std::int64_t rows);

// Converts the scores of a tile: adds the terms of contextual positions, or replaces scores by
// weights (stick-breaking). Updates the running numbers of its rows.
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

// Adds the gradient of the products of `rows` rows from `first` to those of the packed queries,
// q_grad, and of the contextual vectors, sums (or null). The rows are of one head.
template <typename A>
void FinishWalk(const TypedProblem<A>& problem, std::int64_t head, std::int64_t rows,
                const BackwardWalk<A>& walk, std::int64_t first, const A* q, A* q_grad,
                A* sums);

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
