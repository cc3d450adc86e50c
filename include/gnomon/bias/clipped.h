// Clipped relative bias: a trained value for each head and each offset i - j of query i and key
// j, with the offset clipped on both sides: b[h, clip(i - j)].
//
//   The scalar form of Shaw, Uszkoreit, Vaswani. "Self-Attention with Relative Position
//   Representations", 2018. https://arxiv.org/abs/1803.02155; also used in Music Transformer
//   and, in one dimension, in Liu et al. (Swin), 2021.
//
// Letters: H heads, N distances, L = left + 1 + right columns of the table.
#pragma once

#include <cstdint>
#include <span>

#include "gnomon/bias/form.h"
#include "gnomon/view.h"

namespace gnomon {

struct ClippedBias {
  std::int64_t heads = 0;  // H; at least 1
  std::int64_t left = 0;   // limit of the distance to past keys, in positions; not negative
  std::int64_t right = 0;  // limit of the distance to future keys, in positions; not negative

  bool operator==(const ClippedBias&) const = default;
};

// Returns the column of a distance (key - query). As in the papers, the table is ordered by
// i - j = -distance: column = clip(i - j, -right, left) + right. Column 0 is the most distant
// future key, column L - 1 the most distant past key.
std::int64_t column(const ClippedBias& clipped, std::int64_t distance);

// Returns the plan: the values of table [H, L] for `count` distances from `min_distance` on.
// Throws std::invalid_argument if the spec is out of bounds or the table has another shape.
StripBias lower(const ClippedBias& clipped, View<const float, 2> table,
                std::int64_t min_distance, std::int64_t count);

// Gradient of `strip`: adds strip_grad [H, N] to table_grad [H, L]. Sums are in double, in the
// order of the distances.
void lower_backward(const ClippedBias& clipped, std::span<const double> strip_grad,
                    std::int64_t min_distance, std::int64_t count, View<float, 2> table_grad);

}  // namespace gnomon
