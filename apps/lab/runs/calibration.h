// The number of seeds and steps of a session, from the measured speed and the time limit, and
// the learning rate of each encoding: one short run for each rate of --sweep, and the rate with
// the lowest validation loss. Test data play no part.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
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

// The steps of a sweep's run: a third of those of the session, with the whole schedule.
std::int64_t sweep_steps(const Settings& settings);

// The loss of every rate for every entry of settings.encodings, by entry, in the order of the
// rates, with `jobs` runs at the same time. Empty if `stop` returns true.
std::vector<SweptRate> sweep(const Settings& settings, const Corpus& corpus,
                             const std::vector<double>& rates, int jobs, const Stop& stop);

// The best rate of each entry. A loss that is not finite is never the best; an entry without a
// finite loss has no rate.
std::vector<EntryRate> best_rates(const std::vector<SweptRate>& swept);

// Sets the number of seeds and steps, with the speed of this machine, and the learning rates of
// --sweep, of both settings. Returns the losses of the sweep.
std::vector<SweptRate> calibrate(Settings& usable, Settings& asked, const Options& options,
                                 const Corpus& corpus, std::FILE* stream);

}  // namespace gnomon::lab
