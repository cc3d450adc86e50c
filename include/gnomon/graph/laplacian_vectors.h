// Laplacian eigenvectors of any undirected graph: the plan of the encoding in
// gnomon/embedding/laplacian.h. Component gnomon::graph.
//
// Letters: N nodes, K vectors.
#pragma once

#include <cstdint>

#include "gnomon/embedding/laplacian.h"
#include "gnomon/position/graph.h"

namespace gnomon {

// The plan. For an undirected graph; the seed is read with random signs only. Each pair leaves
// |L v - lambda v| of at most 2^-32 max L(i, i), and the vectors are orthogonal within 2^-32;
// a vector itself is as good as that over the distance of its eigenvalue to the next.
//
// Cost: a component of up to 256 nodes, or of fewer than 4 K, by a dense solver, n^3; larger
// ones by Lanczos iterations on a sparse factor of L, which is cheap for paths, trees and plane
// grids, O(n^2) numbers and worse for large random graphs. Throws std::invalid_argument when a
// field breaks its bounds, the graph is directed, or the iteration does not converge.
LaplacianVectors laplacian_vectors(const Laplacian& laplacian, const Graph& graph,
                                   std::uint64_t seed = 0);

}  // namespace gnomon
