#include "apps/lab/statistics/rankings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/lab/data/lists.h"
#include "apps/lab/data/words.h"
#include "apps/lab/model/candidate.h"
#include "apps/lab/statistics/training.h"

namespace gnomon::lab {
namespace {

void add(Observations& sample, const RunResult& run, std::vector<double> units) {
  sample.seeds.push_back(run.seed);
  sample.units.push_back(std::move(units));
  sample.trained = sample.trained && run.steps > 0;
}

// The segments of a run, or its only number.
std::vector<double> units_or(const std::vector<double>& units, double number) {
  return units.empty() ? std::vector{number} : units;
}

}  // namespace

Observations observations_of(const Way& way, std::size_t length,
                             const std::vector<RunResult>& runs) {
  Observations sample;
  for (const RunResult& run : runs) {
    if (run.encoding != way.name) continue;
    if (way.method.empty()) {
      const LengthLoss& at = run.tests.lengths[way.context == Context::cut ? 0 : length];
      add(sample, run, units_or(at.tail_by_segment, at.tail_bits));
      continue;
    }
    if (!run.extension) continue;
    for (const ExtensionMethod& one : run.extension->methods) {
      if (extension_title(one.method) != way.method) continue;
      const bool tuned = way.context == Context::tuned;
      const auto& segments = tuned ? one.after_by_segment : one.without_by_segment;
      add(sample, run,
          units_or(segments.empty() ? std::vector<double>() : segments[length],
                   (tuned ? one.after : one.without)[length]));
    }
  }
  return sample;
}

Observations observations_of(const std::string& encoding, std::size_t range,
                             std::vector<double> Stretch::* scores,
                             const std::vector<RunResult>& runs) {
  Observations sample;
  for (const RunResult& run : runs) {
    if (run.encoding != encoding) continue;
    const Stretch at = ranges_of(run.tests.stretches)[range];
    const double mean_score = scores == &Stretch::scores ? at.score : at.second;
    // A stretch whose numbers are not finite has a mean that is not finite.
    add(sample, run,
        std::isfinite(mean_score) ? units_or(at.*scores, mean_score) : std::vector{mean_score});
  }
  return sample;
}

namespace ranking {

bool takes_part(const Results& results, const Way& one) {
  return find_encoding(results, one.name)->training == Training::enough;
}

// The ways that --extend added. The control has a fine-tune only.
void add_extensions(std::vector<Way>& order, const EncodingResult& encoding, std::size_t length,
                    const std::vector<RunResult>& runs) {
  const auto first = std::ranges::find_if(runs, [&](const RunResult& run) {
    return run.encoding == encoding.name && run.extension;
  });
  if (first == runs.end()) return;
  const std::vector<ExtensionMethod>& methods = first->extension->methods;
  for (const ExtensionMethod& one : methods)
    for (const Context context : {Context::extended, Context::tuned}) {
      if (context == Context::extended && &one == &methods.back()) continue;
      Way way{encoding.name, encoding.title, context, extension_title(one.method)};
      way.value = mean(mapped(observations_of(way, length, runs).units, mean));
      order.push_back(way);
    }
}

// Sorts the entries and sets their verdicts.
void judge(const Results& results, Ranking& ranking, std::size_t place) {
  std::ranges::stable_sort(ranking.order, [&](const Way& a, const Way& b) {
    if (takes_part(results, a) != takes_part(results, b)) return takes_part(results, a);
    if (!a.second) return is_lower(a.value, b.value);
    return is_higher(a.value, b.value) ||
           (a.value == b.value && is_higher(*a.second, *b.second));
  });
  const bool examples = results.settings.task->has_examples();
  const std::vector<Verdict> verdicts =
      contrasts_of(results, ranking, place).verdicts(examples ? equal_share : equal_bits);
  for (std::size_t k = 0; k < verdicts.size(); ++k) ranking.order[k].verdict = verdicts[k];
}

std::vector<std::size_t> with(const std::vector<Way>& order, Verdict verdict) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < order.size(); ++i)
    if (order[i].verdict == verdict) found.push_back(i);
  return found;
}

std::string points_number(double share) { return fmt::format("{:.1f}", 100 * share); }

}  // namespace ranking

bool has_no_score(const Ranking& ranking) {
  return std::ranges::all_of(ranking.order,
                             [](const Way& one) { return one.second && !(one.value > 0); });
}

bool beats_chance(const Results& results, std::size_t range) {
  const std::vector<Way>& order = results.rankings[range].order;
  if (order.empty()) return false;
  const StretchMean& best = find_encoding(results, order[0].name)->ranges[range];
  return std::isfinite(best.score) && is_above_chance(best.score, best.chance_score,
                                                      best.examples, results.encodings.size());
}

Contrasts contrasts_of(const Results& results, const Ranking& ranking, std::size_t place) {
  const Task& task = *results.settings.task;
  const auto scores =
      has_no_score(ranking) && !task.second.empty() ? &Stretch::seconds : &Stretch::scores;
  std::vector<Observations> entries;
  std::vector<bool> usual;
  for (const Way& one : ranking.order) {
    Observations& entry = entries.emplace_back(
        task.has_examples() ? observations_of(one.name, place, scores, results.runs)
                            : observations_of(one, place, results.runs));
    entry.model = one.name;
    const auto is_cut = [&](const Way& other) {
      return other.name == one.name && other.context == Context::cut;
    };
    // Of each encoding once: with the cut context if there is one.
    entry.pooled = is_cut(one) || (one.context.value_or(Context::whole) == Context::whole &&
                                   std::ranges::none_of(ranking.order, is_cut));
    usual.push_back(std::isfinite(one.value) && ranking::takes_part(results, one));
  }
  return {std::move(entries), task.has_examples() ? Better::higher : Better::lower,
          statements_of(results), usual};
}

void rank(Results& results) {
  results.ways.clear(), results.rankings.clear();
  const std::vector<EncodingResult>& encodings = results.encodings;
  if (encodings.empty()) return;
  for (std::size_t i = 0; i < encodings[0].ranges.size(); ++i) {
    Ranking& range = results.rankings.emplace_back();
    range.from = encodings[0].ranges[i].from, range.to = encodings[0].ranges[i].to;
    for (const EncodingResult& one : encodings)
      if (one.ranges[i].applicable)
        range.order.push_back({.name = one.name,
                               .title = one.title,
                               .value = one.ranges[i].score,
                               .second = one.ranges[i].second});
    ranking::judge(results, range, i);
  }
  for (std::size_t i = 0; i < encodings[0].lengths.size(); ++i) {
    Ranking whole{.to = encodings[0].lengths[i].length}, ways = whole;
    for (const EncodingResult& one : encodings) {
      if (!one.lengths[i].applicable) continue;
      whole.order.push_back(
          {.name = one.name, .title = one.title, .value = one.lengths[i].tail_bits});
      ways.order.push_back(whole.order.back());
      ways.order.back().context = Context::whole;
    }
    for (const EncodingResult& one : encodings) {
      if (i == 0) continue;
      ways.order.push_back({.name = one.name,
                            .title = one.title,
                            .context = Context::cut,
                            .value = one.lengths[0].tail_bits});
      ranking::add_extensions(ways.order, one, i, results.runs);
    }
    ranking::judge(results, whole, i);
    ranking::judge(results, ways, i);
    results.rankings.push_back(std::move(whole));
    results.ways.push_back(std::move(ways));
  }
}

std::string UnitText::text(const Contrast& one) const {
  return fmt::format("{} ± {} {}", number(std::abs(one.difference)), number(one.margin), unit);
}

std::string UnitText::limit() const {
  return fmt::format("{:g} {}", unit == "points" ? 100 * equal_within : equal_within, unit);
}

UnitText unit_text(const Results& results) {
  return results.settings.task->has_examples()
             ? UnitText{ranking::points_number, "points", equal_share}
             : UnitText{bits_number, "bits", equal_bits};
}

std::string standing_text(const std::vector<Way>& order, const Contrasts& contrasts,
                          const UnitText& unit,
                          const std::function<std::string(const Way&)>& value) {
  const auto named = [&](const std::vector<std::size_t>& some) {
    return listed(mapped(some, [&](std::size_t i) {
      return fmt::format("{} ({})", order[i].title, value(order[i]));
    }));
  };
  using ranking::with;
  const auto described = with(order, Verdict::described),
             undecided = with(order, Verdict::undecided),
             equivalent = with(order, Verdict::equivalent), worse = with(order, Verdict::worse);
  if (!described.empty())
    return "in this order, which other seeds may change: " + named(described);
  if (order.empty() || order[0].verdict == Verdict::excluded) return "no encoding takes part";
  const bool alone =
      undecided.size() + equivalent.size() + worse.size() + with(order, Verdict::best).size() ==
      1;
  if (alone) return named({0}) + ", and no other takes part";
  std::string text;
  if (order[0].verdict == Verdict::best) {
    text = fmt::format("{} is the best: better than the next, {}, by {}", named({0}),
                       named({worse[0]}), unit.text(contrasts.between(worse[0], 0)));
    if (worse.size() > 1) text += ", then " + named({worse.begin() + 1, worse.end()});
    return text;
  }
  if (undecided.empty())
    text = fmt::format("{} are equivalent within {}", named(equivalent), unit.limit());
  else if (undecided.size() == 1)  // never: the verdict of the first is that of another
    text = named({0});
  else {
    text = fmt::format("which is best is not decided between {}", named(undecided));
    const std::size_t next = undecided[1];
    text += fmt::format("; the first two differ by {}", unit.text(contrasts.between(next, 0)));
    if (const std::int64_t seeds = contrasts.seeds_needed(next, 0); seeds > 0)
      text += fmt::format(", and about {} seeds would decide", seeds);
    if (!equivalent.empty())
      text += fmt::format("; {} {} equivalent to the first within {}", named(equivalent),
                          equivalent.size() == 1 ? "is" : "are", unit.limit());
  }
  if (!worse.empty())
    text += fmt::format(
        "; {} {} worse, by {}{}", named(worse), worse.size() == 1 ? "is" : "are",
        unit.text(contrasts.between(worse[0], 0)), worse.size() == 1 ? "" : " and more");
  return text;
}

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
