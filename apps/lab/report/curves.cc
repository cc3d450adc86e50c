#include "apps/lab/report/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "apps/lab/data/numbers.h"
#include "apps/lab/data/task.h"
#include "gnomon/plot/chart.h"

namespace gnomon::lab {
namespace {

using Numbers = std::vector<double>;

Numbers numbers(const std::vector<std::int64_t>& list) { return {list.begin(), list.end()}; }

std::vector<const RunResult*> runs_of(const Results& results, const EncodingResult& encoding) {
  std::vector<const RunResult*> runs;
  for (const RunResult& run : results.runs)
    if (run.encoding == encoding.name) runs.push_back(&run);
  return runs;
}

// The mean of the curves of several seeds as a series, with the band of its 95 % confidence
// interval. One curve has no band. Stored runs can have fewer points than `x`.
plot::Series spread(const std::string& name, Numbers x, const std::vector<Numbers>& curves) {
  for (const Numbers& curve : curves) x.resize(std::min(x.size(), curve.size()));
  plot::Series series{.name = name, .x = std::move(x), .y = {}};
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    Numbers here;
    for (const Numbers& curve : curves) here.push_back(curve[i]);
    series.y.push_back(mean(here));
    if (curves.size() < 2) continue;
    series.low.push_back(mean(here) - mean_margin(here));
    series.high.push_back(mean(here) + mean_margin(here));
  }
  return series;
}

// The encodings that the page draws at first, if there are more than a chart can show at once:
// the best at the shortest and at the longest length, and those that the lab trains by default.
std::vector<std::string> selection(const Results& results) {
  constexpr std::size_t most = 10, best = 3;
  if (results.encodings.size() <= most) return {};
  std::vector<std::string> names;
  const auto add = [&](const std::string& title) {
    if (std::find(names.begin(), names.end(), title) == names.end()) names.push_back(title);
  };
  for (const Ranking* ranking : {&results.rankings.front(), &results.rankings.back()})
    for (std::size_t i = 0; i < std::min(best, ranking->order.size()); ++i)
      add(ranking->order[i].title);
  for (const EncodingResult& one : results.encodings)
    if (std::string(default_encodings).find(one.name) != std::string::npos) add(one.title);
  return names;
}

plot::LineChart chart(const Results& results, const std::string& x, const std::string& y) {
  plot::LineChart chart{.series = {}, .x = {.title = x}, .y = {.title = y}};
  for (const EncodingResult& one : results.encodings) chart.names.push_back(one.title);
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
      whole.x.push_back(static_cast<double>(at.length));
      whole.y.push_back(at.tail_bits);
      cut.x.push_back(whole.x.back());
      cut.y.push_back(at.cut_bits);
      whole.low.push_back(at.tail_bits - at.uncertainty);
      whole.high.push_back(at.tail_bits + at.uncertainty);
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
  for (const EncodingResult& one : results.encodings) {
    std::vector<Numbers> curves;
    const auto runs = runs_of(results, one);
    for (const RunResult* run : runs) curves.push_back(run->tests.by_position->bits);
    lines.series.push_back(spread(one.title, runs[0]->tests.by_position->positions, curves));
  }
  return plot::lines(lines);
}

std::string attention_curves(const Results& results) {
  plot::LineChart lines =
      chart(results, with_unit("distance", results), "attention up to this distance, %");
  lines.x.scale = plot::Scale::log2;
  lines.y.range = plot::Range{0, 100};
  for (const EncodingResult& one : results.encodings) {
    std::vector<Numbers> curves;
    Numbers distances;
    for (const RunResult* run : runs_of(results, one)) {
      if (!run->attention) continue;
      distances.clear();
      Numbers& curve = curves.emplace_back();
      for (std::size_t i = 0; i < run->attention->distances.size(); ++i) {
        if (run->attention->distances[i] == 0) continue;  // not on a logarithmic axis
        distances.push_back(static_cast<double>(run->attention->distances[i]));
        curve.push_back(100 * run->attention->shares[i]);
      }
    }
    lines.series.push_back(spread(one.title, distances, curves));
  }
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
      series.x.push_back(0.5 * static_cast<double>(at.from + at.to));
      series.y.push_back(100 * at.*share);
      series.low.push_back(100 * (at.*band).low);
      series.high.push_back(100 * (at.*band).high);
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
  for (const EncodingResult& one : results.encodings) {
    std::vector<Numbers> curves;
    Numbers steps;
    for (const RunResult* run : runs_of(results, one)) {
      steps.clear();
      Numbers& curve = curves.emplace_back();
      for (const CurvePoint& point : run->curve)
        if (point.validation_bits) {
          steps.push_back(static_cast<double>(point.step));
          curve.push_back(*point.validation_bits);
        }
    }
    lines.series.push_back(spread(one.title, steps, curves));
  }
  return plot::lines(lines);
}

}  // namespace gnomon::lab
