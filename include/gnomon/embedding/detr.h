// Coordinates of DETR: the positions of the pixels of a padded image, counted over the real
// pixels only. With grid_detr (grid.h) they give the sinusoidal embedding of DETR.
//
//   Carion et al. "End-to-End Object Detection with Transformers", 2020.
//   https://arxiv.org/abs/2005.12872, as released; Zhu et al. "Deformable DETR", 2020,
//   https://arxiv.org/abs/2010.04159 (centred).
//
// n(i, j) is 1 for a real pixel and 0 for padding. y counts along the column of pixel (i, j), x
// along its row:
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

#include "gnomon/embedding/grid.h"
#include "gnomon/embedding/table.h"
#include "gnomon/view.h"

namespace gnomon {

enum class DetrScale {
  cells = 1,   // the counts 1, 2, ...
  normalised,  // the default of DETR and of most later detectors
  centred,     // the middle of a pixel: Deformable DETR and DINO
};

// Returns the coordinates y, x of every pixel, row-major, [H W, 2], from a mask [H, W] that is
// nonzero for real pixels. (The masks of DETR are true for padding.) Padded pixels have the
// count of the last real pixel before them, as in the released code.
//
// Throws std::invalid_argument if an extent is below 1 or `scale` is not a DetrScale.
std::vector<double> detr_coordinates(View<const std::uint8_t, 2> mask, DetrScale scale);
// Coordinates of an image without padding.
std::vector<double> detr_coordinates(std::int64_t height, std::int64_t width, DetrScale scale);

// Returns the embedding of a padded image, [H W, C]: `spec` at the coordinates of its pixels.
// DETR uses grid_detr: y in the first half of the channels, x in the second, each interleaved.
EmbeddingTable lower(const SinusoidalGrid& spec, View<const std::uint8_t, 2> mask,
                     DetrScale scale = DetrScale::normalised);

}  // namespace gnomon
