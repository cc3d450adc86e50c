#include "apps/lab/statistics/recommend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/lab/data/lists.h"
#include "apps/lab/data/task.h"
#include "apps/lab/data/words.h"
#include "apps/lab/statistics/rankings.h"
#include "apps/lab/statistics/training.h"

namespace gnomon::lab {
namespace recommendation {

bool is_choice(const Recommendation& one, const std::string& name) {
  return find_by(one.choices, &Choice::name, name);
}

// The ways that may be the best as one choice for each encoding. The use is not given at the
// training length, and if both the whole and the cut context may be the best.
void add_choices(Recommendation& one, const Ranking& at, const Results& results) {
  for (const Way& way : at.order) {
    if (!may_be_best(way.verdict) || is_choice(one, way.name)) continue;
    const auto may_be = [&](Context context) {
      return std::ranges::any_of(at.order, [&](const Way& other) {
        return other.name == way.name && may_be_best(other.verdict) && other.context == context;
      });
    };
    const bool any = at.to == results.settings.train_length ||
                     (may_be(Context::whole) && may_be(Context::cut));
    one.choices.push_back({way.name, way.title, any ? "" : use_of(way, results)});
  }
}

// Sets `decided`, and `next`, `difference` and `margin` from the best way of an encoding that
// is no choice.
void compare_with_next(Recommendation& one, const std::vector<Way>& order,
                       const Contrasts& contrasts) {
  one.decided = one.choices.size() == 1 || !find_by(order, &Way::verdict, Verdict::undecided);
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (is_choice(one, order[i].name) || order[i].verdict != Verdict::worse) continue;
    const Contrast next = contrasts.between(i, 0);
    one.next = order[i].title;
    one.difference = std::abs(next.difference), one.margin = next.margin;
    return;
  }
}

std::int64_t seeds_to_decide(const std::vector<Way>& order, const Contrasts& contrasts) {
  for (std::size_t i = 1; i < order.size(); ++i)
    if (order[i].verdict == Verdict::undecided && order[i].name != order[0].name)
      return contrasts.seeds_needed(i, 0);
  return 0;
}

// "undecided: about 9 seeds would decide between the first two; 3 seeds".
std::string confidence(const Recommendation& one, const UnitText& unit,
                       std::int64_t seeds_needed) {
  std::string text;
  if (one.choices.size() > 1 && one.decided)
    text = fmt::format("equivalent within {}; ", unit.limit());
  else if (one.choices.size() > 1)
    text = seeds_needed > one.seeds
               ? fmt::format("undecided, about {} seeds would decide between the first two; ",
                             seeds_needed)
               : "undecided; ";
  if (!one.next.empty())
    text += fmt::format("{}better than the next, {}, by {}{}; ",
                        one.choices.size() > 1 ? "the first is " : "", one.next,
                        unit.text({one.difference, one.margin}),
                        one.from != one.to && unit.unit == "bits" ? " or more" : "");
  else if (one.choices.size() == 1)
    text += "no other encoding takes part; ";
  return text + counted(one.seeds, "seed");
}

// Why a range of examples has no choice; empty if it has one.
std::string no_choice(const Results& results, std::size_t range) {
  const std::vector<Way>& order = results.rankings[range].order;
  if (order.empty()) return "no encoding has positions for this range";
  if (order[0].verdict == Verdict::excluded) return "no encoding takes part";
  if (beats_chance(results, range)) return "";
  return fmt::format("no encoding has {} above chance", results.settings.task->score);
}

}  // namespace recommendation

std::string use_of(const Way& way, const Results& results) {
  if (!way.context) return "";
  switch (*way.context) {
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

std::vector<Recommendation> recommendations(const Results& results) {
  if (results.encodings.empty() || no_advice(results)) return {};
  const bool examples = results.settings.task->has_examples();
  const std::vector<Ranking>& places = examples ? results.rankings : results.ways;
  std::vector<Recommendation> all;
  std::vector<std::int64_t> needed;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Ranking& at = places[i];
    if (!examples && at.order.empty()) continue;
    Recommendation one{.from = examples ? at.from : at.to,
                       .to = at.to,
                       .seeds = fewest_seeds(results),
                       .confidence = examples ? recommendation::no_choice(results, i) : ""};
    std::int64_t seeds = 0;
    if (one.confidence.empty()) {
      const Contrasts contrasts = contrasts_of(results, at, i);
      recommendation::add_choices(one, at, results);
      recommendation::compare_with_next(one, at.order, contrasts);
      seeds = recommendation::seeds_to_decide(at.order, contrasts);
    }
    if (examples || all.empty() || !same_choices(all.back().choices, one.choices) ||
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
    if (all[i].confidence.empty())
      all[i].confidence = recommendation::confidence(all[i], unit_text(results), needed[i]);
  return all;
}

bool same_choices(std::vector<Choice> a, std::vector<Choice> b) {
  std::ranges::sort(a, {}, &Choice::name);
  std::ranges::sort(b, {}, &Choice::name);
  return a == b;
}

std::string choices_text(const Recommendation& one) {
  std::vector<std::string> names;
  for (const Choice& choice : one.choices)
    names.push_back(choice.use.empty() ? choice.title : choice.title + " " + choice.use);
  return names.empty() ? "none" : either(names);
}

}  // namespace gnomon::lab
