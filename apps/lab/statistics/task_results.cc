#include "apps/lab/statistics/task_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "apps/lab/data/numbers.h"
#include "apps/lab/data/task.h"
#include "apps/lab/data/words.h"
#include "apps/lab/statistics/diverged.h"
#include "apps/lab/statistics/observations.h"
#include "apps/lab/statistics/standing.h"
#include "apps/lab/statistics/training.h"

namespace gnomon::lab {
namespace {

constexpr double learnt_from = 0.95;

// The interval of StretchMean: at least that of Wilson for the examples of one seed.
Interval interval(const Observations& sample, std::int64_t examples) {
  std::vector<double> seeds;
  for (const std::vector<double>& units : sample.units) seeds.push_back(mean(units));
  const double middle = mean(seeds), margin = mean_margin(sample);
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
      std::vector<double> here;
      for (const auto& seed : seeds) here.push_back(seed[i].*number);
      return here;
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

// "right whole answers 12 %, right bytes 45 %"
std::string scores(const Task& task, double score, double second) {
  std::string text = fmt::format("{} {}", task.score, percent_text(score));
  if (!task.second.empty()) text += fmt::format(", {} {}", task.second, percent_text(second));
  return text;
}

// "guessing gives 11 % (100 examples)".
std::string guesses(double share, std::int64_t examples) {
  return fmt::format("guessing gives {} ({})", percent_text(share),
                     counted(examples, "example"));
}

std::string trained_sentence(const Results& results, const Task& task) {
  std::vector<std::string> learnt, others;  // leave out those that diverged
  for (const EncodingResult& one : results.encodings) {
    const StretchMean& range = one.ranges.front();
    if (!range.applicable || !std::isfinite(range.score)) continue;
    if (range.score >= learnt_from)
      learnt.push_back(one.title);
    else
      others.push_back(fmt::format("{} ({})", one.title, percent_text(range.score)));
  }
  const StretchMean& range = results.encodings[0].ranges.front();
  std::string text =
      fmt::format("{}, {} {} {} as in training (by chance: {}): {} ", task.title,
                  range.from == range.to ? "at" : "up to", range.to, task.unit,
                  scores(task, range.chance_score, range.chance_second), task.score);
  if (!learnt.empty())
    text += fmt::format("of at least {} with {}", percent_text(learnt_from), listed(learnt));
  if (!others.empty())
    text += (learnt.empty() ? "below " + percent_text(learnt_from) + " with "
                            : std::string("; less with ")) +
            listed(others);
  return text + ".";
}

// The best encoding at a range. Null if no encoding has positions for it.
const StretchMean* best_of(const Results& results, std::size_t range) {
  const std::vector<RankedEncoding>& order = results.rankings[range].order;
  for (const EncodingResult& one : results.encodings)
    if (!order.empty() && one.name == order[0].name) return &one.ranges[range];
  return nullptr;
}

UnitText points_text() {
  return {[](double share) { return fmt::format("{:.1f}", 100 * share); }, "points",
          equal_share};
}

std::string beyond_sentence(const Results& results, std::size_t range) {
  const Task& task = *results.settings.task;
  const auto& [from, to, order] = results.rankings[range];
  const std::string at = fmt::format("At {} {}", range_text(from, to), task.unit);
  if (order.empty())
    return fmt::format("No encoding has positions for {} {}.", range_text(from, to), task.unit);
  if (std::none_of(order.begin(), order.end(),
                   [](const RankedEncoding& one) { return std::isfinite(one.score); }))
    return at + ", every encoding diverged.";
  const bool no_score = std::all_of(order.begin(), order.end(),
                                    [](const RankedEncoding& one) { return !(one.score > 0); });
  if (!no_score && !beats_chance(results, range)) {
    const StretchMean& best = *best_of(results, range);
    return fmt::format("{}, no encoding has {} above chance: {}.", at, task.score,
                       guesses(best.chance_score, best.examples));
  }
  std::vector<Standing> standings;
  for (const RankedEncoding& one : order)
    standings.push_back(
        {one.title, percent_text(no_score ? one.second : one.score), one.verdict});
  std::string text = at + ": ";
  if (no_score) {
    text = fmt::format("{}, {} are 0 % with each encoding that has a result", at, task.score);
    if (task.second.empty()) return text + ".";
    text += fmt::format("; by {} (by chance {}), ", task.second,
                        percent_text(best_of(results, range)->chance_second));
  }
  return text + standing_text(standings, contrasts_of_range(results, range), points_text()) +
         ".";
}

// The second scores of a range, if they answer another question than the scores.
std::string second_sentence(const Results& results, std::size_t range) {
  const Task& task = *results.settings.task;
  std::vector<const EncodingResult*> order;
  for (const EncodingResult& one : results.encodings)
    if (one.ranges[range].applicable && std::isfinite(one.ranges[range].second))
      order.push_back(&one);
  if (order.empty()) return "";
  std::stable_sort(order.begin(), order.end(), [&](const auto* a, const auto* b) {
    return is_higher(a->ranges[range].second, b->ranges[range].second);
  });
  std::vector<std::string> shares;
  for (const EncodingResult* one : order)
    shares.push_back(
        fmt::format("{} ({})", one->title, percent_text(one->ranges[range].second)));
  const StretchMean& first = order[0]->ranges[range];
  return fmt::format("{} at {} {} (by chance {}): {}.", capitalized(std::string(task.second)),
                     range_text(first.from, first.to), task.unit,
                     percent_text(first.chance_second), listed(shares));
}

}  // namespace

bool beats_chance(const Results& results, std::size_t range) {
  const StretchMean* best = best_of(results, range);
  if (!best || !std::isfinite(best->score)) return false;
  // The lower limit of the best of as many encodings.
  const double z = normal_quantile(1 - 0.025 / static_cast<double>(results.encodings.size()));
  return best->score_interval.low > best->chance_score &&
         share_interval(best->score, best->examples, z).low > best->chance_score;
}

void add_example_lengths(EncodingResult& encoding, const std::vector<const RunResult*>& runs) {
  std::vector<std::vector<Stretch>> stretches, ranges;
  for (const RunResult* run : runs) {
    stretches.push_back(run->tests.stretches);
    ranges.push_back(ranges_of(run->tests.stretches));
  }
  encoding.stretches = over_seeds(stretches);
  encoding.ranges = over_seeds(ranges);
  for (const StretchMean& one : encoding.stretches) {
    if (!one.applicable || one.score < answered_from) break;
    encoding.answered_to = one.to;
  }
}

Contrasts contrasts_of_range(const Results& results, std::size_t range) {
  const std::vector<RankedEncoding>& order = results.rankings[range].order;
  // If no score is above 0, the second scores are compared.
  const bool no_score = std::all_of(order.begin(), order.end(),
                                    [](const RankedEncoding& one) { return !(one.score > 0); });
  std::vector<Observations> entries;
  std::vector<bool> usual;
  for (const RankedEncoding& one : order) {
    entries.push_back(observations_of(one.name, range,
                                      no_score && !results.settings.task->second.empty()
                                          ? &Stretch::seconds
                                          : &Stretch::scores,
                                      results.runs));
    usual.push_back(std::isfinite(one.score) &&
                    find_encoding(results, one.name).training == Training::enough);
  }
  return {std::move(entries), Better::higher, statements_of(results), usual};
}

void rank_examples(Results& results) {
  results.rankings.clear();
  const std::vector<EncodingResult>& encodings = results.encodings;
  if (encodings.empty()) return;
  for (std::size_t i = 0; i < encodings[0].ranges.size(); ++i) {
    Ranking ranking{encodings[0].ranges[i].from, encodings[0].ranges[i].to, {}};
    for (const EncodingResult& one : encodings)
      if (const StretchMean& range = one.ranges[i]; range.applicable)
        ranking.order.push_back({.name = one.name,
                                 .title = one.title,
                                 .score = range.score,
                                 .second = range.second});
    const auto takes_part = [&](const RankedEncoding& one) {
      return find_encoding(results, one.name).training == Training::enough;
    };
    std::stable_sort(ranking.order.begin(), ranking.order.end(),
                     [&](const RankedEncoding& a, const RankedEncoding& b) {
                       if (takes_part(a) != takes_part(b)) return takes_part(a);
                       return is_higher(a.score, b.score) ||
                              (a.score == b.score && is_higher(a.second, b.second));
                     });
    results.rankings.push_back(ranking);
  }
  for (std::size_t i = 0; i < results.rankings.size(); ++i) {
    std::vector<RankedEncoding>& order = results.rankings[i].order;
    const std::vector<Verdict> verdicts = contrasts_of_range(results, i).verdicts(equal_share);
    for (std::size_t k = 0; k < order.size(); ++k) order[k].verdict = verdicts[k];
  }
}

std::string chance_sentence(const Results& results) {
  const Task& task = *results.settings.task;
  const StretchMean& range = results.encodings[0].ranges.front();
  return fmt::format("By chance ({}), up to {} {}: {}.", task.chance, range.to, task.unit,
                     scores(task, range.chance_score, range.chance_second));
}

std::vector<std::string> example_answer(const Results& results) {
  std::vector<std::string> sentences;
  if (const auto reason = no_advice(results)) sentences.push_back(*reason);
  if (all_diverged(results)) return sentences;
  if (const auto excluded = excluded_sentence(results)) sentences.push_back(*excluded);
  sentences.push_back(trained_sentence(results, *results.settings.task));
  for (std::size_t i = 1; i < results.rankings.size(); ++i)
    sentences.push_back(beyond_sentence(results, i));
  if (results.settings.task->reports_second)
    for (std::size_t i = 0; i < results.rankings.size(); ++i)
      if (std::string one = second_sentence(results, i); !one.empty())
        sentences.push_back(std::move(one));
  return sentences;
}

}  // namespace gnomon::lab
