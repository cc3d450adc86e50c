#include "apps/lab/statistics/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/lab/data/lists.h"
#include "apps/lab/data/words.h"

namespace gnomon::lab {
namespace training {

constexpr double learned_below = 0.9;      // of the loss of byte frequencies
constexpr double learned_of_pairs = 0.95;  // of the loss of byte pairs
constexpr double answered = 0.9,
                 falls_by = 0.2;       // examples: score, and relative fall of the loss
constexpr double learned_share = 0.1;  // of the way from chance to 1
constexpr std::int64_t usual_seeds = 5;

// The validation loss at a step, between the points of the curve.
std::optional<double> validation_at(const RunResult& run, double step) {
  const CurvePoint* before = nullptr;
  for (const CurvePoint& point : run.curve) {
    if (!point.validation_bits) continue;
    const auto at = static_cast<double>(point.step);
    if (at == step) return point.validation_bits;
    if (at > step) {
      if (!before) return std::nullopt;
      const auto from = static_cast<double>(before->step);
      return std::lerp(*before->validation_bits, *point.validation_bits,
                       (step - from) / (at - from));
    }
    before = &point;
  }
  return std::nullopt;
}

// The largest loss of a model of text that has learned.
double learned_bits(const Results& results) {
  const TextsResult& texts = results.texts;
  const double frequency =
      std::min(texts.token_frequency_bits.value_or(texts.byte_frequency_bits),
               texts.byte_frequency_bits);
  return results.settings.task->is_masked()
             ? learned_below * frequency
             : std::min(learned_below * frequency, learned_of_pairs * texts.byte_pair_bits);
}

Training of_text(const Results& results, const EncodingResult& one) {
  const LengthMean& near = one.lengths.front();
  if (!std::isfinite(near.tail_bits)) return Training::diverged;
  return near.tail_bits > learned_bits(results) ? Training::at_chance : Training::enough;
}

// Whether twice the steps would change the order of two encodings.
bool overtakes(const EncodingResult& later, const EncodingResult& earlier) {
  if (!later.fall || !earlier.fall || earlier.training != Training::enough) return false;
  const double gap = later.lengths.front().tail_bits - earlier.lengths.front().tail_bits;
  return gap > equal_bits && *later.fall - *earlier.fall > gap;
}

Training of_examples(const Results& results, const EncodingResult& one) {
  const StretchMean& range = one.ranges.front();
  if (!std::isfinite(range.score)) return Training::diverged;
  const auto shows_learning = [&](double share, double chance) {
    return share >= chance + learned_share * (1 - chance) &&
           is_above_chance(share, chance, range.examples, results.encodings.size());
  };
  // Each of the scores shows learning: translations of text are seldom right in all words.
  if (!shows_learning(range.score, range.chance_score) &&
      (results.settings.task->second.empty() ||
       !shows_learning(range.second, range.chance_second)))
    return Training::at_chance;
  double loss = 0;  // at the end of the constant learning rate
  for (const RunResult& run : results.runs)
    if (run.encoding == one.name)
      loss = std::max(
          loss, validation_at(run, stable_until * static_cast<double>(results.settings.steps))
                    .value_or(0));
  return range.score < answered && one.fall && *one.fall > falls_by * loss
             ? Training::unconverged
             : Training::enough;
}

// An encoding is left out only if one that is ranked has a better score.
void keep_leading(Results& results) {
  std::optional<double> ranked;
  for (const EncodingResult& one : results.encodings)
    if (one.training == Training::enough)
      ranked = std::max(ranked.value_or(0), one.ranges.front().score);
  for (EncodingResult& one : results.encodings)
    if (ranked && one.training == Training::unconverged && one.ranges.front().score > *ranked)
      one.training = Training::enough;
}

// ", about 12 minutes here": the time of the runs of `seeds`. Empty if it is not known.
std::string with_minutes(const Results& results, std::int64_t seeds, double steps) {
  double run_seconds = 0, known = 0;
  for (const RunResult& run : results.runs)
    if (run.steps > 0) {
      run_seconds +=
          run.train_seconds * steps / static_cast<double>(run.steps) + run.test_seconds;
      ++known;
    }
  if (known == 0 || !results.size.empty()) return "";
  const auto runs = static_cast<double>(seeds * std::ssize(results.settings.encodings));
  const double together =
      std::min(runs, static_cast<double>(std::max<std::int64_t>(1, results.machine.cores)));
  const double minutes = std::ceil(runs / together) * run_seconds / known / 60;
  if (!(minutes < 1e6)) return "";
  return fmt::format(", about {} here",
                     counted(static_cast<std::int64_t>(std::ceil(minutes)), "minute"));
}

}  // namespace training

const char* name(Training one) {
  return name_of(one, {"enough", "unconverged", "at_chance", "diverged"});
}

bool is_above_chance(double share, double chance, std::int64_t examples,
                     std::size_t encodings) {
  const double z = normal_quantile(1 - 0.025 / static_cast<double>(encodings));
  return share_interval(share, examples, z).low > chance;
}

std::optional<double> fall_of(const RunResult& run, const Settings& settings) {
  const double end = std::floor(stable_until * static_cast<double>(settings.steps));
  const auto half = training::validation_at(run, 0.5 * end),
             all = training::validation_at(run, end);
  if (!half || !all || !std::isfinite(*half - *all)) return std::nullopt;
  return *half - *all;
}

void judge_training(Results& results) {
  const bool examples = results.settings.task->has_examples();
  for (EncodingResult& one : results.encodings) {
    std::vector<double> falls;
    for (const RunResult& run : results.runs)
      if (run.encoding == one.name)
        if (const auto fall = fall_of(run, results.settings)) falls.push_back(*fall);
    if (!falls.empty()) one.fall = mean(falls);
    one.training = (examples ? training::of_examples : training::of_text)(results, one);
  }
  if (examples) return training::keep_leading(results);
  std::vector<EncodingResult*> late;
  for (EncodingResult& one : results.encodings)
    if (one.training == Training::enough &&
        std::ranges::any_of(results.encodings, [&](const EncodingResult& other) {
          return training::overtakes(one, other);
        }))
      late.push_back(&one);
  for (EncodingResult* one : late) one->training = Training::unconverged;
}

bool all_diverged(const Results& results) {
  return !results.encodings.empty() &&
         std::ranges::all_of(
             results.encodings, [](Training one) { return one == Training::diverged; },
             &EncodingResult::training);
}

std::string all_diverged_sentence(const Results& results) {
  return fmt::format(
      "No advice: every {0} diverged, so that no result as in training is a finite number. "
      "Train with a --learning-rate below {1:g}.",
      entry_noun(results.settings), results.settings.learning_rate);
}

std::optional<std::string> diverged_sentence(const Results& results) {
  std::vector<std::string> encodings;
  for (const EncodingResult& one : results.encodings) {
    std::vector<std::string> places;
    std::size_t applicable = 0;
    const auto add = [&](const auto& at, double number, const std::string& place) {
      applicable += at.applicable;
      if (at.applicable && !std::isfinite(number)) places.push_back(place);
    };
    for (const LengthMean& at : one.lengths) add(at, at.tail_bits, std::to_string(at.length));
    for (const StretchMean& at : one.ranges) add(at, at.score, range_text(at.from, at.to));
    if (places.empty()) continue;
    encodings.push_back(places.size() == applicable
                            ? one.title
                            : fmt::format("{} (at {} {})", one.title, listed(places),
                                          length_unit(results.settings)));
  }
  if (encodings.empty()) return std::nullopt;
  return fmt::format(
      "Diverged: {}. A result that is not a finite number ranks last and is never recommended.",
      listed(encodings));
}

std::size_t statements_of(const Results& results) {
  const auto part =
      std::ranges::count(results.encodings, Training::enough, &EncodingResult::training);
  return 3 * static_cast<std::size_t>(std::max<std::ptrdiff_t>(1, part - 1));
}

std::int64_t fewest_seeds(const Results& results) {
  std::int64_t least = std::ssize(results.settings.seeds);
  for (const EncodingResult& one : results.encodings) least = std::min(least, one.seeds);
  return least;
}

std::optional<std::string> excluded_sentence(const Results& results) {
  std::vector<std::string> chance, falling;
  for (const EncodingResult& one : results.encodings) {
    if (one.training == Training::at_chance) chance.push_back(one.title);
    if (one.training == Training::unconverged)
      falling.push_back(fmt::format("{} ({:.2f} bits)", one.title, *one.fall));
  }
  std::vector<std::string> parts;
  if (!chance.empty()) {
    const double bits = training::learned_bits(results);
    parts.push_back(
        results.settings.task->has_examples()
            ? fmt::format("{} (as in training, not above chance)", listed(chance))
            : fmt::format("{} (not below {:.2f} bits: little more than {} is learned)",
                          listed(chance), bits,
                          results.settings.task->is_masked()
                              ? "the frequencies of bytes"
                              : "the frequencies of byte pairs"));
  }
  if (!falling.empty())
    parts.push_back(fmt::format(
        "{} (with twice the steps, the loss would fall by about the number in "
        "parentheses{})",
        listed(falling),
        results.settings.task->has_examples() ? "" : ", which would change the order"));
  if (parts.empty()) return std::nullopt;
  return fmt::format("Not ranked, because not trained enough: {}.", listed(parts, "; "));
}

std::optional<std::string> no_advice(const Results& results) {
  if (all_diverged(results)) return all_diverged_sentence(results);
  const Settings& s = results.settings;
  const auto steps = static_cast<double>(s.steps);
  if (!find_by(results.encodings, &EncodingResult::training, Training::enough))
    return fmt::format("No advice: no {} is trained enough. Train longer: --steps {:.0f}{}.",
                       entry_noun(s), 2 * steps,
                       training::with_minutes(results, std::ssize(s.seeds), 2 * steps));
  const bool random = std::ranges::any_of(
      results.runs, [](std::int64_t steps) { return steps > 0; }, &RunResult::steps);
  if (const std::int64_t seeds = fewest_seeds(results); random && seeds < least_seeds)
    return fmt::format(
        "No advice from {}: results differ between seeds, and at least {} seeds show by how "
        "much. For advice: --seeds {}{}.",
        counted(seeds, "seed"), least_seeds, training::usual_seeds,
        training::with_minutes(results, training::usual_seeds, steps));
  return std::nullopt;
}

std::optional<std::string> fewer_steps(const Results& results) {
  const std::int64_t all = preset_steps(results.settings);
  if (results.settings.steps >= all) return std::nullopt;
  return fmt::format("Trained {} of the {} of --preset {}.", results.settings.steps,
                     counted(all, "step"), results.settings.preset);
}

}  // namespace gnomon::lab
