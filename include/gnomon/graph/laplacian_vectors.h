// Laplacian eigenvectors of any undirected graph: the plan of the encoding in
// gnomon/embedding/laplacian.h. Component gnomon::graph.
//
// Letters: N nodes, K vectors.
#pragma once

#include <cstdint>

#include "gnomon/embedding/laplacian.h"
#include "gnomon/position/graph.h"

namespace gnomon {

// Returns the plan of an undirected graph. The seed is used with random signs only. Error
// bound: the residual |L v - lambda v| of each pair is at most 2^-32 max L(i, i), and the
// vectors are orthogonal within 2^-32. The error of a vector is at most the residual divided by
// the distance of its eigenvalue to the next one.
//
// Cost: components of up to 256 nodes, or of fewer than 4 K nodes, use a dense solver, O(n^3).
// Larger components use Lanczos iterations on a sparse factor of L. The factor is cheap for
// paths, trees and planar grids, but has O(n^2) entries or more work for large random graphs.
// Throws std::invalid_argument if a field is out of its bounds, the graph is directed, or the
// iteration does not converge.
LaplacianVectors laplacian_vectors(const Laplacian& laplacian, const Graph& graph,
                                   std::uint64_t seed = 0);

}  // namespace gnomon
