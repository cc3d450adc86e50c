// Edges between keys and queries, whose sums are a bias (EdgeBias).
#pragma once

#include <cstdint>
#include <vector>

#include "gnomon/attention/attention.h"
#include "gnomon/view.h"
#include "src/attention/scratch.h"

namespace gnomon::internal {

struct AttentionProblem;
template <typename A>
struct BackwardProblem;

struct EdgeTerms {
  const EdgeBias* bias = nullptr;  // null: no edges
  const RotaryTable* rotary = nullptr;
  View<const float, 4> queries, keys;  // [B, T, Hq, P], [B, S, Hq, P]

  std::int64_t size() const {  // P
    return !bias ? 0 : queries.data() ? queries.extent(3) : keys.extent(3);
  }
};

// Takes the bias of the plan and its terms. Throws std::invalid_argument if a term is missing,
// not required, or has another shape, or if the bias is inconsistent.
void take_edges(const AttentionPlan& plan, const TokenTerms& terms, AttentionProblem& problem);

// The rotated vectors of the keys, [B, Hq, S] rows; zeros for padding.
template <typename A>
class EdgeRows {
 public:
  explicit EdgeRows(const AttentionProblem& problem);
  const A* of(std::int64_t b, std::int64_t head, std::int64_t key) const {
    return rows_.data() + ((b * heads_ + head) * keys_ + key) * stride_;
  }
  // Rotates the row of a key in place, if the plan has a table.
  static void rotate(const AttentionProblem& problem, std::int64_t b, std::int64_t key,
                     Direction direction, A* row);

 private:
  std::int64_t heads_, keys_, stride_;
  Numbers<A> rows_;
};

// The gradients of the terms while the backward pass runs.
template <typename A>
class EdgeGradients {
 public:
  // Throws std::invalid_argument if a gradient has another shape than its term.
  EdgeGradients(const TokenTermGradients& gradients, BackwardProblem<A>& problem);
  // Writes the gradient of the keys.
  void finish() const;

 private:
  const BackwardProblem<A>& problem_;
  View<float, 4> keys_;
  Numbers<A> sums_;  // [B, Hq, parts, S, row_stride(P)]
};

}  // namespace gnomon::internal
