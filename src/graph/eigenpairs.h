// The lowest eigenvectors of a Laplacian of one component. What solves for them stays behind
// this.
#pragma once

#include <cstdint>
#include <vector>

namespace gnomon::internal {

// A symmetric matrix with no negative eigenvalue, in any order of its entries, each once.
struct SparseMatrix {
  struct Entry {
    std::int64_t row, column;
    double value;
  };
  std::int64_t size = 0;
  std::vector<Entry> entries;
};

struct Eigenpairs {
  std::vector<double> values;   // rising
  std::vector<double> vectors;  // [pairs, size], one after another, of norm 1
};

// The `count` lowest pairs but the one of eigenvalue 0, whose only vector is `null` (of norm
// 1). count: 1 to size - 1. Throws where the iteration does not converge.
Eigenpairs lowest_eigenpairs(const SparseMatrix& matrix, const std::vector<double>& null,
                             std::int64_t count);

}  // namespace gnomon::internal
