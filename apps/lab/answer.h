// The sentences at the start of the report, generated from the results: the best encoding at
// the training length, the encodings that hold beyond it, and the recommended encoding.
#pragma once

#include <string>
#include <vector>

#include "apps/lab/results.h"

namespace gnomon::lab {

// For each length: the encodings from best to worst by tail bits, and `tied`: whether the
// difference from the best is at most two standard deviations. With several seeds, this is the
// standard deviation of the difference between runs of equal seed. With one seed, it is the
// standard error of the mean difference over test segments, but at least 0.02 bits, the spread
// between seeds that others measured at this scale (0.012 to 0.015 nats).
std::vector<Ranking> rankings(const std::vector<EncodingResult>& encodings,
                              const std::vector<RunResult>& runs);

// Returns two to four sentences from the settings, texts, encodings and rankings of `results`.
std::vector<std::string> answer(const Results& results);

}  // namespace gnomon::lab
