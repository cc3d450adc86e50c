// Shared with the solver for other graphs than paths (src/graph).
#pragma once

#include "gnomon/embedding/laplacian.h"

namespace gnomon::internal {

// Throws std::invalid_argument that names the field out of its bounds.
void check(const Laplacian& spec);

// [nodes, K] zeros, none found.
LaplacianVectors zero_vectors(const Laplacian& spec, std::int64_t nodes);

}  // namespace gnomon::internal
