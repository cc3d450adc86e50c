#include "apps/lab/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/lab/statistics.h"
#include "apps/lab/task_results.h"
#include "apps/lab/tasks.h"
#include "apps/lab/words.h"

namespace gnomon::lab {
namespace {

constexpr double seed_deviation = 0.02;  // bits; see rankings
constexpr double breaks_from = 0.25;     // a relative increase of a loss; see far_sentence
constexpr double learnt_below = 0.9;     // of the bits by byte frequencies; see byte_frequency

struct Contender {
  const EncodingResult* encoding;
  double bits = 0;
  std::vector<const LengthLoss*> at;  // results at this length, for each seed
};

// The standard deviation of the difference between two encodings at one length.
double difference_deviation(const Contender& a, const Contender& b) {
  const std::size_t seeds = std::min(a.at.size(), b.at.size());
  std::vector<double> differences;
  if (seeds > 1) {
    for (std::size_t i = 0; i < seeds; ++i)
      differences.push_back(a.at[i]->tail_bits - b.at[i]->tail_bits);
    return deviation(differences);
  }
  const auto &segments_a = a.at[0]->tail_by_segment, &segments_b = b.at[0]->tail_by_segment;
  for (std::size_t i = 0; i < std::min(segments_a.size(), segments_b.size()); ++i)
    differences.push_back(segments_a[i] - segments_b[i]);
  return std::max(seed_deviation,
                  deviation(differences) / std::sqrt(static_cast<double>(differences.size())));
}

std::vector<Contender> contenders(const std::vector<EncodingResult>& encodings,
                                  const std::vector<RunResult>& runs, std::size_t index) {
  std::vector<Contender> all;
  for (const EncodingResult& one : encodings) {
    const LengthMean& at = one.lengths[index];
    if (!at.applicable) continue;
    Contender contender{&one, at.tail_bits, {}};
    for (const RunResult& run : runs)
      if (run.encoding == one.name) contender.at.push_back(&run.tests.lengths[index]);
    all.push_back(std::move(contender));
  }
  std::sort(all.begin(), all.end(),
            [](const Contender& a, const Contender& b) { return a.bits < b.bits; });
  return all;
}

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

std::string best_sentence(const Ranking& ranking, const std::string& unit) {
  const Place& best = ranking.order[0];
  std::vector<std::string> tied;
  for (std::size_t i = 1; i < ranking.order.size(); ++i)
    if (ranking.order[i].tied) tied.push_back(ranking.order[i].title);
  std::string text =
      fmt::format("At the training length of {} bytes, {} has the lowest loss: {:.2f} {}",
                  ranking.to, best.title, *best.bits, unit);
  if (!tied.empty())
    text += fmt::format("; {} {} tied with it (within two standard deviations)", listed(tied),
                        tied.size() == 1 ? "is" : "are");
  return text + ".";
}

// Which encodings hold at the longest length, how much the others lose, and which have no
// position.
std::string far_sentence(const std::vector<EncodingResult>& encodings, std::int64_t length,
                         std::int64_t times) {
  std::vector<std::string> holding, losing, broken, absent;
  std::vector<const EncodingResult*> sorted;
  for (const EncodingResult& one : encodings) sorted.push_back(&one);
  const auto change = [](const EncodingResult* one) {
    const LengthMean& last = one->lengths.back();
    return last.applicable ? last.change : 1e9;
  };
  std::sort(sorted.begin(), sorted.end(),
            [&](const auto* a, const auto* b) { return change(a) < change(b); });
  for (const EncodingResult* one : sorted) {
    if (!one->lengths.back().applicable)
      absent.push_back(one->title);
    else if (one->holds_to == length)
      holding.push_back(one->title);
    else
      (change(one) < breaks_from ? losing : broken)
          .push_back(fmt::format("{} (+{})", one->title, percent(change(one))));
  }
  std::vector<std::string> parts;
  parts.push_back(
      holding.empty()
          ? std::string("no encoding stays within 3 % of its loss at the training length")
          : fmt::format("{} {} within 3 % of {} loss at the training length", listed(holding),
                        holding.size() == 1 ? "stays" : "stay",
                        holding.size() == 1 ? "its" : "their"));
  if (!losing.empty()) parts.push_back("the loss of " + listed(losing) + " increases");
  if (!broken.empty())
    parts.push_back(listed(broken) + (broken.size() == 1 ? " fails" : " fail"));
  if (!absent.empty())
    parts.push_back(listed(absent) +
                    (absent.size() == 1 ? " has no positions" : " have no positions"));
  std::string text = fmt::format("At {} bytes ({} times the training length), ", length, times);
  for (std::size_t i = 0; i < parts.size(); ++i) text += (i ? "; " : "") + parts[i];
  return text + ".";
}

// The recommended encoding, and whether it uses the longer context.
std::string advice(const Results& results, std::int64_t train_length, std::int64_t length) {
  const std::vector<Place>&near = results.rankings.front().order,
        &far = results.rankings.back().order;
  const auto named = [&](const auto& one) { return one.name == far[0].name; };
  const EncodingResult& winner =
      *std::find_if(results.encodings.begin(), results.encodings.end(), named);
  const std::string& far_title = winner.title;
  // If the best encoding at the longest length ties at the training length, it is the only
  // answer.
  const bool one_answer = std::find_if(near.begin(), near.end(), named)->tied;
  std::string text =
      one_answer
          ? fmt::format("Use {}: no other encoding is better at either length.", far_title)
          : fmt::format("Use {} for texts up to {} bytes, and {} for texts up to {}.",
                        near[0].title, train_length, far_title, length);
  const double gain = winner.lengths.back().cut_bits - winner.lengths.back().tail_bits;
  if (std::abs(gain) <= 2 * seed_deviation)
    text += fmt::format(
        " {} predicts no better from {} bytes than from the last {} bytes: a model of this "
        "size holds at the longer context, but does not use it.",
        far_title, length, train_length);
  else if (gain > 0)
    text += fmt::format(" The longer context lowers the loss of {} by {:.2f} bits.", far_title,
                        gain);
  else
    text += fmt::format(
        " But with the context cut to {} bytes, the loss of {} is lower by {:.2f} bits.",
        train_length, far_title, -gain);
  return text;
}

}  // namespace

std::vector<Ranking> rankings(const std::vector<EncodingResult>& encodings,
                              const std::vector<RunResult>& runs) {
  std::vector<Ranking> all;
  if (encodings.empty()) return all;
  for (std::size_t i = 0; i < encodings[0].lengths.size(); ++i) {
    Ranking& ranking = all.emplace_back();
    ranking.to = encodings[0].lengths[i].length;
    const auto sorted = contenders(encodings, runs, i);
    for (const Contender& one : sorted)
      ranking.order.push_back(
          {.name = one.encoding->name,
           .title = one.encoding->title,
           .bits = one.bits,
           .tied = &one == &sorted[0] ||
                   one.bits - sorted[0].bits <= 2 * difference_deviation(one, sorted[0])});
  }
  return all;
}

std::vector<std::string> answer(const Results& results) {
  const std::vector<EncodingResult>& encodings = results.encodings;
  std::int64_t done = 0;
  for (const EncodingResult& one : encodings) done += one.seeds;
  std::vector<std::string> sentences;
  if (done < results.runs_asked)
    sentences.push_back(
        fmt::format("Stopped early: {} of {} runs are done, and only they are compared.", done,
                    results.runs_asked));
  if (encodings.empty()) return sentences;
  const Task task = task_of(results.settings);
  if (has_examples(task)) {
    for (const std::string& one : example_answer(results)) sentences.push_back(one);
    return sentences;
  }
  const std::int64_t train_length = results.settings.eval_lengths.front(),
                     longest = results.settings.longest();
  const double frequency = results.texts.byte_frequency_bits;
  const Ranking &near = results.rankings.front(), &far = results.rankings.back();
  if (*near.order[0].bits > learnt_below * frequency)
    sentences.push_back(fmt::format(
        "These models have learned little more than byte frequencies ({:.2f} bits per "
        "byte): train longer before you trust a ranking.",
        frequency));
  sentences.push_back(
      best_sentence(near, task == Task::masked ? "bits per masked byte" : "bits per byte"));
  if (longest > train_length && !far.order.empty()) {
    sentences.push_back(far_sentence(encodings, longest, longest / train_length));
    sentences.push_back(advice(results, train_length, longest));
  }
  return sentences;
}

}  // namespace gnomon::lab
