// Frequencies seen as wavelengths, and signals seen as frequencies.
//
// Letters: T samples (positions), C channels, K = T / 2 + 1 bins, N frequencies.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gnomon/view.h"

namespace gnomon::analysis {

// 2 pi / f, positions per turn, for frequencies [N] in radians per position; infinity for 0.
std::vector<double> wavelengths(std::span<const double> frequencies);

// length f / (2 pi): how often each frequency comes round within `length` positions. Below 1 it
// never completes a turn: positions past `length` then meet angles that were never seen, which
// is what context extension (YaRN, NTK by parts) decides by.
std::vector<double> turns(std::span<const double> frequencies, std::int64_t length);

// The frequencies that never complete a turn within `length`, by index.
std::vector<std::int64_t> unfinished(std::span<const double> frequencies, std::int64_t length);

// The power of a signal [T] at k / T cycles per position, k = 0 ... T / 2: |X_k|^2 / T^2 for
// the discrete Fourier transform X, with both signs of a frequency added. The powers sum to the
// mean of the squares (Parseval); bin 0 is the square of the mean. Error of a bin: at most
// 2^-49 (1 + the number of T's prime factors) of that sum; 2^-46 for T = 128, or any prime.
// Mixed-radix: O(T sum of T's prime factors), so O(T log T) for powers of two; up to O(T^2).
std::vector<double> power_spectrum(std::span<const double> signal);

// out(k, c) = power of channel c of table [T, C] (float or double) in bin k; out: [K, C].
template <typename T>
void power_spectrum(View<const T, 2> table, View<double, 2> out);

}  // namespace gnomon::analysis
