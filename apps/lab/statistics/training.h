// Whether the models are trained enough for a comparison. An encoding takes no part in rankings
//
// diverged     if a result as in training is not finite
// at_chance    if it has not learned the task: text: its loss is not below that of byte pairs by
//              more than equal_bits (masked text: not 10 % below that of byte frequencies);
//              examples: its score as in training is not above chance by a tenth of the way to
//              1, or not measurably
// unconverged  if its validation loss would fall by more than settled_below with twice the steps
//              at a constant learning rate, measured before the learning rate falls. A fall at
//              the end of training shows the schedule, not the convergence
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/lab/statistics/results.h"

namespace gnomon::lab {

// Relative to the loss.
constexpr double settled_below = 0.05;

// The difference between the validation losses at half of the steps with a constant learning rate
// and at all of them. Empty if the curve has no such points.
std::optional<double> fall_of(const RunResult& run, const Settings& settings);

// Sets `training` and `fall` of each encoding from its lengths or ranges, and the runs.
void judge_training(Results& results);

// The least number of seeds of an encoding.
std::int64_t fewest_seeds(const Results& results);

// "Not ranked: None and Learned (no better than byte pairs, 3.52 bits per byte)." Empty if every
// encoding takes part.
std::optional<std::string> excluded_sentence(const Results& results);

// The reason why there is no advice, and what it takes: too few seeds, or no encoding that takes
// part. Empty if there is advice.
std::optional<std::string> no_advice(const Results& results);

// "Trained 800 of the 2400 steps of --preset default." Empty if the steps are not fewer.
std::optional<std::string> fewer_steps(const Results& results);

}  // namespace gnomon::lab
