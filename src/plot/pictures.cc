#include "gnomon/plot/pictures.h"

#include <algorithm>
#include <cmath>

#include "gnomon/error.h"
#include "src/plot/spec.h"

namespace gnomon::plot {
namespace {

using internal::Json;
using internal::number;
using internal::place;

void check_size(const std::vector<double>& values, std::size_t count, const char* what) {
  if (values.size() != count)
    refuse(
        "pictures",
        std::string(what) + " must have one value per distance (" + std::to_string(count) + ")",
        static_cast<std::int64_t>(values.size()));
}

// Heat maps of equal shape side by side, with one colour scale. `titles`: one per heat map.
struct Panels {
  std::int64_t rows = 0, columns = 0;
  std::vector<double> values = {};  // [panels, rows, columns]
  std::vector<std::string> titles = {};
  Cells row_cells, column_cells;
  internal::Colouring colouring;
  int narrowest = 0;  // minimum width, in px
  // If given, the colours of the last panel, whose values have another scale.
  std::optional<internal::Colouring> last = {};
};
Json panels(const Panels& panels) {
  const auto count = static_cast<std::int64_t>(panels.titles.size());
  internal::check_cells(panels.rows * count, panels.columns);
  internal::check(panels.row_cells, panels.rows);
  internal::check(panels.column_cells, panels.columns);
  Json transform = internal::cell_transform(panels.row_cells, panels.column_cells, panels.rows,
                                            panels.columns);
  const std::string index =
      "floor((datum.cell - 1) / " + std::to_string(panels.rows * panels.columns) + ")";
  transform.push_back({{"calculate", index}, {"as", "panel"}});
  Json order = Json::array();
  for (std::int64_t i = 0; i < count; ++i) order.push_back(i);
  const Json header = {{"title", nullptr},
                       {"labelExpr", internal::expression(panels.titles) + "[datum.value]"},
                       {"labelAnchor", "start"}};
  Json spec = internal::chart(40);
  spec["data"] = internal::cell_data(panels.values);
  spec["transform"] = transform;
  spec["facet"] = {
      {"field", "panel"}, {"type", "ordinal"}, {"sort", order}, {"header", header}};
  spec["columns"] = count;
  spec["spacing"] = 24;
  const std::span<const double> values(panels.values);
  const auto cells = [&](const internal::Colouring& colouring, std::span<const double> range) {
    return Json{
        {"mark", internal::cell_mark()},
        {"encoding", internal::cell_encoding(panels.row_cells, panels.column_cells, panels.rows,
                                             panels.columns, colouring, range)}};
  };
  if (panels.last) {
    const std::size_t one = values.size() / panels.titles.size();
    Json others = cells(panels.colouring, values.first(values.size() - one)),
         last = cells(*panels.last, values.last(one));
    const std::string test = "datum.panel == " + std::to_string(count - 1);
    others["transform"] = {{{"filter", "!(" + test + ")"}}};
    last["transform"] = {{{"filter", test}}};
    // Another channel than color, so that each scale has one legend for all panels.
    last["encoding"]["fill"] = last["encoding"]["color"];
    last["encoding"].erase("color");
    spec["spec"] = {{"layer", {others, last}}};
  } else {
    spec["spec"] = cells(panels.colouring, values);
  }
  internal::set_shape(spec,
                      static_cast<double>(panels.rows) / static_cast<double>(panels.columns),
                      {.count = count, .narrowest = panels.narrowest});
  internal::note_data(spec, internal::Data::cells);
  internal::notes(spec)["cells"] =
      internal::cell_layout(panels.row_cells, panels.column_cells, panels.rows, panels.columns,
                            panels.colouring.title, panels.titles);
  return spec;
}

}  // namespace

std::string table_picture(const TablePicture& picture) {
  return heatmap({.values = picture.values,
                  .rows = picture.rows,
                  .columns = picture.columns,
                  .colours = Colours::diverging});
}

std::string similarity_picture(const SimilarityPicture& picture) {
  if (picture.values.rows != picture.values.columns)
    refuse(
        "pictures", "similarity must be square",
        std::to_string(picture.values.rows) + " x " + std::to_string(picture.values.columns));
  return heatmap({.values = picture.values,
                  .rows = picture.positions,
                  .columns = picture.positions,
                  .title = picture.title,
                  .range = picture.range,
                  .aspect = 1.0});
}

std::string grid_picture(const GridPicture& picture) {
  if (picture.chosen.empty()) refuse("pictures", "chosen must have at least one cell", 0);
  Panels all{.rows = picture.height,
             .columns = picture.width,
             .row_cells = {.title = "row"},
             .column_cells = {.title = "column"},
             .colouring = {picture.title, Colours::sequential, picture.range},
             .narrowest = 250};
  Json marks = Json::array();
  for (std::size_t i = 0; i < picture.chosen.size(); ++i) {
    const GridPicture::Chosen& chosen = picture.chosen[i];
    const std::string cell =
        "row " + std::to_string(chosen.y) + ", column " + std::to_string(chosen.x);
    if (chosen.y < 0 || chosen.y >= picture.height || chosen.x < 0 || chosen.x >= picture.width)
      refuse("pictures", "a chosen cell must be in the grid", cell);
    internal::check(Matrix(picture.height, picture.width, chosen.similarity));
    all.values.insert(all.values.end(), chosen.similarity.begin(), chosen.similarity.end());
    all.titles.push_back(cell);
    marks.push_back("datum.panel == " + std::to_string(i) +
                    " && datum.row == " + std::to_string(chosen.y) +
                    " && datum.column == " + std::to_string(chosen.x));
  }
  Json spec = panels(all);
  // The cross is at the centre of its cell, which is available only in the datum of the cell.
  std::string here;
  for (const Json& mark : marks)
    here += (here.empty() ? "(" : " || (") + mark.get<std::string>() + ")";
  const Json cross = {{"transform", {{{"filter", here}}}},
                      {"mark",
                       {{"type", "point"},
                        {"shape", "cross"},
                        {"size", 90},
                        {"filled", true},
                        {"color", "#fff"},
                        {"stroke", "#000"},
                        {"strokeWidth", 1}}},
                      {"encoding",
                       {{"x", {{"field", "column"}, {"type", "quantitative"}}},
                        {"y", {{"field", "row"}, {"type", "quantitative"}}}}}};
  Json cells = {{"mark", spec["spec"]["mark"]}, {"encoding", spec["spec"]["encoding"]}};
  spec["spec"].erase("mark");
  spec["spec"].erase("encoding");
  spec["spec"]["layer"] = Json::array({cells, cross});
  return internal::text(spec);
}

std::string rotary_picture(const RotaryPicture& picture) {
  const std::size_t count = picture.distances.size();
  LineChart chart{.x = {.title = "distance (tokens)"}, .y = {.title = picture.title}};
  chart.names = {"all ones"};
  for (const RotaryPicture::Sample& sample : picture.samples) {
    check_size(sample.mean, count, "mean");
    check_size(sample.low, count, "low");
    check_size(sample.high, count, "high");
    chart.series.push_back({.name = sample.name,
                            .x = picture.distances,
                            .y = sample.mean,
                            .low = sample.low,
                            .high = sample.high});
  }
  if (!picture.all_ones.empty()) {
    check_size(picture.all_ones, count, "all_ones");
    chart.series.push_back({.name = "all ones", .x = picture.distances, .y = picture.all_ones});
  }
  if (chart.series.empty()) refuse("pictures", "there must be scores to draw", 0);
  return lines(chart);
}

std::string wavelength_picture(const WavelengthPicture& picture) {
  if (picture.specs.empty()) refuse("pictures", "there must be at least one spec", 0);
  if (!(picture.context > 0) || !std::isfinite(picture.context))
    refuse("pictures", "context must be finite and above 0", picture.context);
  const std::string complete =
                        "full rotation in " + internal::grouped(picture.context) + " tokens",
                    incomplete = "no " + complete;
  Json rows = Json::array(), names = Json::array();
  for (const WavelengthPicture::Spec& spec : picture.specs) {
    names.push_back(spec.name);
    for (std::size_t pair = 0; pair < spec.wavelengths.size(); ++pair) {
      const double length = spec.wavelengths[pair];
      if (!(length > 0)) refuse("pictures", "a wavelength must be above 0", length);
      rows.push_back({{"name", spec.name},
                      {"pair", pair},
                      {"length", number(length)},
                      {"turns", number(picture.context / length)},
                      {"kind", length > picture.context ? incomplete : complete}});
    }
  }
  // Ticks at powers of ten only. The default lines between them hide the points.
  Json decades = Json::array();
  for (int power = -3; power <= 12; ++power) decades.push_back(place(std::pow(10.0, power)));
  const Json none;
  const Json x = {{"field", "pair"},
                  {"type", "quantitative"},
                  {"title", "pair"},
                  {"scale", {{"nice", false}, {"padding", 8}}},
                  {"axis", {{"tickMinStep", 1}, {"labelOverlap", true}}}};
  const Json y = {
      {"field", "length"},
      {"type", "quantitative"},
      {"title", "wavelength (tokens)"},
      {"scale", {{"type", "log"}, {"base", 10}, {"padding", 8}, {"nice", false}}},
      {"axis", {{"format", ",.12~g"}, {"values", decades}, {"labelOverlap", true}}}};
  Json shape = {{"field", "name"},
                {"type", "nominal"},
                {"title", none},
                {"scale", {{"domain", names}}},
                {"legend", {{"orient", "bottom"}}}};
  if (picture.specs.size() == 1) shape["legend"] = none;
  const Json colour = {{"field", "kind"},
                       {"type", "nominal"},
                       {"title", none},
                       {"scale", {{"domain", {complete, incomplete}}}},
                       {"legend", {{"orient", "bottom"}}}};
  const Json tooltip = {{{"field", "name"}, {"type", "nominal"}, {"title", "encoding"}},
                        {{"field", "pair"}, {"type", "quantitative"}, {"title", "pair"}},
                        {{"field", "length"},
                         {"type", "quantitative"},
                         {"title", "wavelength"},
                         {"format", ",.4~r"}},
                        {{"field", "turns"},
                         {"type", "quantitative"},
                         {"title", "rotations"},
                         {"format", ",.4~r"}}};
  Json levels = Json::array({{{"context", place(picture.context)}, {"label", picture.label}}});
  for (const WavelengthPicture::Level& other : picture.others) {
    if (!(other.context > 0) || !std::isfinite(other.context))
      refuse("pictures", "context must be finite and above 0", other.context);
    levels.push_back({{"context", place(other.context)}, {"label", other.label}});
  }
  const Json level = {{"field", "context"}, {"type", "quantitative"}};
  Json layers = {
      {{"mark", {{"type", "point"}, {"filled", true}, {"size", 55}, {"opacity", 1}}},
       {"encoding",
        {{"x", x}, {"y", y}, {"color", colour}, {"shape", shape}, {"tooltip", tooltip}}}},
      {{"data", {{"values", levels}}},
       {"mark", {{"type", "rule"}, {"strokeDash", {2, 3}}}},
       {"encoding", {{"y", level}}}}};
  // At the left there are no points. The lines may be close to each other: the label of the
  // highest is above its line, the others are below theirs.
  std::stable_sort(levels.begin(), levels.end(), [](const Json& a, const Json& b) {
    return a["context"].get<double>() > b["context"].get<double>();
  });
  for (std::size_t i = 0; i < levels.size(); ++i) {
    layers.push_back(
        {{"data", {{"values", Json::array({levels[i]})}}},
         {"transform",
          {{{"calculate", "datum.label + ' ' + format(datum.context, ',')"}, {"as", "label"}}}},
         {"mark",
          {{"type", "text"},
           {"align", "left"},
           {"baseline", i > 0 ? "top" : "bottom"},
           {"dx", 4},
           {"dy", i > 0 ? 4 : -4}}},
         {"encoding",
          {{"x", {{"value", 0}}},
           {"y", level},
           {"text", {{"field", "label"}, {"type", "nominal"}}}}}});
  }
  Json spec = internal::chart(320);
  internal::notes(spec)["letters"] = incomplete.size();
  internal::note_data(spec, internal::Data::rows);
  spec["data"] = {{"values", rows}};
  spec["layer"] = layers;
  return internal::text(spec);
}

std::string bias_picture(const BiasPicture& picture) {
  internal::check(picture.values);
  const std::size_t count = picture.distances.size();
  if (static_cast<std::size_t>(picture.values.columns) != count)
    refuse("pictures",
           "values must have a column for each of " + std::to_string(count) + " distances",
           picture.values.columns);
  Json x = Json::array(), rows = Json::array();
  for (const double distance : picture.distances) {
    if (!std::isfinite(distance)) refuse("pictures", "a distance must be finite", distance);
    x.push_back(place(distance));
  }
  const std::span<const double> values(picture.values.values);
  for (std::int64_t head = 0; head < picture.values.rows; ++head)
    rows.push_back({{"head", head},
                    {"x", x},
                    {"y", internal::numbers(
                              values.subspan(static_cast<std::size_t>(head) * count, count))}});
  // There may be many heads, and they are ordered, so a colour ramp is better than ten
  // categorical colours.
  const Json colour = {{"field", "head"},
                       {"type", "quantitative"},
                       {"title", "head"},
                       {"scale",
                        {{"nice", false},
                         {"zero", false},
                         {"domain", {0, std::max<std::int64_t>(1, picture.values.rows - 1)}}}},
                       {"legend",
                        {{"orient", "bottom"},
                         {"direction", "horizontal"},
                         {"gradientLength", 220},
                         {"tickMinStep", 1},
                         {"format", "d"}}}};
  const Json across = {{"field", "x"},
                       {"type", "quantitative"},
                       {"title", "distance (tokens)"},
                       {"scale", {{"nice", false}, {"zero", false}}},
                       {"axis", {{"labelOverlap", true}, {"tickCount", 6}}}};
  const Json up = {{"field", "y"},
                   {"type", "quantitative"},
                   {"title", internal::title(picture.title)},
                   {"scale", {{"zero", true}}},
                   {"axis", {{"tickCount", 6}}}};
  const Json tooltip = {{{"field", "head"}, {"type", "quantitative"}, {"title", "head"}},
                        {{"field", "x"}, {"type", "quantitative"}, {"title", "distance"}},
                        {{"field", "y"},
                         {"type", "quantitative"},
                         {"title", picture.title.empty() ? "bias" : picture.title},
                         {"format", ",.4~r"}}};
  Json spec = internal::chart(320);
  spec["data"] = {{"values", rows}};
  internal::notes(spec)["letters"] = 3;  // length of a head number
  internal::note_data(spec, internal::Data::series);
  spec["transform"] = {{{"flatten", {"x", "y"}}}};
  spec["mark"] = {{"type", "line"}, {"point", "transparent"}, {"strokeWidth", 1.5}};
  spec["encoding"] = {{"x", across},
                      {"y", up},
                      {"color", colour},
                      {"detail", {{"field", "head"}, {"type", "nominal"}}},
                      {"tooltip", tooltip}};
  return internal::text(spec);
}

std::string panels_picture(const PanelsPicture& picture) {
  if (picture.panels.empty()) refuse("pictures", "there must be at least one panel", 0);
  const Matrix& first = picture.panels.front().values;
  Panels all{.rows = first.rows,
             .columns = first.columns,
             .row_cells = picture.rows,
             .column_cells = picture.columns,
             .colouring = {picture.title, picture.colours, {}},
             .narrowest = 250};
  for (const auto& [title, values] : picture.panels) {
    internal::check(values);
    if (values.rows != first.rows || values.columns != first.columns)
      refuse("pictures",
             "panels must have the same shape (" + std::to_string(first.rows) + " x " +
                 std::to_string(first.columns) + ")",
             std::to_string(values.rows) + " x " + std::to_string(values.columns));
    all.titles.push_back(title);
    all.values.insert(all.values.end(), values.values.begin(), values.values.end());
  }
  return internal::text(panels(all));
}

std::string bias_grid_picture(const BiasGridPicture& picture) {
  const std::int64_t height = picture.height, width = picture.width;
  if (height < 1 || width < 1 || height > 32767 || width > 32767)
    refuse("pictures", "sides of a window must be 1 to 32767",
           std::to_string(height) + " x " + std::to_string(width));
  internal::check(picture.values);
  if (picture.values.columns != (2 * height - 1) * (2 * width - 1))
    refuse("pictures",
           "values must have a column for each of " +
               std::to_string((2 * height - 1) * (2 * width - 1)) + " offsets",
           picture.values.columns);
  PanelsPicture heads{
      .panels = {},
      .rows = {.title = "row of query - key", .first = static_cast<double>(1 - height)},
      .columns = {.title = "column of query - key", .first = static_cast<double>(1 - width)},
      .title = picture.title,
      .colours = Colours::diverging};
  auto next = picture.values.values.begin();
  for (std::int64_t head = 0; head < picture.values.rows; ++head) {
    const auto end = next + picture.values.columns;
    heads.panels.push_back(
        {"head " + std::to_string(head), Matrix(2 * height - 1, 2 * width - 1, {next, end})});
    next = end;
  }
  return panels_picture(heads);
}

std::string attention_picture(const AttentionPicture& picture) {
  internal::check(picture.without);
  internal::check(picture.with);
  if (picture.without.rows != picture.with.rows ||
      picture.without.columns != picture.with.columns)
    refuse("pictures",
           "both weights must have the same shape (" + std::to_string(picture.without.rows) +
               " x " + std::to_string(picture.without.columns) + ")",
           std::to_string(picture.with.rows) + " x " + std::to_string(picture.with.columns));
  Panels three;
  three.rows = picture.without.rows;
  three.columns = picture.without.columns;
  three.values = picture.without.values;
  three.titles = {picture.without_title, picture.with_title, picture.difference_title};
  three.row_cells = picture.queries;
  three.column_cells = picture.keys;
  three.colouring.title = "weight";
  three.narrowest = 280;
  three.last.emplace();
  three.last->title = "difference";
  three.last->colours = Colours::diverging;
  const std::vector<double>&without = picture.without.values, &with = picture.with.values;
  three.values.insert(three.values.end(), with.begin(), with.end());
  for (std::size_t i = 0; i < with.size(); ++i) three.values.push_back(with[i] - without[i]);
  return internal::text(panels(three));
}

}  // namespace gnomon::plot
