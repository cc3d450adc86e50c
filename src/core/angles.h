// The kernels of angles, which allocate nothing and check nothing (positions and frequencies
// are within the bounds of fill_cos_sin), and the check of frequencies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace gnomon::internal {

// A position p is split into its anchor, p & ~(anchor_step - 1), and the step from there.
inline constexpr std::int64_t anchor_step = 64;

// Angles for those who hold no table: one token, or a few. cosines[i], sines[i] =
// scale cos, scale sin(positions[i position_step] frequencies[i]) for i < count, to the bit
// those of fill_cos_sin (Angles::exact); position_step 0: one position for all pairs. Nothing
// need be aligned, any count.
using PairAngles = void (*)(const std::int64_t* positions, std::ptrdiff_t position_step,
                            const double* frequencies, std::int64_t count, double scale,
                            float* cosines, float* sines);
PairAngles pair_angles();  // the kernel of the current instruction set

// Throws std::invalid_argument when one is beyond 2^20 in magnitude or not finite.
void check_frequencies(std::span<const double> frequencies);

// Rows in the making: `count` cosines from `cosines` on and as many sines, in arrays that are
// padded to whole vectors of 8 and aligned to them.
struct AngleRow {
  double *cosines, *sines;
};
// scale cos, scale sin(position frequencies[i]). Arrays are padded to whole vectors.
using CosSinRow = void (*)(double position, const double* frequencies, std::int64_t count,
                           double scale, double* cosines, double* sines);
CosSinRow cos_sin_row();

// Rows t < rows, each the complex product of one far row and the row of the token's step, which
// is row positions[t] & mask of `steps`. A row is `padded` cosines and `padded` sines.
struct Turns {
  const double* far;
  const double* steps;
  std::int64_t padded, count;  // pairs
  const std::int64_t* positions;
  std::int64_t mask, rows;
};
// How cosines and sines lie in the rows that are written.
enum class AngleLayout {
  apart = 1,     // `first` cosines, `second` sines, each contiguous
  cosine_first,  // cos sin cos sin ... from `first` on
  sine_first,    // sin cos sin cos ... from `first` on
};
template <typename T>
using TurnRows = void (*)(const Turns& turns, T* first, std::ptrdiff_t first_row, T* second,
                          std::ptrdiff_t second_row);
template <typename T>
TurnRows<T> turn_rows(AngleLayout layout);

}  // namespace gnomon::internal
