// Decay with distance: mean scores by distance, and statistics of their decrease.
//
// Letters: Q queries, K keys, N distances, R rotary dimension.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gnomon/view.h"

namespace gnomon::analysis {

// Returns the mean score at each distance, [K], from scores [Q, K] (float or double). The
// distance is query position - key position, and query i has position i + offset: entry d is
// the mean of scores(i, i + offset - d). Keys after their query and entries that are not finite
// are skipped. A distance without entries gives NaN. Throws std::invalid_argument if the offset
// takes positions out of 64 bits.
template <typename T>
std::vector<double> mean_by_distance(View<const T, 2> scores, std::int64_t offset = 0);

struct Decay {
  // Spearman's rank correlation of score and distance; ties have their mean rank. -1: the score
  // always decreases with the distance; 0: no trend, or all scores equal; 1: the score always
  // increases.
  double rank_correlation = 0;
  double slope = 0;  // slope of the least-squares line, score per position
  // Fraction of steps d to d + 1 at which the score decreases; equal scores do not count.
  double falling = 0;

  bool operator==(const Decay&) const = default;
};

// Returns the statistics of by_distance [N], the score at distance 0, 1, ..., N - 1; N >= 2.
// NaN entries and their steps are skipped. Cost: O(N log N).
Decay decay(std::span<const double> by_distance);

// The following functions return scores of a rotated query and a rotated key, [N], at the
// distances 0, 1, ..., N - 1, for frequencies [R/2] in radians per position (rotary/rotary.h:
// inverse_frequencies).

// All-ones query and key, divided by the score at distance 0: mean over pairs of cos(d f_i).
// This is the usual curve of the decay of rotary embeddings.
std::vector<double> rotary_score_of_ones(std::span<const double> frequencies,
                                         std::int64_t distances);

// Score / sqrt(R) of independent normal queries and keys: mean and deviation over `samples`
// pairs. For many samples they approach 0 and 1 at every distance: if content is independent of
// position, scores do not decay (Barbero et al. "Round and Round We Go!", 2024, proposition
// 3.1). A seed gives the same values on every machine.
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
