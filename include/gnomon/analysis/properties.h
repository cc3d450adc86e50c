// Properties of position encodings as numbers: uniqueness (different positions have different
// rows), relativity (scores depend on the distance only), and the behaviour beyond the training
// length: attention weight without precedent in training, and extrapolation of rows. For decay
// with distance see analysis/decay.h.
//
// The numbers describe an encoding; they do not rank it. Element types of views: float, double.
//
// Letters: T positions, C width, Q queries, K keys.
#pragma once

#include <cstdint>
#include <limits>

#include "gnomon/view.h"

namespace gnomon::analysis {

// The two rows that are closest to each other.
struct Uniqueness {
  double distance = 0;     // Euclidean distance of the two nearest rows; 0: they are equal
  double separation = 0;   // distance / root mean square of the norms of the rows
  std::int64_t first = 0;  // indices of the two nearest rows, first < second
  std::int64_t second = 0;

  bool operator==(const Uniqueness&) const = default;
};

// Returns the two nearest rows of table [T, C], which has one row per position. The table may
// be an embedding or another description of positions, e.g. a score matrix, whose row i has the
// scores of position i with all others. Requires T >= 2. All pairs are compared, in double.
// Cost: O(T^2 C) at most; the comparison of a pair stops once its distance is too large. If
// several pairs are equally near, the first one is returned. Throws std::invalid_argument if an
// entry is not finite.
template <typename T>
Uniqueness uniqueness(View<const T, 2> table);

// How far scores depend only on the distance between query and key.
struct Relativity {
  // Largest |score - mean of its diagonal| / (largest - smallest score). 0: only the distance
  // counts, and the scores of each diagonal are bit-identical, as for a distance bias. Rotary
  // scores of equal content give their rounding (in float 2^-24 of the largest score) relative
  // to the range.
  double deviation = 0;
  // Fraction of the variance of the scores that the distance explains, 0 to 1.
  double explained = 1;
  std::int64_t query = 0, key = 0;  // indices of the largest deviation

  bool operator==(const Relativity&) const = default;
};

// Returns the relativity of scores [Q, K]. The queries and keys must have consecutive positions
// and equal content, so that scores differ by position only. Entries that are not finite (a
// causal mask) are skipped. Cost: O(Q K).
template <typename T>
Relativity relativity(View<const T, 2> scores);

// The meaning of a row of a table.
enum class RowsOf {
  positions = 1,  // an embedding
  distances,      // row d: rotation, bias or vectors of a key d positions before its query
};

// Attention weight of one query beyond the training length, as shares from 0 to 1, the mean
// over heads.
struct Beyond {
  // Weight on keys that are farther from the query than any key in training.
  double far = 0;
  // Weight on keys that meet the query by a row that did not occur in training. Rows of
  // distances: the row of the distance. Rows of positions: the row of the query or of the key.
  double unseen = 0;

  // Mean of both: a unit of weight counts half if its key is far, half if its row is unseen.
  double share() const noexcept { return (far + unseen) / 2; }
  bool operator==(const Beyond&) const = default;
};

// Returns the shares for the query at position T - 1. weights [H, T]: its attention weights.
// table [T, C]: row t belongs to position or distance t; it is unseen if it differs from all of
// the first `trained` rows (2 <= trained <= T), bit for bit. C may be 0: nothing is unseen.
// Cost: O(T C log T).
template <typename T>
Beyond beyond(View<const double, 2> weights, View<const T, 2> table, RowsOf rows_of,
              std::int64_t trained);

// Rows beyond the training length, compared with the rows of training. A row belongs to a
// position or to a distance.
struct Extrapolation {
  std::int64_t past = 0;  // number of positions beyond the training length
  // Largest amount by which a channel leaves its range of training values, over all channels
  // and positions, divided by that range. 0: all values are in the range of training; 1: a
  // value is outside by the width of the range. Infinity: a channel that was constant changes.
  double excess = 0;
  // Largest Euclidean distance between consecutive rows beyond the training length, divided by
  // the largest one within it. Above 1: a jump. Infinity: rows were constant and change.
  double jump = 0;
  // Largest distance of a row beyond the training length to its nearest training row, divided
  // by the largest distance of a training row to its nearest other training row. Up to 1: new
  // rows are as close to the training rows as these are to each other.
  double novelty = 0;

  bool operator==(const Extrapolation&) const = default;
};

// Returns the extrapolation of table [T, C], whose first `trained` rows were seen in training
// (2 <= trained <= T). A distance bias is a table with one row per distance and one channel per
// head. If T == trained, `past` and the other numbers are 0. Throws std::invalid_argument if an
// entry is not finite. Cost: O(T trained C).
template <typename T>
Extrapolation extrapolation(View<const T, 2> table, std::int64_t trained);

}  // namespace gnomon::analysis
