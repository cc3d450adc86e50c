// Shift matrix of a sinusoidal embedding: M(delta) p[t] = p[t + delta] for every t. It is the
// reason why a linear layer can learn to attend to a fixed relative position.
//
//   Vaswani et al. 2017, section 3.5: "for any fixed offset k, PE(pos+k) can be represented as
//   a linear function of PE(pos)".
//
//   [ sin (t + delta) f ]   [  cos delta f   sin delta f ] [ sin t f ]
//   [ cos (t + delta) f ] = [ -sin delta f   cos delta f ] [ cos t f ]
//
// M has one such block for each frequency f, at the channels of the pair in the recipe.
//
// Letters: T positions, C width.
#pragma once

#include <cstdint>

#include "gnomon/embedding/sinusoidal.h"
#include "gnomon/view.h"

namespace gnomon::analysis {

// Fills out [C, C] with M(delta) for any recipe. delta: in positions, any finite number. A
// channel that is always zero (tensor2tensor and timestep with odd C) has a 1 on the diagonal,
// so M is orthogonal. Error bound of an entry: 2^-50 + |delta f| 2^-52.
//
// Throws std::invalid_argument if out is not [C, C], and for interleaved and half_split with
// odd C: the last sine has no cosine, so no such matrix exists.
void shift_matrix(const Sinusoidal& sinusoidal, double delta, View<double, 2> out);

// Returns the largest |M p[t] - p[t + delta]| over all entries of the rows t of table [T, C]
// (float or double) for which row t + delta exists. delta: in rows, of either sign. The
// residual is a few 2^-24 for sinusoidal tables in float, and of the order of the entries for
// tables without a shift matrix. Returns NaN if no row t + delta exists or a difference is NaN.
// Cost: O(T C^2), or O(T C) for the sparse M of shift_matrix.
template <typename T>
double shift_residual(View<const T, 2> table, View<const double, 2> matrix, std::int64_t delta);

}  // namespace gnomon::analysis
