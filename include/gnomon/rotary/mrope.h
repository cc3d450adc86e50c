// Multimodal rotary (M-RoPE). A token has a position on three axes: time (t), height (h) and
// width (w). Each pair is rotated by its position on one axis. Text has the same position on
// all three axes and is therefore rotated as in plain rotary.
//
//   Wang et al. "Qwen2-VL: Enhancing Vision-Language Model's Perception of the World at Any
//   Resolution", 2024. https://arxiv.org/abs/2409.12191, section 2.1.
//
// Pair i is rotated by p[axis(i)] * inv_freq[i] radians. The index i continues across sections,
// so the axes share one decreasing list of frequencies. The positions are computed in
// gnomon/position/multimodal.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gnomon/rotary/rotary.h"

namespace gnomon {

// Assignment of axes to pairs. Axes: 0 t, 1 h, 2 w, 3 e. A section is a number of pairs;
// sections are in the order of `mrope_section` in the model's config.
enum class MRopeOrder {
  // t ... t h ... h w ... w. Sections (t, h, w). Qwen2-VL, Qwen2.5-VL, GLM-4.1V.
  sequential = 1,
  // t h w t h w ... t t: the h section takes pairs 1, 4, ..., the w section takes pairs 2, 5,
  // ..., and t takes all other pairs. Sections (t, h, w). Qwen3-VL, Qwen3.5.
  interleaved,
  // h w h w ... t t. Sections (h, w, t) with h = w, the order of ERNIE 4.5 VL's config.
  ernie,
  // ggml's IMROPE: as `interleaved`, but a pair of the pattern t h w t h w ... beyond the end
  // of its section gets axis e instead of t. Sections (t, h, w) or (t, h, w, e). With sections
  // 24 20 20 (Qwen3-VL), pairs 61 and 62 are rotated by e. Text with e = 0 is therefore not
  // rotated as in `interleaved`.
  ggml_interleaved,
};

// Returns the axis of each pair, [pairs]. sections: three numbers of pairs (ggml_interleaved:
// three or four), not negative, with the sum `pairs`. Cost: O(pairs).
//
// Throws std::invalid_argument if the sections violate these bounds or the rule of their order
// above, or if a section of `interleaved` has pairs beyond the last one.
std::vector<std::int32_t> mrope_axes(MRopeOrder order, std::span<const std::int64_t> sections,
                                     std::int64_t pairs);

// M-RoPE encoding. A plain value.
struct MRope {
  std::int64_t rotary_dim = 0;  // R, as in Rotary
  Pairing pairing = {};
  double base = 10'000.0;
  std::vector<std::int64_t> sections = {};  // see MRopeOrder; the sum is R / 2 pairs
  MRopeOrder order = {};

  bool operator==(const MRope&) const = default;
};

// Lowers the spec to rotary frequencies for three position axes (t, h, w), or four (t, h, w, e)
// for ggml_interleaved. Throws as inverse_frequencies and mrope_axes.
RotaryFrequencies lower(const MRope& mrope);

// Returns `frequencies` with its axes replaced by those of M-RoPE. Any frequencies are
// accepted, for example scaled ones. Throws as mrope_axes.
RotaryFrequencies with_mrope_axes(RotaryFrequencies frequencies, MRopeOrder order,
                                  std::span<const std::int64_t> sections);

}  // namespace gnomon
