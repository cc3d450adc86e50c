// Learned tables for lengths and grids other than those they were trained for: the rows are
// read as samples of a function and resampled.
//
// Frameworks resample in ways that differ at every cell, and released models each took one.
// The numbers are those of PyTorch's interpolate (double sums here, one rounding); which model
// takes which: the presets.
//
// Letters: N rows of the table, C channels.
#pragma once

#include <cstdint>

#include "gnomon/view.h"

namespace gnomon {

enum class ResizeKernel {
  linear = 1,  // linear along each axis: bilinear on a grid
  cubic,       // Keys' cubic convolution, a = -0.75; a = -0.5 with antialias
};
enum class ResizeCorners {
  half_pixel = 1,  // cells have extents: align_corners=False
  aligned,         // first and last samples stay where they are: align_corners=True
};
enum class Antialias {
  off = 1,
  on,  // when shrinking, the kernel widens to cover every sample; half_pixel only
};

struct TableResize {
  ResizeKernel kernel = {};
  ResizeCorners corners = {};
  Antialias antialias = Antialias::off;
  // Rows before the grid (class and register tokens), copied as they are; not negative.
  std::int64_t extra_rows = 0;
  // Added to the new height and width where the scale is formed: the original DINOv2 passes
  // scale_factor = (size + 0.1) / old. 0 for all others.
  double size_offset = 0;

  bool operator==(const TableResize&) const = default;
};

// Wav2vec-like and BEiT's 1-D tables: linear, half-pixel.
TableResize resize_linear();
// ViT, DeiT, CLIP, and DINOv2 as Hugging Face has it: bicubic, half-pixel, one class token.
// GLM-4V's grid_sample (bicubic, border) gives the same numbers without a class token.
TableResize resize_vit(std::int64_t extra_rows = 1);
// DINOv2's original repository.
TableResize resize_dinov2_original(std::int64_t extra_rows = 1);
// DINOv2 with registers, as Hugging Face has it: the antialiased bicubic.
TableResize resize_dinov2_registers(std::int64_t extra_rows = 1);
// SigLIP 2: bilinear, antialiased.
TableResize resize_siglip2();
// Qwen3-VL: bilinear, aligned corners.
TableResize resize_qwen3_vl();

// A grid's height and width, in cells.
struct GridSize {
  std::int64_t height = 0, width = 0;
  bool operator==(const GridSize&) const = default;
};

// table: [extra_rows + from.height from.width, C], out: [extra_rows + to.height to.width, C],
// any strides; they must not overlap. Sums in double, one rounding: within half an ulp + 2^-46
// of the largest entry (for double: within 2^-46 of it). O(cells of out x C).
//
// Throws std::invalid_argument when a size is below 1, shapes do not fit, or antialias is asked
// for with aligned corners.
void resize_table(const TableResize& resize, View<const float, 2> table, GridSize from,
                  View<float, 2> out, GridSize to);
// One axis: [extra_rows + from, C] to [extra_rows + to, C].
void resize_table(const TableResize& resize, View<const float, 2> table, View<float, 2> out);
// The same in double, for tables of f64, and for those of f16 and bf16 that are rounded once.
void resize_table(const TableResize& resize, View<const double, 2> table, GridSize from,
                  View<double, 2> out, GridSize to);
void resize_table(const TableResize& resize, View<const double, 2> table, View<double, 2> out);

}  // namespace gnomon
