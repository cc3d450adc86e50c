// Sums of gradients: an element of float, with the addition in double.
#pragma once

namespace gnomon::rotary_internal {

inline void accumulate(float& to, double value) { to = static_cast<float>(double{to} + value); }

}  // namespace gnomon::rotary_internal
