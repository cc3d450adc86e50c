// The results of a task with examples: the share of right answers by length, over seeds, and
// chance.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/lab/statistics/results.h"

namespace gnomon::lab {

// A length is answered if at least this share of the whole answers is right.
constexpr double answered_from = 0.9;

// Sets `stretches`, `ranges` and `answered_to` of an encoding from its runs.
void add_example_lengths(EncodingResult& encoding, const std::vector<const RunResult*>& runs);

// Sets `rankings` from the encodings and runs: the encodings that have a range, best first, and
// the excluded ones after the others.
void rank_examples(Results& results);

// The comparison of the scores in a range, an index of Results::rankings, in its order; of the
// second scores if no score is above 0. 95 % of all sessions make no false statement about any
// range.
Contrasts contrasts_of_range(const Results& results, std::size_t range);

// Whether the best score of a range, an index of Results::rankings, is measurably above the
// score by chance.
bool beats_chance(const Results& results, std::size_t range);

// "By chance (the best guess ...), up to 20 letters: right whole answers 4 %, right bytes 9 %."
std::string chance_sentence(const Results& results);

// The sentences of the answer.
std::vector<std::string> example_answer(const Results& results);

}  // namespace gnomon::lab
