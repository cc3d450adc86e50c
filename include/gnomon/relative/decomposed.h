// Decomposed relative positions of a grid: one trained vector for each vertical offset of two
// cells and one for each horizontal offset, both multiplied with queries.
//
//   Li et al. "MViTv2: Improved Multiscale Vision Transformers for Classification and
//   Detection", 2021. https://arxiv.org/abs/2112.01526, section 4.1.
//   Kirillov et al. "Segment Anything", 2023. https://arxiv.org/abs/2304.02643: SAM's encoder.
//
//   score(i, j) = scale q_i . k_j + q_i . R_height[index(y_i, y_j)] + q_i . R_width[index(x_i,
//   x_j)]
//
// The released models do not scale the two added products, but attention scales the products of
// a RelativeForm. The vectors of the form are therefore divided by the softmax scale. All heads
// share one table.
//
// If the grids of queries and keys differ in size (MViT pools them), cells are compared on the
// finer grid. With Q and K the sizes along an axis,
//
//   index(i, j) = floor( i max(K / Q, 1) - j max(Q / K, 1) + (K - 1) max(Q / K, 1) )
//
// Letters: D head dimension, L rows of a table.
#pragma once

#include <cstdint>
#include <vector>

#include "gnomon/position/positions.h"
#include "gnomon/relative/form.h"
#include "gnomon/view.h"

namespace gnomon {

struct Decomposed {
  std::int64_t head_dim = 0;    // D; at least 1
  std::int64_t height = 0;      // height of the query grid, in cells; 1 to 32767
  std::int64_t width = 0;       // width of the query grid, in cells; 1 to 32767
  std::int64_t key_height = 0;  // height of the key grid, in cells; 0: equal to height
  std::int64_t key_width = 0;   // width of the key grid, in cells; 0: equal to width
  // L of the given tables: 2 n - 1 for tables trained on a grid of n cells, odd, at most 65533.
  // 0: the length for this grid. A table of another length is resized linearly.
  std::int64_t table_height = 0, table_width = 0;
  // Before the cells: 0 (SAM) or 1 (MViT). A class token has no relative vectors.
  std::int64_t class_tokens = 0;

  bool operator==(const Decomposed&) const = default;
};

// Return the rows L of the tables that `lower` requires.
std::int64_t table_height(const Decomposed& decomposed);
std::int64_t table_width(const Decomposed& decomposed);

// Return the row of the resized table, 0 to 2 max(Q, K) - 2, for each [query, key] along an
// axis. Computed in integers.
std::vector<std::int64_t> row_indices(const Decomposed& decomposed);
std::vector<std::int64_t> column_indices(const Decomposed& decomposed);

// The trained tables.
struct DecomposedTables {
  View<const float, 2> height;  // [L, D]: `rel_pos_h`
  View<const float, 2> width;   // [L, D]: `rel_pos_w`
};

// The plan, with the positions of queries and keys. Without a class token and with equal grids,
// both are 0 to height width - 1 in row-major order, which is the default of attention.
// Otherwise a token has different positions as a query and as a key, and `queries` and `keys`
// must be passed to attention.
struct DecomposedPlan {
  RelativeForm form;  // two tables of keys with coordinates
  Positions queries, keys;
};

// Returns the plan. softmax_scale: the scale that attention will use; positive. Throws
// std::invalid_argument if a table has another shape, or a field or the scale is out of bounds.
// Cost: O(L D + tokens).
DecomposedPlan lower(const Decomposed& decomposed, const DecomposedTables& tables,
                     double softmax_scale);

// Gradient of `lower`: adds the gradient of the form, as returned by the backward pass of
// attention, to tables_grad, which has the shapes of the tables. One rounding per parameter.
struct DecomposedGradients {
  View<float, 2> height, width;
};
void lower_backward(const Decomposed& decomposed, double softmax_scale,
                    const RelativeGradient& grad, const DecomposedGradients& tables_grad);

}  // namespace gnomon
