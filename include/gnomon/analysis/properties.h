// What an encoding is asked for, each as a number: every position its own (uniqueness), the
// same step the same everywhere (relativity), and something sensible past the trained length
// (extrapolation). The fourth, that nearness counts, is analysis/decay.h.
//
// The numbers describe; none of them is a mark. Element types of views: float, double.
//
// Letters: T positions, C channels, Q queries, K keys.
#pragma once

#include <cstdint>
#include <limits>

#include "gnomon/view.h"

namespace gnomon::analysis {

// The two rows that are hardest to tell apart.
struct Uniqueness {
  double distance = 0;     // Euclidean, between the nearest two rows; 0: they are the same
  double separation = 0;   // distance / root mean square of the rows' lengths
  std::int64_t first = 0;  // the nearest two rows, first < second
  std::int64_t second = 0;

  bool operator==(const Uniqueness&) const = default;
};

// table: [T, C], one row a position: an embedding, or whatever else stands for it, such as the
// row of a score matrix (the position's view of all others). Needs T >= 2. Every pair is
// compared, in double: O(T^2 C) at worst, and less as a pair is given up once it is too far.
// Where several pairs are as near, the first is named. Entries that are not finite are refused.
template <typename T>
Uniqueness uniqueness(View<const T, 2> table);

// How far scores depend on the distance of key and query alone.
struct Relativity {
  // Largest |score - mean of its diagonal| / (largest - smallest score). 0: the distance alone
  // decides, and every diagonal holds equal scores to the bit, as those of a distance bias do.
  // Rotary scores of equal content give their rounding (in float 2^-24 of the largest score),
  // relative to the spread.
  double deviation = 0;
  // Share of the scores' variance that the distance explains, 0 to 1.
  double explained = 1;
  std::int64_t query = 0, key = 0;  // where the deviation is largest

  bool operator==(const Relativity&) const = default;
};

// scores: [Q, K], of queries and keys at consecutive positions and of the same content
// everywhere, so that only position can tell them apart. Entries that are not finite (a causal
// mask) are left out. O(Q K).
template <typename T>
Relativity relativity(View<const T, 2> scores);

// What comes after the positions (or distances) seen in training, compared with what was seen.
struct Extrapolation {
  std::int64_t past = 0;  // positions past the trained length that have a value at all
  // How far a channel leaves the range of values it had in training, at most over channels and
  // positions, relative to that range: 0: every single number has been seen; 1: as far outside
  // as the range is wide. Infinity: a channel that was constant moves.
  double excess = 0;
  // The largest Euclidean step from a row to the next past the trained length, relative to the
  // largest within it. Above 1: a jump. (Infinity: rows were constant, and move.)
  double jump = 0;
  // The largest distance of a row past the trained length to its nearest trained row, relative
  // to the largest distance of a trained row to its nearest other trained row. Up to 1: no
  // further from what was seen than the seen rows are from each other.
  double novelty = 0;

  bool operator==(const Extrapolation&) const = default;
};

// table: [T, C], its first `trained` rows seen in training (2 <= trained <= T). A bias by
// distance is a table too: one row a distance, one channel a head. With T == trained nothing is
// past, and the other numbers are 0. Entries that are not finite are refused. O(T trained C).
template <typename T>
Extrapolation extrapolation(View<const T, 2> table, std::int64_t trained);

}  // namespace gnomon::analysis
