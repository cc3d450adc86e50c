// How alike the rows of a table are: all with all, or one with all.
//
// Letters: T rows (positions, or cells of a grid in row-major order), C channels.
#pragma once

#include <cstdint>
#include <vector>

#include "gnomon/view.h"

namespace gnomon::analysis {

enum class Similarity {
  dot = 1,
  cosine,  // dot / (length length'); 0 where a row is all zeros, NaN where one holds NaN
};

// out(i, j) = similarity of rows i and j of table [T, C]; out: [T, T], any strides, symmetric
// to the bit. Sums in double in the order of the channels: at most C 2^-53 of the sum of the
// products' magnitudes off (twice that, relative, for cosine). Element types of the table:
// float, double. O(T^2 C) time, shared by threads; a copy of the table in double.
template <typename T>
void similarity_matrix(View<const T, 2> table, Similarity similarity, View<double, 2> out);

// The similarity of row `row` with every row: [T], the same numbers as that row of the matrix.
// For a grid the picture of one cell: entry y * width + x. Throws when there is no such row.
template <typename T>
std::vector<double> similarity_to(View<const T, 2> table, std::int64_t row,
                                  Similarity similarity);

}  // namespace gnomon::analysis
