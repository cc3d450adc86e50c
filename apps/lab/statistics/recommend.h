// The recommended encodings by length, with the confidence of each recommendation.
#pragma once

#include <vector>

#include "apps/lab/statistics/results.h"

namespace gnomon::lab {

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
