#include "apps/cli/inspect_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "gnomon/analysis/decay.h"
#include "gnomon/analysis/spectrum.h"
#include "gnomon/plot/page.h"
#include "gnomon/plot/pictures.h"

namespace gnomon::cli {
namespace {

using model::LayerGroup;
using std::int64_t;

// The context the frequencies were first trained for, before they were scaled.
int64_t original_length(const RopeScaling& scaling, int64_t otherwise) {
  if (const auto* yarn = std::get_if<YarnScaling>(&scaling)) return yarn->original_length;
  if (const auto* llama3 = std::get_if<Llama3Scaling>(&scaling)) return llama3->original_length;
  if (const auto* longrope = std::get_if<LongRopeScaling>(&scaling))
    return longrope->original_length;
  return otherwise;
}

std::string unfinished_text(const char* what, const std::vector<double>& frequencies,
                            int64_t length) {
  return fmt::format("{}{} of {} pairs never complete a turn within {} positions. ", what,
                     analysis::unfinished(frequencies, length).size(), frequencies.size(),
                     length);
}

// Over a grid the frequencies follow from the base otherwise, and nothing scales them.
std::vector<double> unscaled(const ScaledRotary& rotary, const RotarySchedule& scaled) {
  return std::holds_alternative<NoScaling>(rotary.scaling) ? scaled.inv_freq
                                                           : inverse_frequencies(rotary.rotary);
}

plot::Figure wavelengths(const std::string& id, const ScaledRotary& rotary,
                         const RotarySchedule& scaled, int64_t trained, int64_t asked) {
  const std::vector<double> plain = unscaled(rotary, scaled);
  const int64_t original = original_length(rotary.scaling, trained);
  const bool changed = plain != scaled.inv_freq;
  plot::WavelengthPicture picture;
  picture.context = static_cast<double>(trained);
  picture.label = "trained";
  std::string caption;
  if (changed) {
    picture.specs.push_back({.name = "unscaled", .wavelengths = analysis::wavelengths(plain)});
    caption = unfinished_text("Unscaled, ", plain, original);
  }
  picture.specs.push_back({.name = changed ? "scaled" : "as trained",
                           .wavelengths = analysis::wavelengths(scaled.inv_freq)});
  caption += unfinished_text(changed ? "Scaled, " : "", scaled.inv_freq, trained);
  if (original != trained)
    picture.others.push_back(
        {.context = static_cast<double>(original), .label = "before scaling"});
  if (asked != trained) {
    picture.others.push_back({.context = static_cast<double>(asked), .label = "asked"});
    caption += unfinished_text("Asked: ", scaled.inv_freq, asked);
  }
  caption += "Beyond the trained context such a pair meets angles that no training has shown.";
  return {.id = id,
          .title = "Wavelengths",
          .caption = caption,
          .spec = plot::wavelength_picture(picture)};
}

plot::Figure slowing(const std::string& id, const ScaledRotary& rotary,
                     const RotarySchedule& scaled) {
  const std::vector<double> plain = unscaled(rotary, scaled);
  plot::Series ratio{.name = "scaled / unscaled", .x = {}, .y = {}};
  for (std::size_t i = 0; i < plain.size(); ++i) {
    ratio.x.push_back(static_cast<double>(i));
    ratio.y.push_back(scaled.inv_freq[i] / plain[i]);
  }
  const auto [least, most] = std::minmax_element(ratio.y.begin(), ratio.y.end());
  const double top = *most > 1 ? *most * 1.05 : 1.05;
  return {.id = id,
          .title = "Frequencies, scaled by unscaled",
          .caption = fmt::format("1: the pair turns as it was trained. From {:.4g} to {:.4g}.",
                                 *least, *most),
          .spec = plot::lines({.series = {ratio},
                               .x = {.title = "pair"},
                               .y = {.title = "ratio", .range = plot::Range{0, top}},
                               .height = 220})};
}

// Distances that a logarithmic axis shows evenly.
std::vector<int64_t> spread(int64_t length) {
  constexpr double points = 300;
  std::vector<int64_t> distances;
  for (double at = 1; at < static_cast<double>(length);
       at *= std::pow(static_cast<double>(length), 1 / points)) {
    const auto distance = static_cast<int64_t>(at);
    if (distances.empty() || distance > distances.back()) distances.push_back(distance);
  }
  return distances;
}

plot::Figure decay(const std::string& id, const ScaledRotary& rotary,
                   const RotarySchedule& scaled, int64_t trained, int64_t asked) {
  const auto distances = spread(std::max(trained, asked));
  const auto series = [&](const char* name, const std::vector<double>& frequencies) {
    plot::Series line{.name = name, .x = {}, .y = {}};
    for (const int64_t d : distances) {
      double sum = 0;
      for (const double f : frequencies) sum += std::cos(static_cast<double>(d) * f);
      line.x.push_back(static_cast<double>(d));
      line.y.push_back(sum / static_cast<double>(frequencies.size()));
    }
    return line;
  };
  std::vector<plot::Series> lines;
  const std::vector<double> plain = unscaled(rotary, scaled);
  const bool changed = plain != scaled.inv_freq;
  if (changed) lines.push_back(series("unscaled", plain));
  lines.push_back(series(changed ? "scaled" : "as trained", scaled.inv_freq));
  return {.id = id,
          .title = "Score by distance",
          .caption =
              "Of a query and a key whose elements are all one, by its value at distance "
              "0: the fall that the frequencies bring by themselves.",
          .spec = plot::lines({.series = lines,
                               .x = {.title = "distance (tokens)", .scale = plot::Scale::log2},
                               .y = {.title = "score"},
                               .rule = plot::Rule{static_cast<double>(trained), "trained"},
                               .height = 260})};
}

plot::Table pairs(const ScaledRotary& rotary, const RotarySchedule& scaled, int64_t trained,
                  int64_t asked) {
  using enum plot::Align;
  plot::Table table{.columns = {{"pair", number},
                                {"radians a position", number},
                                {"unscaled", number},
                                {"wavelength", number},
                                {fmt::format("turns in {}", trained), number}},
                    .rows = {}};
  if (asked != trained) table.columns.push_back({fmt::format("turns in {}", asked), number});
  if (!scaled.axes.empty()) table.columns.push_back({"axis", number});
  const std::vector<double> plain = unscaled(rotary, scaled);
  for (std::size_t i = 0; i < scaled.inv_freq.size(); ++i) {
    const double f = scaled.inv_freq[i];
    std::vector<plot::Cell> row{fmt::format("{}", i), fmt::format("{:.8g}", f),
                                fmt::format("{:.8g}", plain[i]),
                                f == 0 ? "never" : fmt::format("{:.6g}", 2 * M_PI / f),
                                fmt::format("{:.4g}", f * double(trained) / (2 * M_PI))};
    if (asked != trained)
      row.emplace_back(fmt::format("{:.4g}", f * static_cast<double>(asked) / (2 * M_PI)));
    if (!scaled.axes.empty()) row.emplace_back(fmt::format("{}", scaled.axes[i]));
    table.rows.push_back(std::move(row));
  }
  return table;
}

void add_group(plot::Page& page, const LayerGroup& group, std::size_t index, int64_t trained,
               int64_t asked) {
  page.heading(fmt::format("{}{} {}", group.part.empty() ? "" : group.part + ", ",
                           group.layers.size() == 1 ? "layer" : "layers",
                           layers_text(group.layers)));
  std::vector<std::pair<std::string, std::string>> terms{{"position", group_text(group)}};
  const auto* rotary = std::get_if<ScaledRotary>(&group.encoding);
  double softmax = group.softmax_scale;
  if (rotary) {
    const auto resolved = model::resolve(group, asked);
    softmax = resolved.softmax_scale;
    terms.emplace_back("scaling", scaling_text(rotary->scaling));
    terms.emplace_back("scale of cos and sin",
                       fmt::format("{:.8g}", resolved.schedule.table_scale));
  }
  if (softmax > 0)
    terms.emplace_back("scale of the softmax",
                       fmt::format("{:.8g}, on q.k of {} elements", softmax, group.head_dim));
  if (group.temperature)
    terms.emplace_back(
        "scale of the query",
        fmt::format("1 + {:g} ln(1 + floor((p + {}) / {}))", group.temperature->beta,
                    group.temperature->shift, group.temperature->length));
  page.definitions(terms);
  if (!rotary) return;
  const RotarySchedule scaled = model::resolve(group, asked).schedule;
  const auto id = [&](const char* what) { return fmt::format("{}-{}", what, index); };
  page.figure(wavelengths(id("wavelengths"), *rotary, scaled, trained, asked));
  if (scaled.inv_freq != unscaled(*rotary, scaled))
    page.figure(slowing(id("slowing"), *rotary, scaled));
  page.figure(decay(id("decay"), *rotary, scaled, trained, asked));
  page.fold("All pairs").table(pairs(*rotary, scaled, trained, asked)).unfold();
}

}  // namespace

std::string layers_text(const std::vector<int64_t>& layers) {
  std::string text;
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t last = i;
    while (last + 1 < layers.size() && layers[last + 1] == layers[last] + 1) ++last;
    if (!text.empty()) text += ", ";
    text += i == last ? fmt::format("{}", layers[i])
                      : fmt::format("{}-{}", layers[i], layers[last]);
    i = last + 1;
  }
  return text;
}

std::string scaling_text(const RopeScaling& scaling) {
  const auto json = nlohmann::ordered_json::parse(model::to_json(scaling));
  std::string text = json["type"].get<std::string>();
  const char* between = ": ";
  for (const auto& [key, value] : json.items()) {
    if (key == "type" || value == 0.0) continue;  // an mscale of 0 is none
    std::string name = key;
    std::replace(name.begin(), name.end(), '_', ' ');
    text += between;
    between = ", ";
    if (value.is_array() && !value.empty())
      text += fmt::format("{} {:.4g} to {:.4g}", name, value.front().get<double>(),
                          value.back().get<double>());
    else if (value.is_number_float())
      text += fmt::format("{} {:.8g}", name, value.get<double>());
    else if (value.is_string())
      text += fmt::format("{} {}", name,
                          value == "whole_pairs" ? "of whole pairs" : value.get<std::string>());
    else
      text += fmt::format("{} {}", name, value.dump());
  }
  return text;
}

std::string group_text(const LayerGroup& group) {
  if (const auto* scaled = std::get_if<ScaledRotary>(&group.encoding)) {
    const Rotary& rotary = scaled->rotary;
    std::string text = fmt::format("rotary, {}, {} of {} elements",
                                   rotary.pairing == Pairing::halves ? "halves" : "adjacent",
                                   rotary.dim, group.head_dim);
    if (rotary.first != 0) text += fmt::format(" from {} on", rotary.first);
    text += fmt::format(", base {:.12g}", rotary.base);
    if (!scaled->axes.empty())
      text += fmt::format(", positions on {} axes",
                          *std::max_element(scaled->axes.begin(), scaled->axes.end()) + 1);
    return text;
  }
  if (group.kind == "none") return group.head_dim == 0 ? "none: no attention" : "none (NoPE)";
  std::string text = group.kind;
  const auto json = nlohmann::ordered_json::parse(model::to_json(group.encoding));
  for (const auto& [key, value] : json.items())
    if (key != "kind" && !(key == "head_offset" || key == "local_heads"))
      text += fmt::format(", {} {}", key,
                          value.is_string() ? value.get<std::string>() : value.dump());
  for (const auto& [key, value] : group.facts) text += fmt::format(", {} {:g}", key, value);
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

std::string inspect_page(const model::ModelDescription& model, int64_t length) {
  plot::Page page(model.model_type + ": positions");
  const int64_t trained = std::max<int64_t>(model.length, 1);
  page.lead(fmt::format("{}, {} layers, trained for {} positions{}.", model.model_type,
                        model.layers, model.length,
                        length == trained ? "" : fmt::format("; here at {}", length)));
  page.paragraph("Read from `" + model.source + "`.");
  std::size_t index = 0;
  for (const LayerGroup& group : model.groups)
    add_group(page, group, index++, trained, std::max<int64_t>(length, 1));
  if (!model.notes.empty()) page.heading("Notes").list(model.notes);
  page.footer("gnomon inspect");
  return page.html();
}

}  // namespace gnomon::cli
