#include "apps/lab/statistics/recommend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/lab/data/task.h"
#include "apps/lab/data/words.h"
#include "apps/lab/statistics/answer.h"
#include "apps/lab/statistics/diverged.h"
#include "apps/lab/statistics/task_results.h"
#include "apps/lab/statistics/ways.h"

namespace gnomon::lab {
namespace recommendation {

std::int64_t least_seeds(const Results& results) {
  std::int64_t least = std::ssize(results.settings.seeds);
  for (const EncodingResult& one : results.encodings) least = std::min(least, one.seeds);
  return least;
}

std::string use_of(const Way& way, const Results& results) {
  switch (way.context) {
    case Context::whole:
      return "with the whole context";
    case Context::cut:
      return fmt::format("with its context cut to the last {} {}",
                         results.settings.train_length, length_unit(results.settings));
    case Context::extended:
      return "extended with " + way.method;
    case Context::tuned:
      return "extended with " + way.method + " and fine-tuned";
  }
  return "";
}

// The tied ways as one choice for each encoding. The use is not given at the training length,
// and if the whole and the cut context are both tied.
std::vector<Choice> choices_of(const Ways& at, const Results& results) {
  std::vector<Choice> choices;
  for (const Way& way : at.order) {
    if (!way.tied) continue;
    if (std::any_of(choices.begin(), choices.end(),
                    [&](const Choice& one) { return one.name == way.name; }))
      continue;
    bool whole = false, cut = false;
    for (const Way& other : at.order)
      if (other.name == way.name && other.tied) {
        whole = whole || other.context == Context::whole;
        cut = cut || other.context == Context::cut;
      }
    const bool any = at.length == results.settings.train_length || (whole && cut);
    choices.push_back({way.name, way.title, any ? "" : use_of(way, results)});
  }
  return choices;
}

// Sets `next`, `difference` and `margin` from the best way of an encoding that is no choice.
void compare_with_next(Recommendation& one, const Ways& at, std::size_t length,
                       const std::vector<RunResult>& runs) {
  for (const Way& way : at.order) {
    if (std::any_of(one.choices.begin(), one.choices.end(),
                    [&](const Choice& choice) { return choice.name == way.name; }))
      continue;
    if (!std::isfinite(way.bits)) return;  // nor is a later one
    one.next = way.title;
    one.difference = way.bits - at.order[0].bits;
    one.margin = margin(way, at.order[0], length, runs);
    return;
  }
}

// "tied; 3 seeds". `number` formats a difference.
template <typename Number>
std::string confidence(const Recommendation& one, const Results& results,
                       const std::string& unit, Number&& number) {
  std::string text = one.choices.size() > 1 ? "tied; " : "";
  if (!one.next.empty())
    text += fmt::format("{}better than the next, {}, by {} ± {} {}{}; ",
                        one.choices.size() > 1 ? "the best is " : "", one.next,
                        number(one.difference), number(one.margin), unit,
                        one.from != one.to && unit == "bits" ? " or more" : "");
  else if (one.choices.size() == 1)
    text += results.encodings.size() == 1
                ? "no other encoding; "
                : "the others diverged or have no positions for this range; ";
  return text + counted(one.seeds, "seed");
}

std::vector<Recommendation> by_length(const Results& results) {
  std::vector<Recommendation> all;
  for (std::size_t i = 0; i < results.ways.size(); ++i) {
    const Ways& at = results.ways[i];
    if (at.order.empty()) continue;
    Recommendation one{.from = at.length,
                       .to = at.length,
                       .choices = choices_of(at, results),
                       .seeds = least_seeds(results)};
    compare_with_next(one, at, i, results.runs);
    if (all.empty() || !same_choices(all.back().choices, one.choices)) {
      all.push_back(one);
      continue;
    }
    Recommendation& before = all.back();
    before.to = one.to;
    if (one.difference - one.margin < before.difference - before.margin) {
      before.next = one.next;
      before.difference = one.difference, before.margin = one.margin;
    }
  }
  for (Recommendation& one : all)
    one.confidence = confidence(one, results, "bits",
                                [](double bits) { return fmt::format("{:.2f}", bits); });
  return all;
}

std::vector<Recommendation> by_range(const Results& results) {
  const Task& task = *results.settings.task;
  std::vector<Recommendation> all;
  for (std::size_t i = 0; i < results.rankings.size(); ++i) {
    const Ranking& ranking = results.rankings[i];
    Recommendation& one = all.emplace_back();
    one.from = ranking.from, one.to = ranking.to;
    one.seeds = least_seeds(results);
    if (ranking.order.empty()) {
      one.confidence = "no encoding has positions for this range";
      continue;
    }
    const RankedEncoding& best = ranking.order[0];
    if (!std::isfinite(best.score)) {
      one.confidence = "every encoding diverged";
      continue;
    }
    if (!beats_chance(results, i)) {
      one.confidence = fmt::format("no encoding has {} above chance", task.score);
      continue;
    }
    for (const RankedEncoding& place : ranking.order) {
      if (place.tied) {
        one.choices.push_back({place.name, place.title, ""});
      } else if (one.next.empty() && std::isfinite(place.score)) {
        one.next = place.title;
        one.difference = best.score - place.score;
        one.margin = example_margin(best.name, place.name, i, &Stretch::score, results.runs);
      }
    }
    one.confidence = confidence(one, results, "points", [](double share) {
      return fmt::format("{:.1f}", 100 * share);
    });
  }
  return all;
}

}  // namespace recommendation

std::vector<Recommendation> recommendations(const Results& results) {
  if (results.encodings.empty()) return {};
  if (results.settings.task->has_examples())
    return no_better_than_chance(results) ? std::vector<Recommendation>()
                                          : recommendation::by_range(results);
  return not_trained_enough(results) ? std::vector<Recommendation>()
                                     : recommendation::by_length(results);
}

bool same_choices(std::vector<Choice> a, std::vector<Choice> b) {
  const auto by_name = [](const Choice& x, const Choice& y) { return x.name < y.name; };
  std::sort(a.begin(), a.end(), by_name);
  std::sort(b.begin(), b.end(), by_name);
  return a == b;
}

std::string choices_text(const Recommendation& one) {
  std::vector<std::string> names;
  for (const Choice& choice : one.choices)
    names.push_back(choice.use.empty() ? choice.title : choice.title + " " + choice.use);
  return names.empty() ? "none" : either(names);
}

}  // namespace gnomon::lab
