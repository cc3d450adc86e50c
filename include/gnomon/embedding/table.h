// The form of every absolute encoding: a table with one vector per position, added to the token
// embeddings. The rows may be computed, learned or given.
//
// Letters: B batch, T tokens, C width.
//
// Naive version: tests/naive/embedding.h, `naive_add_table`, `naive_add_rows`.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gnomon/tensor.h"
#include "gnomon/view.h"

namespace gnomon {

// An owned table [T, C] of floats. Immutable while it is shared.
struct EmbeddingTable {
  std::int64_t tokens = 0, width = 0;
  std::vector<float> values;  // [T, C]

  View<const float, 2> view() const noexcept { return {values.data(), {tokens, width}}; }
  bool operator==(const EmbeddingTable&) const = default;
};

// x[b, t] += scale table[t]. Shapes: x [B, T, C], table float [T, C]; any strides, C contiguous
// in both. The table is shared by all rows of the batch. Element types of x: float, Half,
// BFloat16, double. For f16 and bf16 the sum is computed in float and rounded once. f32 uses
// one float addition (and one product if scale is not 1). Cost: one read and one write of x.
//
// Throws std::invalid_argument if shapes do not match or C is not contiguous. Allocates
// nothing.
void add_table(const Tensor& x, const ConstTensor& table, float scale = 1.0f);

// x[b, t] += table[rows[b, t]]: a row per token, for rows that differ along the batch. rows:
// int64 [B, T]. Throws std::invalid_argument if a row is outside the table; x is then
// unchanged, and nothing is clamped.
void add_rows(const Tensor& x, const ConstTensor& table, const ConstTensor& rows);

// Gradient of add_table with respect to the table: adds the sum of grad [B, T, C] over b to
// table_grad [T, C]. The sum runs in double in the order of b, so it is bit-identical for any
// number of threads. (The gradient with respect to x is grad itself.)
void add_table_backward(const ConstTensor& grad, float scale, const Tensor& table_grad);

// Gradient of add_rows with respect to the table, a scatter-add: table_grad[rows[b, t]] +=
// grad[b, t]. Each row sums in the order of (b, t), for any number of threads.
void add_rows_backward(const ConstTensor& grad, const ConstTensor& rows,
                       const Tensor& table_grad);

}  // namespace gnomon
