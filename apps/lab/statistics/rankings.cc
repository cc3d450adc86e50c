#include "apps/lab/statistics/rankings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/lab/data/lists.h"
#include "apps/lab/data/task.h"
#include "apps/lab/data/words.h"
#include "apps/lab/model/candidate.h"
#include "apps/lab/statistics/observations.h"
#include "apps/lab/statistics/training.h"

namespace gnomon::lab {
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
  return std::isfinite(best.score) &&
         is_above_chance(best.score, best.chance_score, best.score_interval, best.examples,
                         results.encodings.size());
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
    text = fmt::format("{} is better than each other: than the next, {}, by {}", named({0}),
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

}  // namespace gnomon::lab
