// Where the patches of images and videos stand, in the order in which released models list
// them. Grids in row-major order are in gnomon/position/positions.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gnomon/position/positions.h"
#include "gnomon/view.h"

namespace gnomon {

// Several grids of as many axes one after another, as images packed into one sequence (Pixtral,
// Qwen-VL). Throws std::invalid_argument when their axes differ or their count of coordinates
// is not cells x axes. No grids: no cells.
Grid concatenated(std::span<const Grid> grids);

// The patches of Qwen2-VL, 2.5-VL and 3-VL's vision encoders, [frames * height * width, 2],
// columns y, x: the patches that are merged into one token lie together, so the order is that
// of (height / merge, width / merge, merge, merge). Every frame has the same coordinates.
// Throws when an extent is below 1 or `merge` divides height or width not.
Grid merge_blocks(std::int64_t height, std::int64_t width, std::int64_t merge,
                  std::int64_t frames = 1);

// The tokens of Llama 4's vision encoder, [side^2 + 1, 2], columns y, x: patches in row-major
// order count from 1, and the class token, which is last, is at 0, 0 and so is not turned.
Grid llama4_patches(std::int64_t side);

// The tokens of an image or a video in Qwen-Image, [frames * height * width, 3], columns t, y,
// x, row-major: y runs from -ceil(height / 2) to floor(height / 2) - 1, x likewise, and t
// counts from `index`, the number of the image among those of one sequence.
Grid centred_grid(std::int64_t frames, std::int64_t height, std::int64_t width,
                  std::int64_t index = 0);
// Where the text of Qwen-Image begins, on all three axes, beside an image of this size: the
// larger of floor(height / 2) and floor(width / 2). Of several images, the largest counts.
std::int64_t centred_text_start(std::int64_t height, std::int64_t width);

// Continuous coordinates of cells; a rotary table takes view(). A plain value.
struct Coordinates {
  std::int64_t cells = 0, axes = 0;
  std::vector<double> values;  // [cells, axes]

  View<const double, 2> view() const noexcept { return {values.data(), {cells, axes}}; }
  bool operator==(const Coordinates&) const = default;
};

// The tokens of DINOv3, [prefix + height * width, 2], columns y, x: first `prefix` tokens
// (class and register) at 0, 0, which are not turned, then the centres of the patches in
// row-major order, the image reaching from -1 to 1: 2 (row + 0.5) / height - 1. Throws when an
// extent is below 1 or `prefix` is negative.
Coordinates patch_centres(std::int64_t height, std::int64_t width, std::int64_t prefix = 0);

// A rectangle of the grid a model was trained on, in its cells.
struct Crop {
  double top = 0, left = 0, bottom = 0, right = 0;
};
// The cells of a grid laid over a crop, as diffusers does for HunyuanDiT and CogVideoX:
// `height` numbers from `top` to bottom (height - 1) / height in equal steps (`top` alone where
// height is 1), and widths likewise. [height * width, 2], columns y, x; with frames, which
// count 0, 1, 2,
// ..., [..., 3], columns t, y, x; row-major. Throws when an extent is below 1 or the crop is
// not finite.
Coordinates crop_cells(std::int64_t height, std::int64_t width, const Crop& crop);
Coordinates crop_cells(std::int64_t frames, std::int64_t height, std::int64_t width,
                       const Crop& crop);

}  // namespace gnomon
