// Kernels of token angles. They check nothing and allocate nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gnomon/dtype.h"
#include "gnomon/rotary/rotary.h"

namespace gnomon::rotary_internal {

// Angles in [-2^46, 2^46]; beyond, NaN. Pairs are at most `angle_chunk`.
inline constexpr std::int64_t angle_chunk = 512;

// cos and sin, [rows, pairs] each, of rows of angles that are `step` elements apart.
template <typename Angle, typename F>
using CosSinOfAngles = void (*)(const Angle* angles, std::int64_t step, std::int64_t rows,
                                std::int64_t pairs, F* cos, F* sin);
template <typename Angle, typename F>
CosSinOfAngles<Angle, F> cos_sin_of_angles();
template <>
CosSinOfAngles<float, float> cos_sin_of_angles();
template <>
CosSinOfAngles<double, float> cos_sin_of_angles();
template <>
CosSinOfAngles<float, double> cos_sin_of_angles();
template <>
CosSinOfAngles<double, double> cos_sin_of_angles();

// Rows of heads with angles of their own. Pointers are to the first pair.
template <typename T, typename Angle>
struct TurnedRows {
  const T* from = nullptr;
  T* to = nullptr;
  const Angle* angles = nullptr;
  std::int64_t from_row = 0, to_row = 0, angle_row = 0;
  std::int64_t rows = 0, pairs = 0;
  Pairing pairing = {};
  float sign = 1;  // -1: inverse rotation
  // For the backward: `from` and `to` are the gradient, and `rotated` the rotated heads. Adds
  // the gradient of the angles.
  const T* rotated = nullptr;
  std::int64_t rotated_row = 0;
  Angle* grad_angles = nullptr;
  std::int64_t grad_angle_row = 0;
};
// cos, sin and rotation in one pass, for T of float, Half and BFloat16.
template <typename T, typename Angle>
using TurnRows = void (*)(const TurnedRows<T, Angle>& rows);
template <typename T, typename Angle>
TurnRows<T, Angle> turn_rows();
template <>
TurnRows<float, float> turn_rows();
template <>
TurnRows<float, double> turn_rows();
template <>
TurnRows<Half, float> turn_rows();
template <>
TurnRows<Half, double> turn_rows();
template <>
TurnRows<BFloat16, float> turn_rows();
template <>
TurnRows<BFloat16, double> turn_rows();

// Rotated pairs crossed with their gradients: sums[row, i] = sum over heads of a db - b da.
// Pointers are to the first pair; pairs [0, pairs), the second element `half` after the first.
template <typename T>
struct CrossedRows {
  const T *rotated = nullptr, *grad = nullptr;
  std::int64_t rotated_row = 0, rotated_head = 0, grad_row = 0, grad_head = 0;
  std::int64_t rows = 0, heads = 0, pairs = 0;
  Pairing pairing = {};
  std::int64_t half = 0;
};
template <typename T>
using CrossRows = void (*)(const CrossedRows<T>& rows, Accumulator<T>* sums);
template <typename T>
CrossRows<T> cross_rows();
template <>
CrossRows<float> cross_rows();
template <>
CrossRows<double> cross_rows();
template <>
CrossRows<Half> cross_rows();
template <>
CrossRows<BFloat16> cross_rows();

// What a token does to a running sum.
enum class SumStep : std::uint8_t { padding = 1, add, restart };

// Tokens of channels that are contiguous.
template <typename T, typename U>
struct SummedRows {
  const T* from = nullptr;  // increments, or gradients of sums
  U* to = nullptr;
  std::int64_t from_step = 0, to_step = 0;
  const SumStep* steps = nullptr;  // [tokens]
  std::int64_t tokens = 0, channels = 0;
  const double* scale = nullptr;  // [channels]
  double* sum = nullptr;          // [channels]
};
// The running sum modulo 2 pi of each channel. For the backward, tokens from the last to the
// first, without reduction.
template <typename T, typename U>
using SumRows = void (*)(const SummedRows<T, U>& rows);
template <typename T, typename U>
SumRows<T, U> sum_rows();
template <>
SumRows<float, float> sum_rows();
template <>
SumRows<float, double> sum_rows();
template <>
SumRows<double, double> sum_rows();
template <typename T, typename U>
SumRows<T, U> sum_rows_backward();
template <>
SumRows<float, float> sum_rows_backward();
template <>
SumRows<double, float> sum_rows_backward();
template <>
SumRows<double, double> sum_rows_backward();

}  // namespace gnomon::rotary_internal
