// Random graphs, and their shortest paths as in Graphormer's released code.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "gnomon/position/graph.h"

namespace gnomon::testing {

using Edges = std::vector<std::int64_t>;  // [E, 2]

inline Graph graph_of(std::int64_t nodes, const Edges& ends,
                      EdgeKind kind = EdgeKind::undirected) {
  return Graph(nodes, {ends.data(), {static_cast<std::ptrdiff_t>(ends.size() / 2), 2}}, kind);
}

inline Edges random_edges(std::int64_t nodes, std::int64_t count, unsigned seed) {
  std::mt19937_64 engine(seed);
  Edges ends;
  for (std::int64_t i = 0; i < 2 * count; ++i)
    ends.push_back(static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(nodes)));
  return ends;
}

// Floyd-Warshall as in the released code. Input: adjacency matrix. Output: distances, and the
// node at which the path of each pair was last shortened.
struct Released {
  std::vector<std::vector<int>> distance, path;
};
inline Released floyd_warshall(std::int64_t nodes, const Edges& ends, EdgeKind kind,
                               int limit) {
  const auto n = static_cast<std::size_t>(nodes);
  std::vector<std::vector<int>> m(n, std::vector<int>(n)), path(n, std::vector<int>(n, -1));
  for (std::size_t e = 0; e < ends.size(); e += 2) {
    const auto u = static_cast<std::size_t>(ends[e]), v = static_cast<std::size_t>(ends[e + 1]);
    m[u][v] = 1;
    if (kind == EdgeKind::undirected) m[v][u] = 1;
  }
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) m[i][j] = i == j ? 0 : m[i][j] == 0 ? limit : 1;
  for (std::size_t k = 0; k < n; ++k)
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j)
        if (m[i][j] > m[i][k] + m[k][j]) {
          m[i][j] = m[i][k] + m[k][j];
          path[i][j] = static_cast<int>(k);
        }
  for (auto& row : m)
    for (int& d : row) d = std::min(d, limit);
  return {m, path};
}

inline Edges released_nodes(const Released& released, std::int64_t i, std::int64_t j) {
  const int k = released.path[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
  if (k < 0) return {};
  Edges nodes = released_nodes(released, i, k);
  nodes.push_back(k);
  for (const std::int64_t node : released_nodes(released, k, j)) nodes.push_back(node);
  return nodes;
}

}  // namespace gnomon::testing
