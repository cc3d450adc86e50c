// Rotary as products of complex numbers, for code written so: a head of adjacent pairs (a, b)
// is read as the numbers a + ib, and turning by t is multiplication by cis(t) = e^(it). Only
// Pairing::adjacent has its two elements side by side; nothing is copied.
//
//   as_complex(q)(t, h, i) *= cis_of(table)[t R/2 + i]     is     rotate(q, table)
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
// Throws std::invalid_argument unless the last axis is contiguous, all other strides are even
// (an axis of one element may have any), and the last extent is even.
void check_complex(std::span<const std::ptrdiff_t> extents,
                   std::span<const std::ptrdiff_t> strides);
template <typename T>
using ComplexOf =
    std::conditional_t<std::is_const_v<T>, const std::complex<std::remove_const_t<T>>,
                       std::complex<T>>;
}  // namespace internal

// [..., D] as [..., D / 2] complex numbers over the same memory. T: float, double, or a const
// one. (std::complex promises this layout; https://eel.is/c++draft/complex.numbers.)
//
// Throws std::invalid_argument when the last axis is not contiguous or its extent is odd, or
// another axis has an odd stride, so that its numbers would not lie on whole ones.
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

// The table's entries cos + i sin, [B or 1, T, R/2] row-major: `freqs_cis` of Llama's released
// code. A copy, O(B T R).
std::vector<std::complex<float>> cis_of(const RotaryTable& table);

}  // namespace gnomon
