// The results of a task with examples: the share of right answers by length, over seeds, and
// chance.
#pragma once

#include <string>
#include <vector>

#include "apps/lab/results.h"

namespace gnomon::lab {

// A length is answered if at least this share of the whole answers is right.
constexpr double answered_from = 0.9;

// Sets `stretches`, `ranges` and `answered_to` of an encoding from its runs.
void add_example_lengths(EncodingResult& encoding, const std::vector<const RunResult*>& runs);

// For each range the encodings that have it, best first. Tied: the difference from the best is
// at most two standard deviations, over seeds or from the number of examples.
std::vector<Ranking> example_rankings(const std::vector<EncodingResult>& encodings,
                                      const std::vector<RunResult>& runs);

// The sentences of the answer.
std::vector<std::string> example_answer(const Results& results);

// A short text about the result of one run.
std::string outcome_of_examples(const RunResult& run);

}  // namespace gnomon::lab
