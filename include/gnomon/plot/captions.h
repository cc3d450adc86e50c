// Captions of pictures. Each function measures the numbers that a picture of pictures.h draws
// and returns sentences that hold for them, so that a caption of random or trained numbers
// claims only what they show. Distances are differences of indices. Entries that are not finite
// are skipped. Numbers have 3 significant digits.
//
//   page.figure({.id = "similarity", .title = "Similarity of positions",
//                .caption = plot::similarity_caption(matrix),
//                .spec = plot::similarity_picture({.values = matrix})});
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gnomon/plot/pictures.h"

namespace gnomon::plot {

// The range of a table [positions, channels], and how often neighbouring rows change sign in
// the channels at the left and at the right. `row_step`, `column_step`: distance of
// neighbouring rows and columns, if the picture leaves out some; sign changes are not counted
// if rows are left out. Throws std::invalid_argument if a step is less than 1.
std::string table_caption(const Matrix& table, std::int64_t row_step = 1,
                          std::int64_t column_step = 1);

// Whether the similarity [positions, positions] is the same at equal distances (up to 0.1 % of
// its range), and how its mean changes with the distance: the share of the pairs of distances
// in which the shorter one has the higher mean, and the share of the others. `step`: distance
// of neighbouring rows, if the picture leaves out positions. Throws std::invalid_argument if it
// is less than 1.
std::string similarity_caption(const Matrix& similarity, std::int64_t step = 1);

// The share of the pairs of cells in which the cell with the smaller Euclidean distance from
// the marked cell is more similar to it. Pairs at equal distance do not count.
std::string grid_caption(const GridPicture& picture);

// The values of a curve at its ends and in between, and whether it always falls: "all ones: 1
// at distance 0, 0.63 at distance 100, 0.28 at distance 500; it falls at each step."
std::string curve_caption(const std::string& name, const std::vector<double>& distances,
                          const std::vector<double>& values);

// The number of heads in which the bias never rises, or never falls, with the distance.
std::string bias_caption(const BiasPicture& picture);

// How far the values of a matrix moved, e.g. in training: the range before and after, and the
// mean and the largest absolute change. Both matrices have the same shape; throws
// std::invalid_argument if not.
std::string change_caption(const Matrix& before, const Matrix& after);

// The largest difference of the weights without and with position, and the sum of the rows.
std::string attention_caption(const AttentionPicture& picture);

}  // namespace gnomon::plot
