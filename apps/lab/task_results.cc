#include "apps/lab/task_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/lab/statistics.h"
#include "apps/lab/tasks.h"
#include "apps/lab/words.h"

namespace gnomon::lab {
namespace {

constexpr double learnt_from = 0.95;

// The means over a stretch or a range of lengths of a run.
struct Found {
  std::int64_t from = 0, to = 0, examples = 0;
  bool applicable = true;
  double whole = 0, byte = 0, bits = 0, chance_whole = 0, chance_byte = 0;
};

Found found(const Json& stretch) {
  Found one{stretch.at("from"), stretch.at("to"), 0, stretch.at("applicable")};
  if (!one.applicable) return one;
  one.examples = stretch.at("examples");
  for (const auto& [key, value] : {std::pair{"whole", &one.whole},
                                   {"byte", &one.byte},
                                   {"bits", &one.bits},
                                   {"chance_whole", &one.chance_whole},
                                   {"chance_byte", &one.chance_byte}})
    *value = stretch.at(key);
  return one;
}

Found joined(const std::vector<Found>& parts) {
  Found all = parts.front();
  all.to = parts.back().to;
  all.examples = 0;
  const auto mean_of = [&](double Found::* number) {
    std::vector<double> numbers;
    for (const Found& one : parts) numbers.push_back(one.*number);
    return mean(numbers);
  };
  for (const Found& one : parts) {
    all.applicable = all.applicable && one.applicable;
    all.examples += one.examples;
  }
  for (double Found::* number :
       {&Found::whole, &Found::byte, &Found::bits, &Found::chance_whole, &Found::chance_byte})
    all.*number = mean_of(number);
  return all;
}

std::vector<Found> stretches_of(const Json& run) {
  std::vector<Found> all;
  for (const Json& one : run.at("stretches")) all.push_back(found(one));
  return all;
}

std::vector<Found> ranges_of(const Json& run) {
  std::vector<Found> all, here;
  const Json& stretches = run.at("stretches");
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    here.push_back(found(stretches[i]));
    if (i + 1 < stretches.size() && stretches[i + 1].at("up_to") == stretches[i].at("up_to"))
      continue;
    all.push_back(joined(here));
    here.clear();
  }
  return all;
}

// Means and deviations over the seeds, for each stretch or range.
Json over_seeds(const std::vector<std::vector<Found>>& seeds) {
  Json all = Json::array();
  for (std::size_t i = 0; i < seeds.front().size(); ++i) {
    const Found& first = seeds.front()[i];
    Json one{{"from", first.from}, {"to", first.to}, {"applicable", first.applicable}};
    if (first.applicable) {
      const auto numbers = [&](double Found::* number) {
        std::vector<double> here;
        for (const auto& seed : seeds) here.push_back(seed[i].*number);
        return here;
      };
      one.update({{"examples", first.examples},
                  {"whole", mean(numbers(&Found::whole))},
                  {"whole_deviation", deviation(numbers(&Found::whole))},
                  {"byte", mean(numbers(&Found::byte))},
                  {"bits", mean(numbers(&Found::bits))},
                  {"chance_whole", first.chance_whole},
                  {"chance_byte", first.chance_byte}});
    }
    all.push_back(one);
  }
  return all;
}

// The standard deviation of the difference of two shares.
double difference_deviation(const std::vector<Found>& a, const std::vector<Found>& b) {
  std::vector<double> differences;
  double sampling = 0;
  const std::size_t seeds = std::min(a.size(), b.size());
  for (std::size_t i = 0; i < seeds; ++i) {
    differences.push_back(a[i].whole - b[i].whole);
    for (const Found& one : {a[i], b[i]})
      sampling += one.whole * (1 - one.whole) / static_cast<double>(one.examples);
  }
  return std::max(std::sqrt(sampling) / static_cast<double>(seeds), deviation(differences));
}

std::string percent(double share) {
  const double hundred = 100 * share;
  if (hundred >= 0.1 || hundred == 0) return fmt::format("{:.3g} %", hundred);
  return fmt::format("{:.0e} %", hundred);
}

std::string trained_sentence(const Json& results, const TaskInfo& task) {
  std::vector<std::string> learnt, others;
  const Json& encodings = results.at("encodings");
  for (const Json& one : encodings) {
    const Json& range = one.at("ranges").front();
    if (!range.at("applicable")) continue;
    const double whole = range.at("whole");
    if (whole >= learnt_from)
      learnt.push_back(one.at("title"));
    else
      others.push_back(
          fmt::format("{} ({})", one.at("title").get<std::string>(), percent(whole)));
  }
  const Json& range = encodings[0].at("ranges").front();
  std::string text = fmt::format(
      "{}, up to the training length of {} {} (chance: {} of whole answers and {} of bytes): ",
      task.title, range.at("to").get<std::int64_t>(), task.unit,
      percent(range.at("chance_whole")), percent(range.at("chance_byte")));
  if (!learnt.empty())
    text += fmt::format("{} {} at least {} right", listed(learnt),
                        learnt.size() == 1 ? "gets" : "get", percent(learnt_from));
  if (!others.empty())
    text += (learnt.empty() ? "none gets " + percent(learnt_from) + " right: "
                            : std::string("; less: ")) +
            listed(others);
  return text + ".";
}

std::string beyond_sentence(const Json& ranking) {
  const std::int64_t from = ranking.at("from"), to = ranking.at("to");
  const Json& order = ranking.at("order");
  if (order.empty())
    return fmt::format("No encoding has positions for lengths {} to {}.", from, to);
  const auto whole = [](const Json& one) {
    return fmt::format("{} ({})", one.at("title").get<std::string>(), percent(one.at("whole")));
  };
  if (order[0].at("whole") == 0)
    return fmt::format(
        "At lengths {} to {}, no whole answer is right; {} has the most right bytes, {}.", from,
        to, order[0].at("title").get<std::string>(), percent(order[0].at("byte")));
  std::vector<std::string> tied, next;
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (order[i].at("whole") == 0) continue;
    (order[i].at("tied") ? tied : next).push_back(whole(order[i]));
  }
  std::string text =
      fmt::format("At lengths {} to {}, the best is {}", from, to, whole(order[0]));
  if (!tied.empty()) text += ", tied with " + listed(tied);
  if (!next.empty()) text += "; then " + listed(next);
  if (tied.size() + next.size() + 1 < order.size()) text += "; the others have no right answer";
  return text + ".";
}

}  // namespace

Json example_lengths(const std::vector<const Json*>& runs) {
  std::vector<std::vector<Found>> stretches, ranges;
  for (const Json* run : runs) {
    stretches.push_back(stretches_of(*run));
    ranges.push_back(ranges_of(*run));
  }
  Json lengths{{"stretches", over_seeds(stretches)}, {"ranges", over_seeds(ranges)}};
  std::int64_t answered_to = 0;
  for (const Json& one : lengths.at("stretches")) {
    if (!one.at("applicable") || one.at("whole") < answered_from) break;
    answered_to = one.at("to");
  }
  lengths["answered_to"] = answered_to;
  return lengths;
}

Json example_rankings(const Json& encodings, const Json& runs) {
  Json all = Json::array();
  if (encodings.empty()) return all;
  struct Contender {
    const Json* encoding;
    double whole, byte;
    std::vector<Found> seeds;
  };
  for (std::size_t i = 0; i < encodings[0].at("ranges").size(); ++i) {
    std::vector<Contender> contenders;
    for (const Json& one : encodings) {
      const Json& range = one.at("ranges")[i];
      if (!range.at("applicable")) continue;
      contenders.push_back({&one, range.at("whole"), range.at("byte"), {}});
      for (const Json& run : runs)
        if (run.at("encoding") == one.at("name"))
          contenders.back().seeds.push_back(ranges_of(run)[i]);
    }
    std::stable_sort(contenders.begin(), contenders.end(),
                     [](const Contender& a, const Contender& b) {
                       return std::pair(a.whole, a.byte) > std::pair(b.whole, b.byte);
                     });
    Json order = Json::array();
    for (const Contender& one : contenders) {
      const Contender& best = contenders[0];
      order.push_back({{"name", one.encoding->at("name")},
                       {"title", one.encoding->at("title")},
                       {"whole", one.whole},
                       {"byte", one.byte},
                       {"tied", best.whole - one.whole <=
                                    2 * difference_deviation(one.seeds, best.seeds)}});
    }
    const Json& range = encodings[0].at("ranges")[i];
    all.push_back({{"from", range.at("from")}, {"to", range.at("to")}, {"order", order}});
  }
  return all;
}

Json example_answer(const Json& results) {
  Json sentences = Json::array();
  const Json& rankings = results.at("rankings");
  sentences.push_back(trained_sentence(
      results, find_task(results.at("settings").at("task").get<std::string>())));
  for (std::size_t i = 1; i < rankings.size(); ++i)
    sentences.push_back(beyond_sentence(rankings[i]));
  return sentences;
}

std::string outcome_of_examples(const Json& run) {
  std::string text;
  for (const Found& one : ranges_of(run))
    text += fmt::format("{}{} at {} to {}", text.empty() ? "" : ", ",
                        one.applicable ? percent(one.whole) : "n/a", one.from, one.to);
  return text + " (whole answers)";
}

}  // namespace gnomon::lab
