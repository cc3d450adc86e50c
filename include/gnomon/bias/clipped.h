// A trained number for each head and each offset i - j of query i and key j, clipped at both
// ends: b[h, clip(i - j)].
//
//   The scalar form of Shaw, Uszkoreit, Vaswani. "Self-Attention with Relative Position
//   Representations", 2018. https://arxiv.org/abs/1803.02155; as in Music Transformer and in
//   Liu et al. (Swin) 2021 in one dimension.
//
// Letters: H heads, N distances, L = before + 1 + after columns of the table.
#pragma once

#include <cstdint>
#include <span>

#include "gnomon/bias/form.h"
#include "gnomon/view.h"

namespace gnomon {

struct ClippedBias {
  std::int64_t heads = 0;   // H; at least 1
  std::int64_t before = 0;  // keys further back than this count as this; not negative
  std::int64_t after = 0;   // keys further ahead than this count as this; not negative

  bool operator==(const ClippedBias&) const = default;
};

// The column of a distance (key - query). The table counts the other way, as the papers do:
// column = clip(i - j, -after, before) + after with i - j = -distance, so column 0 is the key
// furthest ahead and column L - 1 the one furthest back.
std::int64_t column(const ClippedBias& clipped, std::int64_t distance);

// The plan: table [H, L] spread over distances first to first + count - 1.
StripBias strip(const ClippedBias& clipped, View<const float, 2> table, std::int64_t first,
                std::int64_t count);

// Gradient of `strip`: adds strip_grad [H, N] into table_grad [H, L], in double, in the order
// of the distances.
void strip_backward(const ClippedBias& clipped, std::span<const double> strip_grad,
                    std::int64_t first, std::int64_t count, View<float, 2> table_grad);

}  // namespace gnomon
