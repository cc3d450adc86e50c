// The sentences at the start of the report, generated from the results: the best encoding at
// the training length, what a longer context gains, and the recommended way to use an encoding.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/lab/statistics/results.h"

namespace gnomon::lab {

// Advice requires that the best model of a task with text
// - has a loss of at most this share of that of byte frequencies,
// - has a loss below that of the frequencies of byte pairs, except with masked text, and
// - lowered its validation loss by at most this share of it in the last third of its steps.
constexpr double learned_below = 0.9, settled_below = 0.1;

// The sentences, from the settings, texts, machine, encodings, runs, rankings, ways and
// recommendations of `results`. The first one is the headline.
std::vector<std::string> answer(const Results& results);

// Whether the results are those of a part of the runs, as a sentence. Empty if they are not.
std::vector<std::string> missing_runs(const Results& results);

// "Trained 800 of the 2400 steps of --preset default." Empty if the steps are not fewer.
std::optional<std::string> fewer_steps(const Results& results);

// The reason why the models are not trained enough for advice, with the time that they need.
// Empty if they are.
std::optional<std::string> not_trained_enough(const Results& results);

}  // namespace gnomon::lab
