#include "gnomon/plot/chart.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "gnomon/error.h"
#include "src/plot/spec.h"

namespace gnomon::plot {
namespace {

using internal::Json;
using internal::number;
using internal::place;

constexpr std::size_t most_symbols = 40;  // points per line; more symbols would hide the line

template <typename T>
Matrix copied(View<const T, 2> view) {
  Matrix matrix(view.extent(0), view.extent(1), {});
  matrix.values.reserve(static_cast<std::size_t>(view.size()));
  for (std::ptrdiff_t row = 0; row < view.extent(0); ++row)
    for (std::ptrdiff_t column = 0; column < view.extent(1); ++column)
      matrix.values.push_back(view(row, column));
  return matrix;
}

void check_size(const Series& series, const std::vector<double>& values, const char* what) {
  if (values.size() != series.x.size())
    refuse("chart",
           "series " + series.name + " must have one " + what + " per x (" +
               std::to_string(series.x.size()) + ")",
           static_cast<std::int64_t>(values.size()));
}

void check(const Axis& axis) {
  if (!axis.range) return;
  internal::check(*axis.range);
  if (axis.scale == Scale::log2 && axis.range->low <= 0)
    refuse("chart", "a range on a log2 scale must begin above 0", axis.range->low);
}

void check(const LineChart& chart) {
  if (chart.series.empty()) refuse("chart", "there must be at least one series", 0);
  for (const Series& series : chart.series) {
    check_size(series, series.y, "y");
    if (series.low.empty() && series.high.empty()) continue;
    check_size(series, series.low, "low");
    check_size(series, series.high, "high");
  }
  check(chart.x);
  check(chart.y);
  if (chart.rule && !std::isfinite(chart.rule->x))
    refuse("chart", "x of a rule must be finite", chart.rule->x);
}

const std::string& colour_of(const Series& series) {
  return series.colour.empty() ? series.name : series.colour;
}
const std::string& colour_of(const Bar& bar) {
  return bar.colour.empty() ? bar.name : bar.colour;
}

// Colour (or shape) channel of names. The order of `names` selects the colours, and the legend
// shows the names in use.
template <typename Items>
Json name_channel(const Items& items, std::vector<std::string> names) {
  std::set<std::string> used;
  for (const auto& item : items) {
    used.insert(colour_of(item));
    if (std::find(names.begin(), names.end(), colour_of(item)) == names.end())
      names.push_back(colour_of(item));
  }
  Json in_use = Json::array();
  for (const std::string& name : names)
    if (used.contains(name)) in_use.push_back(name);
  Json legend;  // null: a single name needs no legend
  if (used.size() > 1)
    legend = {{"orient", "bottom"}, {"values", in_use}, {"symbolOpacity", 1}};
  return {{"field", "colour"},
          {"type", "nominal"},
          {"title", nullptr},
          {"scale", {{"domain", names}}},
          {"legend", legend}};
}

// Stores the length of the longest name. A page uses it for the number of names per line of the
// legend.
template <typename Items>
void note_names(Json& spec, const Items& items) {
  std::size_t letters = 0;
  for (const auto& item : items) letters = std::max(letters, colour_of(item).size());
  spec["usermeta"]["gnomon"]["letters"] = letters;
}

bool shows(Scale scale, double value) {
  return std::isfinite(value) && (scale == Scale::linear || value > 0);
}

Json axis_channel(const Axis& axis, const char* field) {
  Json scale = Json::object();
  Json look = {{"format", ",.12~g"}, {"labelOverlap", true}};
  if (axis.scale == Scale::log2) {
    scale["type"] = "log";
    scale["base"] = 2;
    scale["nice"] = false;
  } else {
    scale["zero"] = false;
  }
  if (field[0] == 'x') scale["nice"] = false;
  if (axis.range) {
    scale["domain"] = internal::ends(*axis.range);
    scale["nice"] = false;
  }
  if (!axis.ticks.empty()) {
    Json ticks = Json::array();
    for (const double tick : axis.ticks)
      if (shows(axis.scale, tick)) ticks.push_back(place(tick));
    look["values"] = ticks;
  } else {
    look["tickCount"] = 6;
  }
  return {{"field", field},
          {"type", "quantitative"},
          {"title", internal::title(axis.title)},
          {"scale", scale},
          {"axis", look}};
}

// One object per series, whose arrays the transform expands: a third of the size of one object
// per point.
Json series_data(const LineChart& chart, bool bands) {
  Json rows = Json::array();
  for (std::size_t s = 0; s < chart.series.size(); ++s) {
    const Series& series = chart.series[s];
    if (bands && series.low.empty()) continue;
    Json x = Json::array(), y = Json::array(), low = Json::array(), high = Json::array();
    const auto put = [&](Json& list, double value) {
      list.push_back(shows(chart.y.scale, value) ? number(value) : Json());
    };
    for (std::size_t i = 0; i < series.x.size(); ++i) {
      if (!shows(chart.x.scale, series.x[i])) continue;
      if (bands &&
          (!shows(chart.y.scale, series.low[i]) || !shows(chart.y.scale, series.high[i])))
        continue;
      x.push_back(place(series.x[i]));
      if (bands)
        put(low, series.low[i]), put(high, series.high[i]);
      else
        put(y, series.y[i]);
    }
    const auto empty = [](const Json& value) { return value.is_null(); };
    if (std::all_of(bands ? low.begin() : y.begin(), bands ? low.end() : y.end(), empty))
      continue;
    Json row = {{"series", s},
                {"name", series.name},
                {"colour", colour_of(series)},
                {"stroke", series.stroke == Stroke::dashed ? chart.dashed : chart.solid},
                {"x", x}};
    if (series.stroke == Stroke::dashed && chart.dashed.empty()) row["stroke"] = "dashed";
    if (series.stroke == Stroke::solid && chart.solid.empty()) row["stroke"] = "solid";
    if (bands)
      row["low"] = low, row["high"] = high;
    else
      row["y"] = y;
    rows.push_back(row);
  }
  return {{"values", rows}};
}

Json stroke_channel(const LineChart& chart) {
  const std::string solid = chart.solid.empty() ? "solid" : chart.solid;
  const std::string dashed = chart.dashed.empty() ? "dashed" : chart.dashed;
  Json legend;
  if (!chart.solid.empty() || !chart.dashed.empty())
    legend = {{"orient", "bottom"}, {"symbolType", "stroke"}, {"symbolSize", 500}};
  return {{"field", "stroke"},
          {"type", "nominal"},
          {"title", nullptr},
          {"scale", {{"domain", {solid, dashed}}, {"range", {{1, 0}, {5, 4}}}}},
          {"legend", legend}};
}

// Horizontal place of a rule, 0 to 1. Its label is on the side with more room.
double place_of(const Rule& rule, const LineChart& chart) {
  double low = rule.x, high = rule.x;
  for (const Series& series : chart.series)
    for (const double x : series.x)
      if (shows(chart.x.scale, x)) low = std::min(low, x), high = std::max(high, x);
  if (chart.x.range) low = chart.x.range->low, high = chart.x.range->high;
  const auto scaled = [&](double x) { return chart.x.scale == Scale::log2 ? std::log2(x) : x; };
  const double width = scaled(high) - scaled(low);
  return width > 0 ? (scaled(rule.x) - scaled(low)) / width : 0;
}

void add_rule(Json& layers, const LineChart& chart) {
  const Rule& rule = *chart.rule;
  if (!shows(chart.x.scale, rule.x)) return;
  const Json data = {{"values", {{{"x", place(rule.x)}, {"label", rule.label}}}}};
  const Json x = {{"field", "x"}, {"type", "quantitative"}};
  layers.push_back({{"data", data},
                    {"mark", {{"type", "rule"}, {"strokeDash", {2, 3}}}},
                    {"encoding", {{"x", x}}}});
  if (rule.label.empty()) return;
  const bool left = place_of(rule, chart) > 0.5;
  layers.push_back({{"data", data},
                    {"mark",
                     {{"type", "text"},
                      {"align", left ? "right" : "left"},
                      {"baseline", "bottom"},
                      {"dx", left ? 2 : -2},
                      {"dy", -4}}},
                    {"encoding",
                     {{"x", x},
                      {"y", {{"value", 0}}},
                      {"text", {{"field", "label"}, {"type", "nominal"}}}}}});
}

}  // namespace

Matrix::Matrix(View<const float, 2> view) : Matrix(copied(view)) {}
Matrix::Matrix(View<const double, 2> view) : Matrix(copied(view)) {}

std::string lines(const LineChart& chart) {
  check(chart);
  const bool symbols = std::all_of(chart.series.begin(), chart.series.end(), [](auto& series) {
    return series.x.size() <= most_symbols;
  });
  const bool bands = std::any_of(chart.series.begin(), chart.series.end(),
                                 [](auto& series) { return !series.low.empty(); });
  const Json colour = name_channel(chart.series, chart.names);
  const Json detail = {{"field", "series"}, {"type", "nominal"}};
  Json x = axis_channel(chart.x, "x");
  Json y = axis_channel(chart.y, "y");
  const Json data = series_data(chart, false);
  if (data["values"].empty())  // an empty chart has no range
    for (Json* channel : {&x, &y}) (*channel)["scale"].emplace("domain", Json{1, 2});
  if (symbols) x["scale"]["padding"] = 8;
  Json layers = Json::array();
  if (bands) {
    Json low = y;
    low["field"] = "low";
    layers.push_back({{"data", series_data(chart, true)},
                      {"transform", {{{"flatten", {"x", "low", "high"}}}}},
                      {"mark", {{"type", "area"}, {"opacity", 0.18}, {"clip", true}}},
                      {"encoding",
                       {{"x", x},
                        {"y", low},
                        {"y2", {{"field", "high"}}},
                        {"color", colour},
                        {"detail", detail}}}});
  }
  Json tooltip = {{{"field", "name"}, {"title", "name"}, {"type", "nominal"}}};
  const auto add = [&](const Axis& axis, const char* field, const char* format) {
    tooltip.push_back({{"field", field},
                       {"type", "quantitative"},
                       {"format", format},
                       {"title", axis.title.empty() ? field : axis.title}});
  };
  add(chart.x, "x", ",.12~g");
  add(chart.y, "y", ",.4~r");
  Json line = {{"x", x}, {"y", y}, {"color", colour}, {"detail", detail}};
  const bool dashed = std::any_of(chart.series.begin(), chart.series.end(),
                                  [](auto& series) { return series.stroke == Stroke::dashed; });
  if (dashed) line["strokeDash"] = stroke_channel(chart);
  Json point = {{"x", x}, {"y", y}, {"color", colour}, {"tooltip", tooltip}};
  if (symbols) point["shape"] = colour;
  layers.push_back(
      {{"mark", {{"type", "line"}, {"strokeWidth", 2}, {"clip", true}}}, {"encoding", line}});
  layers.push_back({{"mark",
                     {{"type", "point"},
                      {"filled", true},
                      {"size", symbols ? 50 : 90},
                      {"opacity", symbols ? 1 : 0},
                      {"clip", true}}},
                    {"encoding", point}});
  if (chart.rule) add_rule(layers, chart);
  Json spec = internal::chart(chart.height);
  spec["data"] = data;
  note_names(spec, chart.series);
  spec["transform"] = {{{"flatten", {"x", "y"}}}};
  spec["layer"] = layers;
  return internal::text(spec);
}

std::string heatmap(const Heatmap& map) {
  internal::check(map.values);
  internal::check(map.rows, map.values.rows);
  internal::check(map.columns, map.values.columns);
  if (map.range) internal::check(*map.range);
  if (map.aspect && (!(*map.aspect > 0) || !std::isfinite(*map.aspect)))
    refuse("chart", "aspect must be finite and above 0", *map.aspect);
  Json spec = internal::chart(map.height);
  if (map.aspect) {
    const double tall = *map.aspect * static_cast<double>(map.values.rows) /
                        static_cast<double>(map.values.columns);
    internal::set_shape(spec, tall);
  }
  spec["data"] = internal::cell_data(map.values.values);
  spec["transform"] =
      internal::cell_transform(map.rows, map.columns, map.values.rows, map.values.columns);
  spec["mark"] = internal::cell_mark();
  spec["encoding"] =
      internal::cell_encoding(map.rows, map.columns, map.values.rows, map.values.columns,
                              {map.title, map.colours, map.range}, map.values.values);
  return internal::text(spec);
}

std::string bars(const BarChart& chart) {
  if (chart.bars.empty()) refuse("chart", "there must be at least one bar", 0);
  double low = 0, high = 0;
  std::set<std::string> seen;
  Json rows = Json::array(), order = Json::array();
  bool own_colours = true;  // if so, a legend would repeat the names
  for (const Bar& bar : chart.bars) {
    if (!seen.insert(bar.name).second)
      refuse("chart", "names of bars must be unique", bar.name);
    own_colours = own_colours && colour_of(bar) == bar.name;
    order.push_back(bar.name);
    if (std::isfinite(bar.value)) {
      low = std::min(low, bar.value), high = std::max(high, bar.value);
    }
    rows.push_back(
        {{"name", bar.name}, {"colour", colour_of(bar)}, {"value", number(bar.value)}});
  }
  if (low == high) high = 1;
  // Space for the numbers at the ends, also on a phone.
  const double room = 0.24 * (high - low);
  const Json domain = {number(low < 0 ? low - room : 0), number(high > 0 ? high + room : 0)};
  Json colour = name_channel(chart.bars, chart.names);
  if (own_colours) colour["legend"] = nullptr;
  const Json x = {{"field", "value"},
                  {"type", "quantitative"},
                  {"title", internal::title(chart.title)},
                  {"scale", {{"domain", domain}, {"nice", false}}},
                  {"axis", {{"tickCount", 4}, {"format", ",.4~r"}, {"labelOverlap", true}}}};
  const Json y = {{"field", "name"},
                  {"type", "nominal"},
                  {"title", nullptr},
                  {"sort", nullptr},
                  {"scale", {{"domain", order}}},
                  {"axis", {{"ticks", false}, {"domain", false}, {"labelPadding", 8}}}};
  const Json value = {{"field", "value"}, {"type", "quantitative"}, {"format", chart.format}};
  Json tooltip = {{{"field", "name"}, {"type", "nominal"}, {"title", "name"}}, value};
  tooltip[1]["title"] = chart.title.empty() ? "value" : chart.title;
  const auto label = [&](const char* filter, const char* align, int dx) {
    return Json{{"transform", {{{"filter", filter}}}},
                {"mark", {{"type", "text"}, {"align", align}, {"dx", dx}}},
                {"encoding", {{"x", x}, {"y", y}, {"text", value}}}};
  };
  Json spec = internal::chart(40);
  note_names(spec, chart.bars);
  spec["height"] = 30 * chart.bars.size();
  spec["data"] = {{"values", rows}};
  spec["layer"] = {
      {{"mark", {{"type", "bar"}, {"height", {{"band", 0.7}}}, {"cornerRadiusEnd", 2}}},
       {"encoding", {{"x", x}, {"y", y}, {"color", colour}, {"tooltip", tooltip}}}},
      label("isValid(datum.value) && datum.value >= 0", "left", 4),
      label("isValid(datum.value) && datum.value < 0", "right", -4)};
  return internal::text(spec);
}

}  // namespace gnomon::plot
