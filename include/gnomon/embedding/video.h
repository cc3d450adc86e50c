// Sinusoidal embeddings of video tokens in one sequence: frame by frame, each frame in
// row-major order. The waves are computed by grid.h. This header selects the recipe of a model
// and maps a position to a cell.
//
//   cogvideox   time C/4, column 3C/8, row 3C/8    Yang et al. 2024, arXiv:2408.06072
//   vjepa       time, row, column, thirds          Bardes et al. 2024, arXiv:2404.08471
//   videomae    one interleaved sinusoid over all  Tong et al. 2022, arXiv:2203.12602
//
// Letters: T tokens, C width.
#pragma once

#include <cstdint>
#include <span>

#include "gnomon/embedding/table.h"

namespace gnomon {

enum class VideoRecipe { cogvideox = 1, vjepa, videomae };

struct SinusoidalVideo {
  VideoRecipe recipe = {};
  std::int64_t width = 0;  // C: a multiple of 16 (cogvideox), even (vjepa), any (videomae)
  std::int64_t grid_height = 0;  // rows of a frame, in tokens; at least 1
  std::int64_t grid_width = 0;   // columns of a frame, in tokens; at least 1

  bool operator==(const SinusoidalVideo&) const = default;
};

// Returns the plan for these positions, a table [T, C] for add_table. Position p is in frame p
// / (height width), at row p / width % height and column p % width. The number of frames is
// unlimited. Error bound of an entry as in sinusoidal.h.
//
// Throws std::invalid_argument, naming the field or the position, if a field is out of its
// bounds or a position is negative.
EmbeddingTable lower(const SinusoidalVideo& video, std::span<const std::int64_t> positions);

}  // namespace gnomon
