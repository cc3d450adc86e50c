// Return probabilities of a random walk as positions of a graph's nodes: how likely a walk that
// starts at a node is back there after 1, 2, ..., K steps, each along one of the arcs of the
// node it is at, all as likely.
//
//   Dwivedi et al. "Graph Neural Networks with Learnable Structural and Positional
//   Representations", 2021. https://arxiv.org/abs/2110.07875, section 3.1 (RWPE, later RWSE).
//
//   feature(i, k) = (P^k)(i, i),   P = D^-1 A,   k = 1 to K
//
// Unlike eigenvectors they have no sign and no order to choose. Letters: N nodes, K steps.
#pragma once

#include <cstdint>
#include <vector>

#include "gnomon/position/graph.h"
#include "gnomon/view.h"

namespace gnomon {

struct RandomWalk {
  std::int64_t steps = 0;  // K; at least 1. 16 to 24 in released models

  bool operator==(const RandomWalk&) const = default;
};

struct ReturnProbabilities {
  std::int64_t nodes = 0, steps = 0;
  std::vector<double> values;  // [N, K]

  View<const double, 2> view() const noexcept { return {values.data(), {nodes, steps}}; }
  bool operator==(const ReturnProbabilities&) const = default;
};

// The plan. Each within K (d + 2) 2^-53 of itself, d the most arcs to one node. From a node
// without arcs the walk goes nowhere: zeros, as in the released code. Arcs of a directed graph
// are walked one way.
//
// Powers are those of a sparse matrix, row by row: O(K) times the arcs within K steps of each
// node, so O(N K d^K) at most for a small K and O(N K A) at most for any; the same bits for any
// number of threads. Throws std::invalid_argument when steps is below 1.
ReturnProbabilities return_probabilities(const RandomWalk& walk, const Graph& graph);

}  // namespace gnomon
