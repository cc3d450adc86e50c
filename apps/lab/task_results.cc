#include "apps/lab/task_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "apps/lab/statistics.h"
#include "apps/lab/tasks.h"
#include "apps/lab/words.h"

namespace gnomon::lab {
namespace {

constexpr double learnt_from = 0.95;
constexpr double learned_share = 0.1;  // of the way from chance to 1; see not_learned

// A range of adjacent stretches.
Stretch joined(const std::vector<Stretch>& parts) {
  Stretch all = parts.front();
  all.to = parts.back().to;
  all.examples = 0;
  for (const Stretch& one : parts) {
    all.applicable = all.applicable && one.applicable;
    all.examples += one.examples;
  }
  for (double Stretch::* number : {&Stretch::score, &Stretch::second, &Stretch::bits,
                                   &Stretch::chance_score, &Stretch::chance_second}) {
    std::vector<double> numbers;
    for (const Stretch& one : parts) numbers.push_back(one.*number);
    all.*number = mean(numbers);
  }
  return all;
}

std::vector<Stretch> ranges_of(const RunResult& run) {
  std::vector<Stretch> all, here;
  const std::vector<Stretch>& stretches = run.tests.stretches;
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    here.push_back(stretches[i]);
    if (i + 1 < stretches.size() && stretches[i + 1].up_to == stretches[i].up_to) continue;
    all.push_back(joined(here));
    here.clear();
  }
  return all;
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
                   first.chance_score, first.chance_second});
  }
  return all;
}

// The standard deviation of the difference of two shares.
double difference_deviation(const std::vector<Stretch>& a, const std::vector<Stretch>& b) {
  std::vector<double> differences;
  double sampling = 0;
  const std::size_t seeds = std::min(a.size(), b.size());
  for (std::size_t i = 0; i < seeds; ++i) {
    differences.push_back(a[i].score - b[i].score);
    for (const Stretch& one : {a[i], b[i]})
      sampling += one.score * (1 - one.score) / static_cast<double>(one.examples);
  }
  return std::max(std::sqrt(sampling) / static_cast<double>(seeds), deviation(differences));
}

std::string percent(double share) {
  const double hundred = 100 * share;
  if (hundred >= 0.1 || hundred == 0) return fmt::format("{:.3g} %", hundred);
  return fmt::format("{:.0e} %", hundred);
}

// "right whole answers 12 %, right bytes 45 %"
std::string scores(const TaskInfo& task, double score, double second) {
  std::string text = fmt::format("{} {}", task.score, percent(score));
  if (!task.second.empty()) text += fmt::format(", {} {}", task.second, percent(second));
  return text;
}

std::string trained_sentence(const Results& results, const TaskInfo& task) {
  std::vector<std::string> learnt, others;
  for (const EncodingResult& one : results.encodings) {
    const StretchMean& range = one.ranges.front();
    if (!range.applicable) continue;
    if (range.score >= learnt_from)
      learnt.push_back(one.title);
    else
      others.push_back(fmt::format("{} ({})", one.title, percent(range.score)));
  }
  const StretchMean& range = results.encodings[0].ranges.front();
  std::string text =
      fmt::format("{}, up to {} {} as in training (by chance: {}): {} ", task.title, range.to,
                  task.unit, scores(task, range.chance_score, range.chance_second), task.score);
  if (!learnt.empty())
    text += fmt::format("of at least {} with {}", percent(learnt_from), listed(learnt));
  if (!others.empty())
    text += (learnt.empty() ? "below " + percent(learnt_from) + " with all: "
                            : std::string("; less with ")) +
            listed(others);
  return text + ".";
}

std::string beyond_sentence(const Ranking& ranking, const TaskInfo& task) {
  const auto& [from, to, order] = ranking;
  if (order.empty())
    return fmt::format("No encoding has positions for {} to {} {}.", from, to, task.unit);
  const auto whole = [](const Place& one) {
    return fmt::format("{} ({})", one.title, percent(one.score));
  };
  if (order[0].score == 0) {
    std::string text = fmt::format("At {} to {} {}, {} are 0 % with all encodings", from, to,
                                   task.unit, task.score);
    if (!task.second.empty())
      text += fmt::format("; the most {}, {}, with {}", task.second, percent(order[0].second),
                          order[0].title);
    return text + ".";
  }
  std::vector<std::string> tied, next;
  for (std::size_t i = 1; i < order.size(); ++i)
    if (order[i].score > 0) (order[i].tied ? tied : next).push_back(whole(order[i]));
  std::string text =
      fmt::format("At {} to {} {}, the best is {}", from, to, task.unit, whole(order[0]));
  if (!tied.empty()) text += ", tied with " + listed(tied);
  if (!next.empty()) text += "; then " + listed(next);
  if (tied.size() + next.size() + 1 < order.size()) text += "; 0 % with the others";
  return text + ".";
}

// Models that answer no better than chance show nothing about encodings.
std::optional<std::string> not_learned(const Results& results) {
  const TaskInfo& task = find_task(results.settings.task);
  // Either score shows that something is learned: translations of text are seldom right in all.
  for (const EncodingResult& one : results.encodings)
    if (const StretchMean& range = one.ranges.front();
        range.applicable &&
        range.score >= range.chance_score + learned_share * (1 - range.chance_score))
      return std::nullopt;
  const auto measure = task.second.empty() ? &StretchMean::score : &StretchMean::second;
  const auto guess =
      task.second.empty() ? &StretchMean::chance_score : &StretchMean::chance_second;
  const EncodingResult* best = nullptr;
  for (const EncodingResult& one : results.encodings)
    if (one.ranges.front().applicable &&
        (!best || one.ranges.front().*measure > best->ranges.front().*measure))
      best = &one;
  if (!best) return std::nullopt;
  const StretchMean& range = best->ranges.front();
  const double wanted = range.*guess + learned_share * (1 - range.*guess);
  if (range.*measure >= wanted) return std::nullopt;
  return fmt::format(
      "Not trained enough: as in training, the best encoding has {} {}, chance is {}, and a "
      "comparison requires at least {}. Train longer with --steps or --minutes.",
      percent(range.*measure), task.second.empty() ? task.score : task.second,
      percent(range.*guess), percent(wanted));
}

}  // namespace

void add_example_lengths(EncodingResult& encoding, const std::vector<const RunResult*>& runs) {
  std::vector<std::vector<Stretch>> stretches, ranges;
  for (const RunResult* run : runs) {
    stretches.push_back(run->tests.stretches);
    ranges.push_back(ranges_of(*run));
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
  struct Contender {
    const EncodingResult* encoding;
    double score, second;
    std::vector<Stretch> seeds;
  };
  for (std::size_t i = 0; i < encodings[0].ranges.size(); ++i) {
    std::vector<Contender> contenders;
    for (const EncodingResult& one : encodings) {
      const StretchMean& range = one.ranges[i];
      if (!range.applicable) continue;
      contenders.push_back({&one, range.score, range.second, {}});
      for (const RunResult& run : runs)
        if (run.encoding == one.name) contenders.back().seeds.push_back(ranges_of(run)[i]);
    }
    std::stable_sort(contenders.begin(), contenders.end(),
                     [](const Contender& a, const Contender& b) {
                       return std::pair(a.score, a.second) > std::pair(b.score, b.second);
                     });
    Ranking ranking{encodings[0].ranges[i].from, encodings[0].ranges[i].to, {}};
    for (const Contender& one : contenders) {
      const Contender& best = contenders[0];
      ranking.order.push_back(
          {one.encoding->name,
           one.encoding->title,
           {},
           one.score,
           one.second,
           best.score - one.score <= 2 * difference_deviation(one.seeds, best.seeds)});
    }
    all.push_back(ranking);
  }
  return all;
}

std::vector<std::string> example_answer(const Results& results) {
  std::vector<std::string> sentences;
  if (const auto reason = not_learned(results)) sentences.push_back(*reason);
  sentences.push_back(trained_sentence(results, find_task(results.settings.task)));
  for (std::size_t i = 1; i < results.rankings.size(); ++i)
    sentences.push_back(beyond_sentence(results.rankings[i], find_task(results.settings.task)));
  return sentences;
}

std::string outcome_of_examples(const RunResult& run) {
  std::string text;
  for (const Stretch& one : ranges_of(run))
    text += fmt::format("{}{} at {} to {}", text.empty() ? "" : ", ",
                        one.applicable ? percent(one.score) : "n/a", one.from, one.to);
  return text;
}

}  // namespace gnomon::lab
