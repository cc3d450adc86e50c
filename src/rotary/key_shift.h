// A shift of cached keys in two steps: one that checks and allocates, and one that cannot fail.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gnomon/rotary/rotary.h"
#include "gnomon/view.h"

namespace gnomon::rotary_internal {

class KeyShift {
 public:
  // Throws as shift_keys for these frequencies, which are borrowed, and deltas.
  KeyShift(const RotaryFrequencies& frequencies, std::span<const std::int64_t> deltas);
  // cached: [B, S, H, D], D contiguous, which fits the frequencies. Types: as shift_keys.
  template <typename U>
  void apply(View<U, 4> cached) const;

 private:
  const RotaryFrequencies* frequencies_;
  std::vector<float> factors_ = {};  // cos and sin [R/2]; empty if nothing moves
};

}  // namespace gnomon::rotary_internal
