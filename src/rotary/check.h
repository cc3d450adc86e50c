// The bounds beside the fields of `Rotary` and `RotarySchedule`, for the files of this room.
#pragma once

#include "gnomon/rotary/rotary.h"

namespace gnomon::rotary_internal {

// Throws std::invalid_argument naming the field that breaks its bound.
void check(const Rotary& rotary);
// For positions of that many axes.
void check(const RotarySchedule& schedule, std::int64_t axes);
// That its ids are as many as it says.
void check(const Positions& positions);
void check_pairing(Pairing pairing);

}  // namespace gnomon::rotary_internal
