// The numbers of a spec as a table. The specs of chart.h and pictures.h have three kinds of
// data: series with the arrays x and y, cells with one array, and rows with one number per
// field.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "gnomon/error.h"
#include "gnomon/plot/page.h"
#include "src/core/json.h"
#include "src/plot/spec.h"

namespace gnomon::plot {
namespace {

using internal::Json;

constexpr std::size_t most_rows = 24, most_columns = 8, most_items = 100;

// Indices from 0 to `count` - 1 with even spacing, at most `most`, with the first and the last.
std::vector<std::size_t> sampled(std::size_t count, std::size_t most) {
  std::vector<std::size_t> indices;
  const std::size_t some = std::min(count, most);
  for (std::size_t i = 0; i < some; ++i)
    indices.push_back(some == 1 ? 0 : i * (count - 1) / (some - 1));
  return indices;
}

std::string shown(const Json& value) {
  if (value.is_null()) return "-";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string titled(const Json& channel, const char* otherwise) {
  const Json title = channel.value("title", Json());
  return title.is_string() ? title.get<std::string>() : otherwise;
}

// "24 of 512 rows." for each dimension that is sampled.
void note_sample(std::string& caption, std::size_t shown, std::size_t all, const char* what) {
  if (shown < all)
    caption += (caption.empty() ? "" : "; ") + std::to_string(shown) + " of " +
               std::to_string(all) + " " + what;
}

// The mark that has a tooltip, with its encoding.
const Json& described(const Json& spec) {
  if (spec.contains("layer"))
    for (const Json& layer : spec.at("layer"))
      if (layer.at("encoding").contains("tooltip")) return layer.at("encoding");
  return spec.at("encoding");
}

struct Line {
  std::string name;
  std::map<double, std::string> at;  // the text of y by x
};

// A band around y: "+- 0.02" if y is in the middle, up to the digits shown.
std::string band_text(const Json& y, double low, double high) {
  const double middle = y, half = 0.5 * (high - low);
  if (std::abs(0.5 * (low + high) - middle) <= 1e-3 * std::abs(middle))
    return " \u00b1 " + shown(internal::number(half));
  return " (" + shown(internal::number(low)) + " to " + shown(internal::number(high)) + ")";
}

std::vector<Line> lines_of(const Json& spec) {
  std::map<Json, std::map<double, std::pair<double, double>>> bands;  // by series and x
  if (spec.contains("layer") && spec.at("layer").at(0).contains("data"))
    for (const Json& row : spec.at("layer").at(0).at("data").at("values")) {
      if (!row.contains("low")) continue;
      for (std::size_t i = 0; i < row.at("x").size(); ++i)
        bands[row.at("series")][row.at("x").at(i)] = {row.at("low").at(i),
                                                      row.at("high").at(i)};
    }
  std::vector<Line> lines;
  for (const Json& row : spec.at("data").at("values")) {
    Line line{row.contains("name") ? shown(row.at("name")) : "head " + shown(row.at("head")),
              {}};
    for (std::size_t i = 0; i < row.at("x").size(); ++i) {
      const double x = row.at("x").at(i);
      const Json& y = row.at("y").at(i);
      if (y.is_null()) continue;
      line.at[x] = shown(y);
      if (!row.contains("series")) continue;
      const auto& band = bands[row.at("series")];
      if (const auto found = band.find(x); found != band.end())
        line.at[x] += band_text(y, found->second.first, found->second.second);
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

// Few series are columns, more are rows.
Table series_table(const Json& spec) {
  const std::vector<Line> lines = lines_of(spec);
  std::set<double> all;
  for (const Line& line : lines)
    for (const auto& [x, y] : line.at) all.insert(x);
  const std::vector<double> places(all.begin(), all.end());
  const bool across = lines.size() > most_columns;  // x from left to right
  const auto indices = sampled(places.size(), across ? most_columns : most_rows);
  const Json& encoding = described(spec);
  const std::string x_title = titled(encoding.at("x"), "x");
  const auto cell = [](const Line& line, double x) {
    const auto found = line.at.find(x);
    return found == line.at.end() ? muted("-") : Cell(found->second);
  };
  Table table;
  std::string sample;
  note_sample(sample, indices.size(), places.size(), "places");
  if (across) {
    const std::size_t names = std::min(lines.size(), most_items);
    note_sample(sample, names, lines.size(), "names");
    table.columns.push_back({"name"});
    for (const std::size_t i : indices)
      table.columns.push_back({shown(internal::place(places[i])), Align::number});
    for (std::size_t l = 0; l < names; ++l) {
      auto& row = table.rows.emplace_back();
      row.emplace_back(lines[l].name);
      for (const std::size_t i : indices) row.push_back(cell(lines[l], places[i]));
    }
  } else {
    table.columns.push_back({x_title, Align::number});
    for (const Line& line : lines) table.columns.push_back({line.name, Align::number});
    for (const std::size_t i : indices) {
      auto& row = table.rows.emplace_back();
      row.emplace_back(shown(internal::place(places[i])));
      for (const Line& line : lines) row.push_back(cell(line, places[i]));
    }
  }
  table.caption = titled(encoding.at("y"), "y") + " by " + x_title +
                  (sample.empty() ? "" : " (" + sample + ")");
  return table;
}

// The number or label of a row or column of cells.
std::string label(const Json& cells, std::size_t index) {
  if (cells.contains("labels")) return shown(cells.at("labels").at(index));
  return shown(internal::number(cells.at("first").get<double>() +
                                cells.at("step").get<double>() * static_cast<double>(index)));
}

Table cell_table(const Json& spec) {
  const Json& cells = spec.at("usermeta").at("gnomon").at("cells");
  const Json& values = spec.at("data").at("values").at(0).at("data");
  const std::size_t rows = cells.at("rows").at("count"),
                    columns = cells.at("columns").at("count"),
                    panels = cells.at("panels").size();
  const auto down =
      sampled(rows, std::max<std::size_t>(6, most_rows / std::max<std::size_t>(1, panels)));
  const auto across = sampled(columns, most_columns);
  Table table;
  if (panels > 1) table.columns.push_back({"panel"});
  table.columns.push_back({titled(cells.at("rows"), "row"),
                           cells.at("rows").contains("labels") ? Align::text : Align::number});
  for (const std::size_t c : across)
    table.columns.push_back({label(cells.at("columns"), c), Align::number});
  for (std::size_t p = 0; p < panels; ++p)
    for (const std::size_t r : down) {
      auto& row = table.rows.emplace_back();
      if (panels > 1) row.emplace_back(shown(cells.at("panels").at(p)));
      row.emplace_back(label(cells.at("rows"), r));
      for (const std::size_t c : across)
        row.emplace_back(shown(values.at((p * rows + r) * columns + c)));
    }
  std::string sample;
  note_sample(sample, down.size(), rows, "rows");
  note_sample(sample, across.size(), columns, "columns");
  table.caption = titled(cells, "value") +
                  "; columns: " + titled(cells.at("columns"), "column") +
                  (sample.empty() ? "" : " (" + sample + ")");
  return table;
}

// Rows with the fields of the tooltip.
Table row_table(const Json& spec) {
  const Json& fields = described(spec).at("tooltip");
  const Json& rows = spec.at("data").at("values");
  Table table;
  for (const Json& field : fields)
    table.columns.push_back(
        {titled(field, "value"), gnomon::internal::is_text(field.at("type"), "quantitative")
                                     ? Align::number
                                     : Align::text});
  for (const std::size_t i : sampled(rows.size(), most_items)) {
    auto& row = table.rows.emplace_back();
    for (const Json& field : fields)
      row.emplace_back(shown(rows.at(i).at(field.at("field").get<std::string>())));
  }
  note_sample(table.caption, table.rows.size(), rows.size(), "rows");
  return table;
}

}  // namespace

std::optional<Table> numbers(std::string_view text) {
  const Json spec = gnomon::internal::parse_json<Json>(text, "page", "the spec of a chart");
  try {
    const Json own = spec.is_object() ? spec.value("usermeta", Json::object()) : Json();
    const Json kind =
        own.is_object() ? own.value("gnomon", Json::object()).value("numbers", Json()) : own;
    if (gnomon::internal::is_text(kind, "cells")) return cell_table(spec);
    if (gnomon::internal::is_text(kind, "series")) return series_table(spec);
    if (gnomon::internal::is_text(kind, "rows")) return row_table(spec);
  } catch (const Json::exception& error) {
    refuse("page", "a spec with numbers must be as the functions of chart.h write it",
           error.what());
  }
  return {};
}

}  // namespace gnomon::plot
