// Axial rotary: tokens on a grid have a position on each axis, and each axis turns pairs of its
// own. Images (y, x), videos (t, y, x).
//
// A spec lists, in the order of the pairs, which axis turns how many elements, and by which
// frequencies. Released models differ in all of it, so each has its preset below. An axis is a
// column of a grid or of coordinates, or the number of a Positions in a list:
// grid(height, width) has 0 = y, 1 = x; grid(frames, height, width) has 0 = t, 1 = y, 2 = x.
//
// Letters: D head size, base `rope_theta`.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "gnomon/rotary/rotary.h"

namespace gnomon {

// The pairs of one axis.
struct AxialPart {
  std::int32_t axis = 0;
  std::int64_t dim = 0;               // elements, even, at least 2
  std::vector<double> inv_freq = {};  // [dim / 2]; empty: base^(-2j/dim) for its own dim

  bool operator==(const AxialPart&) const = default;
};

enum class AxialOrder {
  blocks = 1,   // all pairs of the first part, then all of the second, ...
  interleaved,  // one pair of each part in turn; all parts of one size
};

struct AxialRotary {
  std::vector<AxialPart> parts = {};  // in the order of the pairs; R is the sum of their dims
  Pairing pairing = {};
  AxialOrder order = {};
  double base = 10'000.0;  // greater than 1
  std::int64_t first = 0;  // as in Rotary
  // Extents of the grid, for tokens whose position is one number: the cell, row by row. Empty:
  // tokens have a position on every axis. The schedule does not depend on it.
  std::vector<std::int64_t> grid = {};

  bool operator==(const AxialRotary&) const = default;
};

// Throws std::invalid_argument, naming the field and its value, when the spec breaks the bounds
// beside its fields or an axis is negative.
RotarySchedule schedule(const AxialRotary& axial);

// Parts of these dims on axes 0, 1, 2, ..., in blocks. Flux: {16, 56, 56} of (image, y, x).
AxialRotary axial(std::vector<std::int64_t> dims, Pairing pairing, double base = 10'000.0);

// ---- Images. Positions are columns y, x. Each throws as `schedule` when 4 does not divide D.

// [y D/2 | x D/2], halves. Of the frequencies f_i = base^(-2i/D), y has the even i and x the
// odd.
AxialRotary pixtral_vision(std::int64_t head_size, double base = 10'000.0);
// [y D/2 | x D/2], halves, base^(-4j/D) on both. Qwen2-VL, 2.5-VL and 3-VL; their patches stand
// in the order of merge_blocks.
AxialRotary qwen_vl_vision(std::int64_t head_size, double base = 10'000.0);
// [x D/2 | y D/2], adjacent, base^(-4j/D) on both. Positions: llama4_patches.
AxialRotary llama4_vision(std::int64_t head_size, double base = 10'000.0);
// [y D/2 | x D/2], halves, 2 pi base^(-4j/D) on both. Coordinates: patch_centres.
AxialRotary dinov3_vision(std::int64_t head_size, double base = 100.0);
// [x D/2 | y D/2], adjacent, base^(-4j/D) on both. SAM 2's memory attention, EdgeTAM.
AxialRotary sam2_memory(std::int64_t head_size, double base = 10'000.0);
// Two schedules, for two rotations of each query and key: x turns the first D/2 elements and y
// the others, each as halves of their own, base^(-4j/D) on both.
std::array<RotarySchedule, 2> gemma4_vision(std::int64_t head_size, double base = 100.0);
// [x D/2 | y D/2], adjacent, base^(-4j/D) on both. Coordinates: crop_cells.
AxialRotary hunyuan_dit(std::int64_t head_size, double base = 10'000.0);
// y and x in turn, pair by pair, adjacent, base^(-4j/D) on both. Lumina-Next.
AxialRotary lumina(std::int64_t head_size, double base = 10'000.0);

// ---- Videos. Positions are columns t, y, x. All adjacent.

// [t 16 | y 56 | x 56]: axis 0 is 0, or the number of an image; text is at 0, 0, 0.
AxialRotary flux(double base = 10'000.0);
// The same. Positions: centred_grid, and text from centred_text_start on all three axes.
AxialRotary qwen_image(double base = 10'000.0);
// [t D - 4 k | y 2 k | x 2 k] with k = D / 6 rounded down.
AxialRotary wan(std::int64_t head_size, double base = 10'000.0);
// [t D/4 | y 3D/8 | x 3D/8]. Positions: crop_cells (1.0), grid (1.5). D a multiple of 16.
AxialRotary cogvideox(std::int64_t head_size, double base = 10'000.0);

}  // namespace gnomon
