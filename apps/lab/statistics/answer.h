// The sentences at the start of the report, generated from the results: the best encoding at
// the training length, what a longer context gains, and the recommended way to use an encoding.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/lab/statistics/results.h"

namespace gnomon::lab {

// The sentences, from all other fields of `results`. The first one is the headline.
std::vector<std::string> answer(const Results& results);

// Sentences about the gain of each method of --extend at the longest length.
std::vector<std::string> extension_answer(const std::vector<ExtensionResult>& extensions,
                                          std::string_view unit);

// A sentence if the results are those of a part of the runs.
std::vector<std::string> missing_runs(const Results& results);

// A task with examples: the share of right answers by length, over seeds, and chance.

// A length is answered if at least this share of the whole answers is right.
constexpr double answered_from = 0.9;

// Sets `stretches`, `ranges`, `depths` and `answered_to` of an encoding from its runs. depths:
// the number of Letters::depths.
void add_example_lengths(EncodingResult& encoding, const std::vector<const RunResult*>& runs,
                         std::int64_t depths = 0);

// "By chance (the best guess ...), up to 20 letters: right whole answers 4 %, right bytes 9 %."
std::string chance_sentence(const Results& results);

// The sentences of the answer.
std::vector<std::string> example_answer(const Results& results);

}  // namespace gnomon::lab
