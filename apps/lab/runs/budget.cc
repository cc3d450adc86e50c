#include "apps/lab/runs/budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/lab/data/task.h"
#include "apps/lab/data/words.h"
#include "apps/lab/runs/sweep.h"

namespace gnomon::lab {
namespace {

constexpr double validation_share = 1.04;  // time of training with validation
constexpr double share_of_limit = 0.97;    // speeds differ by some percent

// Seconds of the sweep, the training and the tests.
double seconds_of(const Settings& settings, const Options& options, const Speed& speed,
                  std::int64_t seeds, std::int64_t steps) {
  Settings s = settings;
  s.steps = steps;
  const auto rounds = [&](std::int64_t runs_each) {
    const auto runs = static_cast<double>(std::ssize(s.encodings) * runs_each);
    return std::ceil(runs / std::max(1, options.jobs));
  };
  const auto of_steps = [&](std::int64_t count) {
    return static_cast<double>(count) * speed.step * validation_share;
  };
  return rounds(seeds) * (of_steps(steps) + speed.tests) +
         rounds(std::ssize(options.sweep)) * of_steps(sweep_steps(s));
}

// The largest number of steps that fits.
std::int64_t fitting_steps(const Settings& s, const Options& options, const Speed& speed,
                           std::int64_t seeds, double seconds) {
  std::int64_t low = 1, high = 1'000'000'000;
  while (low < high) {
    const std::int64_t middle = low + (high - low + 1) / 2;
    if (seconds_of(s, options, speed, seeds, middle) <= seconds)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

}  // namespace

Budget choose_budget(const Settings& s, const Options& options, const Speed& speed,
                     double spent) {
  Budget found{.seeds = s.seeds};
  const double seconds =
      std::max(0.0, share_of_limit * *options.minutes * 60 - spent - report_seconds);
  if (options.seeds_follow_minutes &&
      seconds_of(s, options, speed, seeds_if_they_fit, s.steps) <= seconds)
    found.seeds = seeds_up_to(seeds_if_they_fit);
  const std::int64_t fit = fitting_steps(s, options, speed, std::ssize(found.seeds), seconds);
  found.steps = options.steps_follow_minutes ? fit : std::min(fit, s.steps);
  found.reason = fmt::format("{} of {} for each {} in {:g} minutes.",
                             counted(std::ssize(found.seeds), "seed"),
                             counted(found.steps, "step"), entry_noun(s), *options.minutes);
  return found;
}

}  // namespace gnomon::lab
