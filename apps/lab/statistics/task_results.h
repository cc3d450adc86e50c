// The results of a task with examples: the share of right answers by length, over seeds, and
// chance.
#pragma once

#include <string>
#include <vector>

#include "apps/lab/statistics/results.h"

namespace gnomon::lab {

// A length is answered if at least this share of the whole answers is right.
constexpr double answered_from = 0.9;

// Sets `stretches`, `ranges` and `answered_to` of an encoding from its runs.
void add_example_lengths(EncodingResult& encoding, const std::vector<const RunResult*>& runs);

// "By chance (the best guess ...), up to 20 letters: right whole answers 4 %, right bytes 9 %."
std::string chance_sentence(const Results& results);

// The sentences of the answer.
std::vector<std::string> example_answer(const Results& results);

}  // namespace gnomon::lab
