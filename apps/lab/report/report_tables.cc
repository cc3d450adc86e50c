#include "apps/lab/report/report_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "apps/lab/data/task.h"
#include "apps/lab/data/words.h"
#include "apps/lab/statistics/diverged.h"
#include "apps/lab/statistics/recommend.h"
#include "apps/lab/statistics/task_results.h"
#include "apps/lab/statistics/training.h"

namespace gnomon::lab {

std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), "\u202f");
  return digits;
}

std::string duration_in_words(double seconds) {
  return seconds < 90 ? fmt::format("{:.0f} s", seconds)
                      : fmt::format("{:.1f} minutes", seconds / 60);
}

namespace {

// "2.630 ± 0.020". Green if the encoding may be the best of its length.
plot::Cell bits_cell(const LengthMean& at, bool best) {
  if (!at.applicable) return plot::muted("n/a");
  if (!std::isfinite(at.tail_bits)) return plot::muted("diverged");
  const std::string shown = fmt::format("{:.3f} ± {:.3f}", at.tail_bits, at.uncertainty);
  return best ? plot::best(shown) : plot::Cell(shown);
}

}  // namespace

bool is_best(const Ranking& ranking, const std::string& name) {
  return std::any_of(
      ranking.order.begin(), ranking.order.end(),
      [&](const RankedEncoding& one) { return may_be_best(one.verdict) && one.name == name; });
}

std::string interval_text(const Results& results) {
  const bool examples = results.settings.task->has_examples();
  const std::string units = examples ? "examples" : "test segments",
                    wilson = examples ? ", at least that of Wilson for the examples" : "";
  std::int64_t most = 1;
  for (const EncodingResult& one : results.encodings) most = std::max(most, one.seeds);
  const std::int64_t least = fewest_seeds(results);
  std::string text = "the 95 % confidence interval of the mean over ";
  if (least > 1)
    return text + fmt::format("{} and the {}{}",
                              least == most ? counted(most, "seed") : "the seeds", units,
                              wilson);
  return text + fmt::format(
                    "the {} of one seed{}; it does not contain the deviation between "
                    "seeds",
                    units, wilson);
}

std::string length_range(const Recommendation& one) {
  return one.from == one.to ? grouped(one.to) : grouped(one.from) + " to " + grouped(one.to);
}

plot::Table recommendation_table(const Results& results) {
  plot::Table table;
  const Task& task = *results.settings.task;
  const bool examples = task.has_examples();
  table.columns = {
      {examples ? std::string(task.unit)
                : fmt::format("context length ({})", length_unit(results.settings))},
      {"recommended"},
      {"confidence"}};
  for (const Recommendation& one : results.recommendations)
    table.rows.push_back({length_range(one),
                          one.choices.empty() ? plot::muted("none")
                          : one.decided       ? plot::best(choices_text(one))
                                              : plot::muted("undecided: " + choices_text(one)),
                          one.confidence});
  table.caption = fmt::format(
      "The {}s that may be the best, by {}. Undecided: not shown to be worse than the best, "
      "nor "
      "equivalent to it. Equivalent: the whole interval of the difference is within {}. ±: "
      "half "
      "of the width of the confidence interval of the difference, over seeds and {}. All "
      "statements of this page hold together in 95 % of such sessions.",
      entry_noun(results.settings), examples ? task.unit : "context length",
      examples ? fmt::format("{:.0f} points", 100 * equal_share)
               : fmt::format("{:.2f} bits", equal_bits),
      examples ? "examples" : "test segments");
  return table;
}

plot::Table accuracy_table(const Results& results) {
  plot::Table table;
  table.columns = {{std::string(entry_noun(results.settings))}};
  for (const std::int64_t length : results.settings.eval_lengths)
    table.columns.push_back({grouped(length), plot::Align::number});
  for (const EncodingResult& one : results.encodings) {
    std::vector<plot::Cell> row{one.title};
    for (const LengthMean& at : one.lengths)
      row.push_back(at.applicable
                        ? plot::Cell(number_or_diverged("{:.1f} %", 100 * at.accuracy))
                        : plot::muted("n/a"));
    table.rows.push_back(row);
  }
  const std::string_view unit = length_unit(results.settings);
  table.caption = fmt::format(
      "Accuracy by context length in {}: the share of the same {}test {} that the model "
      "considered most likely.",
      unit, results.settings.task->is_masked() ? "masked " : "", unit);
  if (!results.texts.bytes_per_token)
    table.caption += fmt::format(" Always the most frequent byte: {:.1f} %.",
                                 100 * results.texts.byte_frequency_accuracy);
  return table;
}

plot::Table summary_table(const Results& results) {
  plot::Table table;
  table.columns = {{std::string(entry_noun(results.settings))}, {"position enters"}};
  for (const std::int64_t length : results.settings.eval_lengths)
    table.columns.push_back({grouped(length), plot::Align::number});
  table.columns.push_back({"holds to", plot::Align::number});
  for (const EncodingResult& one : results.encodings) {
    std::vector<plot::Cell> row{one.title, one.enters};
    for (std::size_t i = 0; i < one.lengths.size(); ++i)
      row.push_back(bits_cell(one.lengths[i], is_best(results.rankings[i], one.name)));
    row.push_back(grouped(one.holds_to));
    table.rows.push_back(row);
  }
  std::string metric = results.metric.name;
  metric[0] = 'B';
  table.caption = fmt::format(
      "{} by context length in {}: {}. Without a model: {}. ±: {}. Those that may be the best "
      "of "
      "each length are green; n/a: the {} has no positions for this length. Holds to: "
      "the longest length up to which the loss exceeds that at the training length by at most "
      "{:.0f} %.",
      metric, length_unit(results.settings), results.metric.what, results.metric.chance,
      interval_text(results), entry_noun(results.settings), 100 * holds_within);
  return table;
}

plot::Table example_table(const Results& results) {
  plot::Table table;
  table.columns = {{"encoding"}, {"position enters"}};
  const std::vector<Ranking>& rankings = results.rankings;
  const Task& task = *results.settings.task;
  const bool second = !task.second.empty();
  for (const Ranking& range : rankings) {
    table.columns.push_back({range_text(range.from, range.to), plot::Align::number});
    if (second) table.columns.push_back({std::string(task.second), plot::Align::number});
  }
  table.columns.push_back({"answered to", plot::Align::number});
  const auto percent = [](double share) {
    return share > 0 && share < 1e-3 ? fmt::format("{:.0e}", 100 * share)
                                     : fmt::format("{:.1f}", 100 * share);
  };
  std::vector<plot::Cell> chance{"chance", ""};
  for (std::size_t i = 0; i < rankings.size(); ++i) {
    plot::Cell score(""), right("");
    for (const EncodingResult& one : results.encodings)
      if (const StretchMean& range = one.ranges[i]; range.applicable) {
        score = plot::muted(percent(range.chance_score));
        right = plot::muted(percent(range.chance_second));
      }
    chance.push_back(score);
    if (second) chance.push_back(right);
  }
  chance.emplace_back("");
  for (const EncodingResult& one : results.encodings) {
    std::vector<plot::Cell> row{one.title, one.enters};
    for (std::size_t i = 0; i < rankings.size(); ++i) {
      const StretchMean& range = one.ranges[i];
      if (!range.applicable) {
        for (int cell = 0; cell <= second; ++cell) row.push_back(plot::muted("n/a"));
        continue;
      }
      if (!std::isfinite(range.score)) {
        for (int cell = 0; cell <= second; ++cell) row.push_back(plot::muted("diverged"));
        continue;
      }
      const std::string whole =
          fmt::format("{} ({:.0f} to {:.0f})", percent(range.score),
                      100 * range.score_interval.low, 100 * range.score_interval.high);
      row.push_back(is_best(rankings[i], one.name) && range.score > 0 ? plot::best(whole)
                                                                      : plot::Cell(whole));
      if (second) row.emplace_back(percent(range.second));
    }
    row.push_back(grouped(one.answered_to));
    table.rows.push_back(row);
  }
  table.rows.push_back(chance);
  table.caption = fmt::format(
      "{} by {}, in percent: {}. In parentheses: {}. Those that may be the best of each range "
      "are green; n/a: the encoding has no positions for it. Chance: {}. Answered to: the "
      "largest number of {} up to which the score is at least {:.0f} %.",
      capitalized(second ? fmt::format("{} and {}", task.score, task.second)
                         : std::string(task.score)),
      task.unit, task.what, interval_text(results), results.metric.chance, task.unit,
      100 * answered_from);
  return table;
}

namespace {

const char* const no_cost = "no measurable cost";

std::string mebibytes(double bytes) {
  return std::isfinite(bytes) ? fmt::format("{:.0f}", bytes / (1 << 20)) : "n/a";
}

}  // namespace

std::string step_time_text(const EncodingCost& one) {
  if (one.name == "none") return one.step_seconds ? "1" : "n/a";
  if (!one.relative_step || !std::isfinite(one.relative_step->median)) return "n/a";
  const auto& [median, low, high] = *one.relative_step;
  if (!one.relative_step->shows_cost(one.step_noise.value_or(0))) return no_cost;
  return fmt::format("{:.2f} ± {:.2f}", median, std::max(0.005, 0.5 * (high - low)));
}

std::string extra_memory_text(const MemoryUse& use) {
  return use.extra_bytes && std::isfinite(*use.extra_bytes)
             ? fmt::format("{:+.0f}", *use.extra_bytes / (1 << 20))
             : no_cost;
}

plot::Table cost_table(const Results& results) {
  const std::vector<EncodingCost>& cost = results.cost;
  const std::string_view unit = position_unit(results.settings);
  plot::Table table;
  table.columns = {
      {"encoding"}, {"parameters", plot::Align::number}, {"step time", plot::Align::number}};
  const bool equal_time = std::any_of(cost.begin(), cost.end(), [](const EncodingCost& one) {
    return one.equal_time_bits.has_value();
  });
  if (equal_time) table.columns.push_back({"loss at equal time", plot::Align::number});
  std::size_t lengths = 0;
  for (const EncodingCost& one : cost)
    for (; lengths < one.memory.size(); ++lengths)
      table.columns.push_back(
          {fmt::format("{} {}, MiB", grouped(one.memory[lengths].tokens), unit),
           plot::Align::number});
  const auto cell = [](const std::string& text) {
    return text == "n/a" || text == no_cost ? plot::muted(text) : plot::Cell(text);
  };
  for (const EncodingCost& one : cost) {
    std::vector<plot::Cell> row{one.title, grouped(one.position_parameters),
                                cell(step_time_text(one))};
    if (equal_time)
      row.push_back(one.equal_time_bits
                        ? cell(number_or_diverged("{:.3f}", *one.equal_time_bits))
                        : plot::muted("n/a"));
    for (std::size_t i = 0; i < lengths; ++i) {
      if (i >= one.memory.size())
        row.push_back(plot::muted("n/a"));
      else if (one.name == "none")
        row.push_back(cell(mebibytes(one.memory[i].bytes)));
      else
        row.push_back(cell(extra_memory_text(one.memory[i])));
    }
    table.rows.push_back(row);
  }
  std::optional<double> noise;
  for (const EncodingCost& one : cost)
    if (one.step_noise && std::isfinite(*one.step_noise))
      noise = std::max(noise.value_or(0), *one.step_noise);
  table.caption =
      equal_time ? "Loss at equal time: the loss at the training length after the time that "
                   "the encoding none takes for all steps, estimated from the fall of the "
                   "loss with twice the steps. "
                 : "";
  table.caption += fmt::format(
      "Step time: the time of a training step divided by that of the encoding none, median and "
      "95 % confidence interval of steps that alternate. MiB: the peak memory of a forward and "
      "a backward pass over one window of that many {}; for other encodings than none, the "
      "difference from none. No measurable cost: the interval contains 1 or is below it, or "
      "the difference from 1 is at most half of the interval or that of two equal models{}; or "
      "the memory exceeds that of none by no more than equal measurements differ, 2 MiB or 2 "
      "%. n/a: not measured. One thread.",
      unit, noise ? fmt::format(" ({:.2f} in this session)", *noise) : "");
  return table;
}

plot::Table timings_table(const Results& results) {
  plot::Table table;
  table.columns = {{std::string(entry_noun(results.settings))},
                   {"parameters", plot::Align::number},
                   {"tokens per second in training", plot::Align::number},
                   {"training", plot::Align::number},
                   {"testing", plot::Align::number}};
  for (const EncodingResult& one : results.encodings)
    table.rows.push_back({one.title, grouped(one.parameters),
                          grouped(static_cast<std::int64_t>(one.tokens_per_second)),
                          duration_in_words(one.train_seconds),
                          duration_in_words(one.test_seconds)});
  table.caption =
      "Means over seeds. Each worker of a run has one thread. Runs are executed at the same "
      "time, one for each core unless --jobs or the workers of a run change that.";
  return table;
}

bool drops_positions(const ExtensionResult& extension) {
  return std::any_of(extension.rows.begin(), extension.rows.end(),
                     [](const ExtensionRow& row) { return row.method == "drope"; });
}

plot::Table extension_table(const Results& results, const ExtensionResult& extension) {
  plot::Table table;
  table.columns = {{"method"}, {"fine-tune"}};
  std::vector<double> least;
  for (const std::int64_t length : extension.lengths) {
    table.columns.push_back({grouped(length), plot::Align::number});
    double best = NAN;
    for (const ExtensionRow& row : extension.rows)
      if (is_lower(row.bits[least.size()], best)) best = row.bits[least.size()];
    least.push_back(best);
  }
  const std::string tune = counted(extension.steps, "step");
  for (const ExtensionRow& row : extension.rows) {
    std::vector<plot::Cell> cells{
        row.stage == Stage::before ? "None: " + row.title + " as trained" : row.title,
        row.stage == Stage::after ? tune : std::string("none")};
    for (std::size_t i = 0; i < least.size(); ++i) {
      const std::string shown = number_or_diverged("{:.3f}", row.bits[i]);
      cells.push_back(row.bits[i] == least[i] ? plot::best(shown) : plot::Cell(shown));
    }
    table.rows.push_back(cells);
  }
  const std::string_view unit = length_unit(results.settings);
  table.caption = fmt::format(
      "Bits per byte by context length in {}. The methods extend the context to {} times the "
      "training length. The fine-tune has windows of this length, with as many {} per step as "
      "in training{}. The best of each length is green.",
      unit, extension.factor, unit,
      drops_positions(extension) ? "; without positions, it has windows of the training length"
                                 : "");
  return table;
}

}  // namespace gnomon::lab
