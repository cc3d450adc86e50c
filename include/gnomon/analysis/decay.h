// Does nearness count? Scores by distance, and numbers for how they fall.
//
// Letters: Q queries, K keys, N distances, R rotated elements of a head.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gnomon/view.h"

namespace gnomon::analysis {

// The mean of scores [Q, K] (float or double) over all pairs at a distance 0, 1, ... back from
// the query: entry d is the mean of scores(i, i + offset - d). Keys after their query and
// entries that are not finite are left out; a distance without any is NaN. Length K. An
// offset that takes positions out of 64 bits is refused.
template <typename T>
std::vector<double> mean_by_distance(View<const T, 2> scores, std::int64_t offset = 0);

struct Decay {
  // Spearman's rank correlation of score and distance, ties at their mean rank. -1: farther is
  // always lower; 0: no trend, or all scores equal; 1: farther is always higher.
  double rank_correlation = 0;
  double slope = 0;  // of the least squares line, score per position
  // Share of steps d to d + 1 at which the score falls; equal is not falling.
  double falling = 0;

  bool operator==(const Decay&) const = default;
};

// by_distance: [N], the score at distance 0, 1, ..., N - 1; N >= 2. NaN entries are left out,
// with the steps that they belong to. O(N log N).
Decay decay(std::span<const double> by_distance);

// The score of a rotated query with a rotated key by distance, for frequencies [R/2] in radians
// per position (rotary/rotary.h: inverse_frequencies). All return [N], for distances 0, 1, ...
// N - 1.

// All-ones query and key, divided by the score at distance 0:  mean over pairs of cos(d f_i).
// The curve that the decay of rotary embeddings is usually shown with.
std::vector<double> rotary_score_of_ones(std::span<const double> frequencies,
                                         std::int64_t distances);

// Queries and keys of independent normal numbers, score / sqrt(R): its mean and deviation over
// `samples` pairs. In the limit 0 and 1 at every distance: content that knows nothing of
// position does not decay (Barbero et al. "Round and Round We Go!", 2024, proposition 3.1).
// The same numbers for the same seed everywhere.
struct ScoreSample {
  std::vector<double> mean, deviation;  // [N]
};
ScoreSample rotary_score_of_normal(std::span<const double> frequencies, std::int64_t distances,
                                   std::int64_t samples, std::uint64_t seed = 1);

// The upper bound of Su et al. 2021 (RoFormer), section 3.4.3, relative to distance 0: the mean
// over i of |sum_{j < i} e^(sqrt(-1) d f_j)|, i = 1 ... R/2, divided by its value at d = 0.
std::vector<double> rotary_score_bound(std::span<const double> frequencies,
                                       std::int64_t distances);

}  // namespace gnomon::analysis
