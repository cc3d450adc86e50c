#include "apps/lab/statistics/task_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/lab/data/lists.h"
#include "apps/lab/data/numbers.h"
#include "apps/lab/data/task.h"
#include "apps/lab/data/words.h"
#include "apps/lab/statistics/observations.h"
#include "apps/lab/statistics/rankings.h"
#include "apps/lab/statistics/training.h"

namespace gnomon::lab {
namespace {

constexpr double learnt_from = 0.95;

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

// "right whole answers 12 %, right bytes 45 %"
std::string scores(const Task& task, double score, double second) {
  std::string text = fmt::format("{} {}", task.score, percent_text(score));
  if (!task.second.empty()) text += fmt::format(", {} {}", task.second, percent_text(second));
  return text;
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

std::string beyond_sentence(const Results& results, std::size_t range) {
  const Task& task = *results.settings.task;
  const Ranking& ranking = results.rankings[range];
  const std::string place =
      fmt::format("{} {}", range_text(ranking.from, ranking.to), task.unit);
  const std::string at = "At " + place;
  if (ranking.order.empty()) return fmt::format("No encoding has positions for {}.", place);
  const std::vector<Way>& order = ranking.order;
  if (std::ranges::none_of(order, [](const Way& one) { return std::isfinite(one.value); }))
    return at + ", every encoding diverged.";
  const bool no_score = has_no_score(ranking);
  const StretchMean& best = find_encoding(results, order[0].name)->ranges[range];
  if (!no_score && !beats_chance(results, range))
    return fmt::format("{}, no encoding has {} above chance: guessing gives {} ({}).", at,
                       task.score, percent_text(best.chance_score),
                       counted(best.examples, "example"));
  std::string text = at + ": ";
  if (no_score) {
    text = fmt::format("{}, {} are 0 % with each encoding that has a result", at, task.score);
    if (task.second.empty()) return text + ".";
    text +=
        fmt::format("; by {} (by chance {}), ", task.second, percent_text(best.chance_second));
  }
  return text +
         standing_text(
             order, contrasts_of(results, ranking, range), unit_text(results),
             [&](const Way& one) { return percent_text(no_score ? *one.second : one.value); }) +
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
  std::ranges::stable_sort(
      order, is_higher, [&](const EncodingResult* one) { return one->ranges[range].second; });
  const auto shares = mapped(order, [&](const EncodingResult* one) {
    return fmt::format("{} ({})", one->title, percent_text(one->ranges[range].second));
  });
  const StretchMean& first = order[0]->ranges[range];
  return fmt::format("{} at {} {} (by chance {}): {}.", capitalized(std::string(task.second)),
                     range_text(first.from, first.to), task.unit,
                     percent_text(first.chance_second), listed(shares));
}

}  // namespace

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
