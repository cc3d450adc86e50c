// Rankings of encodings, and of all ways to use them, at each context length.
#pragma once

#include <vector>

#include "apps/lab/results.h"

namespace gnomon::lab {

// Both: for each length, from best to worst by the loss on the same test bytes, and `tied`: whether
// the difference from the best is at most two standard deviations. With several seeds, this is
// the standard deviation of the difference between runs of equal seed. With one seed, it is the
// standard error of the mean difference over test segments, but at least seed_deviation.
std::vector<Ranking> rankings(const std::vector<EncodingResult>& encodings,
                              const std::vector<RunResult>& runs);
// At the training length, there is only the whole context.
std::vector<Ways> ways(const std::vector<EncodingResult>& encodings,
                       const std::vector<RunResult>& runs);

// The standard deviation of the difference to which `tied` applies, between two ways at one
// length.
double difference_deviation(const Way& a, const Way& b, std::size_t length,
                            const std::vector<RunResult>& runs);

}  // namespace gnomon::lab
