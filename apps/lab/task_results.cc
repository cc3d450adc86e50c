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
  for (double Stretch::* number : {&Stretch::whole, &Stretch::byte, &Stretch::bits,
                                   &Stretch::chance_whole, &Stretch::chance_byte}) {
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
                   mean(numbers(&Stretch::whole)), deviation(numbers(&Stretch::whole)),
                   mean(numbers(&Stretch::byte)), mean(numbers(&Stretch::bits)),
                   first.chance_whole, first.chance_byte});
  }
  return all;
}

// The standard deviation of the difference of two shares.
double difference_deviation(const std::vector<Stretch>& a, const std::vector<Stretch>& b) {
  std::vector<double> differences;
  double sampling = 0;
  const std::size_t seeds = std::min(a.size(), b.size());
  for (std::size_t i = 0; i < seeds; ++i) {
    differences.push_back(a[i].whole - b[i].whole);
    for (const Stretch& one : {a[i], b[i]})
      sampling += one.whole * (1 - one.whole) / static_cast<double>(one.examples);
  }
  return std::max(std::sqrt(sampling) / static_cast<double>(seeds), deviation(differences));
}

std::string percent(double share) {
  const double hundred = 100 * share;
  if (hundred >= 0.1 || hundred == 0) return fmt::format("{:.3g} %", hundred);
  return fmt::format("{:.0e} %", hundred);
}

std::string trained_sentence(const Results& results, const TaskInfo& task) {
  std::vector<std::string> learnt, others;
  for (const EncodingResult& one : results.encodings) {
    const StretchMean& range = one.ranges.front();
    if (!range.applicable) continue;
    if (range.whole >= learnt_from)
      learnt.push_back(one.title);
    else
      others.push_back(fmt::format("{} ({})", one.title, percent(range.whole)));
  }
  const StretchMean& range = results.encodings[0].ranges.front();
  std::string text = fmt::format(
      "{}, up to the training length of {} {} (chance: {} of whole answers and {} of bytes): ",
      task.title, range.to, task.unit, percent(range.chance_whole), percent(range.chance_byte));
  if (!learnt.empty())
    text += fmt::format("{} {} at least {} right", listed(learnt),
                        learnt.size() == 1 ? "gets" : "get", percent(learnt_from));
  if (!others.empty())
    text += (learnt.empty() ? "none gets " + percent(learnt_from) + " right: "
                            : std::string("; less: ")) +
            listed(others);
  return text + ".";
}

std::string beyond_sentence(const Ranking& ranking) {
  const auto& [from, to, order] = ranking;
  if (order.empty())
    return fmt::format("No encoding has positions for lengths {} to {}.", from, to);
  const auto whole = [](const Place& one) {
    return fmt::format("{} ({})", one.title, percent(one.whole));
  };
  if (order[0].whole == 0)
    return fmt::format(
        "At lengths {} to {}, no whole answer is right; {} has the most right bytes, {}.", from,
        to, order[0].title, percent(order[0].byte));
  std::vector<std::string> tied, next;
  for (std::size_t i = 1; i < order.size(); ++i)
    if (order[i].whole > 0) (order[i].tied ? tied : next).push_back(whole(order[i]));
  std::string text =
      fmt::format("At lengths {} to {}, the best is {}", from, to, whole(order[0]));
  if (!tied.empty()) text += ", tied with " + listed(tied);
  if (!next.empty()) text += "; then " + listed(next);
  if (tied.size() + next.size() + 1 < order.size()) text += "; the others have no right answer";
  return text + ".";
}

// Models that answer no better than chance show nothing about encodings.
std::optional<std::string> not_learned(const Results& results) {
  const EncodingResult* best = nullptr;
  for (const EncodingResult& one : results.encodings)
    if (one.ranges.front().applicable &&
        (!best || one.ranges.front().byte > best->ranges.front().byte))
      best = &one;
  if (!best) return std::nullopt;
  const StretchMean& range = best->ranges.front();
  const double wanted = range.chance_byte + learned_share * (1 - range.chance_byte);
  if (range.byte >= wanted) return std::nullopt;
  return fmt::format(
      "Not trained enough: at the training lengths, the best encoding has {} of the bytes "
      "right, "
      "chance is {}, and a comparison requires at least {}. Train longer with --steps or "
      "--minutes.",
      percent(range.byte), percent(range.chance_byte), percent(wanted));
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
    if (!one.applicable || one.whole < answered_from) break;
    encoding.answered_to = one.to;
  }
}

std::vector<Ranking> example_rankings(const std::vector<EncodingResult>& encodings,
                                      const std::vector<RunResult>& runs) {
  std::vector<Ranking> all;
  if (encodings.empty()) return all;
  struct Contender {
    const EncodingResult* encoding;
    double whole, byte;
    std::vector<Stretch> seeds;
  };
  for (std::size_t i = 0; i < encodings[0].ranges.size(); ++i) {
    std::vector<Contender> contenders;
    for (const EncodingResult& one : encodings) {
      const StretchMean& range = one.ranges[i];
      if (!range.applicable) continue;
      contenders.push_back({&one, range.whole, range.byte, {}});
      for (const RunResult& run : runs)
        if (run.encoding == one.name) contenders.back().seeds.push_back(ranges_of(run)[i]);
    }
    std::stable_sort(contenders.begin(), contenders.end(),
                     [](const Contender& a, const Contender& b) {
                       return std::pair(a.whole, a.byte) > std::pair(b.whole, b.byte);
                     });
    Ranking ranking{encodings[0].ranges[i].from, encodings[0].ranges[i].to, {}};
    for (const Contender& one : contenders) {
      const Contender& best = contenders[0];
      ranking.order.push_back(
          {one.encoding->name,
           one.encoding->title,
           {},
           one.whole,
           one.byte,
           best.whole - one.whole <= 2 * difference_deviation(one.seeds, best.seeds)});
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
    sentences.push_back(beyond_sentence(results.rankings[i]));
  return sentences;
}

std::string outcome_of_examples(const RunResult& run) {
  std::string text;
  for (const Stretch& one : ranges_of(run))
    text += fmt::format("{}{} at {} to {}", text.empty() ? "" : ", ",
                        one.applicable ? percent(one.whole) : "n/a", one.from, one.to);
  return text + " (whole answers)";
}

}  // namespace gnomon::lab
