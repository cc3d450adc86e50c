// The form of every absolute encoding: a table of one vector per position, added to the token
// embeddings. How its rows came about (computed, learned, given) does not matter here.
//
// Letters: B batch, T tokens, C channels.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gnomon/tensor.h"
#include "gnomon/view.h"

namespace gnomon {

// An owned table [T, C] of floats. Immutable once shared.
struct EmbeddingTable {
  std::int64_t tokens = 0, channels = 0;
  std::vector<float> values;  // [T, C]

  View<const float, 2> view() const noexcept { return {values.data(), {tokens, channels}}; }
  bool operator==(const EmbeddingTable&) const = default;
};

// x[b, t] += scale table[t]. x: [B, T, C], any strides, C contiguous; table: float [T, C],
// likewise.
// For f16 and bf16 the sum is formed in float and rounded once; for f32 one float addition (and
// one product, where scale is not 1). Element types of x: float, Half, BFloat16, double. The
// table is shared by all rows of the batch. Cost: reads and writes x once.
//
// Throws std::invalid_argument when shapes differ or C is not contiguous. Allocates nothing.
void add_table(const Tensor& x, const ConstTensor& table, float scale = 1.0f);

// x[b, t] += table[rows[b, t]]: a row per token, for rows that differ along the batch.
// Throws when a row is outside the table; nothing is clamped, and nothing is written then.
// rows: int64 [B, T].
void add_rows(const Tensor& x, const ConstTensor& table, const ConstTensor& rows);

// Gradient of add_table for the table: sums grad [B, T, C] over b into table_grad [T, C], which
// is added to. The sum runs in double in the order of b, so it is the same for any number of
// threads. (The gradient for x is grad itself.)
void add_table_backward(const ConstTensor& grad, float scale, const Tensor& table_grad);

// Gradient of add_rows for the table, a scatter-add: table_grad[rows[b, t]] += grad[b, t], in
// the order of (b, t) for each row of the table, whatever the number of threads.
void add_rows_backward(const ConstTensor& grad, const ConstTensor& rows,
                       const Tensor& table_grad);

}  // namespace gnomon
