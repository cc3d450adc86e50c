// Multimodal rotary (M-RoPE): a token has a position on three axes, time, height and width, and
// every pair turns by one of them. Text has the same position on all three, and so turns as
// plain rotary does.
//
//   Wang et al. "Qwen2-VL: Enhancing Vision-Language Model's Perception of the World at Any
//   Resolution", 2024. https://arxiv.org/abs/2409.12191, section 2.1.
//
// Pair i turns by p[axis(i)] * inv_freq[i]: the index i runs on from section to section, so the
// axes share one fall of frequencies. Positions on the axes: gnomon/position/multimodal.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gnomon/rotary/rotary.h"

namespace gnomon {

// Which axis turns pair i. Axes: 0 t, 1 h, 2 w, 3 e. Sections as the model's config lists them
// in `mrope_section`, in pairs.
enum class MRopeOrder {
  // t ... t h ... h w ... w. Sections (t, h, w). Qwen2-VL, Qwen2.5-VL, GLM-4.1V.
  sequential = 1,
  // t h w t h w ... t t: h at pairs 1, 4, ... and w at 2, 5, ..., as many as their sections
  // say;
  // all others t. Sections (t, h, w). Qwen3-VL, Qwen3.5.
  interleaved,
  // h w h w ... t t. Sections (h, w, t) with h = w: ERNIE 4.5 VL lists them so.
  ernie,
  // ggml's IMROPE: as `interleaved`, but where the pattern has run out of its section the axis
  // is e, not t. Sections (t, h, w) or (t, h, w, e). With Qwen3-VL's 24 20 20 pairs 61 and 62
  // turn by e, and text that has e = 0 turns otherwise than in `interleaved`.
  ggml_interleaved,
};

// The axis of each pair, [pairs]. sections: three, none negative, pairs in sum.
//
// Throws std::invalid_argument when sections break this or their order's rule above, or when a
// section of `interleaved` ends after the last pair.
std::vector<std::int32_t> mrope_axes(MRopeOrder order, std::span<const std::int64_t> sections,
                                     std::int64_t pairs);

struct MRope {
  std::int64_t dim = 0;  // R, as in Rotary
  Pairing pairing = {};
  double base = 10'000.0;
  std::vector<std::int64_t> sections = {};  // as the order lists them; R / 2 pairs in sum
  MRopeOrder order = {};

  bool operator==(const MRope&) const = default;
};

// The schedule, for a table of three axes (t, h, w); with ggml_interleaved four.
// Throws as inverse_frequencies and mrope_axes.
RotarySchedule schedule(const MRope& mrope);

// A schedule of any frequencies (scaled ones, say) over the axes of M-RoPE. Its own axes are
// replaced. Throws as mrope_axes.
RotarySchedule with_mrope_axes(RotarySchedule schedule, MRopeOrder order,
                               std::span<const std::int64_t> sections);

}  // namespace gnomon
