// Matrix products in double, used when a plan or its gradient depends on trained matrices.
//
// The order of sums depends only on k: stretches of 128 products, each summed from first to
// last, whose sums are added in order. So an element has the same bits for any number of
// threads and whatever other rows and columns are computed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "gnomon/view.h"
#include "src/core/memory.h"

namespace gnomon::internal {

// b [k, n], any strides, copied to the layout of the kernels: panels of 32 columns one after
// the other; the last panel has the remaining columns, padded to a multiple of 8 with zeros.
// The rows of a panel are contiguous. Throws std::bad_alloc.
class RightFactor {
 public:
  static constexpr std::int64_t panel = 32;

  explicit RightFactor(View<const float, 2> b);
  explicit RightFactor(View<const double, 2> b);

  std::int64_t rows() const noexcept { return rows_; }
  std::int64_t columns() const noexcept { return columns_; }
  // Returns the panel that begins at column `first`.
  const double* data(std::int64_t first) const noexcept { return data_.get() + first * rows_; }
  std::int64_t width(std::int64_t first) const noexcept {
    const std::int64_t left = (columns_ - first + 7) / 8 * 8;
    return left < panel ? left : panel;
  }

 private:
  struct Free {
    void operator()(double* data) const noexcept { free_long(data); }
  };
  template <typename T>
  void pack(View<const T, 2> b);

  std::int64_t rows_, columns_;
  std::unique_ptr<double, Free> data_;
};

// Computes c [m, n] = a [m, k] b [k, n], or c += a b. The columns of c are contiguous, a has
// any strides (a^T is a view of a with exchanged axes). c must not overlap a or b. If k is 0,
// the product is 0. Parallel, unless called from a parallel loop.
//
// Error bound: an element is within n 2^-53 sum |a b| of the exact one, with n = min(k, 128) +
// ceil(k / 128) and the sum over k; an element added to c is within (n + 1) 2^-53 (|c| + sum |a
// b|).
void multiply(View<const double, 2> a, const RightFactor& b, View<double, 2> c);
void multiply_add(View<const double, 2> a, const RightFactor& b, View<double, 2> c);

}  // namespace gnomon::internal
