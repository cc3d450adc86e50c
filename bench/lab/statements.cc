// The false and the missed statements of the lab's comparison, by simulation: results are drawn
// with known differences, and the statements of the page about them are counted.
//
//   gnomon_lab_statements [SESSIONS]
//
// docs/lab/statistics.md has the table. A loss is the expectation of its encoding + a deviation
// that all encodings have in common with a seed + one of the encoding and the seed + one of the
// encoding and the test segment. "Before" is the rule of earlier versions: a difference from
// the best mean counts if Student's interval over the paired seeds does not contain 0, with one
// seed if it exceeds 0.04 bits and the interval over the segments.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "apps/lab/data/draws.h"
#include "apps/lab/data/numbers.h"
#include "apps/lab/statistics/results.h"
#include "gnomon/model/encoding.h"

namespace gnomon::lab {
namespace {

struct Scenario {
  const char* name;
  std::vector<double> expected, deviations;  // bits at every length; of a seed
};

constexpr std::int64_t lengths[] = {128, 256, 512, 1024};
constexpr int segments = 48;
constexpr double common_deviation = 0.05, segment_deviation = 0.05, known_from = 0.1;

double normal(Draws& draws) {
  double sum = -6;  // of 12 uniform numbers
  for (int i = 0; i < 12; ++i) sum += std::ldexp(static_cast<double>(draws.next() >> 11), -53);
  return sum;
}

Results drawn(const Scenario& scenario, std::int64_t seeds, Draws& draws) {
  Results results;
  Settings& s = results.settings;
  s.eval_lengths.assign(std::begin(lengths), std::end(lengths));
  s.steps = 600;
  s.seeds = seeds_up_to(seeds);
  results.texts.byte_frequency_bits = results.texts.byte_pair_bits = 9;
  results.machine.cores = 2;
  std::vector<double> common;
  for (std::int64_t i = 0; i < seeds; ++i) common.push_back(common_deviation * normal(draws));
  for (std::size_t k = 0; k < scenario.expected.size(); ++k) {
    s.encodings.emplace_back(model::encodings()[k].name);
    std::vector<double> of_segment;
    for (int i = 0; i < segments; ++i) of_segment.push_back(segment_deviation * normal(draws));
    for (const std::int64_t seed : s.seeds) {
      RunResult& run = results.runs.emplace_back();
      run.encoding = s.encodings.back(), run.seed = seed, run.steps = s.steps;
      run.specification = Json::object();
      const double here = scenario.expected[k] + common[static_cast<std::size_t>(seed - 1)] +
                          scenario.deviations[k] * normal(draws);
      for (const std::int64_t length : lengths) {
        LengthLoss& at = run.tests.lengths.emplace_back();
        at.length = length, at.applicable = true, at.windows = segments;
        for (const double one : of_segment) at.tail_by_segment.push_back(here + one);
        at.tail_bits = mean(at.tail_by_segment);
      }
    }
  }
  results.runs_asked = std::ssize(results.runs);
  compare_encodings(results);
  return results;
}

// The encodings that the rule of earlier versions calls worse than the best at a length.
std::vector<bool> worse_before(const Results& results, std::size_t length) {
  const std::size_t seeds = results.settings.seeds.size();
  std::vector<std::vector<double>> means;
  for (std::size_t k = 0; k < results.settings.encodings.size(); ++k) {
    means.emplace_back();
    for (std::size_t s = 0; s < seeds; ++s)
      means[k].push_back(results.runs[k * seeds + s].tests.lengths[length].tail_bits);
  }
  std::size_t best = 0;
  for (std::size_t k = 1; k < means.size(); ++k)
    if (mean(means[k]) < mean(means[best])) best = k;
  std::vector<bool> worse;
  for (std::size_t k = 0; k < means.size(); ++k) {
    std::vector<double> differences;
    for (std::size_t s = 0; s < seeds; ++s) differences.push_back(means[k][s] - means[best][s]);
    double margin = mean_margin(differences);
    if (seeds == 1) {
      std::vector<double> units;
      for (std::size_t i = 0; i < segments; ++i)
        units.push_back(results.runs[k].tests.lengths[length].tail_by_segment[i] -
                        results.runs[best].tests.lengths[length].tail_by_segment[i]);
      margin = std::max(0.04, mean_margin(units));
    }
    worse.push_back(mean(differences) > margin);
  }
  return worse;
}

struct Counts {
  int sessions = 0, wrong = 0;
  double known = 0, missed = 0;

  void add(const Scenario& scenario, const std::vector<std::vector<bool>>& worse) {
    const double best = *std::min_element(scenario.expected.begin(), scenario.expected.end());
    bool false_one = false;
    for (const std::vector<bool>& at : worse)
      for (std::size_t k = 0; k < at.size(); ++k) {
        const double difference = scenario.expected[k] - best;
        false_one = false_one || (at[k] && difference == 0);
        if (difference >= known_from) ++known, missed += !at[k];
      }
    ++sessions, wrong += false_one;
  }
  std::string text() const {
    return fmt::format("{:.0f} %{}", 100.0 * wrong / sessions,
                       known > 0 ? fmt::format(", {:.0f} %", 100 * missed / known) : "");
  }
};

void print_row(const Scenario& scenario, std::int64_t seeds, int sessions) {
  Draws draws{static_cast<std::uint64_t>(seeds), 99};
  Counts before, now;
  for (int i = 0; i < sessions; ++i) {
    const Results results = drawn(scenario, seeds, draws);
    std::vector<std::vector<bool>> old_rule, rule;
    for (std::size_t at = 0; at < results.rankings.size(); ++at) {
      old_rule.push_back(worse_before(results, at));
      std::vector<bool>& worse = rule.emplace_back(scenario.expected.size());
      for (const Way& one : results.rankings[at].order)
        worse[static_cast<std::size_t>(std::find(results.settings.encodings.begin(),
                                                 results.settings.encodings.end(), one.name) -
                                       results.settings.encodings.begin())] =
            one.verdict == Verdict::worse;
    }
    before.add(scenario, old_rule);
    now.add(scenario, rule);
  }
  fmt::print("| {} | {} | {} | {} |\n", scenario.name, seeds, before.text(), now.text());
  std::fflush(stdout);
}

int run(int sessions) {
  const auto equal = [](std::size_t count, double deviation) {
    return std::pair{std::vector<double>(count, 2.4), std::vector<double>(count, deviation)};
  };
  std::vector<Scenario> all;
  all.push_back({"6 equal encodings", equal(6, 0.03).first, equal(6, 0.03).second});
  all.push_back({"12 equal encodings", equal(12, 0.03).first, equal(12, 0.03).second});
  all.push_back({"2 equal encodings", equal(2, 0.03).first, equal(2, 0.03).second});
  all.push_back({"6 equal encodings, one with a deviation of 0.12",
                 equal(6, 0.02).first,
                 {0.02, 0.02, 0.02, 0.02, 0.02, 0.12}});
  all.push_back({"6 encodings, 0.1 bits apart",
                 {2.2, 2.3, 2.4, 2.5, 2.6, 2.7},
                 std::vector<double>(6, 0.03)});
  all.push_back({"6 encodings, 0.2 bits apart",
                 {2.2, 2.4, 2.6, 2.8, 3.0, 3.2},
                 std::vector<double>(6, 0.03)});
  fmt::print("| expectations | seeds | before | now |\n|---|---|---|---|\n");
  for (const Scenario& one : all)
    for (const std::int64_t seeds : {1, 3, 5}) print_row(one, seeds, sessions);
  return 0;
}

}  // namespace
}  // namespace gnomon::lab

int main(int argc, char** argv) {
  return gnomon::lab::run(argc > 1 ? std::max(1, std::atoi(argv[1])) : 400);
}
