// Rounding of elements to E4M3 (OCP 8-bit floating point specification: 4 bits of exponent, 3
// of mantissa, no infinity, up to 448).
#pragma once

#include <cstdint>

#include "gnomon/dtype.h"

namespace gnomon::rotary_internal {

// Writes from[i] / scale, rounded to float and then to E4M3, both to nearest, ties to even.
// Magnitudes above 448 become 448, NaN becomes 0x7f with the sign of the quotient.
template <typename T>
using Float8Kernel = void (*)(const T* from, std::int64_t size, float scale, std::uint8_t* to);
template <typename T>
Float8Kernel<T> float8_kernel();
template <>
Float8Kernel<float> float8_kernel();
template <>
Float8Kernel<Half> float8_kernel();
template <>
Float8Kernel<BFloat16> float8_kernel();

}  // namespace gnomon::rotary_internal
