// Wavelengths of frequencies, and power spectra of signals.
//
// Letters: T samples (positions), C width, K = T / 2 + 1 bins, N frequencies.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gnomon/view.h"

namespace gnomon::analysis {

// Returns the wavelengths 2 pi / f, in positions per turn, for frequencies [N] in radians per
// position; infinity for 0.
std::vector<double> wavelengths(std::span<const double> frequencies);

// Returns length f / (2 pi), the number of turns of each frequency within `length` positions. A
// frequency with less than 1 turn does not complete a period, so positions beyond `length` have
// angles that did not occur before. Context extension (YaRN, NTK by parts) uses this criterion.
std::vector<double> turns(std::span<const double> frequencies, std::int64_t length);

// Returns the indices of the frequencies that do not complete a turn within `length`.
std::vector<std::int64_t> unfinished(std::span<const double> frequencies, std::int64_t length);

// Returns the power of a signal [T] at k / T cycles per position, k = 0 ... T / 2: |X_k|^2 /
// T^2 for the discrete Fourier transform X, with the powers of both signs of a frequency added.
// The powers sum to the mean of the squares (Parseval); bin 0 is the square of the mean. Error
// bound of a bin: 2^-49 (1 + the number of prime factors of T) times that sum, which is 2^-46
// for T = 128 and 2^-48 for a prime T. Cost: O(T x the sum of the prime factors of T), by mixed
// radix: O(T log T) for powers of two, up to O(T^2) for primes.
std::vector<double> power_spectrum(std::span<const double> signal);

// out(k, c) = power of channel c of table [T, C] (float or double) in bin k; out: [K, C].
template <typename T>
void power_spectrum(View<const T, 2> table, View<double, 2> out);

}  // namespace gnomon::analysis
