// Rotary as products of complex numbers, for code written in this form. A head of adjacent
// pairs (a, b) is viewed as complex numbers a + ib. A rotation by t is a multiplication by
// cis(t) = e^(it). Nothing is copied. This works only for Pairing::adjacent, whose two elements
// are contiguous in memory.
//
//   as_complex(q)(t, h, i) *= cis_of(table)[t R/2 + i]     is     rotate(q, table)
//
// Letters: B batch, T tokens, D head dimension, R rotary dimension, i the pair.
#pragma once

#include <complex>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

#include "gnomon/error.h"
#include "gnomon/rotary/rotary.h"
#include "gnomon/view.h"

namespace gnomon {

namespace internal {
// Throws std::invalid_argument unless the last axis is contiguous, the last extent is even and
// all other strides are even (an axis of one element may have any stride).
void check_complex(std::span<const std::int64_t> extents,
                   std::span<const std::int64_t> strides);
template <typename T>
using ComplexOf =
    std::conditional_t<std::is_const_v<T>, const std::complex<std::remove_const_t<T>>,
                       std::complex<T>>;
}  // namespace internal

// Views x [..., D] as complex numbers [..., D / 2] over the same memory. T: float or double,
// const or not. std::complex guarantees this layout (https://eel.is/c++draft/complex.numbers).
// Cost: O(1).
//
// Throws std::invalid_argument if the last axis is not contiguous, its extent is odd, or
// another axis has an odd stride (half of it would not be a whole number of complex elements).
template <typename T, std::size_t Rank>
View<internal::ComplexOf<T>, Rank> as_complex(View<T, Rank> x) {
  static_assert(std::is_same_v<std::remove_const_t<T>, float> ||
                std::is_same_v<std::remove_const_t<T>, double>);
  internal::check_complex(x.extents(), x.strides());
  auto extents = x.extents(), strides = x.strides();
  extents[Rank - 1] /= 2;
  for (std::size_t axis = 0; axis + 1 < Rank; ++axis) strides[axis] /= 2;
  return {reinterpret_cast<internal::ComplexOf<T>*>(x.data()), extents, strides};
}

// Returns a copy of the table's entries as cos + i sin, [B or 1, T, R/2], row-major. This is
// `freqs_cis` in Llama's released code. Cost: O(B T R).
std::vector<std::complex<float>> cis_of(const RotaryTable& table);

}  // namespace gnomon
