// MusicFlamingo's rotation of audio by seconds: the hidden states after the audio encoder are
// rotated, before they are projected to the language model.
//
//   angle = -2 pi s w / L inv_freq[i]            pairs 0 to R/2 - 1, by the window w
//   angle = -2 pi s 2 pi p / L inv_freq[i]       pairs R/2 to R - 1, by its frame p
//   s = (w T + p) frame_seconds                  inv_freq[i] = base^(-2i/R)
//
// The seconds s multiply an angle that grows with the window or the frame already, so angles
// grow with the square of the time. Pairs are adjacent. Source: MusicFlamingo of transformers;
// after Goel et al. 2024, "OMCAT", https://arxiv.org/abs/2410.12109.
//
// Letters: B windows, T frames of a window, R elements of one axis; 2R elements rotate.
#pragma once

#include <cstdint>
#include <span>

#include "gnomon/rotary/rotary.h"

namespace gnomon::rotary {

// A plain value.
struct MusicFlamingo {
  std::int64_t rotary_dim = 0;  // R; even, at least 2
  double base = 10'000;         // greater than 1
  std::int64_t positions = 0;   // L, `max_position_embeddings`; at least 1
  double frame_seconds = 0.04;  // 4 x `audio_frame_step`; finite and positive

  bool operator==(const MusicFlamingo&) const = default;
};

// Returns the table [B, T, R] of all windows. `windows`: [B], the number of each window in its
// recording, not negative. Apply it with rotate(x [B, T, 1, C], table).
//
// Error bound: each cos and sin is within half an ulp + 2^-46 + 2^-50 |angle| of the exact one
// (transformers computes angles in float, with errors of 2^-23 |angle|). Cost: O(B T R).
//
// Throws std::invalid_argument if a field violates the bound stated next to it, `frames` is not
// 1 to 2^31, or a window is negative or more than 2^31.
RotaryTable lower(const MusicFlamingo& time, std::span<const std::int64_t> windows,
                  std::int64_t frames);

}  // namespace gnomon::rotary
