// DETR's coordinates: where the pixels of a padded image stand, counted along the pixels that
// are real. With grid_detr (grid.h) they make DETR's sinusoidal embedding.
//
//   Carion et al. "End-to-End Object Detection with Transformers", 2020.
//   https://arxiv.org/abs/2005.12872, as released; Zhu et al. "Deformable DETR", 2020,
//   https://arxiv.org/abs/2010.04159 (centred).
//
// For real pixels n(i, j) = 1, padding 0, in the column and the row of pixel (i, j):
//
//   y = n(0, j) + ... + n(i, j)         x = n(i, 0) + ... + n(i, j)
//   cells        y                      x
//   normalised   2 pi y / (y_last + 1e-6)           likewise
//   centred      2 pi (y - 0.5) / (y_last + 1e-6)   likewise
//
// Letters: H rows, W columns.
#pragma once

#include <cstdint>
#include <vector>

#include "gnomon/embedding/table.h"
#include "gnomon/view.h"

namespace gnomon {

enum class DetrScale {
  cells = 1,   // 1, 2, ... as counted
  normalised,  // DETR's default, and that of most detectors after it
  centred,     // Deformable DETR and DINO: the middle of a pixel
};

// The coordinates y, x of every pixel, row-major, [H W, 2], from a mask [H, W] that is nonzero
// where a pixel is real (DETR's own masks are true on padding). Padded pixels get what the
// released code gives them: the count so far, which is that of the last real pixel before them.
//
// Throws std::invalid_argument when an extent is below 1 or `scale` is none of these.
std::vector<double> detr_coordinates(View<const std::uint8_t, 2> mask, DetrScale scale);
// Of an image without padding.
std::vector<double> detr_coordinates(std::int64_t height, std::int64_t width, DetrScale scale);

// The embedding of a padded image, [H W, dim]: y in the first half of the channels, x in the
// second, each interleaved. dim: a multiple of 4.
EmbeddingTable detr_table(View<const std::uint8_t, 2> mask, std::int64_t dim,
                          DetrScale scale = DetrScale::normalised,
                          double temperature = 10'000.0);

}  // namespace gnomon
