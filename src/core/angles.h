// The kernels of angles and the check of frequencies. The kernels allocate nothing and check
// nothing: positions and frequencies must be within the bounds of fill_cos_sin.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace gnomon::internal {

// A position p is split into its anchor, p & ~(anchor_step - 1), and the step p - anchor.
inline constexpr std::int64_t anchor_step = 64;

// cos and sin without a table, for one token or a few: cosines[i], sines[i] = scale cos, scale
// sin(positions[i position_step] frequencies[i]) for i < count. The bits are those of
// fill_cos_sin (Angles::exact). position_step 0: one position for all pairs. No alignment is
// required, and count may be any number.
using PairAngles = void (*)(const std::int64_t* positions, std::int64_t position_step,
                            const double* frequencies, std::int64_t count, double scale,
                            float* cosines, float* sines);
PairAngles pair_angles();  // returns the kernel of the current instruction set

// Throws std::invalid_argument if a frequency exceeds 2^20 in magnitude or is not finite.
void check_frequencies(std::span<const double> frequencies);

// A row of angles: `count` cosines at `cosines` and `count` sines at `sines`, in arrays that
// are padded to whole vectors of 8 and aligned to them.
struct AngleRow {
  double *cosines, *sines;
};
// Computes scale cos, scale sin(position frequencies[i]). Arrays are padded to whole vectors.
using CosSinRow = void (*)(double position, const double* frequencies, std::int64_t count,
                           double scale, double* cosines, double* sines);
CosSinRow cos_sin_row();

// The rows t < rows of a table. Each row is the complex product of the row of the anchor
// (`far`) and the row of the token's step, which is row positions[t] & mask of `steps`. A row
// consists of `padded` cosines followed by `padded` sines.
struct RowProducts {
  const double* far;
  const double* steps;
  std::int64_t padded, count;  // pairs
  const std::int64_t* positions;
  std::int64_t mask, rows;
};
// The layout of cosines and sines in the rows that are written.
enum class AngleLayout {
  apart = 1,     // cosines at `first`, sines at `second`, each contiguous
  cosine_first,  // cos sin cos sin ... at `first`
  sine_first,    // sin cos sin cos ... at `first`
};
template <typename T>
using MultiplyRows = void (*)(const RowProducts& products, T* first, std::int64_t first_row,
                              T* second, std::int64_t second_row);
template <typename T>
MultiplyRows<T> multiply_rows(AngleLayout layout);

}  // namespace gnomon::internal
