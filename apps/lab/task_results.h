// The results of a task with examples: the share of right answers by length, over seeds, and
// chance.
#pragma once

#include <string>
#include <vector>

#include "apps/lab/options.h"

namespace gnomon::lab {

// A length is answered if at least this share of the whole answers is right.
constexpr double answered_from = 0.9;

// The results of one encoding over its seeds: "stretches" and "ranges" of lengths, each with
// "from", "to", "applicable", "whole" and "whole_deviation", "byte", "bits", "chance_whole",
// "chance_byte"; and "answered_to", the longest length up to which all stretches are answered.
// A range ends at one of settings.eval_lengths and begins after the previous one.
Json example_lengths(const std::vector<const Json*>& runs);

// For each range the encodings that have it, best first: "name", "title", "whole", "byte",
// "tied". Tied: the difference from the best is at most two standard deviations, over seeds or
// from the number of examples.
Json example_rankings(const Json& encodings, const Json& runs);

// The sentences of the answer, from the assembled results.
Json example_answer(const Json& results);

// A short text about the result of one run.
std::string outcome_of_examples(const Json& run);

}  // namespace gnomon::lab
