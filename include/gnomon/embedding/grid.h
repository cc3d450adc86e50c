// Sinusoidal embeddings of grids: one sinusoidal table per axis, concatenated or summed. Vision
// models differ in the order of the axes and in the recipe of each axis. The presets follow
// released models.
//
//   concatenated  [ channels of axis a | channels of axis b | ... ]
//   summed        every axis fills all channels, and the axes are added
//
// Letters: N cells, A axes, C width.
//
// Naive version: tests/embedding/grid_test.cc, `mae_axis`, `detr_axis`.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gnomon/embedding/sinusoidal.h"
#include "gnomon/embedding/table.h"
#include "gnomon/position/positions.h"
#include "gnomon/tensor.h"
#include "gnomon/view.h"

namespace gnomon {

enum class AxisJoin { concatenated = 1, summed };

struct GridAxis {
  std::int64_t column = 0;  // column of the coordinates: for grid(height, width) 0 is y, 1 is x
  Sinusoidal sinusoidal;    // its width: the number of channels of this axis

  bool operator==(const GridAxis&) const = default;
};

struct SinusoidalGrid {
  AxisJoin join = {};
  std::vector<GridAxis> axes;  // in channel order; at least one
  std::int64_t kept = 0;       // keep only the first `kept` channels; 0: all
  // Extents of the grid, for tokens whose position is one number (`grid_table`), and the number
  // of tokens before the cells. These have rows of zeros, as the class token of MAE.
  std::vector<std::int64_t> grid = {};
  std::int64_t class_tokens = 0;

  bool operator==(const SinusoidalGrid&) const = default;
};

// MAE, and get_2d_sincos_pos_embed of diffusers: the first half of the channels encodes the
// column x, the second half the row y (their code calls the first half emb_h), each half_split.
// width: a multiple of 4. `fill` writes no row for a class token; MAE uses zeros, as
// `grid_table` does.
SinusoidalGrid grid_mae(std::int64_t width, double base = 10'000.0);
// DETR: y, then x, each interleaved, for the coordinates of detr.h. width: a multiple of 4.
SinusoidalGrid grid_detr(std::int64_t width, double temperature = 10'000.0);
// CogVideoX, for grid(frames, height, width): the first quarter of the channels encodes time,
// the rest follows grid_mae. width: a multiple of 16.
SinusoidalGrid grid_cogvideox(std::int64_t width);
// V-JEPA, for grid(frames, height, width): time, row, column, each half_split. `thirds`, as in
// the released models: 2 ceil(width / 6) channels per axis, of which the first `width` are
// kept; width is even. `half_time`: one half and two quarters; width is a multiple of 8.
enum class VideoShares { thirds = 1, half_time };
SinusoidalGrid grid_vjepa(std::int64_t width, VideoShares shares);

// Returns C, the number of channels that `fill` writes. Throws std::invalid_argument if there
// are no axes, axes to be summed have different dims, or `kept` exceeds the number of channels.
std::int64_t width(const SinusoidalGrid& spec);

// Fills out [N, C], any strides. Error bound of an entry as in sinusoidal.h. A sum of axes is
// computed in double and rounded once. Element types: float, double, Half, BFloat16.
void fill(const SinusoidalGrid& spec, const Grid& cells, const Tensor& out);
// Fills rows for continuous coordinates [N, A].
void fill(const SinusoidalGrid& spec, View<const double, 2> coordinates, const Tensor& out);

// Returns the number of positions that have a row in `grid_table`: class_tokens + the cells of
// `grid`.
std::int64_t capacity(const SinusoidalGrid& spec);

// Returns the plan, [T, C], for tokens whose position is one number: positions 0 to
// class_tokens - 1 have rows of zeros, the cells of `grid` follow in row-major order. Throws
// std::invalid_argument if `grid` is empty or a position is out of range.
EmbeddingTable lower(const SinusoidalGrid& spec, std::span<const std::int64_t> positions);

}  // namespace gnomon
