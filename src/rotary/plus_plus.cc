#include "gnomon/rotary/plus_plus.h"

#include <numbers>

#include "gnomon/error.h"

namespace gnomon {

RotaryFrequencies lower_key(const RotaryPlusPlus& rotary) {
  if (rotary.heads < 1) refuse("plus_plus", "heads must be at least 1", rotary.heads);
  if (rotary.first_head < 0)
    refuse("plus_plus", "first_head must not be negative", rotary.first_head);
  return lower(Rotary{.rotary_dim = rotary.rotary_dim,
                      .pairing = rotary.pairing,
                      .base = rotary.base,
                      .head_offset = rotary.head_offset});
}

HeadFrequencies lower_query(const RotaryPlusPlus& rotary) {
  const RotaryFrequencies plain = lower_key(rotary);
  HeadFrequencies all{.pairing = plain.pairing,
                      .head_offset = plain.head_offset,
                      .heads = rotary.heads,
                      .inv_freq = {}};
  for (std::int64_t h = 0; h < rotary.heads; ++h) {
    all.inv_freq.insert(all.inv_freq.end(), plain.inv_freq.begin(), plain.inv_freq.end());
    all.phases.push_back((rotary.first_head + h) % 2 ? -std::numbers::pi / 2 : 0.0);
  }
  return all;
}

}  // namespace gnomon
