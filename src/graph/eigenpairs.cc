#include "src/graph/eigenpairs.h"

// One thread, because the order of sums would depend on the number of threads.
#define EIGEN_DONT_PARALLELIZE
#define EIGEN_MPL2_ONLY
#include <Spectra/SymEigsSolver.h>
#include <Eigen/Dense>
#include <Eigen/SparseCholesky>
#include <algorithm>
#include <optional>
#include <stdexcept>

#include "gnomon/error.h"

namespace gnomon::internal {
namespace {

using std::int64_t;
using Sparse = Eigen::SparseMatrix<double>;
using Vector = Eigen::VectorXd;
using Columns = Eigen::MatrixXd;
using Index = Sparse::StorageIndex;

// The operator v -> P (L + shift)^-1 P v, where P projects out the vectors already known. Its
// largest eigenvalues belong to the lowest eigenvectors of L that are still missing.
class DeflatedInverse {
 public:
  using Scalar = double;

  DeflatedInverse(const Sparse& matrix, double shift, const Columns& known) : known_(known) {
    Sparse shifted = matrix;
    for (Eigen::Index i = 0; i < matrix.rows(); ++i) shifted.coeffRef(i, i) += shift;
    factor_.compute(shifted);
    if (factor_.info() != Eigen::Success)
      refuse("laplacian", "the sparse factorisation must succeed", "a failure");
  }
  Eigen::Index rows() const { return known_.rows(); }
  Eigen::Index cols() const { return known_.rows(); }
  void perform_op(const double* x, double* y) const {
    Vector v = Eigen::Map<const Vector>(x, rows());
    project(v);
    v = factor_.solve(v);
    project(v);
    Eigen::Map<Vector>(y, rows()) = v;
  }

 private:
  // Projects twice: the first pass leaves a rounding error relative to v, the second reduces it
  // to the rounding of that remainder.
  void project(Vector& v) const {
    for (int i = 0; i < 2; ++i) v -= known_ * (known_.transpose() * v);
  }

  const Columns& known_;
  Eigen::SimplicialLDLT<Sparse> factor_;
};

// Whether op v = theta v for each column, within a relative residual of 1e-11.
bool are_vectors(const DeflatedInverse& op, const Columns& vectors) {
  Vector image(op.rows());
  for (Eigen::Index i = 0; i < vectors.cols(); ++i) {
    const Vector v = vectors.col(i);
    op.perform_op(v.data(), image.data());
    const double theta = v.dot(image);
    // NaN fails this comparison.
    if (!((image - theta * v).norm() <= 1e-11 * theta)) return false;
  }
  return true;
}

// Returns `count` vectors other than those known, as columns, or nothing if the iteration
// fails. It fails if there are few different eigenvalues and therefore no Krylov basis of its
// size.
std::optional<Columns> lanczos(DeflatedInverse& op, int64_t count) {
  const int64_t basis = std::min<int64_t>(op.rows(), 2 * count + 20);
  Spectra::SymEigsSolver<DeflatedInverse> solver(op, count, basis);
  try {
    solver.init();
    solver.compute(Spectra::SortRule::LargestAlge, 300, 1e-13);
    Columns vectors = solver.eigenvectors();
    if (vectors.cols() == count && are_vectors(op, vectors)) return vectors;
  } catch (const std::runtime_error&) {
  }
  return std::nullopt;
}

// Same as lanczos(), by block iteration, which is fast if there are few different eigenvalues.
Columns block_iteration(const DeflatedInverse& op, int64_t count) {
  const int64_t size = op.rows(), width = std::min(size, 2 * count + 16);
  Columns block(size, width), image(size, width);
  std::uint64_t state = 1;  // multiplier of MMIX (Knuth)
  for (double& entry : block.reshaped())
    entry =
        static_cast<double>((state = state * 6364136223846793005u + 1) >> 11) * 0x1p-53 - 0.5;
  for (int round = 0; round < 1000; ++round) {
    for (int step = 0; step < 4; ++step) {
      block = Columns(block.householderQr().householderQ() * Columns::Identity(size, width));
      for (Eigen::Index i = 0; i < width; ++i)
        op.perform_op(block.col(i).data(), image.col(i).data());
      if (step < 3) block.swap(image);
    }
    const Columns small = block.transpose() * image;
    const Eigen::SelfAdjointEigenSolver<Columns> solver((small + small.transpose()) / 2);
    block = Columns(block * solver.eigenvectors());
    const Columns vectors = block.rightCols(count);
    if (are_vectors(op, vectors)) return vectors;
  }
  refuse("laplacian", "the eigenvectors must converge for this number of nodes", size);
}

double rayleigh(const Sparse& matrix, const Vector& v) { return v.dot(matrix * v); }

Eigenpairs sorted(const Columns& vectors, const std::vector<double>& values, int64_t count) {
  std::vector<Eigen::Index> order(values.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<Eigen::Index>(i);
  std::stable_sort(order.begin(), order.end(), [&](Eigen::Index a, Eigen::Index b) {
    return values[static_cast<std::size_t>(a)] < values[static_cast<std::size_t>(b)];
  });
  order.resize(static_cast<std::size_t>(count));
  Eigenpairs pairs;
  for (const Eigen::Index i : order) {
    pairs.values.push_back(values[static_cast<std::size_t>(i)]);
    for (Eigen::Index n = 0; n < vectors.rows(); ++n) pairs.vectors.push_back(vectors(n, i));
  }
  return pairs;
}

Eigenpairs dense(const Sparse& matrix, const Vector& null, int64_t count) {
  // Shift the eigenvalue of the null vector above all others. The other pairs do not change.
  Columns whole(matrix);
  whole += 4 * matrix.diagonal().maxCoeff() * null * null.transpose();
  const Eigen::SelfAdjointEigenSolver<Columns> solver(whole);
  if (solver.info() != Eigen::Success)
    refuse("laplacian", "the eigenvectors must converge for this number of nodes",
           int64_t{matrix.rows()});
  std::vector<double> values(static_cast<std::size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    values[static_cast<std::size_t>(i)] = std::max(0.0, solver.eigenvalues()(i));
  return sorted(solver.eigenvectors(), values, count);
}

// Lanczos iteration finds only one vector of a space of equal eigenvalues; it finds others
// through rounding errors only. The iteration is therefore repeated orthogonally to the known
// vectors until no lower eigenvalue is left.
Eigenpairs iterated(const Sparse& matrix, const Vector& null, int64_t count) {
  Columns known = null;
  DeflatedInverse op(matrix, 1e-8 * matrix.diagonal().maxCoeff(), known);
  std::vector<double> values;
  const auto look = [&](int64_t missing) {
    const std::optional<Columns> lucky = lanczos(op, missing);
    const Columns more = lucky ? *lucky : block_iteration(op, missing);
    for (Eigen::Index i = 0; i < more.cols(); ++i) {
      Vector v = more.col(i);
      for (int again = 0; again < 2; ++again) v -= known * (known.transpose() * v);
      known.conservativeResize(Eigen::NoChange, known.cols() + 1);
      known.rightCols(1) = v.normalized();
      values.push_back(std::max(0.0, rayleigh(matrix, known.rightCols(1))));
    }
  };
  look(count);
  while (known.cols() < matrix.rows()) {
    std::vector<double> lowest = values;
    std::nth_element(lowest.begin(), lowest.begin() + count - 1, lowest.end());
    const double highest = lowest[static_cast<std::size_t>(count - 1)];
    look(1);
    if (values.back() >= highest * (1 - 1e-9)) break;
  }
  return sorted(known.rightCols(known.cols() - 1), values, count);
}

}  // namespace

Eigenpairs lowest_eigenpairs(const SparseMatrix& matrix, const std::vector<double>& null,
                             int64_t count) {
  std::vector<Eigen::Triplet<double>> triplets;
  triplets.reserve(matrix.entries.size());
  for (const SparseMatrix::Entry& entry : matrix.entries)
    triplets.emplace_back(static_cast<Index>(entry.row), static_cast<Index>(entry.column),
                          entry.value);
  Sparse sparse(matrix.size, matrix.size);
  sparse.setFromTriplets(triplets.begin(), triplets.end());
  const Vector zero = Eigen::Map<const Vector>(null.data(), matrix.size);
  constexpr int64_t small = 256;
  return matrix.size <= small || matrix.size < 4 * count ? dense(sparse, zero, count)
                                                         : iterated(sparse, zero, count);
}

}  // namespace gnomon::internal
