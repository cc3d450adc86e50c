// From tensors to packed tiles and back: element types, rotation, transposition.
#if defined(GNOMON_ATTENTION_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_ATTENTION_PACK_INL_H_
#undef GNOMON_ATTENTION_PACK_INL_H_
#else
#define GNOMON_ATTENTION_PACK_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"
#include "src/attention/problem.h"
#include "src/attention/scratch.h"
#include "src/core/elements-inl.h"
#include "src/rotary/turn-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using internal::AttentionProblem;
using internal::Operand;
using internal::padded;
using internal::Result;

// One head vector of `size` elements to `to`, as A, zeros up to the padding. Rows that are
// padding (by `positions`, may be null) are read as zeros whatever they hold: a NaN there would
// outlive a weight of 0.
template <typename A>
void LoadRow(const AttentionProblem& problem, const Operand& from, const Positions* positions,
             std::int64_t b, std::int64_t row, std::int64_t head, std::int64_t size,
             A* HWY_RESTRICT to) {
  const std::int32_t* sequences = internal::sequences(positions, b);
  if (sequences && sequences[row] == Positions::padding) {
    std::fill_n(to, padded(size), A(0));
    return;
  }
  const std::ptrdiff_t at =
      b * from.strides[0] + row * from.strides[1] + head * from.strides[2];
  if constexpr (std::is_same_v<A, double>) {
    FromElements(static_cast<const double*>(from.data) + at, size, to);
  } else {
    if (problem.dtype == DType::f32)
      FromElements(static_cast<const float*>(from.data) + at, size, to);
    if (problem.dtype == DType::f16)
      FromElements(static_cast<const Half*>(from.data) + at, size, to);
    if (problem.dtype == DType::bf16)
      FromElements(static_cast<const BFloat16*>(from.data) + at, size, to);
  }
  std::fill(to + size, to + padded(size), A(0));
}

// factor * from, rounded once.
template <typename A>
void StoreRow(const AttentionProblem& problem, const Result& to, std::int64_t b,
              std::int64_t row, std::int64_t head, std::int64_t size, A factor,
              const A* HWY_RESTRICT from) {
  const std::ptrdiff_t at = b * to.strides[0] + row * to.strides[1] + head * to.strides[2];
  if constexpr (std::is_same_v<A, double>) {
    ToElements(from, factor, size, static_cast<double*>(to.data) + at);
  } else {
    if (problem.dtype == DType::f32)
      ToElements(from, factor, size, static_cast<float*>(to.data) + at);
    if (problem.dtype == DType::f16)
      ToElements(from, factor, size, static_cast<Half*>(to.data) + at);
    if (problem.dtype == DType::bf16)
      ToElements(from, factor, size, static_cast<BFloat16*>(to.data) + at);
  }
}

enum class Turn { forward = 1, back };

// The rotation of one packed head vector, by the table's row for this token.
template <typename A>
void RotateRow(const RotaryTable* table, std::int64_t b, std::int64_t row, Turn turn,
               A* HWY_RESTRICT x) {
  if (!table) return;
  const std::int64_t pairs = table->schedule().dim() / 2;
  const std::int64_t batch = table->batch() == 1 ? 0 : b;
  const float* HWY_RESTRICT cos = &table->cos()(batch, row, 0);
  const float* HWY_RESTRICT sin = &table->sin()(batch, row, 0);
  const A sign = turn == Turn::forward ? A(1) : A(-1);
  TurnPairs(x + table->schedule().first, cos, sin, sign, table->schedule().pairing, pairs);
}

// to [columns, rows padded] = from [rows, columns] transposed, zeros beside it.
template <typename A>
void Transpose(const A* HWY_RESTRICT from, std::ptrdiff_t from_row, std::int64_t rows,
               std::int64_t columns, A* HWY_RESTRICT to, std::ptrdiff_t to_row) {
  constexpr std::int64_t side = 16;  // a cache line of floats, read and written whole
  for (std::int64_t r = 0; r < rows; r += side)
    for (std::int64_t c = 0; c < columns; c += side) {
      const std::int64_t r_end = std::min(rows, r + side), c_end = std::min(columns, c + side);
      for (std::int64_t j = c; j < c_end; ++j)
        for (std::int64_t i = r; i < r_end; ++i) to[j * to_row + i] = from[i * from_row + j];
    }
  for (std::int64_t j = 0; j < columns; ++j)
    std::fill(to + j * to_row + rows, to + j * to_row + padded(rows), A(0));
}

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
