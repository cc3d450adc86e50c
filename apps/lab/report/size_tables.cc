#include "apps/lab/report/size_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "apps/lab/data/words.h"
#include "apps/lab/report/report_tables.h"
#include "apps/lab/statistics/results_by_size.h"
#include "gnomon/plot/chart.h"

namespace gnomon::lab {
namespace by_size {
namespace {

plot::Cell value_cell(const Results& results, const EncodingResult& one, std::size_t at) {
  std::string shown;
  if (examples(results)) {
    const StretchMean& range = one.ranges[at];
    if (!range.applicable) return plot::muted("n/a");
    if (!std::isfinite(range.score)) return plot::muted("diverged");
    shown = fmt::format("{:.1f} ({:.0f} to {:.0f})", 100 * range.score,
                        100 * range.score_interval.low, 100 * range.score_interval.high);
  } else {
    const LengthMean& length = one.lengths[at];
    if (!length.applicable) return plot::muted("n/a");
    if (!std::isfinite(length.tail_bits)) return plot::muted("diverged");
    shown = fmt::format("{:.3f} ± {:.3f}", length.tail_bits, length.uncertainty);
  }
  const std::vector<std::string> best = best_at(results, at);
  return std::find(best.begin(), best.end(), one.title) == best.end() ? plot::Cell(shown)
                                                                      : plot::best(shown);
}

}  // namespace
}  // namespace by_size

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
        const EncodingResult* one = by_size::find(size, encoding->name);
        row.push_back(one ? by_size::value_cell(size, *one, at) : plot::muted("n/a"));
      }
    table.rows.push_back(row);
  }
  std::string metric = capitalized(all.metric.name);
  table.caption = fmt::format(
      "{}{} by size of the model (layers x width), as in training and at the longest tests. "
      "{}: {}. Those that may be the best of a size are green; n/a: the "
      "encoding has no positions, or no run is finished.",
      metric, by_size::examples(all) ? ", in percent," : "",
      by_size::examples(all) ? "In parentheses" : "±", interval_text(finished[0]));
  return table;
}

std::string size_curves(const Results& all, const std::vector<Results>& sizes,
                        std::size_t length) {
  const std::vector<Results> finished = by_size::finished(sizes);
  plot::LineChart lines{.series = {},
                        .x = {.title = "parameters (millions)", .scale = plot::Scale::log2},
                        .y = {.title = all.metric.name}};
  if (by_size::examples(all)) {
    lines.y.title += ", %";
    lines.y.range = plot::Range{0, 100};
  }
  for (const Results& size : finished)
    lines.x.ticks.push_back(std::round(1e-3 * static_cast<double>(by_size::smallest(size))) *
                            1e-3);
  for (const EncodingResult* encoding : by_size::encodings(finished)) {
    plot::Series series{.name = encoding->title, .x = {}, .y = {}};
    for (const Results& size : finished) {
      const EncodingResult* one = by_size::find(size, encoding->name);
      if (!one) continue;
      double value, low, high;
      if (by_size::examples(all)) {
        const StretchMean& range = one->ranges[length];
        if (!range.applicable) continue;
        value = 100 * range.score;
        low = 100 * range.score_interval.low, high = 100 * range.score_interval.high;
      } else {
        const LengthMean& at = one->lengths[length];
        if (!at.applicable) continue;
        value = at.tail_bits;
        low = value - at.uncertainty, high = value + at.uncertainty;
      }
      series.x.push_back(1e-6 * static_cast<double>(one->parameters));
      series.y.push_back(value);
      series.low.push_back(low), series.high.push_back(high);
    }
    lines.names.push_back(series.name);
    lines.series.push_back(series);
  }
  return plot::lines(lines);
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

}  // namespace gnomon::lab
