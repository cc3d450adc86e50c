#include "apps/lab/statistics/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/lab/data/lists.h"
#include "apps/lab/data/task.h"
#include "apps/lab/data/words.h"
#include "apps/lab/model/candidate.h"
#include "apps/lab/statistics/rankings.h"
#include "apps/lab/statistics/recommend.h"
#include "apps/lab/statistics/task_results.h"
#include "apps/lab/statistics/training.h"

namespace gnomon::lab {
namespace {

constexpr double breaks_from = 0.25;  // a relative increase of a loss; see far_sentence

std::string seeds_of(const Results& results) { return counted(fewest_seeds(results), "seed"); }

// "128 bytes", as length_text without the bytes of tokens.
std::string short_length(const Results& results, std::int64_t length) {
  return fmt::format("{} {}", length, length_unit(results.settings));
}

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
  const auto fall = find_encoding(results, near.order[0].name)->fall;
  if (fall && *fall > equal_bits)
    text +=
        fmt::format(" With twice the steps, the loss of {} would fall by about {:.2f} bits.",
                    near.order[0].title, *fall);
  return text;
}

// The gain of a context longer than in training: of the best way at each length over the best
// with the cut context.
std::string gain_sentence(const Results& results) {
  const UnitText unit = unit_text(results);
  const std::string train = short_length(results, results.ways.front().to);
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
                       unit.text(*largest), short_length(results, at->to), best.title,
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
      short_length(results, far.to), far.to / results.settings.train_length,
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
