// The number of seeds and steps of a session, from the measured speed and the time limit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/lab/runs/options.h"

namespace gnomon::lab {

// Seconds of a training step and of the tests of a run, means over the encodings.
struct Speed {
  double step = 0, tests = 0;
};

// Three seeds are the fewest with a useful confidence interval: the factor of Student's t is
// 12.7 for two and 4.3 for three.
constexpr std::int64_t seeds_if_they_fit = 3;

// With the default preset, a task other than text takes at most this time for three seeds, in
// minutes. Its time limit is that of the preset.
constexpr double minutes_of_examples = 3;

struct Budget {
  std::vector<std::int64_t> seeds = {1};
  std::int64_t steps = 0;
  std::string reason = {};  // one line for the terminal; empty if nothing was chosen
};

// settings.seeds and settings.steps are those of the options and the preset, options.minutes is
// the limit. The runs of all encodings and seeds take equal time on options.jobs threads.
//
// Seeds: three if --seeds is not given, the preset has one, and three seeds of the full number
// of steps fit into the limit; more seeds never lower the steps. Steps: at most settings.steps;
// with --minutes, as many as fit. At least 1.
Budget choose_budget(const Settings& settings, const Options& options, const Speed& speed);

}  // namespace gnomon::lab
