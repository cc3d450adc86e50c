// The sentences at the start of the report, generated from the results: the best encoding at
// the training length, what a longer context gains, and the recommended way to use an encoding.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/lab/statistics/results.h"

namespace gnomon::lab {

// The sentences, from the settings, texts, machine, encodings, runs, rankings, ways and
// recommendations of `results`. The first one is the headline.
std::vector<std::string> answer(const Results& results);

// Sentences about the gain of each method of --extend at the longest length.
std::vector<std::string> extension_answer(const std::vector<ExtensionResult>& extensions,
                                          std::string_view unit);

// Whether the results are those of a part of the runs, as a sentence. Empty if they are not.
std::vector<std::string> missing_runs(const Results& results);

}  // namespace gnomon::lab
