// Lowest eigenpairs of the Laplacian of one component. This header hides the solver library.
#pragma once

#include <cstdint>
#include <vector>

namespace gnomon::internal {

// A symmetric positive semidefinite matrix. Entries are unique and in any order.
struct SparseMatrix {
  struct Entry {
    std::int64_t row, column;
    double value;
  };
  std::int64_t size = 0;
  std::vector<Entry> entries;
};

struct Eigenpairs {
  std::vector<double> values;   // ascending
  std::vector<double> vectors;  // [pairs, size], contiguous, of norm 1
};

// Returns the `count` lowest pairs, except the pair of eigenvalue 0, whose only vector is
// `null` (of norm 1). count: 1 to size - 1. Throws std::invalid_argument if the iteration does
// not converge.
Eigenpairs lowest_eigenpairs(const SparseMatrix& matrix, const std::vector<double>& null,
                             std::int64_t count);

}  // namespace gnomon::internal
