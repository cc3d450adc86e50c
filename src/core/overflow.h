// Sums and products of integers that report overflow, with any compiler.
#pragma once

#include <concepts>
#include <limits>
#include <type_traits>

namespace gnomon::internal {

template <typename T>
concept WholeNumber = std::integral<T> && sizeof(T) >= sizeof(int);  // not promoted to int

// The versions for compilers without these functions, such as MSVC. The product takes a
// division. *result is the low bits of the exact result.
template <WholeNumber T>
constexpr bool portable_add_overflow(T a, T b, T* result) noexcept {
  using Unsigned = std::make_unsigned_t<T>;
  *result = static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  return b < 0 ? *result > a : *result < a;
}
template <WholeNumber T>
constexpr bool portable_multiply_overflow(T a, T b, T* result) noexcept {
  using Unsigned = std::make_unsigned_t<T>;
  *result = static_cast<T>(static_cast<Unsigned>(a) * static_cast<Unsigned>(b));
  if constexpr (std::is_signed_v<T>)  // the only quotients that overflow
    if (a == -1) return b == std::numeric_limits<T>::min();
  return a != 0 && *result / a != b;
}

// Writes the low bits of a + b or a x b to *result, which may be a or b. Returns whether the
// exact result does not fit.
template <WholeNumber T>
constexpr bool add_overflow(std::type_identity_t<T> a, std::type_identity_t<T> b,
                            T* result) noexcept {
#if defined(__GNUC__) || defined(__clang__)
  return __builtin_add_overflow(a, b, result);
#else
  return portable_add_overflow<T>(a, b, result);
#endif
}
template <WholeNumber T>
constexpr bool multiply_overflow(std::type_identity_t<T> a, std::type_identity_t<T> b,
                                 T* result) noexcept {
#if defined(__GNUC__) || defined(__clang__)
  return __builtin_mul_overflow(a, b, result);
#else
  return portable_multiply_overflow<T>(a, b, result);
#endif
}

}  // namespace gnomon::internal
