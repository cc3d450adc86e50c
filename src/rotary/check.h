// Checks of the bounds of `Rotary`, `RotaryFrequencies` and `Positions`.
#pragma once

#include "gnomon/rotary/rotary.h"

namespace gnomon::rotary_internal {

// All throw std::invalid_argument with the name of the field that violates its bound.
void check(const Rotary& rotary);
// axes: number of position axes.
void check(const RotaryFrequencies& frequencies, std::int64_t axes);
// Checks that there are batch x tokens ids.
void check(const Positions& positions);
void check_pairing(Pairing pairing);

// Returns the number of position axes that the frequencies use: the greatest axis + 1. Throws
// std::invalid_argument if it is more than 1024, because callers make that many positions.
std::int64_t axis_count(const RotaryFrequencies& frequencies);

}  // namespace gnomon::rotary_internal
