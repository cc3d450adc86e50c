// Turning with cosines and sines that lie anywhere, for the files of this room.
#pragma once

#include "gnomon/rotary/rotary.h"
#include "gnomon/view.h"
#include "src/rotary/batch.h"

namespace gnomon::rotary_internal {

// Throws std::invalid_argument when a head of x does not hold the R elements from `first` on,
// one after another.
template <typename T>
void check_heads(const View<T, 4>& x, const RotarySchedule& schedule);

// The same, and that x has the table's tokens and rows.
template <typename T>
void check_fits(const View<T, 4>& x, const RotaryTable& table);

// What turns the heads of a token: cos and sin [B, T, R/2], the last axis contiguous. A stride
// of 0 shares them among rows or tokens.
struct Turns {
  View<const float, 3> cos, sin;
  float sign = 1;  // -1 turns back
};
Turns turns_of(const RotaryTable& table, std::ptrdiff_t batch, float sign = 1);

// Turns x [B, T, H, D] in place; of the schedule it reads where the pairs lie. No checks.
template <typename T>
void turn(View<T, 4> x, const RotarySchedule& schedule, const Turns& turns);

}  // namespace gnomon::rotary_internal
