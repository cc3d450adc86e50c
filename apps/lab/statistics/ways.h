// Rankings of encodings, and of all ways to use them, at each context length.
#pragma once

#include <vector>

#include "apps/lab/statistics/results.h"

namespace gnomon::lab {

// Both: for each length, from best to worst (is_lower) by the loss on the same test bytes, and
// `tied`: whether the difference from the best is at most its margin.
std::vector<Ranking> rankings(const std::vector<EncodingResult>& encodings,
                              const std::vector<RunResult>& runs);
// At the training length, there is only the whole context.
std::vector<Ways> ways(const std::vector<EncodingResult>& encodings,
                       const std::vector<RunResult>& runs);

// Half of the width of the 95 % confidence interval of the difference between two ways at one
// length, with Student's t. Several seeds: the mean difference between runs of equal seed.
// One seed: the mean difference over test segments, but at least twice seed_deviation.
double margin(const Way& a, const Way& b, std::size_t length,
              const std::vector<RunResult>& runs);

}  // namespace gnomon::lab
