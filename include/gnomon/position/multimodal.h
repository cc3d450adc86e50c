// Positions of text, images and video on three axes, time, height and width, for M-RoPE.
//
// Text counts 0, 1, 2, ... on all three axes at once. An image or video that begins at position
// s gives its token at frame f, row y and column x
//
//   t = s + frame clock(f)     h = s + y     w = s + x
//
// in the order f, y, x, rows and columns counted after patches are merged; the text after it
// goes on behind it. Sizes are in patches, as `image_grid_thw` and `video_grid_thw` have them.
//
//   Wang et al. "Qwen2-VL", 2024, https://arxiv.org/abs/2409.12191, section 2.1; Bai et al.
//   "Qwen2.5-VL Technical Report", 2025, https://arxiv.org/abs/2502.13923, section 2.1.3.
//
// Letters: B rows of the batch, T tokens of the longest.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "gnomon/position/positions.h"

namespace gnomon {

struct TextSpan {
  std::int64_t tokens = 0;
  bool operator==(const TextSpan&) const = default;
};
// (height / merge) (width / merge) tokens.
struct ImageSpan {
  std::int64_t height = 0, width = 0;  // patches; multiples of the rules' merge
  bool operator==(const ImageSpan&) const = default;
};
// frames (height / merge) (width / merge) tokens.
struct VideoSpan {
  std::int64_t frames = 0;             // temporal patches
  std::int64_t height = 0, width = 0;  // patches; multiples of the rules' merge
  double seconds_per_frame = 1;        // of a temporal patch: `second_per_grid_ts`
  bool operator==(const VideoSpan&) const = default;
};
using MultimodalSpan = std::variant<TextSpan, ImageSpan, VideoSpan>;
using MultimodalRow = std::vector<MultimodalSpan>;

// The t of frame f of a video, counted from its start.
enum class FrameClock {
  frames = 1,  // f
  // f * (seconds_per_frame, its fraction cut off) * tokens_per_second: half a second is 0, so
  // all frames are at one time. Hugging Face's Qwen2.5-VL until September 2026.
  whole_seconds,
  // f * seconds_per_frame * tokens_per_second, then its fraction cut off. Qwen2.5-VL as meant,
  // and Hugging Face's since.
  seconds,
};

// Where text goes on after an image or video that begins at s.
enum class AfterVision {
  highest = 1,  // one behind the highest position of it on any axis: the paper, and
                // Hugging Face up to version 4
  sides,        // s + the larger of its rows and columns: Hugging Face from version 5; the same
                // for images, and for videos shorter than their sides
};

struct MultimodalRules {
  std::int64_t merge = 0;  // patches of a side that become one token: `spatial_merge_size`
  FrameClock clock = {};
  AfterVision after = {};
  std::int64_t tokens_per_second = 1;  // at least 1; read by the clocks in seconds

  bool operator==(const MultimodalRules&) const = default;
};

// Qwen2-VL: merge 2, frames, highest.
MultimodalRules qwen2_vl_rules();
// Qwen2.5-VL: merge 2, highest. `tokens_per_second` stands in its vision_config.
MultimodalRules qwen2_5_vl_rules(std::int64_t tokens_per_second,
                                 FrameClock clock = FrameClock::whole_seconds);
// Qwen3-VL: merge 2, frames, highest. Its videos are frames between time stamps: see
// stamped_frames.
MultimodalRules qwen3_vl_rules();

// A video as Qwen3-VL lists it: before each frame the text of its time stamp, and each frame an
// image of its own, with one t. stamp_tokens: [frames], tokens of each stamp with the marks
// around it. Throws when there is not one for each frame.
MultimodalRow stamped_frames(const VideoSpan& video,
                             std::span<const std::int64_t> stamp_tokens);

// Tokens of a row. Throws as multimodal_positions.
std::int64_t tokens_of(const MultimodalRow& row, const MultimodalRules& rules);

enum class PaddingSide { left = 1, right };

struct MultimodalPositions {
  std::array<Positions, 3> axes;     // t, h, w, [B, T] each; a table takes them as they are
  std::vector<std::int64_t> next;    // [B]: one behind the highest position of the row
  std::vector<std::int64_t> deltas;  // [B]: next - T, padding counted in T. `rope_deltas` of
                                     // Hugging Face up to 4; from 5 on padding is not counted

  bool operator==(const MultimodalPositions&) const = default;
};

// The positions of a batch, rows padded to the longest. Padding has sequence
// Positions::padding and the id `padding_id`, which nothing reads (Hugging Face writes 1, from
// version 5 on 0).
//
// Throws std::invalid_argument when a size is negative, an image or video has no patches or is
// no multiple of `merge`, a duration is negative or not finite, a rule is left out, or a
// position leaves 2^62.
MultimodalPositions multimodal_positions(std::span<const MultimodalRow> rows,
                                         const MultimodalRules& rules,
                                         PaddingSide side = PaddingSide::left,
                                         std::int64_t padding_id = 1);
MultimodalPositions multimodal_positions(const MultimodalRow& row,
                                         const MultimodalRules& rules);

// `tokens` new tokens of text in each row, after the prompt and `generated` more: next +
// generated, next + generated + 1, ... on all three axes.
std::array<Positions, 3> text_after(const MultimodalPositions& prompt, std::int64_t tokens,
                                    std::int64_t generated = 0);

}  // namespace gnomon
