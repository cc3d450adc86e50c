#include "apps/lab/report/report_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "apps/lab/data/lists.h"
#include "apps/lab/statistics/results_by_size.h"
#include "gnomon/plot/chart.h"

namespace gnomon::lab {
namespace {

using Numbers = std::vector<double>;

Numbers numbers(const std::vector<std::int64_t>& list) { return {list.begin(), list.end()}; }

void add_point(plot::Series& series, double x, double y, const Interval& band) {
  series.x.push_back(x);
  series.y.push_back(y);
  series.low.push_back(band.low);
  series.high.push_back(band.high);
}

// The mean of the curves of several seeds as a series, with the band of its 95 % confidence
// interval. One curve has no band. Stored runs can have fewer points than `x`.
plot::Series spread(const std::string& name, Numbers x, const std::vector<Numbers>& curves) {
  for (const Numbers& curve : curves) x.resize(std::min(x.size(), curve.size()));
  plot::Series series{.name = name, .x = std::move(x), .y = {}};
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    const Numbers here = mapped(curves, [&](const Numbers& curve) { return curve[i]; });
    series.y.push_back(mean(here));
    if (curves.size() < 2) continue;
    series.low.push_back(mean(here) - mean_margin(here));
    series.high.push_back(mean(here) + mean_margin(here));
  }
  return series;
}

// Adds the mean curve of each encoding. `curve`: the positions on x and the numbers of a run;
// empty if it has none.
struct Curve {
  Numbers x, y;
};
void add_means(plot::LineChart& lines, const Results& results,
               Curve (*curve)(const RunResult& run)) {
  for (const EncodingResult& one : results.encodings) {
    std::vector<Numbers> curves;
    Numbers x;
    for (const RunResult& run : results.runs) {
      if (run.encoding != one.name) continue;
      Curve found = curve(run);
      if (found.x.empty()) continue;
      x = std::move(found.x);
      curves.push_back(std::move(found.y));
    }
    lines.series.push_back(spread(one.title, x, curves));
  }
}

// The encodings that the page draws at first, if there are more than a chart can show at once:
// the best at the shortest and at the longest length, and those that the lab trains by default.
std::vector<std::string> selection(const Results& results) {
  constexpr std::size_t most = 10, best = 3;
  if (results.encodings.size() <= most) return {};
  std::vector<std::string> names;
  for (const Ranking* ranking : {&results.rankings.front(), &results.rankings.back()})
    for (std::size_t i = 0; i < std::min(best, ranking->order.size()); ++i)
      add_once(names, ranking->order[i].title);
  for (const EncodingResult& one : results.encodings)
    if (std::string(default_encodings).find(one.name) != std::string::npos)
      add_once(names, one.title);
  return names;
}

plot::LineChart chart(const Results& results, const std::string& x, const std::string& y) {
  plot::LineChart chart{.series = {}, .x = {.title = x}, .y = {.title = y}};
  chart.names = mapped(results.encodings, &EncodingResult::title);
  chart.selected = selection(results);
  return chart;
}

// "context length (bytes)".
std::string with_unit(const char* title, const Results& results) {
  return fmt::format("{} ({})", title, length_unit(results.settings));
}

plot::Rule rule_at(std::int64_t length, const char* label) {
  return {static_cast<double>(length), label};
}

}  // namespace

std::string length_curves(const Results& results) {
  plot::LineChart lines =
      chart(results, with_unit("context length", results), results.metric.name);
  lines.x.scale = plot::Scale::log2;
  lines.x.ticks = numbers(results.settings.eval_lengths);
  lines.rule = rule_at(results.settings.train_length, "training length");
  lines.solid = "whole context";
  lines.dashed = "context cut to the training length";
  for (const EncodingResult& one : results.encodings) {
    plot::Series whole{.name = one.title, .x = {}, .y = {}}, cut = whole;
    cut.stroke = plot::Stroke::dashed;
    for (const LengthMean& at : one.lengths) {
      if (!at.applicable) continue;
      const auto length = static_cast<double>(at.length);
      add_point(whole, length, at.tail_bits,
                {at.tail_bits - at.uncertainty, at.tail_bits + at.uncertainty});
      cut.x.push_back(length);
      cut.y.push_back(at.cut_bits);
    }
    lines.series.push_back(cut);
    lines.series.push_back(whole);
  }
  return plot::lines(lines);
}

std::string position_curves(const Results& results) {
  const bool masked = results.settings.task->is_masked();
  plot::LineChart lines =
      chart(results, with_unit(masked ? "position in the window" : "context", results),
            results.metric.name);
  lines.x.scale = plot::Scale::log2;
  lines.rule = rule_at(results.settings.train_length, "training length");
  add_means(lines, results, [](const RunResult& run) {
    return Curve{run.tests.by_position->positions, run.tests.by_position->bits};
  });
  return plot::lines(lines);
}

std::string attention_curves(const Results& results) {
  plot::LineChart lines =
      chart(results, with_unit("distance", results), "attention up to this distance, %");
  lines.x.scale = plot::Scale::log2;
  lines.y.range = plot::Range{0, 100};
  add_means(lines, results, [](const RunResult& run) {
    Curve curve;
    for (std::size_t i = 0; run.attention && i < run.attention->distances.size(); ++i) {
      if (run.attention->distances[i] == 0) continue;  // not on a logarithmic axis
      curve.x.push_back(static_cast<double>(run.attention->distances[i]));
      curve.y.push_back(100 * run.attention->shares[i]);
    }
    return curve;
  });
  return plot::lines(lines);
}

std::string example_curves(const Results& results, Answers answers) {
  const bool whole = answers == Answers::whole;
  const auto share = whole ? &StretchMean::score : &StretchMean::second;
  const auto guess = whole ? &StretchMean::chance_score : &StretchMean::chance_second;
  const auto band = whole ? &StretchMean::score_interval : &StretchMean::second_interval;
  const Task& task = *results.settings.task;
  plot::LineChart lines =
      chart(results, "", std::string(whole ? task.score : task.second) + ", %");
  lines.x.title = task.unit;
  lines.y.range = plot::Range{0, 100};
  lines.rule = rule_at(results.settings.train_length, "training range");
  plot::Series by_chance{.name = "chance", .x = {}, .y = {}};
  by_chance.stroke = plot::Stroke::dashed;
  for (const EncodingResult& one : results.encodings) {
    plot::Series series{.name = one.title, .x = {}, .y = {}}, guessed = by_chance;
    guessed.x.clear(), guessed.y.clear();
    for (const StretchMean& at : one.stretches) {
      if (!at.applicable) continue;
      add_point(series, 0.5 * static_cast<double>(at.from + at.to), 100 * at.*share,
                {100 * (at.*band).low, 100 * (at.*band).high});
      guessed.x.push_back(series.x.back());
      guessed.y.push_back(100 * at.*guess);
    }
    lines.series.push_back(series);
    if (guessed.x.size() > by_chance.x.size()) by_chance = guessed;
  }
  lines.names.push_back("chance");
  lines.series.push_back(by_chance);
  return plot::lines(lines);
}

std::string extension_curves(const Results& results, const ExtensionResult& extension) {
  plot::LineChart lines{
      .series = {},
      .x = {.title = with_unit("context length", results), .scale = plot::Scale::log2},
      .y = {.title = "bits per byte"}};
  lines.x.ticks = numbers(extension.lengths);
  lines.rule = rule_at(extension.lengths.front(), "training length");
  lines.solid = "as trained, or after the fine-tune";
  lines.dashed = "without a fine-tune";
  for (const ExtensionRow& row : extension.rows) {
    plot::Series series{.name = row.title, .x = lines.x.ticks, .y = row.bits};
    if (row.stage == Stage::without) series.stroke = plot::Stroke::dashed;
    for (std::size_t i = 0; extension.seeds > 1 && i < row.bits.size(); ++i) {
      series.low.push_back(row.bits[i] - row.uncertainty[i]);
      series.high.push_back(row.bits[i] + row.uncertainty[i]);
    }
    lines.series.push_back(series);
  }
  return plot::lines(lines);
}

std::string training_curves(const Results& results) {
  plot::LineChart lines =
      chart(results, "training step",
            "validation loss (" + std::string(results.settings.task->loss) + ")");
  add_means(lines, results, [](const RunResult& run) {
    Curve curve;
    for (const CurvePoint& point : run.curve)
      if (point.validation_bits) {
        curve.x.push_back(static_cast<double>(point.step));
        curve.y.push_back(*point.validation_bits);
      }
    return curve;
  });
  return plot::lines(lines);
}

std::string size_curves(const Results& all, const std::vector<Results>& sizes,
                        std::size_t length) {
  const std::vector<Results> finished = by_size::finished(sizes);
  plot::LineChart lines{.series = {},
                        .x = {.title = "parameters (millions)", .scale = plot::Scale::log2},
                        .y = {.title = all.metric.name}};
  const double unit = all.settings.task->has_examples() ? 100 : 1;  // percent, or bits
  if (unit == 100) {
    lines.y.title += ", %";
    lines.y.range = plot::Range{0, 100};
  }
  for (const Results& size : finished)
    lines.x.ticks.push_back(std::round(1e-3 * static_cast<double>(by_size::smallest(size))) *
                            1e-3);
  for (const EncodingResult* encoding : by_size::encodings(finished)) {
    plot::Series series{.name = encoding->title, .x = {}, .y = {}};
    for (const Results& size : finished) {
      const EncodingResult* one = find_encoding(size, encoding->name);
      const PlaceResult at = one ? result_at(*one, length) : PlaceResult{};
      if (!at.applicable) continue;
      add_point(series, 1e-6 * static_cast<double>(one->parameters), unit * at.value,
                {unit * at.interval.low, unit * at.interval.high});
    }
    lines.names.push_back(series.name);
    lines.series.push_back(series);
  }
  return plot::lines(lines);
}

}  // namespace gnomon::lab
