// cos and sin of position x frequency. The only implementation: sinusoidal embeddings and
// rotary tables both call it.
//
// Letters: T positions, N frequencies (radians per position).
//
// Naive version: tests/naive/rotary.h, `naive_cos_sin`.
#pragma once

#include <cstdint>
#include <span>

#include "gnomon/view.h"

namespace gnomon {

enum class Angles {
  exact = 1,  // within the error bound of fill_cos_sin
  // The frequency is rounded to float, then the angle is rounded to float before its cos and
  // sin are computed, as in the usual PyTorch code. Off by 8e-3 at position 131072. Use it to
  // reproduce an engine that does so.
  float32,
};

// Computes cosines(t, i) = scale cos(positions[t] frequencies[i]), and sines(t, i) likewise.
//
// Shapes: both views are [T, N] with any strides, so the strides of the views select the layout
// (interleaved, half split). Element types: float, double, Half, BFloat16.
//
// Error bound (Angles::exact): half an ulp of the element type + scale 2^-46, for integer and
// continuous positions up to 2^31 in magnitude. Each entry is rounded once, at the end. The
// bound holds on every instruction set. Deterministic: an entry depends only on its position
// and frequency, so it has the same bits alone, in a run of positions, and for any number of
// threads.
//
// Cost, for each entry: in a run of consecutive positions, one complex product in double, and
// one cos and one sin for every 64th position; for a few positions, two cos and two sin; for
// continuous positions, one cos and one sin.
//
// Throws std::invalid_argument if a view is not [T, N], a position exceeds 2^31 in magnitude, a
// frequency exceeds 2^20 radians per position in magnitude, or a value is not finite.
template <typename T>
void fill_cos_sin(std::span<const std::int64_t> positions, std::span<const double> frequencies,
                  View<T, 2> cosines, View<T, 2> sines, Angles angles = Angles::exact,
                  double scale = 1.0);
template <typename T>
void fill_cos_sin(std::span<const double> positions, std::span<const double> frequencies,
                  View<T, 2> cosines, View<T, 2> sines, Angles angles = Angles::exact,
                  double scale = 1.0);

}  // namespace gnomon
