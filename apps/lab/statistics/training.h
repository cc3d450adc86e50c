// Whether the models are trained enough for a comparison. An encoding takes no part in rankings
//
// diverged     if a result as in training is not finite (NaN or infinite). Such a number ranks
//              last, is shown as "diverged", and is never recommended
// at_chance    if it has not learned the task. Text: its loss is not 5 % below that of byte
//              pairs (masked text: not 10 % below that of byte frequencies). Examples: its
//              score as in training is not a tenth of the way from chance to 1, or not
//              measurably above chance
// unconverged  if its place would change with twice the steps. Text: its loss is more than
//              equal_bits above that of another encoding and falls faster than the other's by
//              more than the difference. Examples: it does not answer the training lengths, and
//              its loss would fall by more than a fifth
//
// The fall of the loss is that of the validation loss at a constant learning rate, before the
// learning rate falls: the end of a schedule flattens or lowers every curve.
#pragma once

#include <optional>
#include <string>

#include "apps/lab/statistics/results.h"

namespace gnomon::lab {

// The difference between the validation losses at half of the steps with a constant learning
// rate and at all of them. Empty if the curve has no such points.
std::optional<double> fall_of(const RunResult& run, const Settings& settings);

// Whether no encoding has a finite loss or score as in training.
bool all_diverged(const Results& results);
// The advice in this case.
std::string all_diverged_sentence(const Results& results);
// Which encodings diverged, at which lengths. Empty if none did.
std::optional<std::string> diverged_sentence(const Results& results);

// Sets `training` and `fall` of each encoding from its lengths or ranges, and the runs.
void judge_training(Results& results);

// Whether a share is above chance by Wilson's interval for the best of as many encodings. (Of
// six encodings that guess, one is above chance by its own interval in a seventh of all
// sessions.) Seeds do not enter: one that has learned the task while others have not is no
// guess.
bool is_above_chance(double share, double chance, std::int64_t examples, std::size_t encodings);

// The number of statements for which the intervals of a page are corrected: three times the
// comparisons of the encodings that take part with the best. The lengths and the uses of an
// encoding are correlated (docs/lab/statistics.md).
std::size_t statements_of(const Results& results);

// The least number of seeds of an encoding.
std::int64_t fewest_seeds(const Results& results);

// "Not ranked: None and Learned (no better than byte pairs, 3.52 bits per byte)." Empty if
// every encoding takes part.
std::optional<std::string> excluded_sentence(const Results& results);

// The reason why there is no advice, and what it takes: too few seeds, or no encoding that
// takes part. Empty if there is advice.
std::optional<std::string> no_advice(const Results& results);

// "Trained 800 of the 2400 steps of --preset default." Empty if the steps are not fewer.
std::optional<std::string> fewer_steps(const Results& results);

}  // namespace gnomon::lab
