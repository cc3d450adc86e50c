// Axial rotary, for tokens on a grid: images (y, x) and videos (t, y, x). Each token has one
// position per axis, and each pair is rotated by its position on one axis.
//
// The spec lists the parts of a head in the order of the pairs: the axis, the number of
// elements and the frequencies of each part. Released models differ in all of these, so each
// has a preset below. The axis is the index of a column of a grid or of coordinates, or the
// index of a Positions in a list. grid(height, width) has axes 0 = y, 1 = x;
// grid(frames, height, width) has axes 0 = t, 1 = y, 2 = x.
//
// Letters: D head dimension, R rotary dimension, base `rope_theta`.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "gnomon/rotary/rotary.h"

namespace gnomon {

// Part of a head: consecutive pairs rotated by one axis.
struct AxialPart {
  std::int32_t axis = 0;              // not negative
  std::int64_t rotary_dim = 0;        // elements, even, at least 2
  std::vector<double> inv_freq = {};  // [n / 2], n = rotary_dim; empty: base^(-2j/n)

  bool operator==(const AxialPart&) const = default;
};

// Order of the pairs.
enum class AxialOrder {
  blocks = 1,   // all pairs of the first part, then all pairs of the second part, ...
  interleaved,  // one pair of each part, repeated; all parts have the same rotary_dim
};

// Axial rotary encoding. A plain value.
struct AxialRotary {
  std::vector<AxialPart> parts = {};  // in the order of the pairs; R is the sum of the dims
  Pairing pairing = {};
  AxialOrder order = {};
  double base = 10'000.0;        // greater than 1
  std::int64_t head_offset = 0;  // as in Rotary
  // Extents of the grid, used if a token's position is one number, the index of its cell in
  // row-major order. Empty: tokens have a position on every axis. The frequencies do not depend
  // on `grid`.
  std::vector<std::int64_t> grid = {};

  bool operator==(const AxialRotary&) const = default;
};

// Lowers the spec to rotary frequencies. Throws std::invalid_argument if a field violates the
// bound stated next to it; the message names the field and its value.
RotaryFrequencies lower(const AxialRotary& axial);

namespace rotary {

// Returns parts of the given dims on axes 0, 1, 2, ..., in blocks. Flux: dims {16, 56, 56} on
// axes (image, y, x).
AxialRotary axial(std::vector<std::int64_t> rotary_dims, Pairing pairing,
                  double base = 10'000.0);

// ---- Image models. Position columns: y, x. Each preset throws std::invalid_argument if D is
// not a multiple of 4. "[y D/2 | x D/2]": y rotates the first D/4 pairs (D/2 elements), x the
// next D/4 pairs.

// Pixtral. [y D/2 | x D/2], halves. Frequencies f_i = base^(-2i/D): even i for y, odd i for x.
AxialRotary pixtral_vision(std::int64_t head_dim, double base = 10'000.0);
// Qwen2-VL, 2.5-VL and 3-VL. [y D/2 | x D/2], halves, base^(-4j/D) on both axes. Order of the
// patches: merge_blocks.
AxialRotary qwen_vl_vision(std::int64_t head_dim, double base = 10'000.0);
// Llama 4. [x D/2 | y D/2], adjacent, base^(-4j/D) on both axes. Positions: llama4_patches.
AxialRotary llama4_vision(std::int64_t head_dim, double base = 10'000.0);
// DINOv3. [y D/2 | x D/2], halves, 2 pi base^(-4j/D) on both axes. Coordinates: patch_centres.
AxialRotary dinov3_vision(std::int64_t head_dim, double base = 100.0);
// Memory attention of SAM 2, EdgeTAM. [x D/2 | y D/2], adjacent, base^(-4j/D) on both axes.
AxialRotary sam2_memory(std::int64_t head_dim, double base = 10'000.0);
// Gemma 4. Two sets of frequencies, to be applied one after the other to each query and key. x
// rotates the first D/2 elements of the head and y the last D/2, each as halves within its D/2
// elements, base^(-4j/D) on both axes.
std::array<RotaryFrequencies, 2> gemma4_vision(std::int64_t head_dim, double base = 100.0);
// HunyuanDiT. [x D/2 | y D/2], adjacent, base^(-4j/D) on both axes. Coordinates: crop_cells.
AxialRotary hunyuan_dit(std::int64_t head_dim, double base = 10'000.0);
// Lumina-Next. Pairs alternate y, x, y, x, ...; adjacent, base^(-4j/D) on both axes.
AxialRotary lumina(std::int64_t head_dim, double base = 10'000.0);

// ---- Video models. Position columns: t, y, x. All adjacent.

// Flux. [t 16 | y 56 | x 56]. t is 0 or the index of an image; text is at 0, 0, 0.
AxialRotary flux(double base = 10'000.0);
// Qwen-Image. [t 16 | y 56 | x 56]. Positions: centred_grid for images; text counts from
// centred_text_start on all three axes.
AxialRotary qwen_image(double base = 10'000.0);
// Wan. [t D - 4k | y 2k | x 2k] with k = floor(D / 6). Throws std::invalid_argument if D is odd
// or less than 6.
AxialRotary wan(std::int64_t head_dim, double base = 10'000.0);
// CogVideoX. [t D/4 | y 3D/8 | x 3D/8]. Positions: crop_cells (1.0), grid (1.5). Throws
// std::invalid_argument if D is not a multiple of 16.
AxialRotary cogvideox(std::int64_t head_dim, double base = 10'000.0);

}  // namespace rotary
}  // namespace gnomon
