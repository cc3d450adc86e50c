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

// More seeds than the least for a statement (least_seeds), if the full number of steps fits.
constexpr std::int64_t seeds_if_they_fit = 5;
constexpr double report_seconds = 2;  // results, pages

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

}  // namespace gnomon::lab
