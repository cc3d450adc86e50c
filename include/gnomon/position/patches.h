// Positions of the patches of images and videos, in the patch order of released models. Grids
// in row-major order are in gnomon/position/positions.h.
//
// Every function of extents throws std::invalid_argument if an extent is less than 1 or there
// are 2^58 patches or more. Cost: O(patches).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gnomon/position/positions.h"
#include "gnomon/view.h"

namespace gnomon {

// Returns several grids one after another, as images packed into one sequence (Pixtral,
// Qwen-VL). No grids give no cells. Throws std::invalid_argument if the numbers of axes differ
// or a grid does not have cells x axes coordinates.
Grid concatenated(std::span<const Grid> grids);

// Returns the patches of the vision encoders of Qwen2-VL, 2.5-VL and 3-VL,
// [frames * height * width, 2], columns y, x. Patches that are merged into one token are
// contiguous: the order is row-major in (height / merge, width / merge, merge, merge). Every
// frame has the same coordinates. Throws std::invalid_argument if height or width is not a
// multiple of `merge`.
Grid merge_blocks(std::int64_t height, std::int64_t width, std::int64_t merge,
                  std::int64_t frames = 1);

// Returns the tokens of Llama 4's vision encoder, [side^2 + 1, 2], columns y, x. Patches are in
// row-major order with coordinates from 1. The class token is last, at 0, 0, so it is not
// rotated.
Grid llama4_patches(std::int64_t side);

// Returns the tokens of an image or a video in Qwen-Image, [frames * height * width, 3],
// columns t, y, x, row-major. y runs from -ceil(height / 2) to floor(height / 2) - 1, x
// likewise. t counts from `index`, the index of the image in its sequence.
Grid centred_grid(std::int64_t frames, std::int64_t height, std::int64_t width,
                  std::int64_t index = 0);
// Returns the first position of Qwen-Image's text, the same on all three axes, for an image of
// this size: the larger of floor(height / 2) and floor(width / 2). With several images, use the
// maximum of the results.
std::int64_t centred_text_start(std::int64_t height, std::int64_t width);

// Continuous coordinates of cells. RotaryTable accepts view(). A plain value.
struct Coordinates {
  std::int64_t cells = 0, axes = 0;
  std::vector<double> values;  // [cells, axes]

  View<const double, 2> view() const noexcept { return {values.data(), {cells, axes}}; }
  bool operator==(const Coordinates&) const = default;
};

// Returns the tokens of DINOv3, [prefix + height * width, 2], columns y, x. The first `prefix`
// tokens (class and register) are at 0, 0, so they are not rotated. The patch centres follow in
// row-major order. The image extends from -1 to 1 on both axes: y = 2 (row + 0.5) / height - 1.
// Throws std::invalid_argument if `prefix` is negative.
Coordinates patch_centres(std::int64_t height, std::int64_t width, std::int64_t prefix = 0);

// Rectangle of the grid that a model was trained on, in cells of this grid.
struct Crop {
  double top = 0, left = 0, bottom = 0, right = 0;
};
// Returns the coordinates of a grid stretched over a crop, as in diffusers for HunyuanDiT and
// CogVideoX. y has `height` values in equal steps from `top` to bottom (height - 1) / height
// (only `top` if height is 1); x likewise. Shape [height * width, 2], columns y, x, row-major.
// With frames: [frames * height * width, 3], columns t, y, x, with t = 0, 1, 2, .... Throws
// std::invalid_argument if the crop is not finite.
Coordinates crop_cells(std::int64_t height, std::int64_t width, const Crop& crop);
Coordinates crop_cells(std::int64_t frames, std::int64_t height, std::int64_t width,
                       const Crop& crop);

}  // namespace gnomon
