// Growth of pairs with the position (xPos).
#pragma once

#include <cmath>
#include <cstdint>

#include "gnomon/rotary/rotary.h"

namespace gnomon::rotary_internal {

// Returns the natural logarithm of the growth factor of pair i, `after` positions after the
// centre.
inline double growth(const RotaryFrequencies& frequencies, std::size_t i, double after) {
  return frequencies.growth.empty() ? 0 : frequencies.growth[i] * after;
}

// Multiplies the cosine and sine of pair i by its growth factor at `position`.
inline void grow(const RotaryFrequencies& frequencies, std::size_t i, std::int64_t position,
                 float& cos, float& sin) {
  const double factor =
      std::exp(growth(frequencies, i, static_cast<double>(position - frequencies.centre)));
  cos = static_cast<float>(double{cos} * factor);
  sin = static_cast<float>(double{sin} * factor);
}

}  // namespace gnomon::rotary_internal
