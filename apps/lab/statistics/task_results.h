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

// The encodings that have a range, best first, for each range. `tied`: the difference of the
// scores from the best is at most its margin; if all scores are 0, the difference of the second
// scores.
std::vector<Ranking> example_rankings(const std::vector<EncodingResult>& encodings,
                                      const std::vector<RunResult>& runs);

// Half of the width of the 95 % confidence interval of the difference between the scores of two
// encodings in a range (an index of EncodingResult::ranges): from the number of examples, and
// with several seeds from Student's t of the differences between runs of equal seed if that is
// wider. `number`: &Stretch::score or &Stretch::second.
double example_margin(const std::string& a, const std::string& b, std::size_t range,
                      double Stretch::* number, const std::vector<RunResult>& runs);

// The reason why the models are not trained enough for a comparison. Empty if they are.
std::optional<std::string> no_better_than_chance(const Results& results);

// Whether the best score of a range, an index of Results::rankings, is measurably above the
// score by chance.
bool beats_chance(const Results& results, std::size_t range);

// "By chance (the best guess ...), up to 20 letters: right whole answers 4 %, right bytes 9 %."
std::string chance_sentence(const Results& results);

// The sentences of the answer.
std::vector<std::string> example_answer(const Results& results);

}  // namespace gnomon::lab
