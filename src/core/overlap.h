// Whether two arrays have an element in common, and whether an array has two elements in one
// place.
#pragma once

#include <string_view>

#include "src/core/tensor.h"

namespace gnomon::internal {

// Returns whether two tensors, which fit, may have a byte in common. O(rank^2), without a look
// at the elements. Exact for slices, transposes and reshapes of one row-major array, such as
// the queries and keys of a packed array [B, T, (H + 2 Hk) D] or [B, T, H, 3, D]; true for any
// other pair whose ranges of addresses intersect.
bool may_overlap(const ConstTensor& a, const ConstTensor& b) noexcept;

// Returns whether two elements of the tensor may be in one place, as after `expand` of PyTorch
// or `sliding_window_view` of NumPy. Exact for slices and transposes of a row-major array.
bool overlaps_itself(const ConstTensor& tensor) noexcept;

// Returns whether the tensors are the same elements in the same order.
bool same_elements(const ConstTensor& a, const ConstTensor& b) noexcept;

// Throws std::invalid_argument if a written tensor may overlap another argument. `other`: its
// name.
void check_disjoint(Argument written, const ConstTensor& to, std::string_view other,
                    const ConstTensor& from);
// The same, but the tensors may be the same elements: an operation in place.
void check_in_place_or_disjoint(Argument written, const ConstTensor& to, std::string_view other,
                                const ConstTensor& from);

}  // namespace gnomon::internal
