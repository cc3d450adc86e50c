#include "gnomon/embedding/random_walk.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "gnomon/parallel.h"
#include "testing.h"

namespace gnomon {
namespace random_walk_test {

using testing::message_of;
using Real = long double;
using Edges = std::vector<std::int64_t>;

Graph graph_of(std::int64_t nodes, const Edges& ends, EdgeKind kind = EdgeKind::undirected) {
  return Graph(nodes, {ends.data(), {static_cast<std::ptrdiff_t>(ends.size() / 2), 2}}, kind);
}

Edges random_edges(std::int64_t nodes, std::int64_t count, unsigned seed) {
  std::mt19937_64 engine(seed);
  Edges ends;
  for (std::int64_t i = 0; i < 2 * count; ++i)
    ends.push_back(static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(nodes)));
  return ends;
}

// Diagonals of the powers of the dense matrix.
std::vector<Real> dense_powers(std::int64_t nodes, const Edges& ends, EdgeKind kind,
                               std::int64_t steps) {
  const auto n = static_cast<std::size_t>(nodes);
  std::vector<std::vector<Real>> p(n, std::vector<Real>(n)), power = p, next;
  for (std::size_t e = 0; e < ends.size(); e += 2) {
    const auto u = static_cast<std::size_t>(ends[e]), v = static_cast<std::size_t>(ends[e + 1]);
    p[u][v] = 1;
    if (kind == EdgeKind::undirected) p[v][u] = 1;
  }
  for (std::size_t i = 0; i < n; ++i) {
    Real degree = 0;
    for (std::size_t j = 0; j < n; ++j) degree += p[i][j];
    for (std::size_t j = 0; j < n && degree > 0; ++j) p[i][j] /= degree;
    power[i][i] = 1;
  }
  std::vector<Real> diagonals(n * static_cast<std::size_t>(steps));
  for (std::size_t k = 0; k < static_cast<std::size_t>(steps); ++k) {
    next.assign(n, std::vector<Real>(n));
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j)
        for (std::size_t l = 0; l < n && power[i][j] != 0; ++l)
          next[i][l] += power[i][j] * p[j][l];
    power.swap(next);
    for (std::size_t i = 0; i < n; ++i)
      diagonals[i * static_cast<std::size_t>(steps) + k] = power[i][i];
  }
  return diagonals;
}

TEST(RandomWalk, IsTheDiagonalOfPowers) {
  for (const EdgeKind kind : {EdgeKind::undirected, EdgeKind::directed})
    for (const auto& [nodes, edges, steps] :
         {std::tuple{1, 0, 3}, {1, 1, 3}, {7, 5, 4}, {20, 40, 16}, {40, 200, 9}})
      for (unsigned seed = 1; seed < 4; ++seed) {
        const Edges ends = random_edges(nodes, edges, seed);
        const ReturnProbabilities got =
            return_probabilities({.steps = steps}, graph_of(nodes, ends, kind));
        const auto expected = dense_powers(nodes, ends, kind, steps);
        ASSERT_EQ(got.values.size(), expected.size());
        for (std::size_t i = 0; i < expected.size(); ++i)
          EXPECT_NEAR(got.values[i], static_cast<double>(expected[i]),
                      steps * (nodes + 2) * 0x1p-53 * static_cast<double>(expected[i]))
              << "number " << i;
      }
}

// A walk from the middle of a path returns after 2m steps with the probability of m heads in 2m
// coin tosses.
TEST(RandomWalk, OfAPathIsTheBinomialAwayFromItsEnds) {
  const ReturnProbabilities got = return_probabilities({.steps = 8}, path_graph(21));
  double binomial = 1;
  for (std::int64_t k = 1; k <= 8; ++k) {
    if (k % 2) {
      EXPECT_EQ(got.view()(10, k - 1), 0);
      continue;
    }
    binomial *= static_cast<double>(k - 1) / static_cast<double>(k);
    EXPECT_NEAR(got.view()(10, k - 1), binomial, 1e-15);
  }
  EXPECT_EQ(got.view()(0, 1), 0.5);
  EXPECT_EQ(got.view()(1, 1), 0.75);
  // Both ends have equal features, so the features do not encode the direction of the text.
  for (std::int64_t k = 0; k < 8; ++k)
    for (std::int64_t i = 0; i < 21; ++i)
      EXPECT_NEAR(got.view()(i, k), got.view()(20 - i, k), 1e-15);
}

TEST(RandomWalk, IsTheSameForAnyNumberOfThreads) {
  const int before = threads();
  const Graph graph = graph_of(500, random_edges(500, 900, 3));
  set_threads(1);
  const ReturnProbabilities expected = return_probabilities({.steps = 12}, graph);
  for (const int count : {2, 7}) {
    set_threads(count);
    EXPECT_EQ(return_probabilities({.steps = 12}, graph), expected);
  }
  set_threads(before);
}

TEST(RandomWalk, OfNoNodesIsNothing) {
  EXPECT_EQ(return_probabilities({.steps = 3}, Graph()).values.size(), 0u);
}

TEST(RandomWalk, RefusesWhatBreaksItsBounds) {
  EXPECT_EQ(message_of([] { return_probabilities({.steps = 0}, path_graph(3)); }),
            "[random_walk] steps must be at least 1, got 0");
  EXPECT_EQ(
      message_of([] { return_probabilities({.steps = std::int64_t{1} << 62}, path_graph(4)); }),
      "[random_walk] nodes x steps must fit in memory, got 4 x 4611686018427387904");
}

}  // namespace random_walk_test
}  // namespace gnomon
