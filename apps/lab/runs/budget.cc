#include "apps/lab/runs/budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/lab/data/words.h"

namespace gnomon::lab {
namespace {

constexpr double validation_share = 1.04;  // time of training with validation

// Runs that a thread executes one after another.
double rounds(const Settings& s, const Options& options, std::int64_t seeds) {
  const double runs = static_cast<double>(std::ssize(s.encodings) * seeds);
  return std::ceil(runs / std::max(1, options.jobs));
}

double minutes_of(const Settings& s, const Options& options, const Speed& speed,
                  std::int64_t seeds) {
  const double run = static_cast<double>(s.steps) * speed.step * validation_share + speed.tests;
  return rounds(s, options, seeds) * run / 60;
}

// The number of steps that fits into the time limit.
std::int64_t fitting_steps(const Settings& s, const Options& options, const Speed& speed,
                           std::int64_t seeds) {
  const double run = *options.minutes * 60 / rounds(s, options, seeds);
  const double steps = (run - speed.tests) / (speed.step * validation_share);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::min(steps, 1e9)));
}

}  // namespace

Budget choose_budget(const Settings& s, const Options& options, const Speed& speed) {
  Budget found{.seeds = s.seeds};
  if (options.seeds_follow_minutes) {
    const bool limited = s.task != &text_task && !options.steps_follow_minutes;
    const double limit =
        limited ? std::min(minutes_of_examples, *options.minutes) : *options.minutes;
    const double needed = minutes_of(s, options, speed, seeds_if_they_fit);
    const bool fits = needed <= limit;
    if (fits) found.seeds = seeds_up_to(seeds_if_they_fit);
    found.reason =
        fmt::format("{}: {} seeds of {} take about {:.1f} minutes, and the limit is {:.1f}.{}",
                    counted(std::ssize(found.seeds), "seed"), seeds_if_they_fit,
                    counted(s.steps, "step"), needed, limit,
                    fits ? ""
                         : fmt::format(" To train them: --seeds {} --steps {}.",
                                       seeds_if_they_fit, s.steps));
  }
  const std::int64_t fit = fitting_steps(s, options, speed, std::ssize(found.seeds));
  found.steps = options.steps_follow_minutes ? fit : std::min(fit, s.steps);
  if (found.steps < s.steps && !options.steps_follow_minutes)
    found.reason +=
        fmt::format("{}Number of steps reduced from {} to {}, to stay within {} minutes.",
                    found.reason.empty() ? "" : "\n", s.steps, found.steps, *options.minutes);
  return found;
}

}  // namespace gnomon::lab
