// Tables added to embeddings on a CUDA device, and the gradients of the tables.
//
// The functions of gnomon/embedding/table.h, for tensors on a device. Letters: B batch, T
// tokens, C width, N rows of a table. x, out and grad are [B, T, C] or [T, C] (B = 1), of fewer
// than 2^31 tokens. Any strides, C contiguous. Element types: float, Half, BFloat16, of each
// tensor independently, except that gradients of tables are float. Tensors must not overlap.
//
// The rows of tokens (int64 [B or 1, T] or [T], any strides) are in device memory and are not
// checked: a row outside [0, N) gives NaN in all channels of its token. No row is clamped.
//
// Elements are moved 16 bytes of x or out at a time if C elements, the strides and the data are
// multiples of 16 bytes (of the table: of as many elements, and at most 16 bytes); gradients 4
// elements at a time. Otherwise one element at a time.
//
// All functions throw std::invalid_argument if a tensor is not on a CUDA device, devices
// differ, shapes or types do not match, or C is not contiguous; Error if a launch fails.
//
// Naive version: tests/naive/embedding.h, `naive_add_table`, `naive_add_rows`.
#pragma once

#include <cstdint>

#include "gnomon/cuda/device.h"
#include "gnomon/tensor.h"

namespace gnomon::cuda {

// x[b, t] += scale table[t]. table: [T, C].
//
// Error bound: |x' - exact| <= 2^-24 |exact|, and one rounding to the type of x: the sum is one
// fused multiply-add in float. Deterministic. Cost: one read and one write of x, and one read
// of the table if its rows stay in the caches of the device for the B tokens that use them.
void add_table(const Tensor& x, const ConstTensor& table, float scale = 1.0f,
               Stream stream = nullptr);

// x[b, t] += table[rows[b, t]]. table: [N, C]. Error bound and cost as add_table.
void add_rows(const Tensor& x, const ConstTensor& table, const ConstTensor& rows,
              Stream stream = nullptr);

// out[b, t] = table[rows[b, t]], rounded to the type of out. table: [N, C]. Exact if the type
// of out contains that of the table. Cost: one write of out, and one read of the rows.
void gather_rows(const ConstTensor& table, const ConstTensor& rows, const Tensor& out,
                 Stream stream = nullptr);

// Gradient of add_table with respect to the table: table_grad[t] += scale * the sum of
// grad[b, t] over b. table_grad: float [T, C].
//
// The sum runs in double in the order of b, and is rounded once. The result has the bits of the
// function of gnomon/embedding/table.h. Cost: one read of grad, one read and one write of
// table_grad.
void add_table_backward(const ConstTensor& grad, float scale, const Tensor& table_grad,
                        Stream stream = nullptr);

// Returns the bytes of the workspace of add_rows_backward: 8 B T + 4 (N + 1). Throws
// std::invalid_argument if a number is negative or not below 2^31.
std::int64_t add_rows_backward_workspace(std::int64_t tokens /* B T */,
                                         std::int64_t table_rows);

// Gradient of add_rows with respect to the table, a scatter-add: table_grad[rows[b, t]] +=
// grad[b, t]. table_grad: float [N, C]. A row outside the table contributes nothing. A row of
// the table without tokens keeps its bits.
//
// Each row of the table sums its tokens in double in the order of (b, t), and is rounded once.
// The result has the bits of the function of gnomon/embedding/table.h. No atomic operations.
//
// workspace: u8 [S], contiguous and aligned to 8 bytes, S >= the size above. Its contents are
// overwritten; the next call of the same stream may use it again.
//
// Cost: two launches. The first lists the tokens of each row: for each 32 rows of the table
// (128 if the table has more than 64 rows for each multiprocessor), a block reads all row ids
// twice, O(B T N / 32) reads from the cache of the device. The second reads grad once, and
// reads and writes the rows of table_grad that have tokens. A thread adds the tokens of a row
// one after another with 8 loads in flight, so a table with few rows and many tokens (token
// types) is limited by the latency of memory, not by its bandwidth.
void add_rows_backward(const ConstTensor& grad, const ConstTensor& rows,
                       const Tensor& table_grad, const Tensor& workspace,
                       Stream stream = nullptr);

}  // namespace gnomon::cuda
