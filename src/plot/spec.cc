#include "src/plot/spec.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "gnomon/error.h"
#include "src/core/float_mode.h"

namespace gnomon::plot::internal {
namespace {

constexpr double largest_whole = 9007199254740992.0;  // 2^53: the limit of exact integers in
                                                      // JavaScript

std::string named(const std::string& text, const char* otherwise) {
  return text.empty() ? otherwise : text;
}

// The number or label of a row or column, as an expression of its index.
std::string label_of(const Cells& cells, const std::string& index) {
  if (cells.labels.empty())
    return place(cells.first).dump() + " + " + place(cells.step).dump() + " * " + index;
  return expression(cells.labels) + "[" + index + "]";
}

constexpr std::int64_t most_labels = 40;  // if there are more, overlapping labels are hidden

std::size_t longest(const std::vector<std::string>& labels) {
  std::size_t letters = 0;
  for (const std::string& label : labels) letters = std::max(letters, label.size());
  return letters;
}

Json axis_of(const Cells& cells, std::int64_t count) {
  Json axis = {{"grid", false}, {"labelOverlap", true}, {"tickCount", 10}};
  if (!cells.labels.empty()) {
    Json values = Json::array();
    for (std::int64_t i = 0; i < count; ++i) values.push_back(i);
    axis["values"] = values;
    axis["labelExpr"] = expression(cells.labels) + "[datum.value]";
    axis["ticks"] = false;
    if (count <= most_labels) axis["labelOverlap"] = false;
  } else {
    axis["tickMinStep"] = place(cells.step);
  }
  return axis;
}

Json channel(const char* field, const Cells& cells, std::int64_t count) {
  const double first = cells.labels.empty() ? cells.first : 0;
  const double step = cells.labels.empty() ? cells.step : 1;
  const Json domain = {first - step / 2, first + step * (static_cast<double>(count) - 0.5)};
  return {{"field", field},
          {"type", "quantitative"},
          {"title", title(cells.title)},
          {"scale", {{"domain", domain}, {"nice", false}, {"zero", false}}},
          {"axis", axis_of(cells, count)}};
}

}  // namespace

Json place(double value) {
  if (!std::isfinite(value)) return nullptr;
  if (value == std::floor(value) && std::abs(value) < largest_whole)
    return static_cast<std::int64_t>(value);
  return value;
}

Json number(double value) {
  if (!std::isfinite(value)) return nullptr;
  const gnomon::internal::DefaultFloatMode mode;
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.3e", value);
  return place(std::strtod(digits, nullptr));
}

Json numbers(std::span<const double> values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(number(value));
  return list;
}

Json cell_data(std::span<const double> values) {
  return {{"values", {{{"data", numbers(values)}}}}};
}

std::string grouped(double value) {
  const Json shown = number(value);
  if (value != std::floor(value) || std::abs(value) >= largest_whole) return shown.dump();
  const std::string digits = place(value).dump();
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const bool after_digit = i > 0 && digits[i - 1] != '-';
    if (after_digit && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

Json title(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json ends(const Range& range) { return {place(range.low), place(range.high)}; }

std::string expression(const Json& json) {
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

Json chart(int height) {
  check_height(height);
  return {{"$schema", "https://vega.github.io/schema/vega-lite/v5.json"},
          {"width", "container"},
          {"height", height},
          {"autosize", {{"type", "fit-x"}, {"contains", "padding"}}}};
}

std::string text(const Json& spec) {
  return spec.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void set_shape(Json& spec, double tall, const Multiples& multiples) {
  constexpr double highest = 640;  // px, so that a picture fits a screen
  const double widest = std::min(multiples.count > 1 ? 480.0 : 880.0, highest / tall);
  const double width = std::min(widest, multiples.count > 1 ? 220.0 : 480.0);
  spec.erase("width");
  spec.erase("height");
  spec.erase("autosize");
  Json& one = spec.contains("spec") ? spec["spec"] : spec;
  one["width"] = std::lround(width);
  one["height"] = std::max(1L, std::lround(width * tall));
  Json own = {{"tall", number(tall)}, {"widest", std::lround(widest)}, {"margin", 70}};
  if (multiples.count > 1) {
    own["count"] = multiples.count;
    own["narrowest"] = multiples.narrowest;
  }
  spec["usermeta"] = {{"gnomon", own}};
}

std::optional<std::pair<double, double>> extent(std::span<const double> values) {
  std::optional<std::pair<double, double>> found;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    if (!found) found.emplace(value, value);
    found->first = std::min(found->first, value);
    found->second = std::max(found->second, value);
  }
  return found;
}

void check(const Range& range) {
  if (!std::isfinite(range.low)) refuse("chart", "a range must be finite", range.low);
  if (!std::isfinite(range.high)) refuse("chart", "a range must be finite", range.high);
  if (range.low >= range.high)
    refuse("chart",
           "the upper end of a range must exceed its lower end " + number(range.low).dump(),
           range.high);
}

void check_cells(std::int64_t rows, std::int64_t columns) {
  if (rows < 1) refuse("chart", "a matrix must have rows", rows);
  if (columns < 1) refuse("chart", "a matrix must have columns", columns);
  if (rows > most_cells / columns)
    refuse("chart", "a picture must have at most " + std::to_string(most_cells) + " cells",
           std::to_string(rows) + " x " + std::to_string(columns));
}

void check(const Matrix& matrix) {
  check_cells(matrix.rows, matrix.columns);
  if (static_cast<std::int64_t>(matrix.values.size()) != matrix.rows * matrix.columns)
    refuse("chart",
           "a matrix must have " + std::to_string(matrix.rows * matrix.columns) + " values",
           static_cast<std::int64_t>(matrix.values.size()));
}

void check(const Cells& cells, std::int64_t count) {
  if (!cells.labels.empty() && static_cast<std::int64_t>(cells.labels.size()) != count)
    refuse("chart", "there must be " + std::to_string(count) + " labels or none",
           static_cast<std::int64_t>(cells.labels.size()));
  if (!std::isfinite(cells.first)) refuse("chart", "first must be finite", cells.first);
  if (!(cells.step > 0) || !std::isfinite(cells.step))
    refuse("chart", "step must be finite and above 0", cells.step);
}

void check_height(int height) {
  if (height < 40) refuse("chart", "height must be at least 40", height);
}

Json cell_transform(const Cells& rows, const Cells& columns, std::int64_t row_count,
                    std::int64_t column_count) {
  const auto edge = [](const Cells& cells, const char* index, double shift) {
    const double first = cells.labels.empty() ? cells.first : 0;
    const double step = cells.labels.empty() ? cells.step : 1;
    return place(first + shift * step).dump() + " + " + place(step).dump() + " * datum." +
           index;
  };
  const auto calculate = [](const std::string& formula, const char* as) {
    return Json{{"calculate", formula}, {"as", as}};
  };
  const std::string count = std::to_string(column_count);
  Json steps = Json::array();
  steps.push_back({{"flatten", {"data"}}});
  steps.push_back({{"window", {{{"op", "row_number"}, {"as", "cell"}}}}});
  steps.push_back({{"filter", "isValid(datum.data)"}});
  steps.push_back(calculate("(datum.cell - 1) % " + count, "column"));
  steps.push_back(calculate(
      "floor((datum.cell - 1) / " + count + ") % " + std::to_string(row_count), "row"));
  steps.push_back(calculate(edge(columns, "column", -0.5), "x0"));
  steps.push_back(calculate(edge(columns, "column", 0.5), "x1"));
  steps.push_back(calculate(edge(rows, "row", -0.5), "y0"));
  steps.push_back(calculate(edge(rows, "row", 0.5), "y1"));
  steps.push_back(calculate(label_of(rows, "datum.row"), "row_label"));
  steps.push_back(calculate(label_of(columns, "datum.column"), "column_label"));
  return steps;
}

Json& notes(Json& spec) {
  const auto found = spec.emplace("usermeta", Json::object()).first;
  return *found->emplace("gnomon", Json::object()).first;
}

void note_data(Json& spec, Data data) {
  notes(spec)["numbers"] = data == Data::series  ? "series"
                           : data == Data::cells ? "cells"
                                                 : "rows";
}

Json cell_layout(const Cells& rows, const Cells& columns, std::int64_t row_count,
                 std::int64_t column_count, const std::string& title,
                 const std::vector<std::string>& panels) {
  const auto side = [](const Cells& cells, std::int64_t count) {
    Json json = {{"title", plot::internal::title(cells.title)}, {"count", count}};
    if (cells.labels.empty())
      json["first"] = place(cells.first), json["step"] = place(cells.step);
    else
      json["labels"] = cells.labels;
    return json;
  };
  return {{"title", plot::internal::title(title)},
          {"rows", side(rows, row_count)},
          {"columns", side(columns, column_count)},
          {"panels", panels}};
}

Json cell_mark() {
  // Each cell overlaps the next slightly. Renderers antialias edges between pixels, and the
  // background would be visible there.
  return {{"type", "rect"}, {"clip", true}, {"x2Offset", 0.6}, {"y2Offset", 0.6}};
}

Json cell_encoding(const Cells& rows, const Cells& columns, std::int64_t row_count,
                   std::int64_t column_count, const Colouring& colouring,
                   std::span<const double> values) {
  // No colour scheme: a page sets its own for light and dark backgrounds, and the defaults of
  // Vega-Lite are used elsewhere.
  Json scale = {{"nice", false}, {"zero", false}};
  std::optional<Range> range = colouring.range;
  if (const auto found = extent(values); !range && found) {
    range = Range{found->first, found->second};
    if (colouring.colours == Colours::diverging) {
      range->high = std::max(std::abs(range->low), std::abs(range->high));
      range->low = -range->high;
    }
    if (range->low == range->high) range->low -= 0.5, range->high += 0.5;
  }
  if (!range) range = Range{};  // no finite value
  check(*range);
  scale["domain"] = {number(range->low), number(range->high)};
  scale["clamp"] = true;
  if (colouring.colours == Colours::diverging) scale["domainMid"] = 0;
  Json x = channel("x0", columns, column_count);
  if (longest(columns.labels) > 2) x["axis"]["labelAngle"] = -50;
  Json y = channel("y0", rows, row_count);
  y["scale"]["reverse"] = true;
  return {{"x", x},
          {"x2", {{"field", "x1"}}},
          {"y", y},
          {"y2", {{"field", "y1"}}},
          {"color",
           {{"field", "data"},
            {"type", "quantitative"},
            {"title", title(colouring.title)},
            {"scale", scale},
            {"legend",
             {{"orient", "bottom"}, {"direction", "horizontal"}, {"gradientLength", 220}}}}},
          {"tooltip", cell_tooltip(rows, columns, colouring.title)}};
}

Json cell_tooltip(const Cells& rows, const Cells& columns, const std::string& title) {
  return {{{"field", "row_label"}, {"title", named(rows.title, "row")}},
          {{"field", "column_label"}, {"title", named(columns.title, "column")}},
          {{"field", "data"},
           {"type", "quantitative"},
           {"format", ".4~r"},
           {"title", named(title, "value")}}};
}

}  // namespace gnomon::plot::internal
