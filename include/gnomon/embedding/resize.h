// Resizing of learned tables to another length or grid: the rows are samples of a function,
// which is resampled.
//
// Frameworks resample in different ways, with different results in every cell, and each
// released model uses one of them. The results equal those of PyTorch's interpolate (sums in
// double here, one rounding). The presets name the models that use each way.
//
// Letters: N rows of the table, C width.
//
// Naive version: tests/embedding/resize_test.cc, `weights`.
#pragma once

#include <cstdint>

#include "gnomon/view.h"

namespace gnomon {

enum class ResizeKernel {
  linear = 1,  // linear along each axis: bilinear on a grid
  cubic,       // cubic convolution of Keys, a = -0.75; a = -0.5 with antialias
};
enum class ResizeCorners {
  half_pixel = 1,  // samples are centres of cells: align_corners=False
  aligned,         // the first and last samples keep their places: align_corners=True
};
enum class Antialias {
  off = 1,
  on,  // if the table shrinks, the kernel widens to cover every sample; half_pixel only
};

struct TableResize {
  ResizeKernel kernel = {};
  ResizeCorners corners = {};
  Antialias antialias = Antialias::off;
  // Rows before the grid (class and register tokens), copied unchanged; at least 0.
  std::int64_t extra_rows = 0;
  // Added to the new height and width when the scale is computed: the original DINOv2 passes
  // scale_factor = (size + 0.1) / old. All other models use 0.
  double size_offset = 0;

  bool operator==(const TableResize&) const = default;
};

// One-dimensional tables like those of Wav2vec and BEiT: linear, half-pixel.
TableResize resize_linear();
// ViT, DeiT, CLIP, and DINOv2 in Hugging Face: bicubic, half-pixel, one class token.
// grid_sample in GLM-4V (bicubic, border) gives the same values without a class token.
TableResize resize_vit(std::int64_t extra_rows = 1);
// The original repository of DINOv2.
TableResize resize_dinov2_original(std::int64_t extra_rows = 1);
// DINOv2 with registers in Hugging Face: antialiased bicubic.
TableResize resize_dinov2_registers(std::int64_t extra_rows = 1);
// SigLIP 2: bilinear, antialiased.
TableResize resize_siglip2();
// Qwen3-VL: bilinear, aligned corners.
TableResize resize_qwen3_vl();

// Height and width of a grid, in cells.
struct GridSize {
  std::int64_t height = 0, width = 0;
  bool operator==(const GridSize&) const = default;
};

// Shapes: table [extra_rows + from.height from.width, C], out
// [extra_rows + to.height to.width, C], any strides. The two must not overlap. Sums run in
// double and are rounded once. Error bound: half an ulp + 2^-46 of the largest entry (for
// double: 2^-46 of it). Cost: O(cells of out x C).
//
// Throws std::invalid_argument if a size is below 1, shapes do not match, or antialias is
// combined with aligned corners.
void resize_table(const TableResize& resize, View<const float, 2> table, GridSize from,
                  View<float, 2> out, GridSize to);
// One axis: [extra_rows + from, C] to [extra_rows + to, C].
void resize_table(const TableResize& resize, View<const float, 2> table, View<float, 2> out);
// Computes in double, for f64 tables, and f16 and bf16 tables that the caller rounds once.
void resize_table(const TableResize& resize, View<const double, 2> table, GridSize from,
                  View<double, 2> out, GridSize to);
void resize_table(const TableResize& resize, View<const double, 2> table, View<double, 2> out);

}  // namespace gnomon
