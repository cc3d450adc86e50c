// Axial learned positions: one trained table for each axis of a grid of positions. A grid of a
// x b positions needs a + b rows.
//
//   Kitaev, Kaiser, Levskaya. "Reformer", 2020. https://arxiv.org/abs/2001.04451, as released;
//   Ho et al. "Axial Attention in Multidimensional Transformers", 2019,
//   https://arxiv.org/abs/1912.12180 (summed).
//
// Positions are numbered in row-major order: with rows {a, b}, position p uses row p / b of the
// first table and row p % b of the second.
//
//   concatenated  [ row of axis 0 | row of axis 1 | ... ]   Reformer
//   summed        row of axis 0 + row of axis 1 + ...
//
// Letters: A axes, T positions, C width.
//
// Naive version: tests/embedding/axial_test.cc, `broadcast`.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gnomon/embedding/grid.h"
#include "gnomon/embedding/table.h"
#include "gnomon/view.h"

namespace gnomon {

struct AxialLearned {
  AxisJoin join = {};
  std::vector<std::int64_t> rows;    // [A], rows of each table, at least 1; at least one axis
  std::vector<std::int64_t> widths;  // [A], channels of each table; summed: all equal

  bool operator==(const AxialLearned&) const = default;
};

// Returns the number of positions, the product of `rows`. Valid positions are 0 to capacity -
// 1. Throws std::invalid_argument, naming the field, if a field is out of its bounds. All
// functions below check the spec in the same way.
std::int64_t capacity(const AxialLearned& axial);
// Returns the width C of the filled rows.
std::int64_t width(const AxialLearned& axial);

// Returns the row of each position in the table of `axis`, [T]. Throws std::invalid_argument if
// a position is outside the capacity. Positions are never clamped.
std::vector<std::int64_t> axial_rows(const AxialLearned& axial, std::int64_t axis,
                                     std::span<const std::int64_t> positions);

// Fills out [T, C], any strides, from tables [rows[a], dims[a]]. Concatenated entries are
// copies of table entries. Sums are computed in double and rounded once. Element types: float,
// double.
template <typename T>
void fill(const AxialLearned& axial, std::span<const View<const T, 2>> tables,
          std::span<const std::int64_t> positions, View<T, 2> out);

// Returns the plan, a table for add_table.
EmbeddingTable lower(const AxialLearned& axial, std::span<const View<const float, 2>> tables,
                     std::span<const std::int64_t> positions);

// Gradient of `fill` with respect to the tables, from grad [T, C]. Each row of a table sums the
// gradients of its positions in double, in the order of the positions, and the sum is added to
// tables_grad. The result is bit-identical for any number of threads.
template <typename T>
void fill_backward(const AxialLearned& axial, View<const T, 2> grad,
                   std::span<const std::int64_t> positions,
                   std::span<const View<T, 2>> tables_grad);

}  // namespace gnomon
