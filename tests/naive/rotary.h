// Naive versions of the kernels of rotary/: double, loops, no tables.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "gnomon/rotary/rotary.h"
#include "gnomon/rotary/temperature.h"
#include "gnomon/view.h"

namespace gnomon::testing {

// cos and sin of positions [T] times frequencies [N], each [T, N].
inline void naive_cos_sin(std::span<const std::int64_t> positions,
                          std::span<const double> frequencies, View<double, 2> cos,
                          View<double, 2> sin) {
  for (std::size_t t = 0; t < positions.size(); ++t)
    for (std::size_t i = 0; i < frequencies.size(); ++i) {
      const long double angle =
          static_cast<long double>(positions[t]) * static_cast<long double>(frequencies[i]);
      cos(t, i) = static_cast<double>(std::cos(angle));
      sin(t, i) = static_cast<double>(std::sin(angle));
    }
}

// Rotates x [T, H, D] in place. The gradient is the rotation in the inverse direction.
inline void naive_rotate(View<double, 3> x, std::span<const std::int64_t> positions,
                         const RotaryFrequencies& frequencies, Direction direction) {
  const std::int64_t pairs = frequencies.rotary_dim() / 2, begin = frequencies.head_offset;
  for (std::int64_t t = 0; t < x.extent(0); ++t)
    for (std::int64_t h = 0; h < x.extent(1); ++h)
      for (std::int64_t i = 0; i < pairs; ++i) {
        const bool halves = frequencies.pairing == Pairing::halves;
        double& a = x(t, h, begin + (halves ? i : 2 * i));
        double& b = x(t, h, begin + (halves ? i + pairs : 2 * i + 1));
        double angle = static_cast<double>(positions[static_cast<std::size_t>(t)]) *
                       frequencies.inv_freq[static_cast<std::size_t>(i)];
        if (direction == Direction::inverse) angle = -angle;
        const double rotated_a = a * std::cos(angle) - b * std::sin(angle);
        b = a * std::sin(angle) + b * std::cos(angle);
        a = rotated_a;
      }
}

// Moves rotated keys [T, H, D] by `delta` positions.
inline void naive_shift_keys(View<double, 3> keys, const RotaryFrequencies& frequencies,
                             std::int64_t delta) {
  const std::vector<std::int64_t> deltas(static_cast<std::size_t>(keys.extent(0)), delta);
  naive_rotate(keys, deltas, frequencies, Direction::forward);
}

// Converts keys [T, H, D] that are rotated with `from` to keys that are rotated with `to`.
inline void naive_rerotate_keys(View<double, 3> keys, std::span<const std::int64_t> positions,
                                const RotaryFrequencies& from, const RotaryFrequencies& to) {
  naive_rotate(keys, positions, from, Direction::inverse);
  naive_rotate(keys, positions, to, Direction::forward);
}

// Quantizes x [T, H, D] to integers from -127 to 127, with a scale [T, H] for each head vector.
inline void naive_quantize(View<const double, 3> x, View<std::int8_t, 3> out,
                           View<double, 2> scales) {
  for (std::int64_t t = 0; t < x.extent(0); ++t)
    for (std::int64_t h = 0; h < x.extent(1); ++h) {
      double greatest = 0;
      for (std::int64_t d = 0; d < x.extent(2); ++d)
        greatest = std::max(greatest, std::abs(x(t, h, d)));
      scales(t, h) = greatest / 127;
      for (std::int64_t d = 0; d < x.extent(2); ++d)
        out(t, h, d) = static_cast<std::int8_t>(
            greatest == 0 ? 0 : std::nearbyint(x(t, h, d) / scales(t, h)));
    }
}

// Returns the value of a number of E4M3: 1 bit of sign, 4 of exponent (bias 7), 3 of mantissa.
inline double naive_float8_value(int bits) {
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  if (exponent == 15 && mantissa == 7) return std::nan("");
  const double size =
      exponent ? std::ldexp(8 + mantissa, exponent - 10) : std::ldexp(mantissa, -9);
  return bits & 0x80 ? -size : size;
}

// Returns the bits of the nearest number of E4M3, ties to even; beyond 448: 448.
inline int naive_float8(double x) {
  const int sign = std::signbit(x) ? 0x80 : 0;
  if (std::isnan(x)) return sign | 0x7f;
  const double size = std::min(std::fabs(x), 448.0);
  int best = 0;
  for (int bits = 1; bits < 0x7f; ++bits) {
    const double distance = std::fabs(naive_float8_value(bits) - size),
                 least = std::fabs(naive_float8_value(best) - size);
    if (distance < least || (distance == least && bits % 2 == 0)) best = bits;
  }
  return sign | best;
}

// Writes x [T, H, D] to pages [P, S, H, D]: token t to block slots[t] / S, entry slots[t] % S.
// Negative slots are not written.
inline void naive_paged_append(View<const double, 3> x, std::span<const std::int64_t> slots,
                               View<double, 4> pages) {
  for (std::int64_t t = 0; t < x.extent(0); ++t) {
    const std::int64_t slot = slots[static_cast<std::size_t>(t)];
    for (std::int64_t h = 0; slot >= 0 && h < x.extent(1); ++h)
      for (std::int64_t d = 0; d < x.extent(2); ++d)
        pages(slot / pages.extent(1), slot % pages.extent(1), h, d) = x(t, h, d);
  }
}

// Multiplies queries [T, H, D] by the factor of their position. The gradient is the same.
inline void naive_scale_queries(View<double, 3> q, const QueryTemperature& temperature,
                                std::span<const std::int64_t> positions) {
  for (std::int64_t t = 0; t < q.extent(0); ++t) {
    const std::int64_t steps =
        (positions[static_cast<std::size_t>(t)] + temperature.shift) / temperature.length;
    const double factor = 1 + temperature.beta * std::log(1 + static_cast<double>(steps));
    for (std::int64_t h = 0; h < q.extent(1); ++h)
      for (std::int64_t d = 0; d < q.extent(2); ++d) q(t, h, d) *= factor;
  }
}

}  // namespace gnomon::testing
