// Shared with the solver for general graphs (src/graph).
#pragma once

#include "gnomon/embedding/laplacian.h"

namespace gnomon::internal {

// Throws std::invalid_argument, naming the field, if a field is out of its bounds.
void check(const Laplacian& spec);

// Returns [nodes, K] zeros with found = 0.
LaplacianVectors zero_vectors(const Laplacian& spec, std::int64_t nodes);

}  // namespace gnomon::internal
