// Rotated keys as floats, in a buffer, for caches of 8 bits.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/rotary/rotate.h"

namespace gnomon::rotary_internal {

// The size of the buffer, in floats: 16 KB. D is at most as large.
constexpr std::int64_t rotated_elements = 4096;

// Calls body(t, count, head, heads, rotated) for parts of [1, n, H, D] that fit the buffer:
// rotated is [count, heads, D].
template <typename T, typename Body>
void in_floats(const View<const T, 4>& keys, const RotaryFrequencies& frequencies,
               const CosSin& cos_sin, const Body& body) {
  alignas(64) float rotated[rotated_elements];
  const std::int64_t tokens = keys.extent(1), heads = keys.extent(2), size = keys.extent(3);
  const std::int64_t most = rotated_elements / std::max<std::int64_t>(1, size);
  const std::int64_t heads_at_once = std::min(heads, most),
                     at_once =
                         heads_at_once == heads ? most / std::max<std::int64_t>(1, heads) : 1;
  const auto rotate = rotate_kernel<T, float>();
  for (std::int64_t t = 0; t < tokens; t += at_once)
    for (std::int64_t h = 0; h < heads; h += heads_at_once) {
      const std::int64_t count = std::min(at_once, tokens - t),
                         some = std::min(heads_at_once, heads - h);
      const Heads<T, float> part{
          .from = &keys(0, t, h, frequencies.head_offset),
          .to = rotated + frequencies.head_offset,
          .from_token = keys.stride(1),
          .from_head = keys.stride(2),
          .to_token = some * size,
          .to_head = size,
          .count = some,
          .pairs = frequencies.rotary_dim() / 2,
          .before = frequencies.head_offset,
          .after = size - frequencies.head_offset - frequencies.rotary_dim()};
      rotate(
          part,
          {&cos_sin.cos(0, t, 0), &cos_sin.sin(0, t, 0), cos_sin.cos.stride(1), cos_sin.sign},
          frequencies.pairing, 0, part.pairs, count);
      body(t, count, h, some, static_cast<const float*>(rotated));
    }
}

}  // namespace gnomon::rotary_internal
