#include "apps/lab/statistics/task_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "apps/lab/data/numbers.h"
#include "apps/lab/data/task.h"
#include "apps/lab/data/words.h"
#include "apps/lab/statistics/diverged.h"

namespace gnomon::lab {
namespace {

constexpr double learnt_from = 0.95;
constexpr double learned_share = 0.1;  // share of the way to 1; see no_better_than_chance

// The interval of StretchMean.
Interval interval(const std::vector<double>& seeds, std::int64_t examples) {
  const double middle = mean(seeds), margin = mean_margin(seeds);
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
    all.push_back({first.from, first.to, first.applicable, first.examples,
                   mean(numbers(&Stretch::score)), deviation(numbers(&Stretch::score)),
                   mean(numbers(&Stretch::second)), mean(numbers(&Stretch::bits)),
                   first.chance_score, first.chance_second,
                   interval(numbers(&Stretch::score), first.examples),
                   interval(numbers(&Stretch::second), first.examples)});
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

// Whether the best share of several encodings is measurably above chance: by its interval, and
// by that of the best of as many. (Of six encodings that guess, one is above chance by its own
// interval in a seventh of all sessions.)
bool above(double share, double by_chance, const Interval& interval, std::int64_t examples,
           std::size_t encodings) {
  return interval.low > by_chance &&
         share_interval(share, examples, normal_95_of(encodings)).low > by_chance;
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

std::string beyond_sentence(const Results& results, std::size_t range) {
  const Task& task = *results.settings.task;
  const auto& [from, to, order] = results.rankings[range];
  if (order.empty())
    return fmt::format("No encoding has positions for {} {}.", range_text(from, to), task.unit);
  const auto whole = [](const RankedEncoding& one) {
    return fmt::format("{} ({})", one.title, percent_text(one.score));
  };
  if (!std::isfinite(order[0].score))
    return fmt::format("At {} {}, every encoding diverged.", range_text(from, to), task.unit);
  if (order[0].score == 0) {
    std::string text = fmt::format("At {} {}, {} are 0 % with each encoding that has a result",
                                   range_text(from, to), task.unit, task.score);
    if (task.second.empty()) return text + ".";
    std::vector<std::string> most;
    for (const RankedEncoding& one : order)
      if (one.tied) most.push_back(one.title);
    return text + fmt::format("; the most {}, {} (by chance {}), with {}{}.", task.second,
                              percent_text(order[0].second),
                              percent_text(best_of(results, range)->chance_second),
                              listed(most), most.size() > 1 ? " (tied)" : "");
  }
  if (!beats_chance(results, range)) {
    const StretchMean& best = *best_of(results, range);
    return fmt::format("At {} {}, no encoding has {} above chance: {}.", range_text(from, to),
                       task.unit, task.score, guesses(best.chance_score, best.examples));
  }
  std::vector<std::string> tied, next;
  std::int64_t zero = 0;  // encodings
  for (std::size_t i = 1; i < order.size(); ++i)
    if (order[i].score > 0)
      (order[i].tied ? tied : next).push_back(whole(order[i]));
    else
      zero += order[i].score == 0;
  std::string text =
      fmt::format("At {} {}, the best is {}", range_text(from, to), task.unit, whole(order[0]));
  if (!tied.empty()) text += ", tied with " + listed(tied);
  if (!next.empty()) text += "; then " + listed(next);
  if (zero > 0) text += "; 0 % with " + counted(zero, "other");
  return text + ".";
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
  return best && above(best->score, best->chance_score, best->score_interval, best->examples,
                       results.encodings.size());
}

double example_margin(const std::string& a, const std::string& b, std::size_t range,
                      double Stretch::* number, const std::vector<RunResult>& runs) {
  std::vector<Stretch> of_a, of_b;
  for (const RunResult& run : runs) {
    if (run.encoding == a) of_a.push_back(ranges_of(run.tests.stretches)[range]);
    if (run.encoding == b) of_b.push_back(ranges_of(run.tests.stretches)[range]);
  }
  std::vector<double> differences;
  double sampling = 0;
  const std::size_t seeds = std::min(of_a.size(), of_b.size());
  for (std::size_t i = 0; i < seeds; ++i) {
    differences.push_back(of_a[i].*number - of_b[i].*number);
    for (const Stretch& one : {of_a[i], of_b[i]})
      sampling += one.*number * (1 - one.*number) / static_cast<double>(one.examples);
  }
  return std::max(normal_95 * std::sqrt(sampling) / static_cast<double>(seeds),
                  mean_margin(differences));
}

std::optional<std::string> no_better_than_chance(const Results& results) {
  if (all_diverged(results)) return all_diverged_sentence(results);
  const Task& task = *results.settings.task;
  // Each of the scores shows learning: translations of text are seldom right in all words.
  const auto wanted = [](double by_chance) {
    return by_chance + learned_share * (1 - by_chance);
  };
  for (const EncodingResult& one : results.encodings)
    if (const StretchMean& range = one.ranges.front();
        range.applicable && range.score >= wanted(range.chance_score) &&
        above(range.score, range.chance_score, range.score_interval, range.examples,
              results.encodings.size()))
      return std::nullopt;
  const bool two = !task.second.empty();
  const auto measure = two ? &StretchMean::second : &StretchMean::score;
  const auto guess = two ? &StretchMean::chance_second : &StretchMean::chance_score;
  const auto band = two ? &StretchMean::second_interval : &StretchMean::score_interval;
  const EncodingResult* best = nullptr;
  for (const EncodingResult& one : results.encodings)
    if (one.ranges.front().applicable &&
        (!best || is_higher(one.ranges.front().*measure, best->ranges.front().*measure)))
      best = &one;
  if (!best) return std::nullopt;
  const StretchMean& range = best->ranges.front();
  const bool above_chance = above(range.*measure, range.*guess, range.*band, range.examples,
                                  results.encodings.size());
  if (range.*measure >= wanted(range.*guess) && above_chance) return std::nullopt;
  if (!above_chance)
    return fmt::format(
        "At chance: as in training, the best encoding has {} {}, and {}. No encoding is "
        "recommended. Train longer with --steps or --minutes.",
        percent_text(range.*measure), two ? task.second : task.score,
        guesses(range.*guess, range.examples));
  return fmt::format(
      "Not trained enough: as in training, the best encoding has {} {}, chance is {}, and a "
      "comparison requires at least {}. Train longer with --steps or --minutes.",
      percent_text(range.*measure), two ? task.second : task.score, percent_text(range.*guess),
      percent_text(wanted(range.*guess)));
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

std::vector<Ranking> example_rankings(const std::vector<EncodingResult>& encodings,
                                      const std::vector<RunResult>& runs) {
  std::vector<Ranking> all;
  if (encodings.empty()) return all;
  for (std::size_t i = 0; i < encodings[0].ranges.size(); ++i) {
    Ranking ranking{encodings[0].ranges[i].from, encodings[0].ranges[i].to, {}};
    for (const EncodingResult& one : encodings)
      if (const StretchMean& range = one.ranges[i]; range.applicable)
        ranking.order.push_back({.name = one.name,
                                 .title = one.title,
                                 .score = range.score,
                                 .second = range.second});
    std::stable_sort(ranking.order.begin(), ranking.order.end(),
                     [](const RankedEncoding& a, const RankedEncoding& b) {
                       return is_higher(a.score, b.score) ||
                              (a.score == b.score && is_higher(a.second, b.second));
                     });
    for (RankedEncoding& one : ranking.order) {
      const RankedEncoding& best = ranking.order[0];
      const bool no_score = best.score == 0;
      const double difference = no_score ? best.second - one.second : best.score - one.score;
      one.tied =
          std::isfinite(one.score) &&
          difference <= example_margin(one.name, best.name, i,
                                       no_score ? &Stretch::second : &Stretch::score, runs);
    }
    all.push_back(ranking);
  }
  return all;
}

std::string chance_sentence(const Results& results) {
  const Task& task = *results.settings.task;
  const StretchMean& range = results.encodings[0].ranges.front();
  return fmt::format("By chance ({}), up to {} {}: {}.", task.chance, range.to, task.unit,
                     scores(task, range.chance_score, range.chance_second));
}

std::vector<std::string> example_answer(const Results& results) {
  std::vector<std::string> sentences;
  if (const auto reason = no_better_than_chance(results)) sentences.push_back(*reason);
  if (all_diverged(results)) return sentences;
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
