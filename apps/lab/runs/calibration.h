// The number of seeds and steps of a session, from the measured speed and the time limit, and
// the learning rate of each encoding: one short run for each rate of --sweep, and the rate with
// the lowest validation loss. Test data play no part.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "apps/lab/data/corpus.h"
#include "apps/lab/data/run_result.h"
#include "apps/lab/runs/options.h"

namespace gnomon::lab {

// Seconds of a training step and of the tests of a run, means over the encodings.
struct Speed {
  double step = 0, tests = 0;
};

struct Budget {
  std::vector<std::int64_t> seeds = {};
  std::int64_t steps = 0;
  std::string reason = {};  // one line for the terminal
};

// settings.seeds and settings.steps are those of the options and the preset, options.minutes is
// the limit for everything, of which `spent` seconds have passed. The runs of all encodings and
// seeds take equal time on options.jobs threads.
//
// Seeds: seeds_if_they_fit if --seeds is not given and they fit with settings.steps. Steps: at
// most settings.steps; with --minutes, as many as fit. At least 1.
Budget choose_budget(const Settings& settings, const Options& options, const Speed& speed,
                     double spent);

// Sets the number of seeds and steps, with the speed of this machine, and the learning rates of
// --sweep, of both settings. Returns the losses of the sweep.
std::vector<SweptRate> calibrate(Settings& usable, Settings& asked, const Options& options,
                                 const Corpus& corpus, std::FILE* stream);

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
