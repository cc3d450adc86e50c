#include "gnomon/plot/chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "testing.h"

namespace gnomon::plot {
namespace chart_test {

using Json = nlohmann::json;
using gnomon::testing::message_of;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

// Returns the layer with a mark of this type, or null if there is none.
Json layer(const Json& spec, const std::string& type) {
  for (const Json& one : spec["layer"])
    if (one["mark"]["type"] == type) return one;
  return {};
}

LineChart two_lines() {
  return {.series = {{.name = "a", .x = {1, 2, 4}, .y = {3, 2, 1}},
                     {.name = "a, cut",
                      .x = {1, 2, 4},
                      .y = {3, 3, 3},
                      .stroke = Stroke::dashed,
                      .colour = "a"},
                     {.name = "b", .x = {1, 2}, .y = {5, 6}}},
          .x = {.title = "length"},
          .y = {.title = "bits"}};
}

TEST(Chart, LinesAreAsWideAsTheirPlace) {
  const Json spec = Json::parse(lines(two_lines()));
  EXPECT_EQ(spec["$schema"], "https://vega.github.io/schema/vega-lite/v5.json");
  EXPECT_EQ(spec["width"], "container");
  EXPECT_EQ(spec["height"], 320);
  EXPECT_EQ(layer(spec, "line")["encoding"]["x"]["title"], "length");
  EXPECT_EQ(layer(spec, "line")["encoding"]["y"]["title"], "bits");
  EXPECT_EQ(layer(spec, "point")["encoding"]["tooltip"].size(), 3u);
  EXPECT_TRUE(layer(spec, "area").is_null());
  EXPECT_TRUE(layer(spec, "rule").is_null());
}

TEST(Chart, LinesKeepTheirNumbers) {
  const Json rows = Json::parse(lines(two_lines()))["data"]["values"];
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["x"], Json({1, 2, 4}));
  EXPECT_EQ(rows[0]["y"], Json({3, 2, 1}));
  EXPECT_EQ(rows[2]["name"], "b");
  EXPECT_EQ(rows[2]["y"], Json({5, 6}));
}

TEST(Chart, ADashedLineHasTheColourOfItsSolidOne) {
  LineChart chart = two_lines();
  chart.solid = "as given";
  chart.dashed = "cut";
  const Json spec = Json::parse(lines(chart));
  const Json rows = spec["data"]["values"];
  EXPECT_EQ(rows[0]["colour"], "a");
  EXPECT_EQ(rows[1]["colour"], "a");
  EXPECT_EQ(rows[0]["stroke"], "as given");
  EXPECT_EQ(rows[1]["stroke"], "cut");
  EXPECT_EQ(rows[1]["name"], "a, cut");
  const Json stroke = layer(spec, "line")["encoding"]["strokeDash"];
  EXPECT_EQ(stroke["scale"]["domain"], Json({"as given", "cut"}));
  EXPECT_EQ(stroke["scale"]["range"], Json({{1, 0}, {5, 4}}));
  const Json unsaid = Json::parse(lines(two_lines()));
  EXPECT_TRUE(layer(unsaid, "line")["encoding"]["strokeDash"]["legend"].is_null());
}

TEST(Chart, NamesDecideColours) {
  LineChart chart = two_lines();
  chart.names = {"b", "z", "a"};
  Json colour = layer(Json::parse(lines(chart)), "line")["encoding"]["color"];
  EXPECT_EQ(colour["scale"]["domain"], Json({"b", "z", "a"}));
  EXPECT_EQ(colour["legend"]["values"], Json({"b", "a"}));
  EXPECT_EQ(colour["legend"]["orient"], "bottom");
  chart.names = {"b"};
  colour = layer(Json::parse(lines(chart)), "line")["encoding"]["color"];
  EXPECT_EQ(colour["scale"]["domain"], Json({"b", "a"}));
  // A bar of the same name has the same colour.
  const Json bar =
      layer(Json::parse(bars({.bars = {{.name = "a", .value = 1}}, .names = {"b", "z", "a"}})),
            "bar");
  EXPECT_EQ(bar["encoding"]["color"]["scale"]["domain"], Json({"b", "z", "a"}));
}

TEST(Chart, OneNameNeedsNoLegend) {
  const Json spec = Json::parse(lines({.series = {{.name = "a", .x = {1, 2}, .y = {1, 2}}}}));
  EXPECT_TRUE(layer(spec, "line")["encoding"]["color"]["legend"].is_null());
}

TEST(Chart, WhatIsNoNumberIsAGap) {
  LineChart chart{.series = {{.name = "a",
                              .x = {1, 2, nan, 4, infinity},
                              .y = {1, nan, 3, -infinity, 5},
                              .low = {0, nan, 0, 0, 0},
                              .high = {2, 2, 2, infinity, 2}}}};
  const Json spec = Json::parse(lines(chart));
  EXPECT_EQ(spec["data"]["values"][0]["x"], Json({1, 2, 4}));
  EXPECT_EQ(spec["data"]["values"][0]["y"], Json({1, nullptr, nullptr}));
  const Json band = layer(spec, "area")["data"]["values"][0];
  EXPECT_EQ(band["x"], Json::array({1}));
  EXPECT_EQ(band["low"], Json::array({0}));
  EXPECT_EQ(band["high"], Json::array({2}));
}

TEST(Chart, NothingIsDrawnWithoutComplaint) {
  LineChart chart{
      .series = {{.name = "a", .x = {1, 2}, .y = {nan, nan}}, {.name = "b", .x = {}, .y = {}}}};
  Json spec = Json::parse(lines(chart));
  EXPECT_TRUE(spec["data"]["values"].empty());
  EXPECT_EQ(layer(spec, "line")["encoding"]["y"]["scale"]["domain"], Json({1, 2}));
  chart.series[0].y[1] = 5;
  spec = Json::parse(lines(chart));
  EXPECT_EQ(spec["data"]["values"].size(), 1u);
  EXPECT_FALSE(layer(spec, "line")["encoding"]["y"]["scale"].contains("domain"));
}

TEST(Chart, ALogScaleShowsOnlyWhatItCan) {
  const Json spec =
      Json::parse(lines({.series = {{.name = "a", .x = {-1, 0, 1, 2}, .y = {1, 2, 0, 4}}},
                         .x = {.scale = Scale::log2, .ticks = {0, 1, 2}},
                         .y = {.scale = Scale::log2}}));
  EXPECT_EQ(spec["data"]["values"][0]["x"], Json({1, 2}));
  EXPECT_EQ(spec["data"]["values"][0]["y"], Json({nullptr, 4}));
  const Json x = layer(spec, "line")["encoding"]["x"];
  EXPECT_EQ(x["scale"]["type"], "log");
  EXPECT_EQ(x["scale"]["base"], 2);
  EXPECT_FALSE(x["scale"].contains("zero")) << "Vega-Lite warns of it";
  EXPECT_EQ(x["axis"]["values"], Json({1, 2}));
}

TEST(Chart, NumbersHaveFourDigitsAndPlacesAll) {
  const Json row =
      Json::parse(lines({.series = {{.name = "a",
                                     .x = {123456.5, 0.1},
                                     .y = {1.23456, -98765.4}}}}))["data"]["values"][0];
  EXPECT_EQ(row["x"], Json({123456.5, 0.1}));
  EXPECT_EQ(row["y"], Json({1.235, -98770}));
}

TEST(Chart, RangesCut) {
  LineChart chart = two_lines();
  chart.y.range = Range{1.5, 2.5};
  const Json line = layer(Json::parse(lines(chart)), "line");
  EXPECT_EQ(line["encoding"]["y"]["scale"]["domain"], Json({1.5, 2.5}));
  EXPECT_EQ(line["mark"]["clip"], true);
}

TEST(Chart, ARuleHasItsLabelWhereRoomIs) {
  LineChart chart = two_lines();
  chart.rule = Rule{1.5, "trained </script>"};
  Json spec = Json::parse(lines(chart));
  EXPECT_EQ(layer(spec, "rule")["data"]["values"][0]["x"], 1.5);
  EXPECT_EQ(layer(spec, "text")["data"]["values"][0]["label"], "trained </script>");
  EXPECT_EQ(layer(spec, "text")["mark"]["align"], "left");
  chart.rule->x = 3.9;
  spec = Json::parse(lines(chart));
  EXPECT_EQ(layer(spec, "text")["mark"]["align"], "right");
  chart.rule->label.clear();
  EXPECT_TRUE(layer(Json::parse(lines(chart)), "text").is_null());
}

TEST(Chart, ManyPointsHaveNoSymbols) {
  LineChart chart{
      .series = {
          {.name = "a", .x = std::vector<double>(41, 1.0), .y = std::vector<double>(41, 1.0)}}};
  EXPECT_EQ(layer(Json::parse(lines(chart)), "point")["mark"]["opacity"], 0);
  chart.series[0].x.pop_back(), chart.series[0].y.pop_back();
  EXPECT_EQ(layer(Json::parse(lines(chart)), "point")["mark"]["opacity"], 1);
}

// `count` series named 0, 1, ... of `points` points.
LineChart many_lines(int count, int points) {
  LineChart chart;
  for (int s = 0; s < count; ++s) {
    Series& series = chart.series.emplace_back();
    series.name = std::to_string(s);
    for (int i = 0; i < points; ++i) series.x.push_back(i), series.y.push_back(s + i);
  }
  return chart;
}

TEST(Chart, TheReaderSelectsAmongManyNames) {
  EXPECT_FALSE(Json::parse(lines(many_lines(10, 3))).contains("params"));
  LineChart chart = many_lines(12, 3);
  Json spec = Json::parse(lines(chart));
  EXPECT_EQ(spec["usermeta"]["gnomon"]["selectable"].size(), 12u);
  EXPECT_EQ(spec["params"][0]["name"], "shown");
  EXPECT_EQ(spec["params"][0]["value"], spec["usermeta"]["gnomon"]["selectable"]);
  EXPECT_EQ(spec["transform"][0]["filter"], "indexof(shown, datum.colour) >= 0");
  EXPECT_EQ(spec["data"]["values"].size(), 12u);
  const Json all = layer(spec, "line")["encoding"]["color"]["scale"];
  chart.selected = {"7", "2"};
  spec = Json::parse(lines(chart));
  EXPECT_EQ(spec["params"][0]["value"], Json({"2", "7"}));
  EXPECT_EQ(spec["data"]["values"].size(), 12u) << "the others are hidden, not missing";
  const Json colour = layer(spec, "line")["encoding"]["color"];
  EXPECT_EQ(colour["scale"], all) << "colours do not depend on the selection";
  EXPECT_EQ(colour["legend"]["values"], Json({"2", "7"}));
  chart.selected = {"12"};
  EXPECT_EQ(message_of([&] { lines(chart); }),
            "[chart] selected must contain names of series, got 12");
}

TEST(Chart, ABandIsSelectedWithItsLine) {
  LineChart chart = many_lines(2, 3);
  for (Series& series : chart.series) series.low = series.high = series.y;
  chart.selected = {"0"};
  const Json spec = Json::parse(lines(chart));
  EXPECT_EQ(layer(spec, "area")["transform"][0], spec["transform"][0]);
}

TEST(Chart, ColourAndSymbolDistinguishEightyNames) {
  const Json spec = Json::parse(lines(many_lines(80, 50)));
  std::set<std::pair<std::size_t, std::string>> pairs;
  std::size_t symbols = 0;
  for (const Json& one : spec["layer"]) {
    if (!one["encoding"].contains("shape") || one["mark"]["opacity"] == 0) continue;
    ++symbols;
    EXPECT_EQ(one["transform"][1]["filter"],
              "isValid(datum.y) && datum.point % 5 == (3 * datum.series) % 5");
    const Json scale = one["encoding"]["shape"]["scale"];
    for (std::size_t i = 0; i < 80; ++i) pairs.emplace(i % 10, scale["range"][i]);
  }
  EXPECT_EQ(symbols, 1u) << "few symbols on long lines";
  EXPECT_EQ(pairs.size(), 80u);
}

TEST(Chart, RefusesLinesThatCannotBe) {
  const auto message = [](auto change) {
    LineChart chart = two_lines();
    change(chart);
    return message_of([&] { lines(chart); });
  };
  EXPECT_EQ(message([](auto& c) { c.series.clear(); }),
            "[chart] there must be at least one series, got 0");
  EXPECT_EQ(message([](auto& c) { c.series[0].y.pop_back(); }),
            "[chart] series a must have one y per x (3), got 2");
  EXPECT_EQ(message([](auto& c) { c.series[2].low = {1, 2}; }),
            "[chart] series b must have one high per x (2), got 0");
  EXPECT_EQ(message([](auto& c) { c.y.range = Range{2, 1}; }),
            "[chart] the upper end of a range must exceed its lower end 2, got 1");
  EXPECT_THAT(message([](auto& c) { c.x.range = Range{0, nan}; }),
              ::testing::StartsWith("[chart] a range must be finite, got"));
  EXPECT_EQ(message([](auto& c) { c.x = {.scale = Scale::log2, .range = Range{0, 8}}; }),
            "[chart] a range on a log2 scale must begin above 0, got 0");
  EXPECT_THAT(message([](auto& c) { c.rule = Rule{nan}; }),
              ::testing::StartsWith("[chart] x of a rule must be finite, got"));
  EXPECT_EQ(message([](auto& c) { c.height = 3; }),
            "[chart] height must be at least 40, got 3");
}

TEST(Chart, AHeatmapIsOneArray) {
  const Json spec = Json::parse(heatmap({.values = {2, 3, {1, 2, 3, 4, nan, 0.123456}},
                                         .rows = {.title = "r", .first = 10, .step = 5},
                                         .columns = {.title = "c"}}));
  EXPECT_EQ(spec["data"]["values"], Json::array({{{"data", {1, 2, 3, 4, nullptr, 0.1235}}}}));
  EXPECT_EQ(spec["mark"]["type"], "rect");
  EXPECT_EQ(spec["width"], "container");
  const Json encoding = spec["encoding"];
  EXPECT_EQ(encoding["y"]["scale"]["domain"], Json({7.5, 17.5}));
  EXPECT_EQ(encoding["y"]["scale"]["reverse"], true) << "row 0 is the top one";
  EXPECT_EQ(encoding["x"]["scale"]["domain"], Json({-0.5, 2.5}));
  EXPECT_EQ(encoding["color"]["scale"]["domain"], Json({0.1235, 4}));
  EXPECT_FALSE(encoding["color"]["scale"].contains("domainMid"));
}

TEST(Chart, DivergingColoursMeetAtZero) {
  Heatmap map{.values = {1, 2, {-3, 1}}, .colours = Colours::diverging};
  Json scale = Json::parse(heatmap(map))["encoding"]["color"]["scale"];
  EXPECT_EQ(scale["domain"], Json({-3, 3}));
  EXPECT_EQ(scale["domainMid"], 0);
  map.range = Range{-1, 1};
  scale = Json::parse(heatmap(map))["encoding"]["color"]["scale"];
  EXPECT_EQ(scale["domain"], Json({-1, 1}));
  EXPECT_EQ(scale["clamp"], true);
}

TEST(Chart, AHeatmapOfOneValueOrNoneHasARange) {
  EXPECT_EQ(
      Json::parse(heatmap({.values = {1, 2, {7, 7}}}))["encoding"]["color"]["scale"]["domain"],
      Json({6.5, 7.5}));
  EXPECT_EQ(
      Json::parse(heatmap({.values = {1, 1, {nan}}}))["encoding"]["color"]["scale"]["domain"],
      Json({0, 1}));
}

TEST(Chart, LabelsAreTextAndNoExpression) {
  const std::string evil = "'] + alert(1) + ['\"\\";
  const Json axis = Json::parse(heatmap(
      {.values = {1, 2, {1, 2}}, .columns = {.labels = {evil, "ü"}}}))["encoding"]["x"]["axis"];
  EXPECT_EQ(axis["values"], Json({0, 1}));
  const std::string expression = axis["labelExpr"];
  const std::string end = "[datum.value]";
  ASSERT_TRUE(expression.ends_with(end));
  EXPECT_EQ(Json::parse(expression.substr(0, expression.size() - end.size())),
            Json({evil, "ü"}));
}

TEST(Chart, AShapeIsKept) {
  const Json spec =
      Json::parse(heatmap({.values = {2, 4, std::vector<double>(8, 1.0)}, .aspect = 1.0}));
  EXPECT_EQ(spec["width"], 480);
  EXPECT_EQ(spec["height"], 240);
  EXPECT_EQ(spec["usermeta"]["gnomon"]["tall"], 0.5);
  EXPECT_FALSE(spec.contains("autosize"));
}

TEST(Chart, AMatrixCopiesAnyStrides) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const View<const float, 2> view(values.data(), {2, 3});
  EXPECT_EQ(Matrix(view).values, std::vector<double>({1, 2, 3, 4, 5, 6}));
  const Matrix turned(View<const float, 2>(values.data(), {3, 2}, {1, 3}));
  EXPECT_EQ(turned.rows, 3);
  EXPECT_EQ(turned.columns, 2);
  EXPECT_EQ(turned.values, std::vector<double>({1, 4, 2, 5, 3, 6}));
}

TEST(Chart, LargeHeatmapsStayCheap) {
  const std::vector<double> numbers = gnomon::testing::random_numbers(300'000);
  EXPECT_LT(heatmap({.values = {300, 1000, numbers}}).size(), 8u * 300'000u);
}

TEST(Chart, RefusesHeatmapsThatCannotBe) {
  const auto message = [](const Heatmap& map) { return message_of([&] { heatmap(map); }); };
  EXPECT_EQ(message({.values = {0, 3, {}}}), "[chart] a matrix must have rows, got 0");
  EXPECT_EQ(message({.values = {3, 0, {}}}), "[chart] a matrix must have columns, got 0");
  EXPECT_EQ(message({.values = {2, 2, {1, 2, 3}}}),
            "[chart] a matrix must have 4 values, got 3");
  EXPECT_EQ(message({.values = {601, 500, {}}}),
            "[chart] a picture must have at most 300000 cells, got 601 x 500");
  EXPECT_EQ(
      message({.values = {std::int64_t{1} << 40, std::int64_t{1} << 40, {}}}),
      "[chart] a picture must have at most 300000 cells, got 1099511627776 x 1099511627776");
  EXPECT_EQ(message({.values = {1, 1, {1}}, .rows = {.labels = {"a", "b"}}}),
            "[chart] there must be 1 labels or none, got 2");
  EXPECT_EQ(message({.values = {1, 1, {1}}, .columns = {.step = 0}}),
            "[chart] step must be finite and above 0, got 0");
  EXPECT_EQ(message({.values = {1, 1, {1}}, .aspect = -1.0}),
            "[chart] aspect must be finite and above 0, got -1");
}

TEST(Chart, BarsBeginAtZeroAndSayTheirNumbers) {
  const Json spec = Json::parse(bars(
      {.bars = {{.name = "a", .value = 10}, {.name = "b", .value = nan}}, .title = "bytes"}));
  EXPECT_EQ(spec["data"]["values"][0]["value"], 10);
  EXPECT_TRUE(spec["data"]["values"][1]["value"].is_null());
  EXPECT_EQ(spec["height"], 60);
  const Json bar = layer(spec, "bar");
  EXPECT_EQ(bar["encoding"]["x"]["scale"]["domain"][0], 0);
  EXPECT_GT(bar["encoding"]["x"]["scale"]["domain"][1], 10);
  EXPECT_EQ(bar["encoding"]["x"]["title"], "bytes");
  EXPECT_EQ(bar["encoding"]["y"]["scale"]["domain"], Json({"a", "b"})) << "as given";
  EXPECT_TRUE(bar["encoding"]["color"]["legend"].is_null()) << "names stand at the bars";
  EXPECT_EQ(layer(spec, "text")["encoding"]["text"]["format"], ",.4~r");
}

TEST(Chart, BarsOfSharedColoursHaveALegend) {
  const Json spec = Json::parse(bars({.bars = {{.name = "a", .value = -1, .colour = "x"},
                                               {.name = "b", .value = 1, .colour = "y"}}}));
  const Json bar = layer(spec, "bar");
  EXPECT_EQ(bar["encoding"]["color"]["legend"]["values"], Json({"x", "y"}));
  EXPECT_LT(bar["encoding"]["x"]["scale"]["domain"][0], -1);
}

TEST(Chart, RefusesBarsThatCannotBe) {
  EXPECT_EQ(message_of([] { bars({}); }), "[chart] there must be at least one bar, got 0");
  EXPECT_EQ(message_of([] { bars({.bars = {{.name = "a"}, {.name = "a"}}}); }),
            "[chart] names of bars must be unique, got a");
}

}  // namespace chart_test
}  // namespace gnomon::plot
