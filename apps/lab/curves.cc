#include "apps/lab/curves.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "apps/lab/statistics.h"
#include "apps/lab/tasks.h"
#include "gnomon/plot/chart.h"

namespace gnomon::lab {
namespace {

using Numbers = std::vector<double>;

Numbers numbers(const Json& list) {
  Numbers all;
  for (const Json& one : list)
    all.push_back(one.is_number() ? one.get<double>()
                                  : std::numeric_limits<double>::quiet_NaN());
  return all;
}

std::vector<const Json*> runs_of(const Json& results, const Json& encoding) {
  std::vector<const Json*> runs;
  for (const Json& run : results.at("runs"))
    if (run.at("encoding") == encoding.at("name")) runs.push_back(&run);
  return runs;
}

// The mean of the curves of several seeds as a series, with a band of one standard deviation.
plot::Series spread(const std::string& name, Numbers x, const std::vector<Numbers>& curves) {
  plot::Series series{.name = name, .x = std::move(x), .y = {}};
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    Numbers here;
    for (const Numbers& curve : curves) here.push_back(curve[i]);
    series.y.push_back(mean(here));
    if (curves.size() < 2) continue;
    series.low.push_back(mean(here) - deviation(here));
    series.high.push_back(mean(here) + deviation(here));
  }
  return series;
}

std::string metric(const Json& results) { return results.at("metric").at("name"); }

plot::LineChart chart(const Json& results, const char* x, const std::string& y) {
  plot::LineChart chart{.series = {}, .x = {.title = x}, .y = {.title = y}};
  for (const Json& one : results.at("encodings")) chart.names.push_back(one.at("title"));
  return chart;
}

}  // namespace

std::string length_curves(const Json& results) {
  plot::LineChart lines = chart(results, "context length (bytes)", metric(results));
  lines.x.scale = plot::Scale::log2;
  lines.x.ticks = numbers(results.at("settings").at("eval_lengths"));
  lines.rule = plot::Rule{lines.x.ticks.front(), "training length"};
  lines.solid = "whole context";
  lines.dashed = "context cut to the training length";
  for (const Json& one : results.at("encodings")) {
    plot::Series whole{.name = one.at("title"), .x = {}, .y = {}}, cut = whole;
    cut.stroke = plot::Stroke::dashed;
    for (const Json& at : one.at("lengths")) {
      if (!at.at("applicable")) continue;
      const double bits = at.at("tail_bits"), deviation = at.at("tail_deviation");
      whole.x.push_back(at.at("length"));
      whole.y.push_back(bits);
      cut.x.push_back(at.at("length"));
      cut.y.push_back(at.at("cut_bits"));
      if (one.at("seeds") == 1) continue;
      whole.low.push_back(bits - deviation);
      whole.high.push_back(bits + deviation);
    }
    lines.series.push_back(cut);
    lines.series.push_back(whole);
  }
  return plot::lines(lines);
}

std::string position_curves(const Json& results) {
  const bool masked = results.at("settings").at("task") == "masked";
  plot::LineChart lines = chart(
      results, masked ? "position in the window (bytes)" : "context before the byte (bytes)",
      metric(results));
  lines.x.scale = plot::Scale::log2;
  lines.rule =
      plot::Rule{results.at("settings").at("train_length").get<double>(), "training length"};
  lines.solid = "whole context";
  lines.dashed = "context cut to the training length";
  for (const Json& one : results.at("encodings")) {
    const auto runs = runs_of(results, one);
    std::vector<Numbers> whole, cut;
    for (const Json* run : runs) {
      whole.push_back(numbers(run->at("by_position").at("bits")));
      cut.push_back(numbers(run->at("by_position").at("cut_bits")));
    }
    const Numbers positions = numbers(runs[0]->at("by_position").at("positions"));
    if (runs[0]->at("by_position").at("length") > results.at("settings").at("train_length")) {
      plot::Series baseline = spread(one.at("title"), positions, cut);
      baseline.low.clear(), baseline.high.clear();
      baseline.stroke = plot::Stroke::dashed;
      lines.series.push_back(baseline);
    }
    lines.series.push_back(spread(one.at("title"), positions, whole));
  }
  return plot::lines(lines);
}

std::string example_curves(const Json& results, Answers answers) {
  const bool whole = answers == Answers::whole;
  const char* key = whole ? "whole" : "byte";
  const Json& settings = results.at("settings");
  const TaskInfo& task = find_task(settings.at("task").get<std::string>());
  plot::LineChart lines = chart(results, "", whole ? "right answers, %" : "right bytes, %");
  lines.x.title = "length (" + std::string(task.unit) + ")";
  lines.y.range = plot::Range{0, 100};
  lines.rule = plot::Rule{settings.at("train_length").get<double>(), "training range"};
  plot::Series by_chance{.name = "chance", .x = {}, .y = {}};
  by_chance.stroke = plot::Stroke::dashed;
  for (const Json& one : results.at("encodings")) {
    plot::Series series{.name = one.at("title"), .x = {}, .y = {}}, guessed = by_chance;
    guessed.x.clear(), guessed.y.clear();
    for (const Json& at : one.at("stretches")) {
      if (!at.at("applicable")) continue;
      series.x.push_back(0.5 * (at.at("from").get<double>() + at.at("to").get<double>()));
      series.y.push_back(100 * at.at(key).get<double>());
      guessed.x.push_back(series.x.back());
      guessed.y.push_back(100 * at.at("chance_" + std::string(key)).get<double>());
    }
    lines.series.push_back(series);
    if (guessed.x.size() > by_chance.x.size()) by_chance = guessed;
  }
  lines.names.push_back("chance");
  lines.series.push_back(by_chance);
  return plot::lines(lines);
}

std::string extension_curves(const Json& extension) {
  plot::LineChart lines{.series = {},
                        .x = {.title = "context length (bytes)", .scale = plot::Scale::log2},
                        .y = {.title = "bits per byte"}};
  lines.x.ticks = numbers(extension.at("lengths"));
  lines.rule = plot::Rule{lines.x.ticks.front(), "training length"};
  lines.solid = "as trained, or after the fine-tune";
  lines.dashed = "without a fine-tune";
  for (const Json& row : extension.at("rows")) {
    plot::Series series{
        .name = row.at("title"), .x = lines.x.ticks, .y = numbers(row.at("bits"))};
    if (row.at("stage") == "without") series.stroke = plot::Stroke::dashed;
    lines.series.push_back(series);
  }
  return plot::lines(lines);
}

std::string training_curves(const Json& results) {
  plot::LineChart lines = chart(results, "training step", "validation loss (bits per byte)");
  for (const Json& one : results.at("encodings")) {
    std::vector<Numbers> curves;
    Numbers steps;
    for (const Json* run : runs_of(results, one)) {
      steps.clear();
      curves.emplace_back();
      for (const Json& point : run->at("curve"))
        if (point.contains("validation_bits")) {
          steps.push_back(point.at("step"));
          curves.back().push_back(point.at("validation_bits"));
        }
    }
    lines.series.push_back(spread(one.at("title"), steps, curves));
  }
  return plot::lines(lines);
}

}  // namespace gnomon::lab
