#include "apps/lab/statistics/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/lab/data/task.h"
#include "apps/lab/data/words.h"
#include "apps/lab/statistics/diverged.h"
#include "apps/lab/statistics/recommend.h"
#include "apps/lab/statistics/standing.h"
#include "apps/lab/statistics/task_results.h"
#include "apps/lab/statistics/training.h"
#include "apps/lab/statistics/ways.h"

namespace gnomon::lab {
namespace {

constexpr double breaks_from = 0.25;  // a relative increase of a loss; see far_sentence

std::string seeds_of(const Results& results) { return counted(fewest_seeds(results), "seed"); }

// "128 bytes", as length_text without the bytes of tokens.
std::string short_length(const Results& results, std::int64_t length) {
  return fmt::format("{} {}", length, length_unit(results.settings));
}

// "256, 512 and 1024 bytes".
std::string lengths_of(const std::vector<const Ways*>& some, const Results& results) {
  std::vector<std::string> numbers;
  for (const Ways* one : some) numbers.push_back(std::to_string(one->length));
  return listed(numbers) + " " + std::string(length_unit(results.settings));
}

// "Rotary (RoPE) with its context cut to 128 bytes".
std::string phrase(const Way& way, const Results& results) {
  switch (way.context) {
    case Context::whole:
      return way.title + " with the whole context";
    case Context::cut:
      return fmt::format("{} with its context cut to the last {}", way.title,
                         short_length(results, results.ways.front().length));
    case Context::extended:
      return fmt::format("{} extended with {}", way.title, way.method);
    case Context::tuned:
      return fmt::format("{} extended with {} and fine-tuned", way.title, way.method);
  }
  return way.title;
}

std::string unit(const Results& results) {
  return results.settings.task->is_masked() ? "bits per masked byte" : "bits per byte";
}

UnitText bits_text() { return {bits_number, "bits", equal_bits}; }

// The index of the first way at a length that takes part and fulfils the condition.
template <typename Condition>
std::optional<std::size_t> first_way(const Ways& at, Condition&& condition) {
  for (std::size_t i = 0; i < at.order.size(); ++i)
    if (at.order[i].verdict != Verdict::excluded && condition(at.order[i])) return i;
  return std::nullopt;
}

std::optional<std::size_t> first_cut(const Ways& at) {
  return first_way(at, [](const Way& one) { return one.context == Context::cut; });
}

// The encodings at the training length.
std::string near_sentence(const Results& results) {
  const Ways& near = results.ways.front();
  std::vector<Standing> order;
  for (const Way& one : near.order)
    order.push_back({one.title, number_or_diverged("{:.2f}", one.bits), one.verdict});
  const std::int64_t steps = results.settings.steps;
  std::string text = fmt::format(
      "At the training length of {}, in {} ({}{}): {}.", length_text(results, near.length),
      unit(results), steps > 0 ? counted(steps, "step") + ", " : "", seeds_of(results),
      standing_text(order, contrasts_at(results, 0), bits_text()));
  const auto fall = find_encoding(results, near.order[0].name).fall;
  if (fall && *fall > equal_bits)
    text +=
        fmt::format(" With twice the steps, the loss of {} would fall by about {:.2f} bits.",
                    near.order[0].title, *fall);
  return text;
}

// The gain of a context longer than in training: of the best way at each length over the best
// with the cut context.
struct Gain {
  std::size_t length = 0;  // index of Results::ways
  Contrast contrast;       // of the cut context minus the best
};
std::vector<Gain> gains(const Results& results) {
  std::vector<Gain> all;
  for (std::size_t i = 1; i < results.ways.size(); ++i)
    if (const auto cut = first_cut(results.ways[i]))
      all.push_back({i, contrasts_at(results, i).between(*cut, 0)});
  return all;
}

const Gain* largest(const std::vector<Gain>& all) {
  const Gain* best = nullptr;
  for (const Gain& one : all)
    if (one.contrast.above() && !one.contrast.within(equal_bits) &&
        (!best || one.contrast.difference > best->contrast.difference))
      best = &one;
  return best;
}

std::string gain_sentence(const Results& results) {
  const std::vector<Gain> all = gains(results);
  const std::string train = short_length(results, results.ways.front().length);
  if (const Gain* best = largest(all)) {
    const Ways& at = results.ways[best->length];
    return fmt::format("A longer context gains {}: at {}, {} has {:.2f}.",
                       bits_text().text(best->contrast), short_length(results, at.length),
                       phrase(at.order[0], results), at.order[0].bits);
  }
  std::vector<const Ways*> none, open;
  for (const Gain& one : all)
    (one.contrast.within(equal_bits) ? none : open).push_back(&results.ways[one.length]);
  std::string text;
  if (!none.empty())
    text = fmt::format(
        "At {}, a context longer than {} gains at most {}: the best loss differs from the best "
        "with the context cut to {} by no more.",
        lengths_of(none, results), train, bits_text().limit(), train);
  if (!open.empty())
    text += fmt::format("{}At {}, whether a context longer than {} gains is not decided.",
                        text.empty() ? "" : " ", lengths_of(open, results), train);
  return text;
}

// The advice by length. Only choices that are decided are advised.
std::string advice(const Results& results) {
  std::vector<std::string> parts;
  std::vector<const Ways*> undecided;
  std::string choice;
  for (const Recommendation& one : results.recommendations) {
    std::vector<const Ways*> lengths;
    for (const Ways& at : results.ways)
      if (one.from <= at.length && at.length <= one.to) lengths.push_back(&at);
    if (one.decided && !one.choices.empty())
      parts.push_back(fmt::format(
          "at {} {}{}", lengths_of(lengths, results), choices_text(one),
          one.choices.size() > 1 ? fmt::format(" (equivalent within {})", bits_text().limit())
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
  const Ways& far = results.ways.back();
  const Contrasts contrasts = contrasts_at(results, last);
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
      short_length(results, far.length), far.length / results.settings.train_length,
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

std::vector<std::string> answer(const Results& results) {
  std::vector<std::string> sentences = missing_runs(results);
  if (results.encodings.empty()) return sentences;
  const bool examples = results.settings.task->has_examples();
  for (std::string& one : examples ? example_answer(results) : text_answer(results))
    sentences.push_back(std::move(one));
  if (!all_diverged(results))
    if (const auto diverged = diverged_sentence(results)) sentences.push_back(*diverged);
  if (const auto steps = fewer_steps(results)) sentences.push_back(*steps);
  return sentences;
}

}  // namespace gnomon::lab
