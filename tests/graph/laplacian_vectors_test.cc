#include "gnomon/graph/laplacian_vectors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <random>

#include "testing.h"

namespace gnomon {
namespace laplacian_vectors_test {

using testing::message_of;
using Real = long double;
using Edges = std::vector<std::int64_t>;

constexpr LaplacianKind kinds[] = {LaplacianKind::combinatorial, LaplacianKind::symmetric};
constexpr double promised = 0x1p-32;  // bound of residuals relative to the largest diagonal
                                      // entry, and of dot products

Laplacian spec_of(std::int64_t vectors, LaplacianKind kind,
                  LaplacianZeros zeros = LaplacianZeros::skip_one,
                  LaplacianSigns signs = LaplacianSigns::fixed) {
  return {.vectors = vectors, .kind = kind, .zeros = zeros, .signs = signs};
}

Graph graph_of(std::int64_t nodes, const Edges& ends) {
  return Graph(nodes, {ends.data(), {static_cast<std::ptrdiff_t>(ends.size() / 2), 2}},
               EdgeKind::undirected);
}

Edges random_edges(std::int64_t nodes, std::int64_t count, unsigned seed) {
  std::mt19937_64 engine(seed);
  Edges ends;
  for (std::int64_t i = 0; i < 2 * count; ++i)
    ends.push_back(static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(nodes)));
  return ends;
}

Edges grid_edges(std::int64_t height, std::int64_t width) {
  Edges ends;
  for (std::int64_t i = 0; i < height * width; ++i) {
    if (i % width + 1 < width) ends.insert(ends.end(), {i, i + 1});
    if (i + width < height * width) ends.insert(ends.end(), {i, i + width});
  }
  return ends;
}

// The Laplacian by definition, [N, N].
std::vector<std::vector<Real>> matrix(std::int64_t nodes, const Edges& ends,
                                      LaplacianKind kind) {
  const auto n = static_cast<std::size_t>(nodes);
  std::vector<std::vector<Real>> adjacency(n, std::vector<Real>(n)), l = adjacency;
  for (std::size_t e = 0; e < ends.size(); e += 2) {
    const auto u = static_cast<std::size_t>(ends[e]), v = static_cast<std::size_t>(ends[e + 1]);
    adjacency[u][v] = adjacency[v][u] = 1;
  }
  std::vector<Real> degree(n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) degree[i] += adjacency[i][j];
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j)
      l[i][j] = kind == LaplacianKind::combinatorial
                    ? (i == j ? degree[i] : 0) - adjacency[i][j]
                    : (i == j ? 1 : 0) -
                          (adjacency[i][j] != 0 ? 1 / std::sqrt(degree[i] * degree[j]) : 0);
  return l;
}

// All eigenvalues by Jacobi rotations, ascending.
std::vector<Real> jacobi(std::vector<std::vector<Real>> m) {
  const std::size_t n = m.size();
  for (int sweep = 0; sweep < 30; ++sweep)
    for (std::size_t p = 0; p < n; ++p)
      for (std::size_t q = p + 1; q < n; ++q) {
        if (std::fabs(m[p][q]) < 1e-30L) continue;
        const Real theta = (m[q][q] - m[p][p]) / (2 * m[p][q]);
        const Real t = (theta < 0 ? -1 : 1) / (std::fabs(theta) + std::sqrt(theta * theta + 1));
        const Real c = 1 / std::sqrt(t * t + 1), s = t * c;
        for (std::size_t k = 0; k < n; ++k) {
          const Real a = m[k][p], b = m[k][q];
          m[k][p] = c * a - s * b;
          m[k][q] = s * a + c * b;
        }
        for (std::size_t k = 0; k < n; ++k) {
          const Real a = m[p][k], b = m[q][k];
          m[p][k] = c * a - s * b;
          m[q][k] = s * a + c * b;
        }
      }
  std::vector<Real> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = m[i][i];
  std::sort(values.begin(), values.end());
  return values;
}

// Checks the properties of every pair that the header documents: residual, norm, orthogonality,
// sign, and zero columns after the last pair.
void expect_eigenvectors(const LaplacianVectors& got, std::int64_t nodes, const Edges& ends,
                         LaplacianKind kind) {
  ASSERT_EQ(got.nodes, nodes);
  ASSERT_EQ(got.values.size(), static_cast<std::size_t>(nodes * got.vectors));
  const auto n = static_cast<std::size_t>(nodes);
  const auto l = matrix(nodes, ends, kind);
  Real largest = 0;
  for (std::size_t i = 0; i < n; ++i) largest = std::max(largest, l[i][i]);
  const auto entry = [&](std::size_t i, std::int64_t k) {
    return static_cast<Real>(got.view()(static_cast<std::ptrdiff_t>(i), k));
  };
  for (std::int64_t k = 0; k < got.found; ++k) {
    Real squares = 0;
    for (std::size_t i = 0; i < n; ++i) {
      Real sum = 0;
      for (std::size_t j = 0; j < n; ++j)
        if (l[i][j] != 0) sum += l[i][j] * entry(j, k);
      sum -= static_cast<Real>(got.eigenvalues[static_cast<std::size_t>(k)]) * entry(i, k);
      squares += sum * sum;
    }
    EXPECT_LE(std::sqrt(squares), promised * static_cast<double>(largest)) << "vector " << k;
    for (std::int64_t other = 0; other <= k; ++other) {
      Real product = 0;
      for (std::size_t i = 0; i < n; ++i) product += entry(i, k) * entry(i, other);
      EXPECT_NEAR(static_cast<double>(product), k == other, promised) << k << ", " << other;
    }
    if (k) {
      EXPECT_LE(got.eigenvalues[static_cast<std::size_t>(k - 1)],
                got.eigenvalues[static_cast<std::size_t>(k)]);
    }
  }
  for (std::int64_t k = got.found; k < got.vectors; ++k) {
    EXPECT_EQ(got.eigenvalues[static_cast<std::size_t>(k)], 0);
    for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(entry(i, k), 0);
  }
}

void expect_eigenvalues(const LaplacianVectors& got, const std::vector<Real>& all,
                        std::int64_t skipped, double tolerance) {
  ASSERT_EQ(got.found, std::min(got.vectors, static_cast<std::int64_t>(all.size()) - skipped));
  for (std::int64_t k = 0; k < got.found; ++k)
    EXPECT_NEAR(got.eigenvalues[static_cast<std::size_t>(k)],
                static_cast<double>(all[static_cast<std::size_t>(k + skipped)]), tolerance)
        << "pair " << k;
}

TEST(LaplacianVectors, OfAPathIsItsClosedForm) {
  for (const std::int64_t nodes : {2, 3, 8, 57, 256, 257, 700})
    for (const LaplacianKind kind : kinds) {
      const Laplacian spec = spec_of(6, kind);
      const LaplacianVectors solved = laplacian_vectors(spec, path_graph(nodes));
      const LaplacianVectors closed = path_laplacian_vectors(spec, nodes);
      ASSERT_EQ(solved.found, std::min<std::int64_t>(6, nodes - 1));
      ASSERT_EQ(closed.found, solved.found);
      for (std::size_t k = 0; k < static_cast<std::size_t>(solved.found); ++k)
        EXPECT_NEAR(solved.eigenvalues[k], closed.eigenvalues[k], 1e-13)
            << nodes << " nodes, pair " << k;
      for (std::size_t i = 0; i < solved.values.size(); ++i)
        EXPECT_NEAR(solved.values[i], closed.values[i], 1e-8) << nodes << " nodes, " << i;
    }
}

TEST(LaplacianVectors, OfARingHasEachEigenvalueTwice) {
  for (const std::int64_t nodes : {3, 8, 31, 300})
    for (const LaplacianKind kind : kinds) {
      Edges ends;
      for (std::int64_t i = 0; i < nodes; ++i) ends.insert(ends.end(), {i, (i + 1) % nodes});
      const LaplacianVectors got = laplacian_vectors(spec_of(7, kind), ring_graph(nodes));
      expect_eigenvectors(got, nodes, ends, kind);
      std::vector<Real> all;
      for (std::int64_t j = 0; j < nodes; ++j)
        all.push_back((kind == LaplacianKind::symmetric ? 1 : 2) *
                      (1 - std::cos(2 * std::numbers::pi_v<Real> * static_cast<Real>(j) /
                                    static_cast<Real>(nodes))));
      std::sort(all.begin(), all.end());
      expect_eigenvalues(got, all, 1, 1e-13);
    }
}

// Eigenvalue 1 of a star has multiplicity nodes - 2, eigenvalues of a grid occur in pairs.
// Lanczos iteration alone misses some.
TEST(LaplacianVectors, FindsEveryCopyOfAnEigenvalue) {
  Edges star;
  for (std::int64_t i = 1; i < 400; ++i) star.insert(star.end(), {0, i});
  for (const LaplacianKind kind : kinds) {
    const LaplacianVectors got = laplacian_vectors(spec_of(9, kind), graph_of(400, star));
    expect_eigenvectors(got, 400, star, kind);
    for (const double value : got.eigenvalues) EXPECT_NEAR(value, 1, 1e-9);
  }
  const Edges square = grid_edges(18, 18);
  const LaplacianVectors got =
      laplacian_vectors(spec_of(20, LaplacianKind::combinatorial), graph_of(324, square));
  expect_eigenvectors(got, 324, square, LaplacianKind::combinatorial);
  std::vector<Real> all;
  const auto of_path = [](int j) {
    return 2 - 2 * std::cos(std::numbers::pi_v<Real> * static_cast<Real>(j) / 18);
  };
  for (int y = 0; y < 18; ++y)
    for (int x = 0; x < 18; ++x) all.push_back(of_path(y) + of_path(x));
  std::sort(all.begin(), all.end());
  expect_eigenvalues(got, all, 1, 1e-10);
}

// Sixty equal legs give each eigenvalue of a leg the multiplicity 59. With 13 different numbers
// of vectors, Lanczos iteration alone gets some wrong.
TEST(LaplacianVectors, LooksBehindWhatTheIterationFound) {
  Edges spider;
  for (std::int64_t next = 1; next < 361; ++next)
    spider.insert(spider.end(), {next % 6 == 1 ? 0 : next - 1, next});
  const Graph graph = graph_of(361, spider);
  for (const LaplacianKind kind : kinds) {
    const LaplacianVectors all = laplacian_vectors(spec_of(91, kind), graph);  // dense
    for (const std::int64_t count : {8, 12, 30}) {
      const LaplacianVectors got = laplacian_vectors(spec_of(count, kind), graph);
      expect_eigenvectors(got, 361, spider, kind);
      for (std::size_t k = 0; k < static_cast<std::size_t>(count); ++k)
        ASSERT_NEAR(got.eigenvalues[k], all.eigenvalues[k], 1e-9) << count << ", " << k;
    }
  }
}

TEST(LaplacianVectors, OfAnyGraphHasItsLowestEigenvalues) {
  for (const LaplacianKind kind : kinds)
    for (const auto& [nodes, edges, vectors] :
         {std::tuple{5, 4, 8}, {12, 30, 4}, {40, 30, 40}, {60, 200, 10}})
      for (unsigned seed = 1; seed < 4; ++seed) {
        const Edges ends = random_edges(nodes, edges, seed);  // with self loops and repetitions
        const LaplacianVectors got =
            laplacian_vectors(spec_of(vectors, kind), graph_of(nodes, ends));
        expect_eigenvectors(got, nodes, ends, kind);
        expect_eigenvalues(got, jacobi(matrix(nodes, ends, kind)), 1, 1e-12);
      }
  // A large graph, by the iteration and, with more vectors requested, by the dense solver.
  const Edges ends = random_edges(300, 700, 5);
  for (const LaplacianKind kind : kinds) {
    const LaplacianVectors few = laplacian_vectors(spec_of(8, kind), graph_of(300, ends));
    const LaplacianVectors many = laplacian_vectors(spec_of(80, kind), graph_of(300, ends));
    expect_eigenvectors(few, 300, ends, kind);
    for (std::size_t k = 0; k < 8; ++k)
      EXPECT_NEAR(few.eigenvalues[k], many.eigenvalues[k], 1e-10);
  }
}

TEST(LaplacianVectors, ComponentsHaveZerosOfTheirOwn) {
  // Two equal triangles and an isolated node.
  const Edges ends{0, 2, 2, 4, 4, 0, 1, 3, 3, 5, 5, 1};
  const Graph graph = graph_of(7, ends);
  const double third = 1 / std::sqrt(3.0);
  const LaplacianVectors kept =
      laplacian_vectors(spec_of(8, LaplacianKind::combinatorial), graph);
  expect_eigenvectors(kept, 7, ends, LaplacianKind::combinatorial);
  EXPECT_EQ(kept.found, 6);
  EXPECT_EQ(kept.eigenvalues[0], 0);
  EXPECT_EQ(kept.eigenvalues[1], 0);
  for (std::int64_t i = 0; i < 7; ++i) {
    EXPECT_NEAR(kept.view()(i, 0), i % 2 ? third : 0, 1e-15);  // the component of node 1
    EXPECT_EQ(kept.view()(i, 1), i == 6 ? 1 : 0);
    EXPECT_EQ(kept.view()(i, 7), 0);
  }
  const LaplacianVectors skipped = laplacian_vectors(
      spec_of(8, LaplacianKind::combinatorial, LaplacianZeros::skip_all), graph);
  EXPECT_EQ(skipped.found, 4);
  EXPECT_NEAR(skipped.eigenvalues[0], 3, 1e-14);
  // Equal components have equal vectors, the first component's before the second's.
  for (std::int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(skipped.view()(2 * i + 1, 0), 0);
    EXPECT_EQ(skipped.view()(2 * i, 0), skipped.view()(2 * i + 1, 2));
  }
  // The isolated node has eigenvalue 1 in the symmetric kind, as released.
  const LaplacianVectors symmetric =
      laplacian_vectors(spec_of(8, LaplacianKind::symmetric, LaplacianZeros::skip_all), graph);
  expect_eigenvectors(symmetric, 7, ends, LaplacianKind::symmetric);
  EXPECT_EQ(symmetric.found, 5);
  EXPECT_EQ(symmetric.eigenvalues[0], 1);
  EXPECT_EQ(symmetric.view()(6, 0), 1);
}

TEST(LaplacianVectors, FewNodesArePaddedWithZeros) {
  for (const LaplacianKind kind : kinds)
    for (const LaplacianZeros zeros : {LaplacianZeros::skip_one, LaplacianZeros::skip_all})
      for (const std::int64_t nodes : {0, 1, 2, 4}) {
        const Laplacian spec = spec_of(5, kind, zeros);
        const LaplacianVectors solved = laplacian_vectors(spec, path_graph(nodes));
        const LaplacianVectors closed = path_laplacian_vectors(spec, nodes);
        EXPECT_EQ(solved.found, closed.found) << nodes;
        for (std::size_t k = 0; k < 5; ++k)
          EXPECT_NEAR(solved.eigenvalues[k], closed.eigenvalues[k], 1e-14);
        for (std::size_t i = 0; i < solved.values.size(); ++i)
          EXPECT_NEAR(solved.values[i], closed.values[i], 1e-12) << nodes << " nodes, " << i;
      }
}

TEST(LaplacianVectors, SignsAreFixedRandomOrNone) {
  const Graph graph = graph_of(50, random_edges(50, 120, 9));
  const LaplacianKind kind = LaplacianKind::symmetric;
  const auto with = [&](LaplacianSigns signs) {
    return spec_of(24, kind, LaplacianZeros::skip_one, signs);
  };
  const LaplacianVectors fixed = laplacian_vectors(with(LaplacianSigns::fixed), graph);
  EXPECT_EQ(laplacian_vectors(with(LaplacianSigns::fixed), graph, 7), fixed);
  for (std::int64_t k = 0; k < fixed.found; ++k) {
    double largest = 0;
    for (std::int64_t i = 0; i < 50; ++i)
      if (std::fabs(fixed.view()(i, k)) > std::fabs(largest)) largest = fixed.view()(i, k);
    EXPECT_GT(largest, 0) << k;
  }
  const LaplacianVectors sizes = laplacian_vectors(with(LaplacianSigns::absolute), graph);
  int turned = 0, differ = 0;
  const LaplacianVectors once = laplacian_vectors(with(LaplacianSigns::random), graph, 1);
  const LaplacianVectors again = with_signs(with(LaplacianSigns::random), once, 2);
  EXPECT_EQ(with_signs(with(LaplacianSigns::random), fixed, 1), once);
  EXPECT_EQ(with_signs(with(LaplacianSigns::random), again, 1), once);
  EXPECT_EQ(with_signs(with(LaplacianSigns::fixed), again), fixed);
  for (std::int64_t k = 0; k < fixed.found; ++k) {
    const bool flipped = once.view()(0, k) != fixed.view()(0, k);
    turned += flipped;
    differ += once.view()(0, k) != again.view()(0, k);
    for (std::int64_t i = 0; i < 50; ++i) {
      EXPECT_EQ(once.view()(i, k), (flipped ? -1 : 1) * fixed.view()(i, k));
      EXPECT_EQ(sizes.view()(i, k), std::fabs(fixed.view()(i, k)));
    }
  }
  for (const int count : {turned, differ}) {  // out of 24 coins
    EXPECT_GT(count, 5);
    EXPECT_LT(count, 19);
  }
}

// On a path, odd waves are largest at both ends with opposite signs, so rounding could decide
// the sign.
TEST(LaplacianVectors, OfEntriesAsLargeTheFirstDecides) {
  for (const std::int64_t nodes : {10, 301}) {
    const LaplacianVectors got =
        laplacian_vectors(spec_of(1, LaplacianKind::combinatorial), path_graph(nodes));
    EXPECT_GT(got.view()(0, 0), 0) << nodes;
    EXPECT_LT(got.view()(nodes - 1, 0), 0) << nodes;
  }
}

TEST(LaplacianVectors, RefusesWhatBreaksItsBounds) {
  const auto refused = [](Laplacian spec) {
    return message_of([&] { laplacian_vectors(spec, path_graph(4)); });
  };
  const LaplacianKind kind = LaplacianKind::symmetric;
  EXPECT_EQ(refused(spec_of(0, kind)), "[laplacian] vectors must be at least 1, got 0");
  EXPECT_EQ(refused(spec_of(1, LaplacianKind{})),
            "[laplacian] kind must be combinatorial or symmetric, got 0");
  EXPECT_EQ(refused(spec_of(1, kind, LaplacianZeros{})),
            "[laplacian] zeros must be skip_one or skip_all, got 0");
  EXPECT_EQ(refused(spec_of(1, kind, LaplacianZeros::skip_one, LaplacianSigns{})),
            "[laplacian] signs must be fixed, random or absolute, got 0");
  EXPECT_EQ(message_of(
                [&] { laplacian_vectors(spec_of(1, kind), Graph(2, {}, EdgeKind::directed)); }),
            "[laplacian] the graph must be undirected, got directed");
}

}  // namespace laplacian_vectors_test
}  // namespace gnomon
