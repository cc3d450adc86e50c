// The bounds beside the fields of `Rotary`, for the files of this room.
#pragma once

#include "gnomon/rotary/rotary.h"

namespace gnomon::rotary_internal {

// Throws std::invalid_argument naming the field that breaks its bound.
void check(const Rotary& rotary);
void check_pairing(Pairing pairing);

}  // namespace gnomon::rotary_internal
