#include "apps/lab/statistics/observations.h"

#include <cmath>

#include "apps/lab/data/lists.h"
#include "apps/lab/data/numbers.h"
#include "apps/lab/model/candidate.h"

namespace gnomon::lab {
namespace {

void add(Observations& sample, const RunResult& run, std::vector<double> units) {
  sample.seeds.push_back(run.seed);
  sample.units.push_back(std::move(units));
  sample.trained = sample.trained && run.steps > 0;
}

// The segments of a run, or its only number.
std::vector<double> units_or(const std::vector<double>& units, double number) {
  return units.empty() ? std::vector{number} : units;
}

}  // namespace

Observations observations_of(const Way& way, std::size_t length,
                             const std::vector<RunResult>& runs) {
  Observations sample;
  for (const RunResult& run : runs) {
    if (run.encoding != way.name) continue;
    if (way.method.empty()) {
      const LengthLoss& at = run.tests.lengths[way.context == Context::cut ? 0 : length];
      add(sample, run, units_or(at.tail_by_segment, at.tail_bits));
      continue;
    }
    if (!run.extension) continue;
    for (const ExtensionMethod& one : run.extension->methods) {
      if (extension_title(one.method) != way.method) continue;
      const bool tuned = way.context == Context::tuned;
      const auto& segments = tuned ? one.after_by_segment : one.without_by_segment;
      add(sample, run,
          units_or(segments.empty() ? std::vector<double>() : segments[length],
                   (tuned ? one.after : one.without)[length]));
    }
  }
  return sample;
}

Observations observations_of(const std::string& encoding, std::size_t range,
                             std::vector<double> Stretch::* scores,
                             const std::vector<RunResult>& runs) {
  Observations sample;
  for (const RunResult& run : runs) {
    if (run.encoding != encoding) continue;
    const Stretch at = ranges_of(run.tests.stretches)[range];
    const double mean_score = scores == &Stretch::scores ? at.score : at.second;
    // A stretch whose numbers are not finite has a mean that is not finite.
    add(sample, run,
        std::isfinite(mean_score) ? units_or(at.*scores, mean_score) : std::vector{mean_score});
  }
  return sample;
}

double mean_margin(const Observations& sample) {
  if (sample.units.empty()) return 0;
  const auto seeds = static_cast<double>(sample.seeds.size());
  const std::vector<double> by_seed = mapped(sample.units, mean),
                            by_unit = means_by_unit(sample.units);
  const auto part = [](const std::vector<double>& numbers) {
    const double one = deviation(numbers);
    return one * one / static_cast<double>(numbers.size());
  };
  const double over_seeds = part(by_seed), over_units = part(by_unit),
               all = over_seeds + over_units;
  if (all == 0) return 0;
  const double seed_degrees = std::max(1.0, seeds - 1),
               unit_degrees = std::max(1.0, static_cast<double>(by_unit.size()) - 1);
  return student_95(all * all /
                    (over_seeds * over_seeds / seed_degrees +
                     over_units * over_units / unit_degrees)) *
         std::sqrt(all);
}

}  // namespace gnomon::lab
