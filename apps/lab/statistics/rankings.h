// Rankings of encodings at each length or in each range, and of all ways to use them; their
// order with the verdicts as a part of a sentence.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/lab/statistics/contrasts.h"
#include "apps/lab/statistics/results.h"

namespace gnomon::lab {

// Sets `rankings` from the encodings and runs, and `ways` for a task with text: for each length
// or range, from best to worst by the loss on the same test bytes or by the scores, and the
// excluded encodings after the others. At the training length, there is only the whole context.
void rank(Results& results);

// The comparison of all entries of a ranking in their order; of the second scores if no score
// is above 0. `place`: its index in Results::rankings or Results::ways. 95 % of all sessions
// make no false statement about any place.
Contrasts contrasts_of(const Results& results, const Ranking& ranking, std::size_t place);

// Whether a task has examples and no entry of the ranking has a score above 0.
bool has_no_score(const Ranking& ranking);

// Whether the best score of a range, an index of Results::rankings, is measurably above the
// score by chance.
bool beats_chance(const Results& results, std::size_t range);

// Numbers of a unit as text: "0.12 ± 0.05 bits".
struct UnitText {
  std::string (*number)(double);
  std::string unit;
  double equal_within = 0;

  std::string text(const Contrast& one) const;
  std::string limit() const;  // "0.05 bits"
};
// Bits, or points for a task with examples.
UnitText unit_text(const Results& results);

// "Rotary (2.47) is the best: better than the next, ALiBi (2.60), by 0.13 ± 0.05
// bits", "which is best is not decided: ...", for entries in the order of `contrasts`, the best
// first. Excluded entries are not named. `value`: the text in parentheses.
std::string standing_text(const std::vector<Way>& order, const Contrasts& contrasts,
                          const UnitText& unit,
                          const std::function<std::string(const Way&)>& value);

// The measurements of runs as samples.

// The losses of a way on each test segment. `length`: an index of settings.eval_lengths.
Observations observations_of(const Way& way, std::size_t length,
                             const std::vector<RunResult>& runs);

// The scores of an encoding on each example of a range, an index of EncodingResult::ranges.
// `scores`: &Stretch::scores or &Stretch::seconds. Results of earlier versions have no scores
// of examples: then each run has one number.
Observations observations_of(const std::string& encoding, std::size_t range,
                             std::vector<double> Stretch::* scores,
                             const std::vector<RunResult>& runs);

// Recommendations from the settings, encodings, rankings, ways and runs of `results`, in
// ascending order. Text: the best way to use an encoding at each tested length; adjacent
// lengths with the same choices are one recommendation. Examples: the encodings with the best
// scores in each range, unless they are not better than chance. Empty if the models are not
// trained enough for advice.
std::vector<Recommendation> recommendations(const Results& results);

// Whether two lists have the same encodings and uses, in any order.
bool same_choices(std::vector<Choice> a, std::vector<Choice> b);

// "with its context cut to the last 128 bytes"; empty for an encoding.
std::string use_of(const Way& way, const Results& results);

// "Rotary with its context cut to the last 128 bytes or ALiBi".
std::string choices_text(const Recommendation& one);

}  // namespace gnomon::lab
