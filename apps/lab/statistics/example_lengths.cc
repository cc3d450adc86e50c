#include <algorithm>
#include <cmath>

#include "apps/lab/data/lists.h"
#include "apps/lab/statistics/answer.h"

namespace gnomon::lab {
namespace {

// The interval of StretchMean: at least that of Wilson for the examples of one seed.
Interval interval(const Observations& sample, std::int64_t examples) {
  const double middle = mean(mapped(sample.units, mean)), margin = mean_margin(sample);
  const Interval share = share_interval(middle, examples);
  return {std::min(share.low, std::max(0.0, middle - margin)),
          std::max(share.high, std::min(1.0, middle + margin))};
}

// Means and deviations over the seeds, for each stretch or range.
std::vector<StretchMean> over_seeds(const std::vector<std::vector<Stretch>>& seeds) {
  std::vector<StretchMean> all;
  for (std::size_t i = 0; i < seeds.front().size(); ++i) {
    const Stretch& first = seeds.front()[i];
    const auto numbers = [&](double Stretch::* number) {
      return mapped(seeds, [&](const auto& seed) { return seed[i].*number; });
    };
    const auto sample = [&](double Stretch::* number, std::vector<double> Stretch::* units) {
      Observations made;
      for (const auto& seed : seeds) {
        made.seeds.push_back(std::ssize(made.seeds));
        const std::vector<double>& scores = seed[i].*units;
        made.units.push_back(scores.empty() ? std::vector{seed[i].*number} : scores);
      }
      return made;
    };
    all.push_back({first.from, first.to, first.applicable, first.examples,
                   mean(numbers(&Stretch::score)), deviation(numbers(&Stretch::score)),
                   mean(numbers(&Stretch::second)), mean(numbers(&Stretch::bits)),
                   first.chance_score, first.chance_second,
                   interval(sample(&Stretch::score, &Stretch::scores), first.examples),
                   interval(sample(&Stretch::second, &Stretch::seconds), first.examples)});
    StretchMean& one = all.back();
    if (std::isfinite(one.score + one.second + one.bits)) continue;
    one.score = one.second = NAN;
    one.score_interval = one.second_interval = {NAN, NAN};  // a chart has no band
  }
  return all;
}

// The same stretches with the tests of one depth (Letters::depths).
std::vector<Stretch> at_depth(std::vector<Stretch> stretches, std::int64_t depth,
                              std::int64_t depths) {
  for (Stretch& one : stretches)
    for (const auto& [number, list] : {std::pair{&Stretch::score, &Stretch::scores},
                                       {&Stretch::second, &Stretch::seconds}}) {
      std::vector<double> kept;
      for (std::int64_t i = depth; i < std::ssize(one.*list); i += depths)
        kept.push_back(nth(one.*list, i));
      if (kept.empty()) continue;  // not applicable, or without the scores of examples
      one.*number = mean(kept);
      one.*list = kept;
      one.examples = std::ssize(kept);
    }
  return stretches;
}

}  // namespace

void add_example_lengths(EncodingResult& encoding, const std::vector<const RunResult*>& runs,
                         std::int64_t depths) {
  const auto of_runs = [&](auto&& stretches_of) {
    return over_seeds(
        mapped(runs, [&](const RunResult* run) { return stretches_of(run->tests.stretches); }));
  };
  encoding.stretches = of_runs([](const auto& all) { return all; });
  encoding.ranges = of_runs(ranges_of);
  for (std::int64_t depth = 0; depth < depths; ++depth)
    encoding.depths.push_back(
        of_runs([&](const auto& all) { return ranges_of(at_depth(all, depth, depths)); }));
  for (const StretchMean& one : encoding.stretches) {
    if (!one.applicable || one.score < answered_from) break;
    encoding.answered_to = one.to;
  }
}

}  // namespace gnomon::lab
