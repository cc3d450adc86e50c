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

}  // namespace gnomon::rotary_internal
