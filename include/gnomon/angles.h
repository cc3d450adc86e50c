// From a position to an angle: the one place where cos and sin of position x frequency are
// made. Sinusoidal embeddings and rotary tables are both filled by it.
//
// Letters: T positions, N frequencies (radians per position).
#pragma once

#include <cstdint>
#include <span>

#include "gnomon/view.h"

namespace gnomon {

enum class Angles {
  exact = 1,  // as the bound below
  // The angle is rounded to float before its cos and sin are taken, and the frequency before
  // that, as the usual PyTorch code does: off by 8e-3 at position 131072. To follow an engine.
  float32,
};

// cosines(t, i) = scale cos(positions[t] frequencies[i]), sines(t, i) likewise; both views are
// [T, N] with any strides, so a recipe's layout is a choice of views. Element types: float,
// double, Half, BFloat16.
//
// Error, Angles::exact: at most half an ulp of the element type + scale 2^-46, for integer and
// continuous positions up to 2^31 in magnitude. One rounding at the end, on every instruction
// set. An entry depends on its position and frequency alone: it has the same bits alone, in a
// run of positions, and for any number of threads. Cost: for a run of positions one complex
// product in double an entry, and a cos and sin every 64th; for a few, two cos and sin an
// entry; for continuous ones, one.
//
// Throws std::invalid_argument when a view is not [T, N], a position is beyond 2^31 or a
// frequency beyond 2^20 radians per position in magnitude, or anything is not finite.
template <typename T>
void fill_cos_sin(std::span<const std::int64_t> positions, std::span<const double> frequencies,
                  View<T, 2> cosines, View<T, 2> sines, Angles angles = Angles::exact,
                  double scale = 1.0);
template <typename T>
void fill_cos_sin(std::span<const double> positions, std::span<const double> frequencies,
                  View<T, 2> cosines, View<T, 2> sines, Angles angles = Angles::exact,
                  double scale = 1.0);

}  // namespace gnomon
