#include "apps/lab/statistics/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/lab/data/task.h"
#include "apps/lab/data/words.h"
#include "apps/lab/statistics/diverged.h"
#include "apps/lab/statistics/recommend.h"
#include "apps/lab/statistics/task_results.h"
#include "apps/lab/statistics/ways.h"

namespace gnomon::lab {
namespace {

constexpr double breaks_from = 0.25;  // a relative increase of a loss; see far_sentence

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

std::string seeds_of(const Results& results) {
  std::int64_t least = std::ssize(results.settings.seeds);
  for (const EncodingResult& one : results.encodings) least = std::min(least, one.seeds);
  return counted(least, "seed");
}

// The fall of the validation loss in the last third of the curve, relative to its end. Empty if
// the curve has no such points.
std::optional<double> last_fall(const RunResult& run) {
  if (run.curve.empty() || !run.curve.back().validation_bits) return std::nullopt;
  const CurvePoint& end = run.curve.back();
  const CurvePoint* start = nullptr;
  for (const CurvePoint& point : run.curve)
    if (point.validation_bits && 3 * point.step <= 2 * end.step) start = &point;
  if (!start) return std::nullopt;
  const double fall = *start->validation_bits / *end.validation_bits - 1;
  return std::isfinite(fall) ? std::optional(fall) : std::nullopt;
}

// The steps after which the models should be trained enough: at least twice as many and 300,
// and as many that `fall` is below the limit if it halves with each doubling.
double wanted_steps(double steps, std::optional<double> fall) {
  const double doublings =
      fall ? std::ceil(std::log2(std::max(2.0, *fall / settled_below))) : 1;
  return std::max(300.0, steps * std::exp2(std::min(doublings, 10.0)));
}

std::string more_minutes(const Results& results, std::optional<double> fall) {
  // --minutes is the time for the models of all sizes.
  if (!results.size.empty())
    return fmt::format("Train more: --steps {:.0f}",
                       wanted_steps(static_cast<double>(results.settings.steps), fall));
  double step_seconds = 0;
  for (const RunResult& run : results.runs)
    if (run.steps > 0) step_seconds += run.train_seconds / static_cast<double>(run.steps);
  const auto together = static_cast<double>(std::clamp<std::int64_t>(
      std::ssize(results.runs), 1, std::max<std::int64_t>(1, results.machine.cores)));
  const auto steps = static_cast<double>(results.settings.steps);
  const double now = step_seconds / together * steps / 60,
               all = step_seconds / together * wanted_steps(steps, fall) / 60;
  constexpr double longest = 1e6;  // minutes
  if (!(all < longest))
    return fmt::format("Train more: --steps {:.0f}", wanted_steps(steps, fall));
  const double more = std::max(1.0, std::ceil(all - now)), total = std::ceil(now + more);
  return fmt::format("Train about {}: --minutes {:.0f}",
                     counted(static_cast<std::int64_t>(more), "more minute"), total);
}

// The best way with the cut context. Beyond the training length, every encoding has one.
const Way& first_cut(const Ways& at) {
  return *std::find_if(at.order.begin(), at.order.end(),
                       [](const Way& one) { return one.context == Context::cut; });
}

// Whether a longer context gains: the best way at a length is measurably better than the best
// with the cut context.
bool gains(const Ways& at, std::size_t length, const std::vector<RunResult>& runs) {
  const Way &best = at.order.front(), &cut = first_cut(at);
  return cut.bits - best.bits > margin(cut, best, length, runs);
}

// The way of an encoding with the whole context. Null if it has no positions for the length.
const Way* whole_way(const Ways& at, const std::string& name) {
  for (const Way& one : at.order)
    if (one.name == name && one.context == Context::whole) return &one;
  return nullptr;
}

// Whether two ways have the same loss within the uncertainty. False if one diverged.
bool is_equal(const Results& results, std::size_t length, const Way& a, const Way& b) {
  return std::abs(a.bits - b.bits) <= margin(a, b, length, results.runs);
}

// "128 bytes", as length_text without the bytes of tokens.
std::string short_length(const Results& results, std::int64_t length) {
  return fmt::format("{} {}", length, length_unit(results.settings));
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

// The other ways of an order that are tied with the first, and are not the same encoding.
std::vector<std::string> tied_with_best(const Ways& at, const Results& results) {
  std::vector<std::string> all;
  for (const Way& one : at.order)
    if (one.tied && one.name != at.order[0].name)
      all.push_back(at.length == results.ways.front().length ? one.title
                                                             : phrase(one, results));
  return all;
}

std::string unit(const Results& results) {
  return results.settings.task->is_masked() ? "bits per masked byte" : "bits per byte";
}

// The best encoding at the training length.
std::string near_sentence(const Results& results) {
  const Ways& near = results.ways.front();
  const Way& best = near.order[0];
  const std::string at = "At the training length of " + length_text(results, near.length);
  if (near.order.size() == 1)
    return fmt::format(
        "{}, {} has a loss of {:.2f} {} ({}). There is no other {} to compare it with.", at,
        best.title, best.bits, unit(results), seeds_of(results), entry_noun(results.settings));
  const auto tied = tied_with_best(near, results);
  if (tied.empty())
    return fmt::format("{}, {} has the lowest loss: {:.2f} {} ({}).", at, best.title, best.bits,
                       unit(results), seeds_of(results));
  if (tied.size() + 1 == near.order.size())
    return fmt::format(
        "{}, no {} is measurably better than the others: the 95 % confidence intervals of the "
        "differences of all {} from the lowest loss, {:.2f} {}, contain 0 ({}).",
        at, entry_noun(results.settings), near.order.size(), best.bits, unit(results),
        seeds_of(results));
  std::vector<std::string> all{best.title};
  all.insert(all.end(), tied.begin(), tied.end());
  return fmt::format(
      "{}, {} are tied for the lowest loss, {:.2f} {} ({}): the 95 % confidence intervals of "
      "their differences contain 0.",
      at, listed(all), best.bits, unit(results), seeds_of(results));
}

// "256, 512 and 1024 bytes".
std::string lengths_of(const std::vector<const Ways*>& some, const Results& results) {
  std::vector<std::string> numbers;
  for (const Ways* one : some) numbers.push_back(std::to_string(one->length));
  return listed(numbers) + " " + std::string(length_unit(results.settings));
}

// The gain of a context longer than in training, for the best way at each length.
std::string gain_sentence(const Results& results) {
  const std::string train = short_length(results, results.ways.front().length);
  const double near = results.ways.front().order[0].bits;
  const Ways* best = nullptr;
  std::vector<const Ways*> longer;
  for (std::size_t i = 1; i < results.ways.size(); ++i) {
    const Ways& at = results.ways[i];
    longer.push_back(&at);
    if (gains(at, i, results.runs) && (!best || at.order[0].bits < best->order[0].bits))
      best = &at;
  }
  if (!best)
    return fmt::format(
        "No {} gains from a context longer than {}: at {}, no loss is measurably below {:.2f}, "
        "the lowest with the context cut to the last {}.",
        entry_noun(results.settings), train, lengths_of(longer, results), near, train);
  std::string text = fmt::format(
      "A longer context gains {:.2f} bits: the lowest loss is {:.2f}, at {}, that of {}",
      near - best->order[0].bits, best->order[0].bits, short_length(results, best->length),
      phrase(best->order[0], results));
  if (const auto tied = tied_with_best(*best, results); !tied.empty())
    text += ", tied with " + listed(tied);
  return text + ".";
}

// The encodings that are tied for the lowest loss at the training length.
std::string best_near(const Results& results) {
  const Ways& near = results.ways.front();
  std::vector<std::string> names{near.order[0].title};
  for (std::string& one : tied_with_best(near, results)) names.push_back(std::move(one));
  return names.size() == 1 ? names[0]
                           : either(names) + " (tied; more --seeds can tell them apart)";
}

// The advice if no length gains from a longer context.
std::string advice_to_cut(const Results& results) {
  const std::size_t last = results.ways.size() - 1;
  const Ways& far = results.ways.back();
  const Way& best = first_cut(far);
  const Way* same = whole_way(far, best.name);
  if (same && is_equal(results, last, *same, best))
    return fmt::format(
        "Use {}. The context of {} need not be cut: "
        "the loss with the whole {} does not differ measurably.",
        best_near(results), best.title, short_length(results, far.length));
  std::string text =
      fmt::format("Use {}, and cut the context of longer texts to the last {}.",
                  best_near(results), short_length(results, results.ways.front().length));
  const std::vector<RankedEncoding>& whole = results.rankings.back().order;
  if (whole.empty() || !std::isfinite(*whole[0].bits)) return text;
  std::vector<std::string> lowest;
  for (const RankedEncoding& one : whole)
    if (one.tied) lowest.push_back(one.title);
  const double bits = *whole[0].bits;
  const bool equal = is_equal(results, last, *whole_way(far, whole[0].name), best);
  return text + fmt::format(
                    " If the context cannot be cut, the lowest loss with the whole {} is "
                    "{:.2f}, that of {}{}, {:.2f} bits {} {:.2f}{}.",
                    short_length(results, far.length), bits, listed(lowest),
                    lowest.size() > 1 ? " (tied)" : "", std::abs(bits - best.bits),
                    bits < best.bits ? "below" : "above", best.bits,
                    equal ? ", which is not measurable" : "");
}

// The advice by length.
std::string advice_by_length(const Results& results) {
  std::vector<std::string> parts;
  for (const Recommendation& one : results.recommendations) {
    std::vector<const Ways*> lengths;
    for (const Ways& at : results.ways)
      if (one.from <= at.length && at.length <= one.to) lengths.push_back(&at);
    parts.push_back(fmt::format("at {} {}{}", lengths_of(lengths, results), choices_text(one),
                                one.choices.size() > 1 ? " (tied)" : ""));
  }
  return "Use " + listed(parts) + ".";
}

std::string advice(const Results& results) {
  for (std::size_t i = 1; i < results.ways.size(); ++i)
    if (gains(results.ways[i], i, results.runs)) return advice_by_length(results);
  return advice_to_cut(results);
}

// "+3.2 %", "-12 %".
std::string change_text(double change) {
  return fmt::format(fmt::runtime(std::abs(change) < 0.0995 ? "{:+.1f} %" : "{:+.0f} %"),
                     100 * change);
}

// Which encodings hold at the longest length, how much the losses of the others change, and
// which have no position.
std::string far_sentence(const Results& results) {
  const std::int64_t length = results.settings.longest();
  std::vector<std::string> falling, holding, losing, broken, diverged, absent;
  std::vector<const EncodingResult*> sorted;
  for (const EncodingResult& one : results.encodings) sorted.push_back(&one);
  const auto change = [](const EncodingResult* one) {
    const LengthMean& last = one->lengths.back();
    return last.applicable ? last.change : 1e9;
  };
  std::stable_sort(sorted.begin(), sorted.end(), [&](const auto* a, const auto* b) {
    return is_lower(change(a), change(b));
  });
  for (const EncodingResult* one : sorted) {
    if (!one->lengths.back().applicable)
      absent.push_back(one->title);
    else if (!std::isfinite(change(one)))
      diverged.push_back(one->title);
    else if (std::abs(change(one)) <= holds_within)
      holding.push_back(one->title);
    else
      (change(one) < 0             ? falling
       : change(one) < breaks_from ? losing
                                   : broken)
          .push_back(fmt::format("{} ({})", one->title, change_text(change(one))));
  }
  std::vector<std::string> parts;
  if (!falling.empty()) parts.push_back("the loss of " + listed(falling) + " decreases");
  if (!holding.empty() || (falling.empty() && absent.size() < sorted.size()))
    parts.push_back(
        holding.empty()
            ? fmt::format("no {} stays within 3 % of its loss at the training length",
                          entry_noun(results.settings))
            : fmt::format("{} {} within 3 % of {} loss at the training length", listed(holding),
                          holding.size() == 1 ? "stays" : "stay",
                          holding.size() == 1 ? "its" : "their"));
  if (!losing.empty()) parts.push_back("the loss of " + listed(losing) + " increases");
  if (!broken.empty())
    parts.push_back(listed(broken) + (broken.size() == 1 ? " fails" : " fail"));
  if (!diverged.empty())
    parts.push_back(listed(diverged) + (diverged.size() == 1 ? " has" : " have") +
                    " no finite loss");
  if (!absent.empty())
    parts.push_back(listed(absent) +
                    (absent.size() == 1 ? " has no positions" : " have no positions"));
  std::string text =
      fmt::format("With the whole context of {}, {} times the training length: ",
                  short_length(results, length), length / results.settings.train_length);
  for (std::size_t i = 0; i < parts.size(); ++i) text += (i ? "; " : "") + parts[i];
  return text + ".";
}

std::vector<std::string> text_answer(const Results& results) {
  if (all_diverged(results)) return {all_diverged_sentence(results)};
  const bool longer = results.ways.size() > 1;
  if (const auto reason = not_trained_enough(results)) {
    std::vector<std::string> sentences{*reason, near_sentence(results)};
    if (longer) sentences.push_back(far_sentence(results));
    return sentences;
  }
  if (!longer) return {near_sentence(results)};
  std::vector<std::string> sentences{near_sentence(results) + " " + gain_sentence(results),
                                     advice(results), far_sentence(results)};
  return sentences;
}

}  // namespace

std::optional<std::string> not_trained_enough(const Results& results) {
  if (all_diverged(results)) return all_diverged_sentence(results);
  const Way& best = results.ways.front().order[0];
  const TextsResult& texts = results.texts;
  const bool tokens = texts.token_frequency_bits.value_or(texts.byte_frequency_bits) <
                      texts.byte_frequency_bits;
  const double frequency = tokens ? *texts.token_frequency_bits : texts.byte_frequency_bits;
  std::optional<double> fall;
  for (const RunResult& run : results.runs)
    if (run.encoding == best.name)
      if (const auto here = last_fall(run)) fall = std::max(fall.value_or(*here), *here);
  if (best.bits > learned_below * frequency)
    return fmt::format(
        "Not trained enough for advice: the best loss is {:.2f} {}, that of {} frequencies "
        "alone is {:.2f}, and advice requires at least {} less. {}.",
        best.bits, unit(results), tokens ? "token" : "byte", frequency,
        percent(1 - learned_below), more_minutes(results, fall));
  if (results.settings.task->predicts == Predicts::next &&
      best.bits >= results.texts.byte_pair_bits)
    return fmt::format(
        "Not trained enough for advice: the best loss is {:.2f} {}, and a model that only "
        "knows the byte before, without any position, has {:.2f}. {}.",
        best.bits, unit(results), results.texts.byte_pair_bits, more_minutes(results, fall));
  if (fall && *fall > settled_below)
    return fmt::format(
        "Not trained enough for advice: the loss of the best model, {}, fell by {} in the last "
        "third of its steps, and advice requires at most {}. {}.",
        best.title, percent(*fall), percent(settled_below), more_minutes(results, fall));
  return std::nullopt;
}

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

std::optional<std::string> fewer_steps(const Results& results) {
  const std::int64_t all = preset_steps(results.settings);
  if (results.settings.steps >= all) return std::nullopt;
  return fmt::format("Trained {} of the {} of --preset {}.", results.settings.steps,
                     counted(all, "step"), results.settings.preset);
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
