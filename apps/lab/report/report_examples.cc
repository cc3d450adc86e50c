// The tables of a task with examples, and of a Universal Transformer.
#include <fmt/format.h>

#include <cmath>

#include "apps/lab/data/words.h"
#include "apps/lab/report/report_tables.h"
#include "apps/lab/statistics/answer.h"

namespace gnomon::lab {

plot::Cell score_cell(const StretchMean& one, bool best) {
  if (!one.applicable) return plot::muted("n/a");
  if (!std::isfinite(one.score)) return plot::muted("diverged");
  return marked(fmt::format("{} ({:.0f} to {:.0f})", percent_number(one.score),
                            100 * one.score_interval.low, 100 * one.score_interval.high),
                best);
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
  std::vector<plot::Cell> chance{"chance", ""};
  for (std::size_t i = 0; i < rankings.size(); ++i) {
    plot::Cell score(""), right("");
    for (const EncodingResult& one : results.encodings)
      if (const StretchMean& range = one.ranges[i]; range.applicable) {
        score = plot::muted(percent_number(range.chance_score));
        right = plot::muted(percent_number(range.chance_second));
      }
    chance.push_back(score);
    if (second) chance.push_back(right);
  }
  chance.emplace_back("");
  for (const EncodingResult& one : results.encodings) {
    std::vector<plot::Cell> row{one.title, one.enters};
    for (std::size_t i = 0; i < rankings.size(); ++i) {
      const StretchMean& range = one.ranges[i];
      const plot::Cell cell =
          result_cell(one, i, is_best(rankings[i], one.name) && range.score > 0);
      row.push_back(cell);
      if (second)
        row.push_back(range.applicable && std::isfinite(range.score)
                          ? plot::Cell(percent_number(range.second))
                          : cell);
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

plot::Table depth_table(const Results& results) {
  plot::Table table;
  const Task& task = *results.settings.task;
  table.columns = {{"encoding"}, {"depth, %"}};
  for (const Ranking& range : results.rankings)
    table.columns.push_back({range_text(range.from, range.to), plot::Align::number});
  for (const EncodingResult& one : results.encodings)
    for (std::size_t depth = 0; depth < one.depths.size(); ++depth) {
      const auto percent = [&](std::size_t part) { return 100 * part / one.depths.size(); };
      std::vector<plot::Cell> row{one.title,
                                  fmt::format("{} to {}", percent(depth), percent(depth + 1))};
      for (const StretchMean& range : one.depths[depth])
        row.push_back(score_cell(range, false));
      table.rows.push_back(row);
    }
  table.caption = fmt::format(
      "{} by {} and by the depth of the answer in the prompt, in percent; 0 is the beginning. "
      "In parentheses: {}, each of one depth.",
      capitalized(std::string(task.score)), task.unit, interval_text(results));
  return table;
}

plot::Table step_table(const Results& results) {
  plot::Table table;
  if (results.settings.model.empty()) return table;
  table.columns = {{"encoding"}};
  for (const Ranking& at : results.rankings)
    table.columns.push_back({place_text(results, at), plot::Align::number});
  for (const EncodingResult& one : results.encodings) {
    std::vector<std::vector<double>> steps(results.rankings.size());  // of the seeds
    for (const RunResult& run : results.runs) {
      if (run.encoding != one.name) continue;
      const std::vector<Stretch> ranges = ranges_of(run.tests.stretches);
      for (std::size_t i = 0; i < steps.size(); ++i)
        if (const auto found = ranges.empty() ? run.tests.lengths[i].steps : ranges[i].steps)
          steps[i].push_back(*found);
    }
    std::vector<plot::Cell> row{one.title};
    for (const std::vector<double>& seeds : steps) {
      const double margin = mean_margin(seeds);
      row.push_back(seeds.empty() ? plot::muted("n/a")
                    : !std::isfinite(mean(seeds) + margin)
                        ? plot::muted("diverged")
                        : plot::Cell(seeds.size() == 1 ? fmt::format("{:.2f}", mean(seeds))
                                                       : fmt::format("{:.2f} ± {:.2f}",
                                                                     mean(seeds), margin)));
    }
    table.rows.push_back(row);
  }
  table.caption = fmt::format(
      "Steps of the layer, of at most {}: the mean over the tokens that predict the targets of "
      "the tests. ±: the 95 % confidence interval of the mean over seeds; none with one seed.",
      results.settings.layers);
  return table;
}

}  // namespace gnomon::lab
