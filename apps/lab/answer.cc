#include "apps/lab/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "apps/lab/results.h"
#include "apps/lab/statistics.h"
#include "apps/lab/task_results.h"
#include "apps/lab/words.h"

namespace gnomon::lab {
namespace {

constexpr double seed_deviation = 0.02;  // bits; see rankings
constexpr double breaks_from = 0.25;     // a relative increase of a loss; see far_sentence
constexpr double learnt_below = 0.9;     // of the bits by byte frequencies; see byte_frequency

struct Contender {
  std::string name, title;
  double bits = 0;
  std::vector<const Json*> at;  // results at this length, for each seed
};

// The standard deviation of the difference between two encodings at one length.
double difference_deviation(const Contender& a, const Contender& b) {
  const std::size_t seeds = std::min(a.at.size(), b.at.size());
  std::vector<double> differences;
  if (seeds > 1) {
    for (std::size_t i = 0; i < seeds; ++i)
      differences.push_back(a.at[i]->at("tail_bits").get<double>() -
                            b.at[i]->at("tail_bits").get<double>());
    return deviation(differences);
  }
  const auto segments_a = a.at[0]->at("tail_by_segment").get<std::vector<double>>();
  const auto segments_b = b.at[0]->at("tail_by_segment").get<std::vector<double>>();
  for (std::size_t i = 0; i < std::min(segments_a.size(), segments_b.size()); ++i)
    differences.push_back(segments_a[i] - segments_b[i]);
  return std::max(seed_deviation,
                  deviation(differences) / std::sqrt(static_cast<double>(differences.size())));
}

std::vector<Contender> contenders(const Json& encodings, const Json& runs, std::size_t index) {
  std::vector<Contender> all;
  for (const Json& one : encodings) {
    const Json& at = one.at("lengths")[index];
    if (!at.at("applicable")) continue;
    Contender contender{one.at("name"), one.at("title"), at.at("tail_bits"), {}};
    for (const Json& run : runs)
      if (run.at("encoding") == contender.name)
        contender.at.push_back(&run.at("lengths")[index]);
    all.push_back(std::move(contender));
  }
  std::sort(all.begin(), all.end(),
            [](const Contender& a, const Contender& b) { return a.bits < b.bits; });
  return all;
}

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

const Json& find(const Json& encodings, const std::string& name) {
  return *std::find_if(encodings.begin(), encodings.end(),
                       [&](const Json& one) { return one.at("name") == name; });
}

std::string best_sentence(const Json& ranking, std::int64_t train_length,
                          const std::string& unit) {
  const Json& order = ranking.at("order");
  std::vector<std::string> tied;
  for (std::size_t i = 1; i < order.size(); ++i)
    if (order[i].at("tied")) tied.push_back(order[i].at("title"));
  std::string text = fmt::format(
      "At the training length of {} bytes, {} has the lowest loss: {:.2f} {}", train_length,
      order[0].at("title").get<std::string>(), order[0].at("bits").get<double>(), unit);
  if (!tied.empty())
    text += fmt::format("; {} {} tied with it (within two standard deviations)", listed(tied),
                        tied.size() == 1 ? "is" : "are");
  return text + ".";
}

// Which encodings hold at the longest length, how much the others lose, and which have no
// position.
std::string far_sentence(const Json& encodings, std::int64_t length, std::int64_t times) {
  std::vector<std::string> holding, losing, broken, absent;
  std::vector<const Json*> sorted;
  for (const Json& one : encodings) sorted.push_back(&one);
  const auto change = [](const Json* one) {
    const Json& last = one->at("lengths").back();
    return last.at("applicable") ? last.at("change").get<double>() : 1e9;
  };
  std::sort(sorted.begin(), sorted.end(),
            [&](const Json* a, const Json* b) { return change(a) < change(b); });
  for (const Json* one : sorted) {
    const std::string title = one->at("title");
    if (!one->at("lengths").back().at("applicable"))
      absent.push_back(title);
    else if (one->at("holds_to") == length)
      holding.push_back(title);
    else
      (change(one) < breaks_from ? losing : broken)
          .push_back(fmt::format("{} (+{})", title, percent(change(one))));
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
std::string advice(const Json& results, std::int64_t train_length, std::int64_t length) {
  const Json &encodings = results.at("encodings"), &rankings = results.at("rankings");
  const Json &near = rankings.front().at("order"), &far = rankings.back().at("order");
  const Json& winner = find(encodings, far[0].at("name"));
  const Json& last = winner.at("lengths").back();
  const std::string far_title = winner.at("title");
  // If the best encoding at the longest length ties at the training length, it is the only
  // answer.
  const auto there = std::find_if(near.begin(), near.end(), [&](const Json& one) {
    return one.at("name") == winner.at("name");
  });
  const bool one_answer = there == near.begin() || there->at("tied").get<bool>();
  std::string text =
      one_answer
          ? fmt::format("Use {}: no other encoding is better at either length.", far_title)
          : fmt::format("Use {} for texts up to {} bytes, and {} for texts up to {}.",
                        near[0].at("title").get<std::string>(), train_length, far_title,
                        length);
  const double gain = last.at("cut_bits").get<double>() - last.at("tail_bits").get<double>();
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

Json rankings(const Json& encodings, const Json& runs) {
  Json all = Json::array();
  if (encodings.empty()) return all;
  for (std::size_t i = 0; i < encodings[0].at("lengths").size(); ++i) {
    const auto sorted = contenders(encodings, runs, i);
    Json order = Json::array();
    for (const Contender& one : sorted)
      order.push_back(
          {{"name", one.name},
           {"title", one.title},
           {"bits", one.bits},
           {"tied", &one == &sorted[0] || one.bits - sorted[0].bits <=
                                              2 * difference_deviation(one, sorted[0])}});
    all.push_back({{"length", encodings[0].at("lengths")[i].at("length")}, {"order", order}});
  }
  return all;
}

Json answer(const Json& results) {
  const Json& encodings = results.at("encodings");
  std::int64_t done = 0;
  for (const Json& one : encodings) done += one.at("seeds").get<std::int64_t>();
  Json sentences = Json::array();
  const std::int64_t asked = results.at("runs_asked");
  if (done < asked)
    sentences.push_back(fmt::format(
        "Stopped early: {} of {} runs are done, and only they are compared.", done, asked));
  if (encodings.empty()) return sentences;
  if (encodings[0].contains("ranges")) {
    for (const Json& one : example_answer(results)) sentences.push_back(one);
    return sentences;
  }
  const Json& lengths = results.at("settings").at("eval_lengths");
  const std::int64_t train_length = lengths.front(), longest = lengths.back();
  const bool masked = results.at("settings").value("task", "text") == "masked";
  const double frequency = results.at("texts").at("byte_frequency_bits");
  if (const double best = results.at("rankings").front().at("order")[0].at("bits");
      best > learnt_below * frequency)
    sentences.push_back(fmt::format(
        "These models have learned little more than byte frequencies ({:.2f} bits per "
        "byte): train longer before you trust a ranking.",
        frequency));
  sentences.push_back(best_sentence(results.at("rankings").front(), train_length,
                                    masked ? "bits per masked byte" : "bits per byte"));
  if (longest > train_length && !results.at("rankings").back().at("order").empty()) {
    sentences.push_back(far_sentence(encodings, longest, longest / train_length));
    sentences.push_back(advice(results, train_length, longest));
  }
  return sentences;
}

}  // namespace gnomon::lab
