// The bias of one tile of scores, and the gradient that a tile gives back.
#pragma once

#include <cstdint>

#include "src/attention/problem.h"

namespace gnomon::internal {

// Query rows [query, query + queries) by key rows [key, key + keys) of head `head`.
struct Tile {
  std::int64_t batch = 0, head = 0, query = 0, queries = 0, key = 0, keys = 0;
};

// values + i * stride is the bias of the tile's query i by key. Where distances run on by one
// it is one strip that each query reads one further to the left: stride -1.
template <typename A>
struct BiasRows {
  const A* values = nullptr;  // null: no bias
  std::ptrdiff_t stride = 0;
};

// Numbers of room that a tile of these sizes needs; rows may be read up to `keys` padded.
std::int64_t bias_room(std::int64_t queries, std::int64_t keys);

template <typename A>
BiasRows<A> fill_bias(const AttentionProblem& problem, const Tile& tile, A* room);

// Adds a tile of score gradients [queries, keys] (rows `stride` apart, zero where not visible)
// to the sums of its head, in the order of queries, and writes a dense form's.
template <typename A>
void add_bias_gradient(const BackwardProblem<A>& problem, const Tile& tile, const A* grad,
                       std::ptrdiff_t stride);

}  // namespace gnomon::internal
