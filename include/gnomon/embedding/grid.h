// Sinusoidal embeddings of grids: one sinusoidal table for each axis, joined. Vision models
// differ in which axis comes first and in the recipe of each; the presets are theirs.
//
//   concatenated  [ channels of axis a | channels of axis b | ... ]
//   summed        every axis fills all channels, and they are added
//
// Letters: N cells, A axes, C channels.
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
  std::int64_t column = 0;  // of the coordinates: for grid(height, width) 0 is y, 1 is x
  Sinusoidal sinusoidal;    // its dim: the channels that this axis gets

  bool operator==(const GridAxis&) const = default;
};

struct SinusoidalGrid {
  AxisJoin join = {};
  std::vector<GridAxis> axes;  // in the order of their channels; at least one
  std::int64_t kept = 0;       // of the channels, the first; 0: all
  // Extents of the grid, for tokens whose position is one number (`grid_table`), and the tokens
  // before the cells, whose rows are zeros: MAE's class token.
  std::vector<std::int64_t> grid = {};
  std::int64_t class_tokens = 0;

  bool operator==(const SinusoidalGrid&) const = default;
};

// MAE, and diffusers' get_2d_sincos_pos_embed: the first half of the channels is the column x,
// the second the row y (their code calls the first emb_h), each half_split. dim: a multiple
// of 4. A class token's row is zeros, and the caller's.
SinusoidalGrid grid_mae(std::int64_t dim, double base = 10'000.0);
// DETR: y, then x, each interleaved, to be filled at the coordinates of detr.h. dim: a multiple
// of 4.
SinusoidalGrid grid_detr(std::int64_t dim, double temperature = 10'000.0);
// CogVideoX, for grid(frames, height, width): a quarter of the channels is time, the rest MAE's
// order. dim: a multiple of 16.
SinusoidalGrid grid_cogvideox(std::int64_t dim);
// V-JEPA, for grid(frames, height, width): time, row, column, each half_split. `thirds`, as its
// released models: 2 ceil(dim / 6) channels each, of which the first `dim` are kept (an even
// dim). `half_time`: a half and two quarters (a multiple of 8).
enum class VideoShares { thirds = 1, half_time };
SinusoidalGrid grid_vjepa(std::int64_t dim, VideoShares shares);

// C: the channels that `fill` writes. Throws std::invalid_argument when the spec breaks a rule:
// no axes, axes of different dims that are to be summed, or more to keep than there is.
std::int64_t dim(const SinusoidalGrid& spec);

// Fills out [N, C], any strides. Each entry as in sinusoidal.h; summed, the sum is formed in
// double and rounded once. Element types: float, double, Half, BFloat16.
void fill(const SinusoidalGrid& spec, const Grid& cells, const Tensor& out);
// At continuous coordinates [N, A].
void fill(const SinusoidalGrid& spec, View<const double, 2> coordinates, const Tensor& out);

// Positions that have a row in `grid_table`: class_tokens, then the cells of `grid`.
std::int64_t capacity(const SinusoidalGrid& spec);

// The plan for tokens whose position is one number, [T, C]: 0 to class_tokens - 1 have rows of
// zeros, then come the cells of `grid`, row by row. Throws when `grid` is empty or a position
// is outside.
EmbeddingTable grid_table(const SinusoidalGrid& spec, std::span<const std::int64_t> positions);

}  // namespace gnomon
