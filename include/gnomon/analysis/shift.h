// The matrix that moves a sinusoidal embedding on: M(delta) p[t] = p[t + delta], the same for
// every t. It is why a linear layer can learn to look a fixed number of positions away.
//
//   Vaswani et al. 2017, section 3.5: "for any fixed offset k, PE(pos+k) can be represented as
//   a linear function of PE(pos)".
//
//   [ sin (t + delta) f ]   [  cos delta f   sin delta f ] [ sin t f ]
//   [ cos (t + delta) f ] = [ -sin delta f   cos delta f ] [ cos t f ]
//
// one such block for each frequency f, at the channels where the recipe keeps the pair.
//
// Letters: T positions, C channels.
#pragma once

#include <cstdint>

#include "gnomon/embedding/sinusoidal.h"
#include "gnomon/view.h"

namespace gnomon::analysis {

// Fills out [C, C] with M(delta) for any recipe; delta in positions, any finite number. A
// channel that is always zero (tensor2tensor and timestep at odd C) gets a one on the diagonal,
// so M is orthogonal. Entries are within 2^-50 + |delta f| 2^-52 of exact.
//
// Throws std::invalid_argument for interleaved and half_split at odd C: the last sine has no
// cosine beside it, and no matrix moves it; and when out is not [C, C].
void shift_matrix(const Sinusoidal& sinusoidal, double delta, View<double, 2> out);

// The largest |M p[t] - p[t + delta]| over the entries of all rows t of a table [T, C] (float
// or double) that have a row t + delta; delta in rows, of either sign. A few 2^-24 for
// sinusoidal tables in float, of the size of its entries for tables that no matrix moves. NaN
// where no row has a partner, or a difference is NaN. O(T C^2), or O(T C) for the sparse M of
// shift_matrix.
template <typename T>
double shift_residual(View<const T, 2> table, View<const double, 2> matrix, std::int64_t delta);

}  // namespace gnomon::analysis
