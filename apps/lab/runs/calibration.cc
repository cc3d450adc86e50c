#include "apps/lab/runs/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <ranges>

#include "apps/lab/data/numbers.h"
#include "apps/lab/data/task.h"
#include "apps/lab/data/words.h"
#include "apps/lab/runs/process.h"
#include "apps/lab/runs/run.h"

namespace gnomon::lab {
namespace {

constexpr double probe_share = 0.03;       // of the time limit, for the measurement of speed
constexpr double validation_share = 1.04;  // time of training with validation
constexpr double share_of_limit = 0.97;    // speeds differ by some percent
constexpr double report_seconds = 2;       // results, pages
// More seeds than the least for a statement (least_seeds), if the full number of steps fits.
constexpr std::int64_t seeds_if_they_fit = 5;
constexpr std::int64_t sweep_seed = 1'000'003;  // other weights and batches than in the session

// The steps of a sweep's run: a third of those of the session, with the whole schedule.
std::int64_t sweep_steps(std::int64_t steps) {
  return std::max(std::min(std::int64_t{20}, steps), steps / 3);
}

// Seconds of the sweep, the training and the tests.
double seconds_of(const Settings& settings, const Options& options, const Speed& speed,
                  std::int64_t seeds, std::int64_t steps) {
  const auto rounds = [&](std::int64_t runs_each) {
    const auto runs = static_cast<double>(std::ssize(settings.encodings) * runs_each);
    return std::ceil(runs / std::max(1, options.jobs));
  };
  const auto of_steps = [&](std::int64_t count) {
    return static_cast<double>(count) * speed.step * validation_share;
  };
  return rounds(seeds) * (of_steps(steps) + speed.tests) +
         rounds(std::ssize(options.sweep)) * of_steps(sweep_steps(steps));
}

// The speed of a few steps of every encoding, with as many runs at the same time as in
// training: the mean, because other processes slow the training down as well. `seconds`: the
// time of the measurement of one encoding.
Speed measured_speed(const Settings& s, const Options& options, const Corpus& corpus,
                     double seconds) {
  std::vector<double> step_seconds(s.encodings.size()), test_seconds(s.encodings.size());
  Settings probe = s;
  probe.eval_segments = 1;
  const auto probe_with = [&](Team& team, std::size_t i) {
    TrainingRun run(probe, corpus, s.encodings[i], 1, team);
    double steps = 0, passed = 0;  // 0 for a trained model
    if (!run.trained()) {
      for (int warm = 0; warm < 2; ++warm) run.train_step();
      const auto start = Clock::now();
      do {
        run.train_step();
        ++steps;
        passed = seconds_since(start);
      } while (team.decide(!run.trained() && (steps < 5 || passed < seconds)));
    }
    if (!team.leads()) return;
    step_seconds[i] = passed / std::max(1.0, steps);
    const auto start = Clock::now();
    run.model().evaluate(stop_is_asked);
    test_seconds[i] = seconds_since(start);
  };
  on_threads(options.jobs, s.encodings.size(), [&](std::size_t i) {
    on_team(options.workers_per_run, [&](Team& team) { probe_with(team, i); });
  });
  return {mean(step_seconds), mean(test_seconds) * static_cast<double>(s.eval_segments)};
}

// The loss of every rate for every entry of settings.encodings, by entry, in the order of the
// rates, with `jobs` runs at the same time. Empty if the session is stopped.
std::vector<SweptRate> sweep(const Settings& settings, const Corpus& corpus,
                             const std::vector<double>& rates, int jobs) {
  std::vector<SweptRate> all;
  for (const std::string& entry : settings.encodings)
    for (const double rate : rates) all.push_back({entry, rate, NAN});
  std::atomic<bool> stopped = false;
  on_threads(jobs, all.size(), [&](std::size_t i) {
    Settings one = settings;
    one.steps = sweep_steps(settings.steps);
    one.rates.clear();
    one.learning_rate = all[i].learning_rate;
    TrainingRun run(one, corpus, all[i].encoding, sweep_seed);
    while (!run.trained() && !stop_asked) run.train_step();
    if (run.trained())
      all[i].validation_bits = *run.summary().curve.back().validation_bits;
    else
      stopped = true;
  });
  return stopped ? std::vector<SweptRate>() : all;
}

// The best rate of each entry. A loss that is not finite is never the best; an entry without a
// finite loss has no rate.
std::vector<EntryRate> best_rates(const std::vector<SweptRate>& swept) {
  std::vector<EntryRate> best;
  double least = INFINITY;
  for (const SweptRate& one : swept) {
    if (!std::isfinite(one.validation_bits)) continue;
    if (best.empty() || best.back().encoding != one.encoding) {
      best.push_back({one.encoding, one.learning_rate});
      least = one.validation_bits;
    } else if (one.validation_bits < least) {
      best.back().learning_rate = one.learning_rate;
      least = one.validation_bits;
    }
  }
  return best;
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
  const auto first_too_many = std::ranges::partition_point(
      std::views::iota(std::int64_t{1}, std::int64_t{1'000'000'001}), [&](std::int64_t steps) {
        return seconds_of(s, options, speed, std::ssize(found.seeds), steps) <= seconds;
      });
  const std::int64_t fit = std::max<std::int64_t>(1, *first_too_many - 1);
  found.steps = options.steps_follow_minutes ? fit : std::min(fit, s.steps);
  found.reason = fmt::format("{} of {} for each {} in {:g} minutes.",
                             counted(std::ssize(found.seeds), "seed"),
                             counted(found.steps, "step"), entry_noun(s), *options.minutes);
  return found;
}

std::vector<SweptRate> calibrate(Settings& usable, Settings& asked, const Options& options,
                                 const Corpus& corpus, std::FILE* stream) {
  if (options.minutes) {
    const double probe = std::clamp(
        probe_share * 60 * *options.minutes / static_cast<double>(std::ssize(usable.encodings)),
        0.3, 3.0);
    const Speed speed = measured_speed(usable, options, corpus, probe);
    const Budget budget = choose_budget(usable, options, speed, seconds_since(options.begin));
    fmt::print(stream, "{}\n", budget.reason);
    asked.seeds = usable.seeds = budget.seeds;
    asked.steps = usable.steps = budget.steps;
  }
  if (options.sweep.empty()) return {};
  fmt::print(stream, "Choosing a learning rate for each encoding.\n");
  std::fflush(stream);
  const std::vector<SweptRate> swept =
      sweep(usable, corpus, options.sweep, std::max(1, options.jobs));
  asked.rates = usable.rates = best_rates(swept);
  return swept;
}

}  // namespace gnomon::lab
