#include "gnomon/rotary/xpos.h"

#include <algorithm>
#include <cmath>

#include "gnomon/error.h"
#include "src/core/wide.h"

namespace gnomon {
namespace {

// direction: 1 for queries, -1 for keys.
RotaryFrequencies frequencies_of(const XPos& xpos, double direction) {
  for (const double positive : {xpos.scale_base, xpos.gamma})
    if (!(positive > 0) || !std::isfinite(positive))
      refuse("xpos", "scale_base and gamma must be finite and greater than 0", positive);
  RotaryFrequencies frequencies = gnomon::lower(Rotary{.rotary_dim = xpos.rotary_dim,
                                                       .pairing = xpos.pairing,
                                                       .base = xpos.base,
                                                       .head_offset = xpos.head_offset});
  frequencies.centre = xpos.centre;
  for (std::int64_t i = 0; i < xpos.rotary_dim / 2; ++i) {
    const double zeta =
        (static_cast<double>(2 * i) / static_cast<double>(xpos.rotary_dim) + xpos.gamma) /
        (1 + xpos.gamma);
    frequencies.growth.push_back(direction * std::log(zeta) / xpos.scale_base);
  }
  return frequencies;
}

}  // namespace

RotaryFrequencies lower_query(const XPos& xpos) { return frequencies_of(xpos, 1); }
RotaryFrequencies lower_key(const XPos& xpos) { return frequencies_of(xpos, -1); }

RotaryFrequencies retnet_frequencies(std::int64_t dim, double base) {
  RotaryFrequencies frequencies =
      gnomon::lower(Rotary{.rotary_dim = dim, .pairing = Pairing::adjacent, .base = base});
  const std::int64_t last = std::max<std::int64_t>(1, dim / 2 - 1);
  frequencies.inv_freq =
      internal::powers(base, internal::Wide(-1) / static_cast<double>(last), dim / 2);
  return frequencies;
}

std::vector<double> retnet_decays(std::int64_t heads, std::int64_t first_head) {
  for (const std::int64_t argument : {heads, first_head})
    if (argument < 0) refuse("retnet", "heads and first_head must not be negative", argument);
  std::vector<double> decays;
  for (std::int64_t h = 0; h < heads; ++h)
    decays.push_back(1 - std::exp2(-5 - static_cast<double>(first_head + h)));
  return decays;
}

}  // namespace gnomon
