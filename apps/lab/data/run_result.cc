#include "apps/lab/data/run_result.h"

#include <map>

#include "apps/lab/data/lists.h"
#include "apps/lab/data/numbers.h"

namespace gnomon::lab {
namespace {

// A range of adjacent stretches.
Stretch joined(const std::vector<Stretch>& parts) {
  Stretch all = parts.front();
  all.to = parts.back().to;
  all.examples = 0;
  for (const Stretch& one : parts) {
    all.applicable = all.applicable && one.applicable;
    all.examples += one.examples;
  }
  std::map<std::int64_t, std::pair<std::vector<double>, std::vector<double>>> by_source;
  all.scores.clear(), all.seconds.clear(), all.sources.clear();
  std::int64_t next = -1;  // of an example without a source
  for (const Stretch& one : parts)
    for (std::size_t i = 0; i < one.scores.size(); ++i) {
      auto& [scores, seconds] = by_source[one.sources.empty() ? next-- : one.sources[i]];
      scores.push_back(one.scores[i]);
      if (!one.seconds.empty()) seconds.push_back(one.seconds[i]);
    }
  for (const auto& [source, examples] : by_source) {
    all.scores.push_back(mean(examples.first));
    if (!examples.second.empty()) all.seconds.push_back(mean(examples.second));
  }
  if (!all.scores.empty()) all.examples = std::ssize(all.scores);
  for (double Stretch::* number : {&Stretch::score, &Stretch::second, &Stretch::bits,
                                   &Stretch::chance_score, &Stretch::chance_second})
    all.*number = mean(mapped(parts, number));
  if (all.steps)
    all.steps = mean(mapped(parts, [](const Stretch& one) { return one.steps.value_or(NAN); }));
  return all;
}

}  // namespace

std::vector<Stretch> ranges_of(const std::vector<Stretch>& stretches) {
  std::vector<Stretch> all, here;
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    here.push_back(stretches[i]);
    if (i + 1 < stretches.size() && stretches[i + 1].up_to == stretches[i].up_to) continue;
    all.push_back(joined(here));
    here.clear();
  }
  return all;
}

}  // namespace gnomon::lab
