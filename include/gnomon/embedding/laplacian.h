// Laplacian eigenvectors: positions of the nodes of a graph. For a path they are cosines, like
// the waves of a sinusoidal embedding.
//
//   Dwivedi, Bresson. "A Generalization of Transformer Networks to Graphs", 2020.
//   https://arxiv.org/abs/2012.09699, section 3.2.
//   Dwivedi et al. "Benchmarking Graph Neural Networks", 2020.
//   https://arxiv.org/abs/2003.00982, section 4.4: random signs in training.
//
//   combinatorial  L = D - A           symmetric  L = I - D^-1/2 A D^-1/2
//
// A is the adjacency matrix and D the diagonal matrix of degrees, in which a self loop counts
// one. In the symmetric kind a node without arcs has 1 on the diagonal, as in the released
// code, so its eigenvalue is 1.
//
// Each eigenvector belongs to one component of the graph and is zero outside it. Eigenvectors
// are ordered by eigenvalue, then by component. If several eigenvalues of one component are
// equal, their basis is unspecified, but it is the same in each run.
//
// Letters: N nodes, K vectors.
#pragma once

#include <cstdint>
#include <vector>

#include "gnomon/view.h"

namespace gnomon {

enum class LaplacianKind { combinatorial = 1, symmetric };

// Handling of the eigenvectors of eigenvalue 0. There is one for each component (in the
// symmetric kind: for each component with an arc), and it does not distinguish the nodes of its
// component.
enum class LaplacianZeros {
  skip_one = 1,  // leave out the first and keep the rest, which distinguish components; the
                 // released code drops the first vector of any graph
  skip_all,
};

// Sign convention. The sign of an eigenvector is arbitrary.
enum class LaplacianSigns {
  fixed = 1,  // the first entry within 2^-20 of the largest magnitude is positive
  random,     // each sign is chosen by the seed; in training, use another seed at each step
  absolute,   // absolute values
};

struct Laplacian {
  std::int64_t vectors = 0;  // K; at least 1
  LaplacianKind kind = {};
  LaplacianZeros zeros = {};
  LaplacianSigns signs = {};

  bool operator==(const Laplacian&) const = default;
};

struct LaplacianVectors {
  std::int64_t nodes = 0, vectors = 0;  // N, K
  std::int64_t found = 0;               // at most K; the columns after `found` and their
                                        // eigenvalues are zero, as the released code pads
  std::vector<double> eigenvalues;      // [K], ascending
  std::vector<double> values;           // [N, K]; each column has norm 1

  View<const double, 2> view() const noexcept { return {values.data(), {nodes, vectors}}; }
  bool operator==(const LaplacianVectors&) const = default;
};

// Returns the plan of path_graph(nodes), in closed form. Cost: O(N K). For other graphs see
// gnomon/graph/laplacian_vectors.h. The seed is used with random signs only.
//
//   combinatorial  v_j(i) ~ cos(pi j (i + 1/2) / N)         lambda_j = 2 - 2 cos(pi j / N)
//   symmetric      v_j(i) ~ d(i)^1/2 cos(pi j i / (N - 1))  lambda_j = 1 - cos(pi j / (N - 1))
LaplacianVectors path_laplacian_vectors(const Laplacian& laplacian, std::int64_t nodes,
                                        std::uint64_t seed = 0);

// Returns the vectors with the signs that the spec and the seed define, independent of their
// present signs. A training step therefore needs no new eigenvectors. The signs of eigenvectors
// cannot be recovered from absolute values.
LaplacianVectors with_signs(const Laplacian& laplacian, LaplacianVectors vectors,
                            std::uint64_t seed = 0);

}  // namespace gnomon
