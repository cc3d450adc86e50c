#include "gnomon/plot/chart.h"

#include <algorithm>
#include <cmath>

#include "gnomon/error.h"
#include "src/plot/names.h"
#include "src/plot/spec.h"

namespace gnomon::plot {
namespace {

using internal::Json;
using internal::number;
using internal::place;

constexpr std::size_t most_symbols = 40;  // points per line; more symbols would hide the line
constexpr std::size_t few_symbols = 10;   // symbols of a longer line
constexpr std::size_t most_names = 10;    // names that colours alone distinguish

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

const std::string& colour_of(const Series& series) {
  return series.colour.empty() ? series.name : series.colour;
}
std::vector<std::string> colours_of(const std::vector<Series>& all) {
  std::vector<std::string> names;
  for (const Series& series : all) names.push_back(colour_of(series));
  return names;
}

void check(const LineChart& chart) {
  if (chart.series.empty()) refuse("chart", "there must be at least one series", 0);
  for (const Series& series : chart.series) {
    check_size(series, series.y, "y");
    if (series.low.empty() && series.high.empty()) continue;
    check_size(series, series.low, "low");
    check_size(series, series.high, "high");
  }
  for (const std::string& name : chart.selected)
    if (std::none_of(chart.series.begin(), chart.series.end(),
                     [&](const Series& series) { return colour_of(series) == name; }))
      refuse("chart", "selected must contain names of series", name);
  check(chart.x);
  check(chart.y);
  if (chart.rule && !std::isfinite(chart.rule->x))
    refuse("chart", "x of a rule must be finite", chart.rule->x);
}

// The names that are drawn at first.
Json selection(const LineChart& chart, const Json& names) {
  return chart.selected.empty() ? names : internal::chosen(names, chart.selected);
}

// Opacity of a mark: `opacity`, and a fifth of it while another name is in focus.
Json focus(double opacity) {
  return {
      {"condition", {{"test", "focus != '' && focus != datum.colour"}, {"value", opacity / 5}}},
      {"value", opacity}};
}

// Keeps few points of each series, at other places for other series.
Json few_of(std::size_t longest) {
  const std::string step = std::to_string((longest + few_symbols - 1) / few_symbols);
  const std::string start = "(3 * datum.series) % " + step;
  return Json::array(
      {{{"window", {{{"op", "row_number"}, {"as", "point"}}}}, {"groupby", {"series"}}},
       {{"filter", "isValid(datum.y) && datum.point % " + step + " == " + start}}});
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

// Horizontal place of a rule, 0 to 1. Its label is on the side with more space.
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
  std::size_t longest = 0;
  for (const Series& series : chart.series) longest = std::max(longest, series.x.size());
  const bool symbols = longest <= most_symbols;
  const bool bands = std::any_of(chart.series.begin(), chart.series.end(),
                                 [](auto& series) { return !series.low.empty(); });
  const std::vector<std::string> used = colours_of(chart.series);
  Json colour = internal::name_channel(used, chart.names);
  const Json names = internal::chosen(colour["scale"]["domain"], used);
  const bool selectable = !chart.selected.empty() || names.size() > most_names;
  if (selectable && names.size() > 1) colour["legend"]["values"] = selection(chart, names);
  const Json detail = {{"field", "series"}, {"type", "nominal"}};
  Json x = axis_channel(chart.x, "x");
  Json y = axis_channel(chart.y, "y");
  const Json data = series_data(chart, false);
  if (data["values"].empty())  // an empty chart has no range
    for (Json* channel : {&x, &y}) (*channel)["scale"].emplace("domain", Json{1, 2});
  if (symbols) x["scale"]["padding"] = 8;
  Json steps = Json::array();
  if (selectable) steps.push_back({{"filter", "indexof(shown, datum.colour) >= 0"}});
  Json layers = Json::array();
  const auto add_layer = [&](Json layer, double opacity) {
    if (selectable && opacity > 0) layer["encoding"]["opacity"] = focus(opacity);
    layers.push_back(std::move(layer));
  };
  if (bands) {
    Json low = y;
    low["field"] = "low";
    Json transform = steps;
    transform.push_back({{"flatten", {"x", "low", "high"}}});
    add_layer({{"data", series_data(chart, true)},
               {"transform", transform},
               {"mark", {{"type", "area"}, {"opacity", 0.18}, {"clip", true}}},
               {"encoding",
                {{"x", x},
                 {"y", low},
                 {"y2", {{"field", "high"}}},
                 {"color", colour},
                 {"detail", detail}}}},
              0.18);
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
  Json point = {{"x", x}, {"y", y}, {"color", colour}};
  if (symbols || selectable) point["shape"] = internal::shapes(colour);
  const auto mark = [](int size, int opacity) {
    return Json{{"type", "point"},
                {"filled", true},
                {"size", size},
                {"opacity", opacity},
                {"clip", true}};
  };
  add_layer(
      {{"mark", {{"type", "line"}, {"strokeWidth", 2}, {"clip", true}}}, {"encoding", line}},
      1);
  if (!symbols && selectable)
    add_layer({{"transform", few_of(longest)}, {"mark", mark(50, 1)}, {"encoding", point}}, 1);
  point["tooltip"] = tooltip;
  add_layer({{"mark", mark(symbols ? 50 : 90, symbols ? 1 : 0)}, {"encoding", point}},
            symbols ? 1 : 0);
  if (chart.rule) add_rule(layers, chart);
  Json spec = internal::chart(chart.height);
  if (selectable) {
    spec["params"] = {{{"name", "shown"}, {"value", selection(chart, names)}},
                      {{"name", "focus"}, {"value", ""}}};
    internal::notes(spec)["selectable"] = names;
  }
  spec["data"] = data;
  internal::note_names(spec, used);
  internal::note_data(spec, internal::Data::series);
  steps.push_back({{"flatten", {"x", "y"}}});
  spec["transform"] = steps;
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
  internal::note_data(spec, internal::Data::cells);
  internal::notes(spec)["cells"] = internal::cell_layout(map.rows, map.columns, map.values.rows,
                                                         map.values.columns, map.title);
  spec["data"] = internal::cell_data(map.values.values);
  spec["transform"] =
      internal::cell_transform(map.rows, map.columns, map.values.rows, map.values.columns);
  spec["mark"] = internal::cell_mark();
  spec["encoding"] =
      internal::cell_encoding(map.rows, map.columns, map.values.rows, map.values.columns,
                              {map.title, map.colours, map.range}, map.values.values);
  return internal::text(spec);
}

}  // namespace gnomon::plot
