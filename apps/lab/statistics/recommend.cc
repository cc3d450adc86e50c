#include "apps/lab/statistics/recommend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/lab/data/task.h"
#include "apps/lab/data/words.h"
#include "apps/lab/statistics/task_results.h"
#include "apps/lab/statistics/training.h"
#include "apps/lab/statistics/ways.h"

namespace gnomon::lab {
namespace recommendation {

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

// The ways that may be the best as one choice for each encoding. The use is not given at the
// training length, and if both the whole and the cut context may be the best.
std::vector<Choice> choices_of(const Ways& at, const Results& results) {
  std::vector<Choice> choices;
  for (const Way& way : at.order) {
    if (!may_be_best(way.verdict)) continue;
    if (std::any_of(choices.begin(), choices.end(),
                    [&](const Choice& one) { return one.name == way.name; }))
      continue;
    bool whole = false, cut = false;
    for (const Way& other : at.order)
      if (other.name == way.name && may_be_best(other.verdict)) {
        whole = whole || other.context == Context::whole;
        cut = cut || other.context == Context::cut;
      }
    const bool any = at.length == results.settings.train_length || (whole && cut);
    choices.push_back({way.name, way.title, any ? "" : use_of(way, results)});
  }
  return choices;
}

bool is_choice(const std::vector<Choice>& choices, const std::string& name) {
  return std::any_of(choices.begin(), choices.end(),
                     [&](const Choice& one) { return one.name == name; });
}

// A place of a ranking, of the encodings or of all ways.
struct Place {
  std::string name, title;
  Verdict verdict;
};

// Sets `decided`, and `next`, `difference` and `margin` from the best place of an encoding that
// is no choice.
void compare_with_next(Recommendation& one, const std::vector<Place>& order,
                       const Contrasts& contrasts) {
  one.decided = std::none_of(order.begin(), order.end(), [](const Place& place) {
    return place.verdict == Verdict::undecided;
  });
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (is_choice(one.choices, order[i].name) || order[i].verdict != Verdict::worse) continue;
    const Contrast next = contrasts.between(i, 0);
    one.next = order[i].title;
    one.difference = std::abs(next.difference), one.margin = next.margin;
    return;
  }
}

std::int64_t seeds_to_decide(const std::vector<Place>& order, const Contrasts& contrasts) {
  for (std::size_t i = 1; i < order.size(); ++i)
    if (order[i].verdict == Verdict::undecided && order[i].name != order[0].name)
      return contrasts.seeds_needed(i, 0);
  return 0;
}

// "undecided: about 9 seeds would decide between the first two; 3 seeds".
template <typename Number>
std::string confidence(const Recommendation& one, const std::string& unit, double equal_within,
                       std::int64_t seeds_needed, Number&& number) {
  std::string text;
  if (one.choices.size() > 1 && one.decided)
    text = fmt::format("equivalent within {:g} {}; ",
                       unit == "points" ? 100 * equal_within : equal_within, unit);
  else if (one.choices.size() > 1)
    text = seeds_needed > one.seeds
               ? fmt::format("undecided, about {} seeds would decide between the first two; ",
                             seeds_needed)
               : "undecided; ";
  if (!one.next.empty())
    text += fmt::format("{}better than the next, {}, by {} ± {} {}{}; ",
                        one.choices.size() > 1 ? "the first is " : "", one.next,
                        number(one.difference), number(one.margin), unit,
                        one.from != one.to && unit == "bits" ? " or more" : "");
  else if (one.choices.size() == 1)
    text += "no other encoding takes part; ";
  return text + counted(one.seeds, "seed");
}

std::string points_text(double share) { return fmt::format("{:.1f}", 100 * share); }

std::vector<Recommendation> by_length(const Results& results) {
  std::vector<Recommendation> all;
  std::vector<std::int64_t> needed;
  for (std::size_t i = 0; i < results.ways.size(); ++i) {
    const Ways& at = results.ways[i];
    if (at.order.empty()) continue;
    Recommendation one{.from = at.length,
                       .to = at.length,
                       .choices = choices_of(at, results),
                       .seeds = fewest_seeds(results)};
    std::vector<Place> order;
    for (const Way& way : at.order) order.push_back({way.name, way.title, way.verdict});
    const Contrasts contrasts = contrasts_at(results, i);
    compare_with_next(one, order, contrasts);
    const std::int64_t seeds = seeds_to_decide(order, contrasts);
    if (all.empty() || !same_choices(all.back().choices, one.choices) ||
        all.back().decided != one.decided) {
      all.push_back(one);
      needed.push_back(seeds);
      continue;
    }
    Recommendation& before = all.back();
    before.to = one.to;
    needed.back() = std::max(needed.back(), seeds);
    if (one.difference - one.margin < before.difference - before.margin) {
      before.next = one.next;
      before.difference = one.difference, before.margin = one.margin;
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i].confidence = confidence(all[i], "bits", equal_bits, needed[i], bits_number);
  return all;
}

std::vector<Recommendation> by_range(const Results& results) {
  std::vector<Recommendation> all;
  for (std::size_t i = 0; i < results.rankings.size(); ++i) {
    const Ranking& ranking = results.rankings[i];
    Recommendation& one = all.emplace_back();
    one.from = ranking.from, one.to = ranking.to;
    one.seeds = fewest_seeds(results);
    if (ranking.order.empty()) {
      one.confidence = "no encoding has positions for this range";
      continue;
    }
    if (ranking.order[0].verdict == Verdict::excluded) {
      one.confidence = "no encoding takes part";
      continue;
    }
    if (!beats_chance(results, i)) {
      one.confidence =
          fmt::format("no encoding has {} above chance", results.settings.task->score);
      continue;
    }
    std::vector<Place> order;
    for (const RankedEncoding& place : ranking.order) {
      order.push_back({place.name, place.title, place.verdict});
      if (may_be_best(place.verdict)) one.choices.push_back({place.name, place.title, ""});
    }
    const Contrasts contrasts = contrasts_of_range(results, i);
    compare_with_next(one, order, contrasts);
    one.confidence =
        confidence(one, "points", equal_share, seeds_to_decide(order, contrasts), points_text);
  }
  return all;
}

}  // namespace recommendation

std::vector<Recommendation> recommendations(const Results& results) {
  if (results.encodings.empty() || no_advice(results)) return {};
  return results.settings.task->has_examples() ? recommendation::by_range(results)
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
