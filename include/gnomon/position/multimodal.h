// Positions of text, images and video for M-RoPE, on the axes time (t), height (h) and width
// (w).
//
// Text has the positions 0, 1, 2, ..., the same on all three axes. In an image or video that
// begins at position s, the token at frame f, row y and column x has the positions
//
//   t = s + frame clock(f)     h = s + y     w = s + x
//
// Tokens are in the order f, y, x. Rows and columns are counted after patches are merged. The
// text that follows starts at a position given by AfterVision. Sizes are in patches, as in
// Hugging Face's `image_grid_thw` and `video_grid_thw`.
//
//   Wang et al. "Qwen2-VL", 2024, https://arxiv.org/abs/2409.12191, section 2.1; Bai et al.
//   "Qwen2.5-VL Technical Report", 2025, https://arxiv.org/abs/2502.13923, section 2.1.3.
//
// Letters: B rows of the batch, T tokens of the longest row.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "gnomon/position/positions.h"

namespace gnomon {

// Parts of a row: text, image or video.
struct TextSpan {
  std::int64_t tokens = 0;
  bool operator==(const TextSpan&) const = default;
};
// Has (height / merge) (width / merge) tokens.
struct ImageSpan {
  std::int64_t height = 0, width = 0;  // patches; multiples of the rules' merge
  bool operator==(const ImageSpan&) const = default;
};
// Has frames (height / merge) (width / merge) tokens.
struct VideoSpan {
  std::int64_t frames = 0;             // temporal patches
  std::int64_t height = 0, width = 0;  // patches; multiples of the rules' merge
  double seconds_per_frame = 1;        // duration of a temporal patch: `second_per_grid_ts`
  bool operator==(const VideoSpan&) const = default;
};
using MultimodalSpan = std::variant<TextSpan, ImageSpan, VideoSpan>;
using MultimodalRow = std::vector<MultimodalSpan>;

// Time t of frame f of a video, relative to the start of the video.
enum class FrameClock {
  frames = 1,  // f
  // f * floor(seconds_per_frame) * tokens_per_second. Half a second becomes 0, so all frames
  // have the same time. Hugging Face's Qwen2.5-VL until September 2026.
  whole_seconds,
  // floor(f * seconds_per_frame * tokens_per_second). The intended rule of Qwen2.5-VL; Hugging
  // Face's since September 2026.
  seconds,
};

// First position of the text after an image or video that begins at s. The two rules agree for
// images, and for videos whose last time t is less than max(rows, columns).
enum class AfterVision {
  highest = 1,  // highest position of the image or video on any axis + 1: the paper, and
                // Hugging Face up to version 4
  sides,        // s + max(rows, columns): Hugging Face from version 5
};

// Rules by which a model assigns positions. A plain value.
struct MultimodalRules {
  std::int64_t merge = 0;  // patches of a side that become one token: `spatial_merge_size`
  FrameClock clock = {};
  AfterVision after = {};
  std::int64_t tokens_per_second = 1;  // at least 1; used by whole_seconds and seconds

  bool operator==(const MultimodalRules&) const = default;
};

// Qwen2-VL: merge 2, frames, highest.
MultimodalRules qwen2_vl_rules();
// Qwen2.5-VL: merge 2, highest. `tokens_per_second` is a field of the model's vision_config.
MultimodalRules qwen2_5_vl_rules(std::int64_t tokens_per_second,
                                 FrameClock clock = FrameClock::whole_seconds);
// Qwen3-VL: merge 2, frames, highest. Videos are given as frames with time stamps, see
// stamped_frames.
MultimodalRules qwen3_vl_rules();

// Returns a video as Qwen3-VL lists it: for each frame, the text of its time stamp and then the
// frame as an image. stamp_tokens: [frames], tokens of each stamp, including the marks around
// it. Throws std::invalid_argument unless there is one stamp per frame.
MultimodalRow stamped_frames(const VideoSpan& video,
                             std::span<const std::int64_t> stamp_tokens);

// Returns the number of tokens of a row. Throws as multimodal_positions.
std::int64_t tokens_of(const MultimodalRow& row, const MultimodalRules& rules);

// Side of a row on which padding is added.
enum class PaddingSide { left = 1, right };

// Positions of a batch on three axes. A plain value.
struct MultimodalPositions {
  std::array<Positions, 3> axes;     // t, h, w, each [B, T]; passed to RotaryTable
  std::vector<std::int64_t> next;    // [B]: highest position of the row + 1
  std::vector<std::int64_t> deltas;  // [B]: next - T; T includes padding. `rope_deltas` of
                                     // Hugging Face up to 4; from 5 on, without padding

  bool operator==(const MultimodalPositions&) const = default;
};

// Returns the positions of a batch. Rows are padded to the longest row. Padding has the
// sequence Positions::padding and the id `padding_id`, which no encoding reads (Hugging Face
// writes 1, and 0 from version 5 on). Cost: O(B T).
//
// Throws std::invalid_argument if a size is negative, an image or video has no patches or its
// height or width is not a multiple of `merge`, a duration is negative or not finite, a rule is
// not set, or a position exceeds 2^62.
MultimodalPositions multimodal_positions(std::span<const MultimodalRow> rows,
                                         const MultimodalRules& rules,
                                         PaddingSide side = PaddingSide::left,
                                         std::int64_t padding_id = 1);
MultimodalPositions multimodal_positions(const MultimodalRow& row,
                                         const MultimodalRules& rules);

// Returns the positions of `tokens` new text tokens per row, after the prompt and `generated`
// text tokens: next + generated, next + generated + 1, ... on all three axes. Throws
// std::invalid_argument if `tokens` or `generated` is negative, or a position exceeds 2^62.
std::array<Positions, 3> text_after(const MultimodalPositions& prompt, std::int64_t tokens,
                                    std::int64_t generated = 0);

}  // namespace gnomon
