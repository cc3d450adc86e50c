// Elements of device memory: conversions to float, and one rounding back.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "gnomon/dtype.h"
#include "src/cuda/context.h"

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#endif

namespace gnomon::cuda {

// An element of an 8-bit cache: 4 bits of exponent, 3 of mantissa, no infinity, up to 448
// (E4M3 of the OCP 8-bit floating point specification).
struct Float8 {
  std::uint8_t bits = 0;
};

GNOMON_DEVICE float to_float(float value) { return value; }
GNOMON_DEVICE float to_float(BFloat16 value) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(static_cast<unsigned>(value.bits) << 16);
#else
  return static_cast<float>(value);
#endif
}
GNOMON_DEVICE float to_float(Half value) {
#if defined(__CUDA_ARCH__)
  return __half2float(__ushort_as_half(value.bits));
#else
  return static_cast<float>(value);
#endif
}

// Rounds a float to E4M3, to nearest, ties to even. Values beyond 448 become 448; NaN stays.
inline Float8 round_to_float8(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint8_t>(bits >> 31 << 7);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<std::uint8_t>(sign | 0x7f)};
  const float size = std::bit_cast<float>(magnitude);
  if (size >= 448.0f) return {static_cast<std::uint8_t>(sign | 0x7e)};
  if (size < 0x1p-6f) {  // subnormal: multiples of 2^-9
    const auto steps = static_cast<std::uint8_t>(std::nearbyint(size * 0x1p9f));
    return {static_cast<std::uint8_t>(sign | steps)};  // 8 steps are the least normal number
  }
  const std::uint32_t odd = magnitude >> 20 & 1;
  const std::uint32_t rounded = (magnitude + 0x7ffffu + odd) >> 20;    // 3 bits of mantissa
  return {static_cast<std::uint8_t>(sign | (rounded - (120u << 3)))};  // bias 127 becomes 7
}

// Rounds a float to T, once.
template <typename T>
GNOMON_DEVICE T from_float(float value) {
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else if constexpr (std::is_same_v<T, Float8>) {
#if defined(__CUDA_ARCH__)
    return {__nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3)};
#else
    return round_to_float8(value);
#endif
  } else {
#if defined(__CUDA_ARCH__)
    if constexpr (std::is_same_v<T, Half>)
      return Half::from_bits(__half_as_ushort(__float2half_rn(value)));
    else
      return BFloat16::from_bits(__bfloat16_as_ushort(__float2bfloat16_rn(value)));
#else
    return T(value);
#endif
  }
}

// Rounds each value once.
template <typename T, int width>
GNOMON_DEVICE Vector<T, width> rounded(const float (&values)[width]) {
  Vector<T, width> all;
  GNOMON_UNROLL
  for (int i = 0; i < width; ++i) all[i] = from_float<T>(values[i]);
  return all;
}

// Rounds a double to T, once: through a float whose last bit is set if the conversion is not
// exact, so that a second rounding gives the same result as one.
template <typename T>
GNOMON_DEVICE T round_once(double value) {
  if constexpr (std::is_same_v<T, float>) {
    return static_cast<float>(value);
  } else {
#if defined(__CUDA_ARCH__)
    const float toward_zero = __double2float_rz(value);
    const bool exact = static_cast<double>(toward_zero) == value;
    const unsigned bits = __float_as_uint(toward_zero);
    return from_float<T>(__uint_as_float(exact || value != value ? bits : bits | 1u));
#else
    return T(value);
#endif
  }
}

}  // namespace gnomon::cuda
