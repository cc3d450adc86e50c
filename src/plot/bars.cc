#include <algorithm>
#include <cmath>
#include <set>

#include "gnomon/error.h"
#include "gnomon/plot/chart.h"
#include "src/plot/names.h"
#include "src/plot/spec.h"

namespace gnomon::plot {

using internal::Json;
using internal::number;

std::string bars(const BarChart& chart) {
  if (chart.bars.empty()) refuse("chart", "there must be at least one bar", 0);
  double low = 0, high = 0;
  std::set<std::string> seen;
  std::vector<std::string> colours;
  Json rows = Json::array(), order = Json::array();
  bool own_colours = true;  // if true, a legend would repeat the names
  for (const Bar& bar : chart.bars) {
    if (!seen.insert(bar.name).second)
      refuse("chart", "names of bars must be unique", bar.name);
    colours.push_back(bar.colour.empty() ? bar.name : bar.colour);
    own_colours = own_colours && colours.back() == bar.name;
    order.push_back(bar.name);
    if (std::isfinite(bar.value)) {
      low = std::min(low, bar.value), high = std::max(high, bar.value);
    }
    rows.push_back(
        {{"name", bar.name}, {"colour", colours.back()}, {"value", number(bar.value)}});
  }
  if (low == high) high = 1;
  // Space for the numbers at the ends, also on a phone.
  const double margin = 0.24 * (high - low);
  const Json domain = {number(low < 0 ? low - margin : 0),
                       number(high > 0 ? high + margin : 0)};
  Json colour = internal::name_channel(colours, chart.names);
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
  internal::note_names(spec, colours);
  internal::note_data(spec, internal::Data::rows);
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
