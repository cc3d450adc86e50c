// Similarity of the rows of a table: all pairs, or one row with all others.
//
// Letters: T rows (positions, or cells of a grid in row-major order), C width.
#pragma once

#include <cstdint>
#include <vector>

#include "gnomon/view.h"

namespace gnomon::analysis {

enum class Similarity {
  dot = 1,
  cosine,  // dot / (norm norm'); 0 if a row is zero, NaN if a row has NaN
};

// out(i, j) = similarity of rows i and j of table [T, C]; out: [T, T], any strides, exactly
// symmetric. Sums run in double in the order of the channels. Error bound: C 2^-53 of the sum
// of the magnitudes of the products (for cosine: twice that, relative). Element types of the
// table: float, double. Cost: O(T^2 C), divided among threads, and a copy of the table in
// double.
template <typename T>
void similarity_matrix(View<const T, 2> table, Similarity similarity, View<double, 2> out);

// Returns the similarity of row `row` with every row, [T], equal to that row of the matrix. For
// a grid this is the similarity map of one cell: entry y * width + x. Throws
// std::invalid_argument if there is no such row.
template <typename T>
std::vector<double> similarity_to(View<const T, 2> table, std::int64_t row,
                                  Similarity similarity);

}  // namespace gnomon::analysis
