// The cost of an encoding in the model of the settings: its parameters, the time of a training
// step relative to the encoding none, and the memory of one pass over a long window. Measured
// before the training, one encoding after another, in separate processes.
#pragma once

#include <functional>

#include "apps/lab/data/corpus.h"
#include "apps/lab/data/run_result.h"

namespace gnomon::lab {

// The costs of each of settings.encodings in their order, and of "none" before the first one of
// each size of models, until `seconds` have passed. Lengths: 1024, 4096 and, with --preset
// full, 16384, if a pass takes at most a few seconds. Empty on another device than the CPU, or
// if `stop` returns true.
std::vector<MeasuredCost> measure_cost(const Settings& settings, const Corpus& corpus,
                                       double seconds, const Stop& stop);

// The encoding none in a model of the size of the entry.
std::string reference_of(const std::string& name);

// The median of the numbers (at least one) and the limits of its 95 % confidence interval. With
// fewer than six numbers, the limits are the smallest and the largest, and the confidence is
// less.
RelativeTime median_interval(std::vector<double> numbers);

}  // namespace gnomon::lab
