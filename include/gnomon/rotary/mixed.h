// Mixed 2-D rotary: each head has trained frequencies on both axes, whose angles are added.
//
//   Heo et al. "Rotary Position Embedding for Vision Transformer", ECCV 2024.
//   https://arxiv.org/abs/2403.13298; initial values as `init_random_2d_freqs` of timm 1.0.31.
//
//   u[h, i] = x fx[h, i] + y fy[h, i]
//   initially, for i < R/4 and a random phi of the head:
//     (fx, fy)[h, i]       = base^(-4i/R) (cos phi, sin phi)
//     (fx, fy)[h, i + R/4] = base^(-4i/R) (cos(phi + pi/2), sin(phi + pi/2))
//
// In axial rotary a pair has one axis; here it has a direction.
//
// Letters: H heads, R rotary dimension.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gnomon/rotary/head_angles.h"
#include "gnomon/rotary/rotary.h"
#include "gnomon/view.h"

namespace gnomon {

// A plain value.
struct RotaryMixed {
  std::int64_t heads = 0;        // H; divides the query heads and the key heads; at least 1
  std::int64_t rotary_dim = 0;   // R; a multiple of 4, at least 4
  Pairing pairing = {};          // timm: adjacent
  double base = 10.0;            // `temperature` of timm; greater than 1
  std::int64_t head_offset = 0;  // first rotated element of the head; not negative
  std::int64_t seed = 0;         // of the initial directions
  // Height and width of the grid, used if a token's position is one number, the index of its
  // cell in row-major order. Empty: tokens have positions on the axes y, x, or one for both.
  std::vector<std::int64_t> grid = {};

  bool operator==(const RotaryMixed&) const = default;
};

// Matrices of the frequencies or of their gradient, [H, R/2] each. timm's `freqs` [2, depth, H,
// R/2] holds x first.
template <typename T>
struct MixedFrequencies {
  View<T, 2> x, y;
};

// Returns the initial frequencies, fx then fy, [2, H, R/2]. The directions are uniform numbers
// of the seed, the same on all machines. Throws std::invalid_argument if a field violates its
// bound.
std::vector<float> initial_frequencies(const RotaryMixed& mixed);

// Returns the frequencies on the axes 0 = y, 1 = x. Throws std::invalid_argument if a field
// violates its bound or a matrix has another shape.
HeadFrequencies lower(const RotaryMixed& mixed, const MixedFrequencies<const float>& values);

// Adds the gradients of fx and fy, given those of HeadFrequencies::inv_freq, [H, 2, R/2].
void lower_backward(const RotaryMixed& mixed, std::span<const double> frequencies_grad,
                    const MixedFrequencies<float>& grads);

}  // namespace gnomon
