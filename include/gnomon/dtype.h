// Element types of tensors. Half and BFloat16 are storage types: arithmetic is done in float,
// and each result is rounded once, to nearest, ties to even.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gnomon {

enum class DType { f32 = 1, f16, bf16, f64 };

namespace internal {

// Rounds a double once to a binary float of `exponent_bits` and `mantissa_bits`, to nearest,
// ties to even. Overflow gives infinity. NaN stays NaN. Subnormal results are rounded, not
// flushed to zero.
template <int exponent_bits, int mantissa_bits>
constexpr std::uint16_t round_to_bits(double value) noexcept {
  constexpr int bias = (1 << (exponent_bits - 1)) - 1;
  constexpr std::uint64_t infinity = ((std::uint64_t{1} << exponent_bits) - 1) << mantissa_bits;
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 63 << 15);
  const int exponent = static_cast<int>(bits >> 52 & 0x7ff) - 1023;
  std::uint64_t mantissa = bits & ((std::uint64_t{1} << 52) - 1);
  if (exponent == 1024)
    return static_cast<std::uint16_t>(sign | infinity |
                                      (mantissa ? std::uint64_t{1} << (mantissa_bits - 1) : 0));
  if (exponent < -bias - mantissa_bits) return sign;  // below half the smallest subnormal
  // Normal results keep their exponent. Subnormal results shift the implicit bit in.
  int drop = 52 - mantissa_bits;
  std::uint64_t result = 0;
  if (exponent >= 1 - bias) {
    result = static_cast<std::uint64_t>(exponent + bias) << mantissa_bits;
  } else {
    mantissa |= std::uint64_t{1} << 52;
    drop += 1 - bias - exponent;
  }
  const std::uint64_t half = std::uint64_t{1} << (drop - 1);
  const std::uint64_t kept = mantissa >> drop, rest = mantissa & (2 * half - 1);
  result += kept + (rest > half || (rest == half && (kept & 1)) ? 1 : 0);  // may carry upwards
  if (result > infinity) result = infinity;
  return static_cast<std::uint16_t>(sign | result);
}

}  // namespace internal

// IEEE binary16.
struct Half {
  std::uint16_t bits = 0;

  constexpr Half() noexcept = default;
  constexpr explicit Half(double value) noexcept
      : bits(internal::round_to_bits<5, 10>(value)) {}
  static constexpr Half from_bits(std::uint16_t bits) noexcept {
    Half half;
    half.bits = bits;
    return half;
  }
  constexpr explicit operator float() const noexcept {
    const std::uint32_t sign = std::uint32_t{bits} >> 15 << 31;
    const std::uint32_t exponent = bits >> 10 & 31u, mantissa = bits & 1023u;
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
    if (exponent) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
    const float tiny = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -tiny : tiny;
  }
  bool operator==(const Half&) const = default;
};

// The upper half of an IEEE binary32.
struct BFloat16 {
  std::uint16_t bits = 0;

  constexpr BFloat16() noexcept = default;
  constexpr explicit BFloat16(double value) noexcept
      : bits(internal::round_to_bits<8, 7>(value)) {}
  static constexpr BFloat16 from_bits(std::uint16_t bits) noexcept {
    BFloat16 value;
    value.bits = bits;
    return value;
  }
  constexpr explicit operator float() const noexcept {
    return std::bit_cast<float>(std::uint32_t{bits} << 16);
  }
  bool operator==(const BFloat16&) const = default;
};

// The DType of a C++ element type.
template <typename T>
inline constexpr DType dtype_of = [] {
  static_assert(sizeof(T) == 0, "not an element type of Gnomon");
  return DType::f32;
}();
template <>
inline constexpr DType dtype_of<float> = DType::f32;
template <>
inline constexpr DType dtype_of<Half> = DType::f16;
template <>
inline constexpr DType dtype_of<BFloat16> = DType::bf16;
template <>
inline constexpr DType dtype_of<double> = DType::f64;

// The type of sums over elements of type T: double for double, else float.
template <typename T>
struct AccumulatorOf {
  using type = float;
};
template <>
struct AccumulatorOf<double> {
  using type = double;
};
template <typename T>
using Accumulator = typename AccumulatorOf<T>::type;

// Returns the size of one element in bytes.
constexpr std::size_t size_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::f32:
      return 4;
    case DType::f16:
    case DType::bf16:
      return 2;
    case DType::f64:
      return 8;
  }
  return 0;
}

// Returns "f32", "f16", "bf16" or "f64".
constexpr std::string_view name(DType dtype) noexcept {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::f16:
      return "f16";
    case DType::bf16:
      return "bf16";
    case DType::f64:
      return "f64";
  }
  return "?";
}

}  // namespace gnomon
