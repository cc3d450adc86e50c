#include "gnomon/rotary/music_flamingo.h"

#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "gnomon/error.h"

namespace gnomon::rotary {

RotaryTable lower(const MusicFlamingo& time, std::span<const std::int64_t> windows,
                  std::int64_t frames) {
  constexpr std::int64_t most = std::int64_t{1} << 31;
  if (time.positions < 1)
    refuse("music_flamingo", "positions must be at least 1", time.positions);
  if (!std::isfinite(time.frame_seconds) || time.frame_seconds <= 0)
    refuse("music_flamingo", "frame_seconds must be finite and positive", time.frame_seconds);
  if (frames < 1 || frames > most) refuse("music_flamingo", "frames must be 1 to 2^31", frames);
  for (const std::int64_t window : windows)
    if (window < 0 || window > most)
      refuse("music_flamingo", "windows must be 0 to 2^31", window);
  const std::vector<double> one = inverse_frequencies(
      {.rotary_dim = time.rotary_dim, .pairing = Pairing::adjacent, .base = time.base});
  const std::size_t pairs = 2 * one.size();
  const std::size_t size = windows.size() * static_cast<std::size_t>(frames) * pairs;
  std::vector<float> cos, sin;
  cos.reserve(size), sin.reserve(size);
  const auto length = static_cast<double>(time.positions);
  for (const std::int64_t window : windows)
    for (std::int64_t frame = 0; frame < frames; ++frame) {
      const auto w = static_cast<double>(window), p = static_cast<double>(frame);
      const double seconds = (w * static_cast<double>(frames) + p) * time.frame_seconds;
      for (const double place : {w / length, 2 * std::numbers::pi * p / length})
        for (const double frequency : one) {
          const double angle = -2 * std::numbers::pi * seconds * place * frequency;
          cos.push_back(static_cast<float>(std::cos(angle)));
          sin.push_back(static_cast<float>(std::sin(angle)));
        }
    }
  RotaryFrequencies frequencies{.pairing = Pairing::adjacent, .inv_freq = one};
  frequencies.inv_freq.insert(frequencies.inv_freq.end(), one.begin(), one.end());
  const auto view = [&](const std::vector<float>& values) {
    return View<const float, 3>(
        values.data(), {static_cast<std::int64_t>(windows.size()),
                        static_cast<std::int64_t>(frames), static_cast<std::int64_t>(pairs)});
  };
  return RotaryTable(std::move(frequencies), view(cos), view(sin));
}

}  // namespace gnomon::rotary
