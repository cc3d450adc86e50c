// The eigenpairs of small graphs by LAPACK, which LibTorch contains. The lab compiles
// src/graph/laplacian_vectors.cc with this function instead of linking gnomon::graph: the
// solver of that component, which is for graphs of any size, takes 15 s to compile.
#include <torch/types.h>

#include <algorithm>

#include "src/graph/eigenpairs.h"

namespace gnomon::internal {

Eigenpairs lowest_eigenpairs(const SparseMatrix& matrix, const std::vector<double>& null,
                             std::int64_t count) {
  at::Tensor dense = at::zeros({matrix.size, matrix.size}, at::kDouble);
  auto* values = dense.data_ptr<double>();
  double most = 0;
  for (const SparseMatrix::Entry& one : matrix.entries) {
    values[one.row * matrix.size + one.column] = one.value;
    most = std::max(most, one.value);
  }
  // Moves the eigenvalue 0 above the others, which are at most twice the largest entry of the
  // diagonal.
  const at::Tensor vector = at::tensor(null, at::kDouble);
  dense += (2 * most + 1) * vector.outer(vector);
  const auto [eigenvalues, columns] = at::linalg_eigh(dense);
  const at::Tensor found = eigenvalues.narrow(0, 0, count).contiguous(),
                   rows = columns.narrow(1, 0, count).t().contiguous();
  const auto* first = found.data_ptr<double>();
  const auto* entries = rows.data_ptr<double>();
  return {{first, first + count}, {entries, entries + count * matrix.size}};
}

}  // namespace gnomon::internal
