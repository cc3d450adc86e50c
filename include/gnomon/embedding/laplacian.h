// Eigenvectors of a graph's Laplacian as positions of its nodes: for a path the waves of a
// sinusoidal embedding, for any other graph what takes their place.
//
//   Dwivedi, Bresson. "A Generalization of Transformer Networks to Graphs", 2020.
//   https://arxiv.org/abs/2012.09699, section 3.2.
//   Dwivedi et al. "Benchmarking Graph Neural Networks", 2020.
//   https://arxiv.org/abs/2003.00982, section 4.4: random signs in training.
//
//   combinatorial  L = D - A           symmetric  L = I - D^-1/2 A D^-1/2
//
// with A the matrix of arcs and D the diagonal of degrees, in which a self loop counts one. A
// node without arcs has 1 on the diagonal of the symmetric kind, as in the released code, and
// so the eigenvalue 1.
//
// Eigenvectors come by component of the graph, each zero outside its own, ordered by eigenvalue
// and then by component. In a space of equal eigenvalues within one component which basis is
// taken is not said, but it is the same in each run.
//
// Letters: N nodes, K vectors.
#pragma once

#include <cstdint>
#include <vector>

#include "gnomon/view.h"

namespace gnomon {

enum class LaplacianKind { combinatorial = 1, symmetric };

// Of the vectors of eigenvalue 0, one for each component (with an arc, in the symmetric kind),
// which tell nothing within it:
enum class LaplacianZeros {
  skip_one = 1,  // leave out the first, keep the rest, which tell components apart: the
                 // released code, which drops the first vector whatever the graph
  skip_all,
};

// An eigenvector is as good with its sign changed.
enum class LaplacianSigns {
  fixed = 1,  // the first entry within 2^-20 of the largest magnitude is positive
  random,     // each turned or not by the seed: in training, another seed at each step
  absolute,   // magnitudes
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
  std::int64_t found = 0;               // at most K; the columns after are zero, and so are
                                        // their eigenvalues, as the released code pads
  std::vector<double> eigenvalues;      // [K], rising
  std::vector<double> values;           // [N, K]; a column's norm is 1

  View<const double, 2> view() const noexcept { return {values.data(), {nodes, vectors}}; }
  bool operator==(const LaplacianVectors&) const = default;
};

// The plan of path_graph(nodes), in closed form and O(N K). That of other graphs:
// gnomon/graph/laplacian_vectors.h. The seed is read with random signs only.
//
//   combinatorial  v_j(i) ~ cos(pi j (i + 1/2) / N)            lambda_j = 2 - 2 cos(pi j / N)
//   symmetric      v_j(i) ~ d(i)^1/2 cos(pi j i / (N - 1))     lambda_j = 1 - cos(pi j / (N -
//   1))
LaplacianVectors path_laplacian_vectors(const Laplacian& laplacian, std::int64_t nodes,
                                        std::uint64_t seed = 0);

// The vectors with the signs that the spec and the seed say, whatever theirs are: a training
// step needs no new eigenvectors. The signs of eigenvectors cannot be recovered from absolute
// values.
LaplacianVectors with_signs(const Laplacian& laplacian, LaplacianVectors vectors,
                            std::uint64_t seed = 0);

}  // namespace gnomon
