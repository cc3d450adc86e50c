// The measurements of runs as samples, for contrasts.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "apps/lab/statistics/contrasts.h"
#include "apps/lab/statistics/results.h"

namespace gnomon::lab {

// The losses of a way on each test segment. `length`: an index of settings.eval_lengths.
Observations observations_of(const Way& way, std::size_t length,
                             const std::vector<RunResult>& runs);

// The scores of an encoding on each example of a range, an index of EncodingResult::ranges.
// `scores`: &Stretch::scores or &Stretch::seconds. Results of earlier versions have no scores
// of examples: then each run has one number.
Observations observations_of(const std::string& encoding, std::size_t range,
                             std::vector<double> Stretch::* scores,
                             const std::vector<RunResult>& runs);

// Half of the width of the 95 % confidence interval of the mean of a sample, over seeds and
// units; with one seed over the units. 0 if there is one number only.
double mean_margin(const Observations& sample);

}  // namespace gnomon::lab
