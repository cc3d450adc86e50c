#include "src/plot/names.h"

#include <algorithm>
#include <set>

namespace gnomon::plot::internal {

Json chosen(const Json& names, std::span<const std::string> wanted) {
  const std::set<std::string> all(wanted.begin(), wanted.end());
  Json some = Json::array();
  for (const Json& name : names)
    if (all.contains(name.get<std::string>())) some.push_back(name);
  return some;
}

Json name_channel(std::span<const std::string> used, std::vector<std::string> names) {
  std::set<std::string> known(names.begin(), names.end());
  for (const std::string& name : used)
    if (known.insert(name).second) names.push_back(name);
  const Json in_use = chosen(names, used);
  Json legend;  // null: a single name needs no legend
  if (in_use.size() > 1)
    legend = {{"orient", "bottom"}, {"values", in_use}, {"symbolOpacity", 1}};
  return {{"field", "colour"},
          {"type", "nominal"},
          {"title", nullptr},
          {"scale", {{"domain", names}}},
          {"legend", legend}};
}

Json shapes(const Json& colour) {
  // The default symbols of Vega, in its order. Ten colours and eight symbols repeat together
  // after 40 names, so the next 40 names have the next symbol.
  constexpr const char* symbols[] = {"circle",         "square",       "cross",
                                     "diamond",        "triangle-up",  "triangle-down",
                                     "triangle-right", "triangle-left"};
  Json channel = colour, range = Json::array();
  for (std::size_t i = 0; i < colour["scale"]["domain"].size(); ++i)
    range.push_back(symbols[(i + i / 40) % 8]);
  channel["scale"]["range"] = range;
  return channel;
}

void note_names(Json& spec, std::span<const std::string> names) {
  std::size_t letters = 0;
  for (const std::string& name : names) letters = std::max(letters, name.size());
  notes(spec)["letters"] = letters;
}

}  // namespace gnomon::plot::internal
