// Random-walk encoding: positions of the nodes of a graph. Feature k of a node is the
// probability that a random walk from the node is at that node again after k steps, k = 1 to K.
// Each step follows one of the outgoing arcs of the current node, all with equal probability.
//
//   Dwivedi et al. "Graph Neural Networks with Learnable Structural and Positional
//   Representations", 2021. https://arxiv.org/abs/2110.07875, section 3.1 (RWPE, later RWSE).
//
//   feature(i, k) = (P^k)(i, i),   P = D^-1 A,   k = 1 to K
//
// Unlike eigenvectors, these features have no ambiguity of sign or order. Letters: N nodes, K
// steps.
#pragma once

#include <cstdint>
#include <vector>

#include "gnomon/position/graph.h"
#include "gnomon/view.h"

namespace gnomon {

struct RandomWalk {
  std::int64_t steps = 0;  // K; at least 1. Released models use 16 to 24

  bool operator==(const RandomWalk&) const = default;
};

struct ReturnProbabilities {
  std::int64_t nodes = 0, steps = 0;
  std::vector<double> values;  // [N, K]

  View<const double, 2> view() const noexcept { return {values.data(), {nodes, steps}}; }
  bool operator==(const ReturnProbabilities&) const = default;
};

// Returns the plan. Relative error bound of each value: K (d + 2) 2^-53, with d the largest
// in-degree. A node without outgoing arcs has zeros, as in the released code. Arcs of a
// directed graph are followed in their direction only.
//
// Powers of the sparse matrix are computed row by row. Cost: O(K) times the number of arcs
// within K steps of each node, so at most O(N K d^K), and at most O(N K A) for A arcs. The
// result is bit-identical for any number of threads. Throws std::invalid_argument if steps is
// below 1.
ReturnProbabilities return_probabilities(const RandomWalk& walk, const Graph& graph);

}  // namespace gnomon
