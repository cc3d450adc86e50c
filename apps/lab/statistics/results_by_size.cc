#include "apps/lab/statistics/results_by_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/lab/data/lists.h"
#include "apps/lab/data/model_size.h"
#include "apps/lab/data/words.h"
#include "apps/lab/statistics/answer.h"
#include "apps/lab/statistics/rankings.h"
#include "apps/lab/statistics/training.h"

namespace gnomon::lab {
std::string place_text(const Results& results, const Ranking& at) {
  return results.settings.task->has_examples()
             ? fmt::format("{} {}", range_text(at.from, at.to), results.settings.task->unit)
             : length_text(results, at.to);
}

namespace by_size {

// The items whose encoding has the size. `entry` is the member with the entry.
template <typename T>
std::vector<T> of_size(const std::vector<T>& all, std::string T::* entry,
                       const Settings& settings, const ModelSize& size) {
  std::vector<T> found;
  for (const T& one : all)
    if (size_of(settings, one.*entry) == size) {
      found.push_back(one);
      found.back().*entry = split_size(one.*entry).name;
    }
  return found;
}

std::int64_t smallest(const Results& results) {
  std::int64_t least = 0;
  for (const EncodingResult& one : results.encodings)
    if (least == 0 || one.parameters < least) least = one.parameters;
  return least;
}

std::set<std::size_t> ends(const Results& results) { return {0, results.rankings.size() - 1}; }

std::vector<std::string> best_at(const Results& results, std::size_t at) {
  std::vector<std::string> titles;
  if (results.settings.task->has_examples() && !beats_chance(results, at)) return titles;
  for (const Way& one : results.rankings[at].order)
    if (may_be_best(one.verdict)) titles.push_back(one.title);
  return titles;
}

// "the best is Rotary (RoPE) at 128 bytes (2.412 bits)".
std::string best_text(const Results& results) {
  std::vector<std::string> best, none, diverged, absent;
  for (const std::size_t at : ends(results)) {
    const Ranking& ranking = results.rankings[at];
    const std::vector<std::string> titles = best_at(results, at);
    const std::string place = place_text(results, ranking);
    if (titles.empty()) {
      (ranking.order.empty()                        ? absent
       : std::isfinite(ranking.order.front().value) ? none
                                                    : diverged)
          .push_back(place);
      continue;
    }
    const Way& first = ranking.order[0];
    const std::string value =
        first.second ? percent_text(first.value) : fmt::format("{:.3f} bits", first.value);
    best.push_back(fmt::format("{} at {} ({}{})", either(titles), place, value,
                               titles.size() > 1 ? ", not decided" : ""));
  }
  std::vector<std::string> parts;
  if (!best.empty())
    parts.push_back(
        fmt::format("the best {} {}", best.size() == 1 ? "is" : "are", listed(best)));
  if (!none.empty()) parts.push_back("no encoding is above chance at " + listed(none));
  if (!diverged.empty()) parts.push_back("every encoding diverged at " + listed(diverged));
  if (!absent.empty()) parts.push_back("no encoding has positions for " + listed(absent));
  return (results.settings.task->has_examples() ? "" : "with the whole context, ") +
         fmt::format("{}", fmt::join(parts, "; "));
}

// Which encodings may be the best at every size. Empty if at some size none is
// better than chance.
std::string common_sentence(const Results& all, const std::vector<Results>& sizes,
                            std::size_t at) {
  std::vector<std::string> common = best_at(sizes[0], at);
  for (const Results& one : sizes) {
    const std::vector<std::string> here = best_at(one, at);
    if (here.empty()) return "";
    std::erase_if(common, [&](const std::string& title) { return !contains(here, title); });
  }
  const std::string place =
      (all.settings.task->has_examples() ? "At " : "With the whole context of ") +
      place_text(all, all.rankings[at]);
  return common.empty()
             ? fmt::format("{}, no encoding may be the best at every size.", place)
             : fmt::format("{}, {} may be the best at every size.", place, listed(common));
}

std::vector<const EncodingResult*> encodings(const std::vector<Results>& sizes) {
  std::vector<const EncodingResult*> all;
  for (const Results& size : sizes)
    for (const EncodingResult& one : size.encodings)
      if (!contains(mapped(all, &EncodingResult::name), one.name)) all.push_back(&one);
  return all;
}

std::vector<Results> finished(std::vector<Results> sizes) {
  std::erase_if(sizes, [](const Results& one) { return one.encodings.empty(); });
  return sizes;
}

}  // namespace by_size

bool has_sizes(const Results& results) {
  return std::ranges::any_of(results.settings.encodings, [](const std::string& entry) {
    return split_size(entry).size.has_value();
  });
}

std::vector<Results> results_by_size(const Results& all) {
  std::vector<Results> sizes;
  if (!has_sizes(all)) return sizes;
  for (const ModelSize& size : sizes_of(all.settings)) {
    Results& one = sizes.emplace_back(all);
    one.sizes.clear(), one.sweep.clear();
    one.size = size.text();
    one.settings = sized(all.settings, "@" + one.size);
    one.settings.encodings.clear();
    for (const std::string& entry : all.settings.encodings)
      if (size_of(all.settings, entry) == size)
        one.settings.encodings.push_back(split_size(entry).name);
    one.runs_asked = std::ssize(all.settings.seeds) * std::ssize(one.settings.encodings);
    std::erase_if(one.missing, [&](const std::string& name) {
      return name.find("@" + one.size + "-seed") == std::string::npos;
    });
    const auto part = [&](const auto& list, auto entry) {
      return by_size::of_size(list, entry, all.settings, size);
    };
    one.left_out = part(all.left_out, &LeftOut::name);
    one.runs = part(all.runs, &RunResult::encoding);
    one.unfinished = part(all.unfinished, &RunResult::encoding);
    compare_encodings(one);
    one.cost = part(all.cost, &EncodingCost::name);
    for (EncodingCost& cost : one.cost)
      if (const EncodingResult* encoding = find_encoding(one, cost.name))
        cost.title = encoding->title;
  }
  return sizes;
}

std::string size_text(const SizeResult& size) {
  std::string text = fmt::format("{} of width {}", counted(size.layers, "layer"), size.width);
  if (size.parameters > 0)
    text +=
        fmt::format(", {:.2g} million parameters", 1e-6 * static_cast<double>(size.parameters));
  return text;
}

void compare_sizes(Results& results) {
  results.answer = missing_runs(results);
  results.recommendations.clear();
  const std::vector<Results> sizes = results_by_size(results);
  bool advice = true;  // advice exists for every size
  for (const Results& one : sizes) {
    const Settings& s = one.settings;
    results.sizes.push_back({one.size, s.layers, s.width, s.heads, by_size::smallest(one)});
    if (one.encodings.empty()) continue;
    const std::string size = size_text(results.sizes.back());
    if (const auto reason = no_advice(one)) {
      results.answer.push_back(size + ". " + *reason);
      advice = false;
      continue;
    }
    results.answer.push_back(fmt::format("{}: {}.", size, by_size::best_text(one)));
    if (const auto diverged = diverged_sentence(one)) results.answer.push_back(*diverged);
  }
  if (const auto steps = fewer_steps(results)) results.answer.push_back(*steps);
  const std::vector<Results> finished = by_size::finished(sizes);
  if (finished.size() < 2 || !advice) return;
  for (const std::size_t at : by_size::ends(finished[0]))
    if (const std::string one = by_size::common_sentence(results, finished, at); !one.empty())
      results.answer.push_back(one);
}

}  // namespace gnomon::lab
