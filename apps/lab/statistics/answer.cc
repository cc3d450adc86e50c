#include "apps/lab/statistics/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/lab/data/lists.h"
#include "apps/lab/data/words.h"
#include "apps/lab/model/candidate.h"
#include "apps/lab/statistics/rankings.h"
#include "apps/lab/statistics/training.h"

namespace gnomon::lab {
namespace {

constexpr double learnt_from = 0.95;

// "right whole answers 12 %, right bytes 45 %"
std::string scores(const Task& task, double score, double second) {
  std::string text = fmt::format("{} {}", task.score, percent_text(score));
  if (!task.second.empty()) text += fmt::format(", {} {}", task.second, percent_text(second));
  return text;
}

std::string trained_sentence(const Results& results, const Task& task) {
  std::vector<std::string> learnt, others;  // leave out those that diverged
  for (const EncodingResult& one : results.encodings) {
    const StretchMean& range = one.ranges.front();
    if (!range.applicable || !std::isfinite(range.score)) continue;
    if (range.score >= learnt_from)
      learnt.push_back(one.title);
    else
      others.push_back(fmt::format("{} ({})", one.title, percent_text(range.score)));
  }
  const StretchMean& range = results.encodings[0].ranges.front();
  std::string text =
      fmt::format("{}, {} {} {} as in training (by chance: {}): {} ", task.title,
                  range.from == range.to ? "at" : "up to", range.to, task.unit,
                  scores(task, range.chance_score, range.chance_second), task.score);
  if (!learnt.empty())
    text += fmt::format("of at least {} with {}", percent_text(learnt_from), listed(learnt));
  if (!others.empty())
    text += (learnt.empty() ? "below " + percent_text(learnt_from) + " with "
                            : std::string("; less with ")) +
            listed(others);
  return text + ".";
}

std::string beyond_sentence(const Results& results, std::size_t range) {
  const Task& task = *results.settings.task;
  const Ranking& ranking = results.rankings[range];
  const std::string place =
      fmt::format("{} {}", range_text(ranking.from, ranking.to), task.unit);
  const std::string at = "At " + place;
  if (ranking.order.empty()) return fmt::format("No encoding has positions for {}.", place);
  const std::vector<Way>& order = ranking.order;
  if (std::ranges::none_of(order, [](const Way& one) { return std::isfinite(one.value); }))
    return at + ", every encoding diverged.";
  const bool no_score = has_no_score(ranking);
  const StretchMean& best = find_encoding(results, order[0].name)->ranges[range];
  if (!no_score && !beats_chance(results, range))
    return fmt::format("{}, no encoding has {} above chance: guessing gives {} ({}).", at,
                       task.score, percent_text(best.chance_score),
                       counted(best.examples, "example"));
  std::string text = at + ": ";
  if (no_score) {
    text = fmt::format("{}, {} are 0 % with each encoding that has a result", at, task.score);
    if (task.second.empty()) return text + ".";
    text +=
        fmt::format("; by {} (by chance {}), ", task.second, percent_text(best.chance_second));
  }
  return text +
         standing_text(
             order, contrasts_of(results, ranking, range), unit_text(results),
             [&](const Way& one) { return percent_text(no_score ? *one.second : one.value); }) +
         ".";
}

// The second scores of a range, if they answer another question than the scores.
std::string second_sentence(const Results& results, std::size_t range) {
  const Task& task = *results.settings.task;
  std::vector<const EncodingResult*> order;
  for (const EncodingResult& one : results.encodings)
    if (one.ranges[range].applicable && std::isfinite(one.ranges[range].second))
      order.push_back(&one);
  if (order.empty()) return "";
  std::ranges::stable_sort(
      order, is_higher, [&](const EncodingResult* one) { return one->ranges[range].second; });
  const auto shares = mapped(order, [&](const EncodingResult* one) {
    return fmt::format("{} ({})", one->title, percent_text(one->ranges[range].second));
  });
  const StretchMean& first = order[0]->ranges[range];
  return fmt::format("{} at {} {} (by chance {}): {}.", capitalized(std::string(task.second)),
                     range_text(first.from, first.to), task.unit,
                     percent_text(first.chance_second), listed(shares));
}

// Empty if the loss hardly falls.
std::string fall_sentence(const Results& results, const Way& way) {
  const auto fall = find_encoding(results, way.name)->fall;
  if (!fall || *fall <= equal_bits) return "";
  return fmt::format(" With twice the steps, the loss of {} would fall by about {:.2f} bits.",
                     way.title, *fall);
}

}  // namespace

std::string chance_sentence(const Results& results) {
  const Task& task = *results.settings.task;
  const StretchMean& range = results.encodings[0].ranges.front();
  return fmt::format("By chance ({}), up to {} {}: {}.", task.chance, range.to, task.unit,
                     scores(task, range.chance_score, range.chance_second));
}

std::vector<std::string> example_answer(const Results& results) {
  std::vector<std::string> sentences;
  if (const auto reason = no_advice(results)) sentences.push_back(*reason);
  if (all_diverged(results)) return sentences;
  if (const auto excluded = excluded_sentence(results)) sentences.push_back(*excluded);
  sentences.push_back(trained_sentence(results, *results.settings.task));
  if (const auto& order = results.rankings.front().order;
      !order.empty() && order[0].verdict != Verdict::excluded && order[0].value < learnt_from)
    sentences.back() += fall_sentence(results, order[0]);
  for (std::size_t i = 1; i < results.rankings.size(); ++i)
    sentences.push_back(beyond_sentence(results, i));
  if (results.settings.task->reports_second)
    for (std::size_t i = 0; i < results.rankings.size(); ++i)
      if (std::string one = second_sentence(results, i); !one.empty())
        sentences.push_back(std::move(one));
  return sentences;
}

namespace {

constexpr double breaks_from = 0.25;  // a relative increase of a loss; see far_sentence

std::string seeds_of(const Results& results) { return counted(fewest_seeds(results), "seed"); }

// "256, 512 and 1024 bytes".
std::string lengths_of(const std::vector<std::int64_t>& lengths, const Results& results) {
  const auto text = [](std::int64_t length) { return std::to_string(length); };
  return fmt::format("{} {}", listed(mapped(lengths, text)), length_unit(results.settings));
}

std::string unit(const Results& results) {
  return results.settings.task->is_masked() ? "bits per masked byte" : "bits per byte";
}

// The index of the first way at a length that takes part and fulfils the condition.
template <typename Condition>
std::optional<std::size_t> first_way(const Ranking& at, Condition&& condition) {
  for (std::size_t i = 0; i < at.order.size(); ++i)
    if (at.order[i].verdict != Verdict::excluded && condition(at.order[i])) return i;
  return std::nullopt;
}

// The encodings at the training length.
std::string near_sentence(const Results& results) {
  const Ranking& near = results.ways.front();
  const std::int64_t steps = results.settings.steps;
  std::string text = fmt::format(
      "At the training length of {}, in {} ({}{}): {}.", length_text(results, near.to),
      unit(results), steps > 0 ? counted(steps, "step") + ", " : "", seeds_of(results),
      standing_text(near.order, contrasts_of(results, near, 0), unit_text(results),
                    [](const Way& one) { return number_or_diverged("{:.2f}", one.value); }));
  return text + fall_sentence(results, near.order[0]);
}

// The gain of a context longer than in training: of the best way at each length over the best
// with the cut context.
std::string gain_sentence(const Results& results) {
  const UnitText unit = unit_text(results);
  const std::string train = lengths_of({results.ways.front().to}, results);
  std::optional<Contrast> largest;  // of the cut context minus the best
  const Ranking* at = nullptr;      // the length of the largest gain
  std::vector<std::int64_t> none, open;
  for (std::size_t i = 1; i < results.ways.size(); ++i) {
    const Ranking& ways = results.ways[i];
    const auto cut =
        first_way(ways, [](const Way& one) { return one.context == Context::cut; });
    if (!cut) continue;
    const Contrast gain = contrasts_of(results, ways, i).between(*cut, 0);
    (gain.within(equal_bits) ? none : open).push_back(ways.to);
    if (gain.above() && !gain.within(equal_bits) &&
        (!largest || gain.difference > largest->difference))
      largest = gain, at = &ways;
  }
  if (largest) {
    const Way& best = at->order[0];
    return fmt::format("A longer context gains {}: at {}, {} {} has {:.2f}.",
                       unit.text(*largest), lengths_of({at->to}, results), best.title,
                       use_of(best, results), best.value);
  }
  std::vector<std::string> parts;
  if (!none.empty())
    parts.push_back(fmt::format(
        "At {}, a context longer than {} gains at most {}: the best loss differs from the best "
        "with the context cut to {} by no more.",
        lengths_of(none, results), train, unit.limit(), train));
  if (!open.empty())
    parts.push_back(fmt::format("At {}, whether a context longer than {} gains is not decided.",
                                lengths_of(open, results), train));
  return fmt::format("{}", fmt::join(parts, " "));
}

// The advice by length. Only choices that are decided are advised.
std::string advice(const Results& results) {
  std::vector<std::string> parts;
  std::vector<std::int64_t> undecided;
  for (const Recommendation& one : results.recommendations) {
    std::vector<std::int64_t> lengths;
    for (const Ranking& at : results.ways)
      if (one.from <= at.to && at.to <= one.to) lengths.push_back(at.to);
    if (one.decided && !one.choices.empty())
      parts.push_back(
          fmt::format("at {} {}{}", lengths_of(lengths, results), choices_text(one),
                      one.choices.size() > 1
                          ? fmt::format(" (equivalent within {})", unit_text(results).limit())
                          : ""));
    else
      undecided.insert(undecided.end(), lengths.begin(), lengths.end());
  }
  std::string text = parts.empty() ? "" : fmt::format("Use {}.", fmt::join(parts, "; "));
  if (!undecided.empty())
    text += fmt::format("{}No advice for {}: which {} is best is not decided.",
                        text.empty() ? "" : " ", lengths_of(undecided, results),
                        entry_noun(results.settings));
  return text;
}

// "+3.2 %", "-12 %".
std::string change_text(double change) {
  return fmt::format(fmt::runtime(std::abs(change) < 0.0995 ? "{:+.1f} %" : "{:+.0f} %"),
                     100 * change);
}

// The change of the loss of each encoding from the training length to the longest: measurable
// if the interval of the difference does not contain 0, and within 3 % if the whole interval
// is.
std::string far_sentence(const Results& results) {
  const std::size_t last = results.ways.size() - 1;
  const Ranking& far = results.ways.back();
  const Contrasts contrasts = contrasts_of(results, far, last);
  const bool known = fewest_seeds(results) >= least_seeds;
  std::vector<std::string> falling, holding, losing, broken, open, absent;
  std::vector<const EncodingResult*> sorted;
  for (const EncodingResult& one : results.encodings)
    if (one.training == Training::enough) sorted.push_back(&one);
  const auto change = [](const EncodingResult* one) {
    const LengthMean& at = one->lengths.back();
    return at.applicable ? at.change : 1e9;
  };
  std::stable_sort(sorted.begin(), sorted.end(), [&](const auto* a, const auto* b) {
    return is_lower(change(a), change(b));
  });
  const auto index = [&](const EncodingResult* one, Context context) {
    return *first_way(
        far, [&](const Way& way) { return way.name == one->name && way.context == context; });
  };
  for (const EncodingResult* one : sorted) {
    if (!one->lengths.back().applicable) {
      absent.push_back(one->title);
      continue;
    }
    if (!std::isfinite(change(one))) continue;  // diverged there, which another sentence says
    Contrast longer = contrasts.between(index(one, Context::whole), index(one, Context::cut));
    if (!known) longer.margin = 0;  // described as measured
    const double limit = holds_within * one->lengths.front().tail_bits;
    const std::string named = fmt::format("{} ({})", one->title, change_text(change(one)));
    if (longer.within(limit))
      holding.push_back(one->title);
    else if (longer.below())
      falling.push_back(named);
    else if (longer.above())
      (change(one) < breaks_from ? losing : broken).push_back(named);
    else
      open.push_back(named);
  }
  std::vector<std::string> parts;
  const auto add = [&](const std::vector<std::string>& some, const std::string& text) {
    if (!some.empty()) parts.push_back(text + listed(some));
  };
  add(holding,
      fmt::format("within {:.0f} % of the loss at the training length: ", 100 * holds_within));
  add(falling, "lower: ");
  add(losing, "higher: ");
  add(broken, fmt::format("higher by more than {:.0f} %: ", 100 * breaks_from));
  add(open, "not decided: ");
  add(absent, "no positions: ");
  if (parts.empty()) return "";
  return fmt::format(
      "The loss with the whole context of {}, {} times the training length{}: {}.",
      lengths_of({far.to}, results), far.to / results.settings.train_length,
      known ? "" : " (" + seeds_of(results) + ")", fmt::join(parts, "; "));
}

std::vector<std::string> text_answer(const Results& results) {
  if (all_diverged(results)) return {all_diverged_sentence(results)};
  std::vector<std::string> sentences;
  const auto reason = no_advice(results);
  if (reason) sentences.push_back(*reason);
  if (const auto excluded = excluded_sentence(results)) sentences.push_back(*excluded);
  if (results.ways.front().order.front().verdict == Verdict::excluded) return sentences;
  sentences.push_back(near_sentence(results));
  if (results.ways.size() == 1) return sentences;
  if (!reason) {
    sentences.push_back(gain_sentence(results));
    sentences.push_back(advice(results));
  }
  if (std::string far = far_sentence(results); !far.empty())
    sentences.push_back(std::move(far));
  return sentences;
}

}  // namespace

std::vector<std::string> missing_runs(const Results& results) {
  std::int64_t done = 0;
  for (const EncodingResult& one : results.encodings) done += one.seeds;
  if (!results.missing.empty())
    return {
        fmt::format("Merged without {} of {} runs, and only the others are compared. "
                    "Missing: {}.",
                    std::ssize(results.missing), results.runs_asked, listed(results.missing))};
  if (done < results.runs_asked)
    return {fmt::format("Stopped early: {} of {} runs are done, and only they are compared.",
                        done, results.runs_asked)};
  return {};
}

std::vector<std::string> extension_answer(const std::vector<ExtensionResult>& extensions,
                                          std::string_view unit) {
  std::vector<std::string> sentences;
  for (const ExtensionResult& one : extensions) {
    // Index of the length that the methods are for, or of the longest if that is shorter.
    std::size_t at = 0;
    while (at + 1 < one.lengths.size() && one.lengths[at] < one.lengths[0] * one.factor) ++at;
    const auto best = [&](Stage stage) {
      const ExtensionRow* least = nullptr;
      for (const ExtensionRow& row : one.rows)
        if (row.stage == stage && row.method != control_extension &&
            (!least || is_lower(row.bits[at], least->bits[at])))
          least = &row;
      return least;
    };
    const ExtensionRow *without = best(Stage::without), *after = best(Stage::after);
    if (!without || !after) continue;
    const auto bits = [&](const ExtensionRow& row) {
      return number_or_diverged("{:.2f}", row.bits[at]);
    };
    const auto best_of = [&](const ExtensionRow& row) {
      return std::isfinite(row.bits[at])
                 ? fmt::format("the best is {} ({})", row.title, bits(row))
                 : std::string("every method diverged");
    };
    sentences.push_back(fmt::format(
        "{} at {} {}: {} bits after training at {}; without a fine-tune, {}; after {} of "
        "fine-tuning, {}, and the same fine-tuning without scaling gives {}.",
        one.title, one.lengths[at], unit, bits(one.rows.front()), one.lengths[0],
        best_of(*without), counted(one.steps, "step"), best_of(*after), bits(one.rows.back())));
  }
  return sentences;
}

std::vector<std::string> answer(const Results& results) {
  std::vector<std::string> sentences = missing_runs(results);
  const auto add = [&](const std::vector<std::string>& some) {
    sentences.insert(sentences.end(), some.begin(), some.end());
  };
  if (results.encodings.empty()) return sentences;
  add(results.settings.task->has_examples() ? example_answer(results) : text_answer(results));
  if (!all_diverged(results))
    if (const auto diverged = diverged_sentence(results)) sentences.push_back(*diverged);
  if (const auto steps = fewer_steps(results)) sentences.push_back(*steps);
  add(extension_answer(results.extensions, length_unit(results.settings)));
  return sentences;
}

}  // namespace gnomon::lab
