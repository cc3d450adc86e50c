// What pairs grow by at a position (xPos), for the files of this room.
#pragma once

#include <cmath>
#include <cstdint>

#include "gnomon/rotary/rotary.h"

namespace gnomon::rotary_internal {

// ln of what pair i has grown by, `after` positions behind the centre.
inline double growth(const RotarySchedule& schedule, std::size_t i, double after) {
  return schedule.growth.empty() ? 0 : schedule.growth[i] * after;
}

// The cosine and sine of pair i at a position, times what it has grown by.
inline void grow(const RotarySchedule& schedule, std::size_t i, std::int64_t position,
                 float& cos, float& sin) {
  const double factor =
      std::exp(growth(schedule, i, static_cast<double>(position - schedule.centre)));
  cos = static_cast<float>(double{cos} * factor);
  sin = static_cast<float>(double{sin} * factor);
}

}  // namespace gnomon::rotary_internal
