// ComRoPE: rotations by trained skew-symmetric matrices that commute, one for each block of a
// head and position axis.
//
//   Yu et al. "ComRoPE: Scalable and Robust Rotary Position Embedding Parameterized by
//   Trainable Commuting Angle Matrices", CVPR 2025. https://arxiv.org/abs/2506.03737; details
//   as in github.com/Longin-Yu/ComRoPE, with blocks of 2 elements, its default.
//
//   block j of a head is multiplied by exp(sum over a of x_a B_aj)
//   axial partition (AP)      B_aj = P_j - P_j^T if j mod A = a, else 0
//   linearly dependent (LD)   B_aj = m_aj (P_j - P_j^T)
//
// x_a is the position divided by the extent n_a of the grid. The code adds 0.5 / n_a, which
// turns queries and keys by the same angle and changes no score. exp of a block of two elements
// is a rotation by x_a (P_j[1, 0] - P_j[0, 1]). Pairs are adjacent elements.
//
// Blocks have two elements. A larger block is a rotation of pairs in another basis of the head,
// because all its matrices are multiples of one skew-symmetric matrix, in both forms. Trained
// projections of queries and keys can contain that basis.
//
// Letters: H heads, R rotated elements, A axes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gnomon/rotary/head_angles.h"
#include "gnomon/view.h"

namespace gnomon {

enum class ComRopeForm {
  axial_partition = 1,  // AP
  linearly_dependent,   // LD
};

// A plain value.
struct ComRope {
  std::int64_t heads = 0;       // H; divides the query heads and the key heads; at least 1
  std::int64_t rotary_dim = 0;  // R; a multiple of 2, in AP of 2 A
  ComRopeForm form = {};
  std::int64_t head_offset = 0;  // first rotated element of the head; not negative
  // n_a, extents of the grid: height and width, or frames, height and width. A token's position
  // is one number, the index of its cell in row-major order, or one for each axis.
  std::vector<std::int64_t> grid = {};

  bool operator==(const ComRope&) const = default;
};

// Trained matrices or their gradient.
template <typename T>
struct ComRopeMatrices {
  View<T, 2> freqs;       // P [H, 4 R/2], four elements of each block, row by row
  View<T, 2> multiplier;  // m [A, R/2], shared by heads; AP: no data
};

// Returns the frequencies. Throws std::invalid_argument if a field violates its bound or a
// matrix has another shape.
HeadFrequencies lower(const ComRope& comrope, const ComRopeMatrices<const float>& values);

// Adds the gradients of P and m, given those of HeadFrequencies::inv_freq, [H, A, R/2].
void lower_backward(const ComRope& comrope, const ComRopeMatrices<const float>& values,
                    std::span<const double> frequencies_grad,
                    const ComRopeMatrices<float>& grads);

}  // namespace gnomon
