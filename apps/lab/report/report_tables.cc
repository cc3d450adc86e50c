#include "apps/lab/report/report_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "apps/lab/data/lists.h"
#include "apps/lab/data/words.h"
#include "apps/lab/statistics/answer.h"
#include "apps/lab/statistics/rankings.h"
#include "apps/lab/statistics/results_by_size.h"
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

std::string percent_number(double share) {
  return fmt::format(fmt::runtime(share > 0 && share < 1e-3 ? "{:.0e}" : "{:.1f}"),
                     100 * share);
}

plot::Cell marked(const std::string& text, bool best) {
  return best ? plot::best(text) : plot::Cell(text);
}

namespace {

const char* const no_cost = "no measurable cost";

void add_length_columns(plot::Table& table, const std::vector<std::int64_t>& lengths) {
  for (const std::int64_t length : lengths)
    table.columns.push_back({grouped(length), plot::Align::number});
}

std::string mebibytes(const char* format, double bytes) {
  return fmt::format(fmt::runtime(format), bytes / (1 << 20));
}

}  // namespace

plot::Cell result_cell(const EncodingResult& one, std::size_t place, bool best) {
  if (one.lengths.empty()) return score_cell(one.ranges[place], best);
  const LengthMean& at = one.lengths[place];
  if (!at.applicable) return plot::muted("n/a");
  if (!std::isfinite(at.tail_bits)) return plot::muted("diverged");
  return marked(fmt::format("{:.3f} ± {:.3f}", at.tail_bits, at.uncertainty), best);
}

bool is_best(const Ranking& ranking, const std::string& name) {
  const Way* one = find_by(ranking.order, &Way::name, name);
  return one && may_be_best(one->verdict);
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
  return text +
         fmt::format("the {} of one seed{}; it does not contain the deviation between seeds",
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
      "nor equivalent to it. Equivalent: the whole interval of the difference is within {}. "
      "±: half of the width of the confidence interval of the difference, over seeds and {}. "
      "All statements of this page hold together in 95 % of such sessions.",
      entry_noun(results.settings), examples ? task.unit : "context length",
      examples ? fmt::format("{:.0f} points", 100 * equal_share)
               : fmt::format("{:.2f} bits", equal_bits),
      examples ? "examples" : "test segments");
  return table;
}

plot::Table accuracy_table(const Results& results) {
  plot::Table table;
  table.columns = {{std::string(entry_noun(results.settings))}};
  add_length_columns(table, results.settings.eval_lengths);
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
  add_length_columns(table, results.settings.eval_lengths);
  table.columns.push_back({"holds to", plot::Align::number});
  for (const EncodingResult& one : results.encodings) {
    std::vector<plot::Cell> row{one.title, one.enters};
    for (std::size_t i = 0; i < one.lengths.size(); ++i)
      row.push_back(result_cell(one, i, is_best(results.rankings[i], one.name)));
    row.push_back(grouped(one.holds_to));
    table.rows.push_back(row);
  }
  table.caption = fmt::format(
      "{} by context length in {}: {}. Without a model: {}. ±: {}. Those that may be the "
      "best of each length are green; n/a: the {} has no positions for this length. Holds to: "
      "the longest length up to which the loss exceeds that at the training length by at most "
      "{:.0f} %.",
      capitalized(results.metric.name), length_unit(results.settings), results.metric.what,
      results.metric.chance, interval_text(results), entry_noun(results.settings),
      100 * holds_within);
  return table;
}

std::string step_time_text(const EncodingCost& one) {
  if (one.name == "none") return one.step_seconds ? "1" : "n/a";
  if (!one.relative_step || !std::isfinite(one.relative_step->median)) return "n/a";
  const auto& [median, low, high] = *one.relative_step;
  if (!one.relative_step->shows_cost(one.step_noise.value_or(0))) return no_cost;
  return fmt::format("{:.2f} ± {:.2f}", median, std::max(0.005, 0.5 * (high - low)));
}

std::string memory_text(const EncodingCost& one, std::size_t length) {
  if (length >= one.memory.size()) return "n/a";
  const MemoryUse& use = one.memory[length];
  if (one.name == "none")
    return std::isfinite(use.bytes) ? mebibytes("{:.0f}", use.bytes) : "n/a";
  return use.extra_bytes && std::isfinite(*use.extra_bytes)
             ? mebibytes("{:+.0f}", *use.extra_bytes)
             : no_cost;
}

std::vector<std::int64_t> memory_lengths(const std::vector<EncodingCost>& cost) {
  std::vector<std::int64_t> lengths;
  for (const EncodingCost& one : cost)
    for (const MemoryUse& use : one.memory) add_once(lengths, use.tokens);
  return lengths;
}

plot::Table cost_table(const Results& results) {
  const std::vector<EncodingCost>& cost = results.cost;
  const std::string_view unit = position_unit(results.settings);
  plot::Table table;
  table.columns = {
      {"encoding"}, {"parameters", plot::Align::number}, {"step time", plot::Align::number}};
  const bool equal_time = std::ranges::any_of(
      cost, [](const auto& bits) { return bits.has_value(); }, &EncodingCost::equal_time_bits);
  if (equal_time) table.columns.push_back({"loss at equal time", plot::Align::number});
  const std::vector<std::int64_t> lengths = memory_lengths(cost);
  for (const std::int64_t length : lengths)
    table.columns.push_back(
        {fmt::format("{} {}, MiB", grouped(length), unit), plot::Align::number});
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
    for (std::size_t i = 0; i < lengths.size(); ++i) row.push_back(cell(memory_text(one, i)));
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
  return find_by(extension.rows, &ExtensionRow::method, "drope");
}

plot::Table extension_table(const Results& results, const ExtensionResult& extension) {
  plot::Table table;
  table.columns = {{"method"}, {"fine-tune"}};
  add_length_columns(table, extension.lengths);
  const std::string tune = counted(extension.steps, "step");
  for (const ExtensionRow& row : extension.rows) {
    std::vector<plot::Cell> cells{
        row.stage == Stage::before ? "None: " + row.title + " as trained" : row.title,
        row.stage == Stage::after ? tune : std::string("none")};
    for (std::size_t i = 0; i < row.bits.size(); ++i) {
      const bool best = std::ranges::none_of(extension.rows, [&](const ExtensionRow& other) {
        return is_lower(other.bits[i], row.bits[i]);
      });
      cells.push_back(marked(number_or_diverged("{:.3f}", row.bits[i]),
                             best && std::isfinite(row.bits[i])));
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

plot::Table size_table(const Results& all, const std::vector<Results>& sizes) {
  const std::vector<Results> finished = by_size::finished(sizes);
  plot::Table table;
  table.columns = {{"encoding"}};
  const std::set<std::size_t> ends = by_size::ends(finished[0]);
  for (const std::size_t at : ends)
    for (const Results& size : finished)
      table.columns.push_back(
          {fmt::format("{}, {}", size.size, place_text(all, all.rankings[at])),
           plot::Align::number});
  for (const EncodingResult* encoding : by_size::encodings(finished)) {
    std::vector<plot::Cell> row{encoding->title};
    for (const std::size_t at : ends)
      for (const Results& size : finished) {
        const EncodingResult* one = find_encoding(size, encoding->name);
        row.push_back(
            one ? result_cell(*one, at, contains(by_size::best_at(size, at), one->title))
                : plot::muted("n/a"));
      }
    table.rows.push_back(row);
  }
  const bool examples = all.settings.task->has_examples();
  table.caption = fmt::format(
      "{}{} by size of the model (layers x width), as in training and at the longest tests. "
      "{}: {}. Those that may be the best of a size are green; n/a: the "
      "encoding has no positions, or no run is finished.",
      capitalized(all.metric.name), examples ? ", in percent," : "",
      examples ? "In parentheses" : "±", interval_text(finished[0]));
  return table;
}

plot::Table size_recommendations(const std::vector<Results>& sizes) {
  plot::Table table;
  for (const Results& size : sizes) {
    plot::Table one = recommendation_table(size);
    if (table.columns.empty()) {
      table.columns = one.columns;
      table.columns.insert(table.columns.begin(), {"size"});
      table.caption = one.caption;
    }
    for (auto& row : one.rows) {
      row.insert(row.begin(), size.size);
      table.rows.push_back(row);
    }
  }
  return table;
}

namespace {

// A field with quotes if it contains a separator.
std::string field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string text_lines(const Results& results) {
  std::string text =
      "encoding,title,seeds,position_parameters,length,context,method,bits,uncertainty,"
      "accuracy,verdict\n";
  for (std::size_t i = 0; i < results.ways.size(); ++i)
    for (const Way& way : results.ways[i].order) {
      const EncodingResult& one = *find_encoding(results, way.name);
      const LengthMean& at = one.lengths[way.context == Context::cut ? 0 : i];
      const bool measured = way.method.empty();
      text += fmt::format(
          "{},{},{},{},{},{},{},{:.6g},{},{},{}\n", field(one.name), field(one.title),
          one.seeds, one.position_parameters, results.ways[i].to, name(*way.context),
          field(way.method), way.value, measured ? fmt::format("{:.3g}", at.uncertainty) : "",
          measured ? fmt::format("{:.6g}", at.accuracy) : "", name(way.verdict));
    }
  return text;
}

std::string example_lines(const Results& results) {
  std::string text =
      "encoding,title,seeds,position_parameters,from,to,examples,score,score_deviation,second,"
      "chance_score,chance_second,score_low,score_high,second_low,second_high\n";
  const bool two = !results.settings.task->second.empty();
  const auto second = [&](double number) { return two ? fmt::format("{:.6g}", number) : ""; };
  for (const EncodingResult& one : results.encodings)
    for (const StretchMean& at : one.ranges)
      if (at.applicable)
        text +=
            fmt::format("{},{},{},{},{},{},{},{:.6g},{:.6g},{},{:.6g},{},{:.6g},{:.6g},{},{}\n",
                        field(one.name), field(one.title), one.seeds, one.position_parameters,
                        at.from, at.to, at.examples, at.score, at.score_deviation,
                        second(at.second), at.chance_score, second(at.chance_second),
                        at.score_interval.low, at.score_interval.high,
                        second(at.second_interval.low), second(at.second_interval.high));
  return text;
}

}  // namespace

std::string to_csv(const Results& results) {
  return results.ways.empty() ? example_lines(results) : text_lines(results);
}

}  // namespace gnomon::lab
