// Swin bias: a trained value for each head and each offset between two cells of a window. Used
// by Swin and BEiT.
//
//   Liu et al. "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows", 2021.
//   https://arxiv.org/abs/2103.14030, section 3.2.
//   Bao et al. "BEiT: BERT Pre-Training of Image Transformers", 2021.
//   https://arxiv.org/abs/2106.08254: with a class token.
//
// GridBias defines the order of the offsets. Letters: H heads, N offsets, T tokens of a window.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gnomon/bias/form.h"
#include "gnomon/view.h"

namespace gnomon {

struct Swin {
  std::int64_t heads = 0;         // H; at least 1
  std::int64_t height = 0;        // window height, in cells; 1 to 32767
  std::int64_t width = 0;         // window width, in cells; 1 to 32767
  std::int64_t class_tokens = 0;  // before the cells: 0 (Swin) or 1 (BEiT)

  bool operator==(const Swin&) const = default;
};

// Returns T = class_tokens + height width. The positions are 0 to T - 1.
std::int64_t tokens(const Swin& swin);
// Returns N = (2 height - 1)(2 width - 1), plus 3 with a class token.
std::int64_t offsets(const Swin& swin);

// Returns the table row of a query and a key. Throws std::invalid_argument if a position is not
// in 0 to T - 1.
std::int64_t offset_index(const Swin& swin, std::int64_t query, std::int64_t key);
// Returns the table rows of all pairs, [T, T], query by key: `relative_position_index` of the
// released models.
std::vector<std::int64_t> offset_indices(const Swin& swin);

// Returns the plan. table: [N, H], as `relative_position_bias_table`. Throws
// std::invalid_argument if the table has another shape.
GridBias lower(const Swin& swin, View<const float, 2> table);

// Gradient of `lower`: adds grid_grad [H, N] (BiasGradient::values) to table_grad [N, H], with
// one rounding per parameter.
void lower_backward(const Swin& swin, std::span<const double> grid_grad,
                    View<float, 2> table_grad);

}  // namespace gnomon
