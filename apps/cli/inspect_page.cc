#include "apps/cli/inspect_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/cli/command.h"
#include "apps/cli/group_text.h"
#include "gnomon/analysis/decay.h"
#include "gnomon/analysis/spectrum.h"
#include "gnomon/plot/captions.h"
#include "gnomon/plot/page.h"
#include "gnomon/plot/pictures.h"

namespace gnomon::cli {
namespace {

using model::LayerGroup;
using std::int64_t;

// The context length of the first training, before the frequencies were scaled.
int64_t original_length(const RopeScaling& scaling, int64_t otherwise) {
  if (const auto* yarn = std::get_if<YarnScaling>(&scaling)) return yarn->original_length;
  if (const auto* llama3 = std::get_if<Llama3Scaling>(&scaling)) return llama3->original_length;
  if (const auto* longrope = std::get_if<LongRopeScaling>(&scaling))
    return longrope->original_length;
  return otherwise;
}

// A rotary encoding resolved at the declared length.
struct Rotation {
  RotaryFrequencies scaled;
  std::vector<double> plain;  // inv_freq before scaling
  RopeScaling scaling;

  bool changed() const { return plain != scaled.inv_freq; }
};

// On a grid, frequencies follow from the base by another formula and are not scaled.
std::vector<double> unscaled(const model::Encoding& encoding, const RotaryFrequencies& scaled) {
  const auto* rotary = std::get_if<ScaledRotary>(&encoding);
  return !rotary || std::holds_alternative<NoScaling>(rotary->scaling)
             ? scaled.inv_freq
             : inverse_frequencies(rotary->rotary);
}

plot::Figure wavelengths(const std::string& id, const Rotation& rotary, int64_t trained,
                         int64_t asked) {
  const auto& [scaled, plain, scaling] = rotary;
  const int64_t original = original_length(scaling, trained);
  const bool changed = rotary.changed();
  plot::WavelengthPicture picture;
  picture.context = static_cast<double>(trained);
  picture.label = "trained";
  const auto unfinished = [&](const std::vector<double>& frequencies) {
    return analysis::unfinished(frequencies, trained).size();
  };
  std::string caption = fmt::format(
      "{} of {} pairs do not complete a rotation within {} "
      "positions, the training length",
      unfinished(scaled.inv_freq), plain.size(), trained);
  if (changed) {
    picture.specs.push_back({.name = "unscaled", .wavelengths = analysis::wavelengths(plain)});
    caption += fmt::format(" (without the scaling: {})", unfinished(plain));
  }
  picture.specs.push_back({.name = changed ? "scaled" : "as trained",
                           .wavelengths = analysis::wavelengths(scaled.inv_freq)});
  if (original != trained)
    picture.others.push_back(
        {.context = static_cast<double>(original), .label = "before scaling"});
  if (asked != trained)
    picture.others.push_back({.context = static_cast<double>(asked), .label = "requested"});
  caption +=
      ". Beyond the training length, such a pair has angles that do not occur in training.";
  return {.id = id,
          .title = "Wavelengths",
          .caption = caption,
          .spec = plot::wavelength_picture(picture)};
}

plot::Figure slowing(const std::string& id, const Rotation& rotary) {
  const auto& [scaled, plain, scaling] = rotary;
  plot::Series ratio{.name = "scaled / unscaled", .x = {}, .y = {}};
  for (std::size_t i = 0; i < plain.size(); ++i) {
    ratio.x.push_back(static_cast<double>(i));
    ratio.y.push_back(scaled.inv_freq[i] / plain[i]);
  }
  const auto [least, most] = std::minmax_element(ratio.y.begin(), ratio.y.end());
  const double top = *most > 1 ? *most * 1.05 : 1.05;
  return {
      .id = id,
      .title = "Frequencies, scaled / unscaled",
      .caption = fmt::format(
          "1: the frequency of the pair is unchanged. Range: {:.4g} to {:.4g}.", *least, *most),
      .spec = plot::lines({.series = {ratio},
                           .x = {.title = "pair"},
                           .y = {.title = "ratio", .range = plot::Range{0, top}},
                           .height = 220})};
}

// Distances with even spacing on a logarithmic axis.
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

plot::Figure decay(const std::string& id, const Rotation& rotary, int64_t trained,
                   int64_t asked) {
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
  if (rotary.changed()) lines.push_back(series("unscaled", rotary.plain));
  lines.push_back(series(rotary.changed() ? "scaled" : "as trained", rotary.scaled.inv_freq));
  return {.id = id,
          .title = "Score by distance",
          .caption =
              "Score of a query and a key with all elements 1, divided by its value at "
              "distance 0. It depends on the frequencies only. " +
              plot::curve_caption(rotary.changed() ? "Scaled" : "As trained", lines.back().x,
                                  lines.back().y),
          .spec = plot::lines({.series = lines,
                               .x = {.title = "distance (tokens)", .scale = plot::Scale::log2},
                               .y = {.title = "score"},
                               .rule = plot::Rule{static_cast<double>(trained), "trained"},
                               .height = 260})};
}

plot::Table pairs(const Rotation& rotary, int64_t trained, int64_t asked) {
  using enum plot::Align;
  const auto& [scaled, plain, scaling] = rotary;
  plot::Table table{.columns = {{"pair", number},
                                {"radians per position", number},
                                {"unscaled", number},
                                {"wavelength", number},
                                {fmt::format("rotations in {}", trained), number}},
                    .rows = {}};
  if (asked != trained)
    table.columns.push_back({fmt::format("rotations in {}", asked), number});
  if (!scaled.axes.empty()) table.columns.push_back({"axis", number});
  for (std::size_t i = 0; i < scaled.inv_freq.size(); ++i) {
    const double f = scaled.inv_freq[i];
    std::vector<plot::Cell> row{fmt::format("{}", i), fmt::format("{:.8g}", f),
                                fmt::format("{:.8g}", plain[i]),
                                f == 0 ? "infinite" : fmt::format("{:.6g}", 2 * M_PI / f),
                                fmt::format("{:.4g}", f * double(trained) / (2 * M_PI))};
    if (asked != trained)
      row.emplace_back(fmt::format("{:.4g}", f * static_cast<double>(asked) / (2 * M_PI)));
    if (!scaled.axes.empty()) row.emplace_back(fmt::format("{}", scaled.axes[i]));
    table.rows.push_back(std::move(row));
  }
  return table;
}

void add_rotary(plot::HtmlPage& page, const model::Encoding& encoding, const std::string& index,
                int64_t trained, int64_t asked) {
  const auto scaled = model::rotary_frequencies(encoding, asked);
  if (!scaled) return;
  const Rotation rotary{
      .scaled = *scaled, .plain = unscaled(encoding, *scaled), .scaling = scaling_of(encoding)};
  const auto id = [&](const char* what) { return fmt::format("{}-{}", what, index); };
  page.figure(wavelengths(id("wavelengths"), rotary, trained, asked));
  if (rotary.changed()) page.figure(slowing(id("slowing"), rotary));
  page.figure(decay(id("decay"), rotary, trained, asked));
  page.fold("All pairs").table(pairs(rotary, trained, asked)).unfold();
}

void add_group(plot::HtmlPage& page, const LayerGroup& group, std::size_t index,
               int64_t trained, int64_t asked) {
  page.heading(fmt::format("{}{} {}", group.part.empty() ? "" : group.part + ", ",
                           group.layers.size() == 1 ? "layer" : "layers",
                           layers_text(group.layers)));
  std::vector<std::pair<std::string, std::string>> terms;
  if (group.position.empty()) terms.emplace_back("position", none_text(group));
  for (const model::Encoding& one : group.position) {
    terms.emplace_back("position", encoding_text(one, group.head_dim));
    if (const auto frequencies = model::rotary_frequencies(one, asked)) {
      terms.emplace_back("scaling", scaling_text(scaling_of(one)));
      terms.emplace_back("cos and sin", fmt::format("x {:.8g}", frequencies->table_scale));
    }
  }
  for (Fact& fact : attention_facts(group, asked))
    terms.emplace_back(std::move(fact.name), std::move(fact.text));
  page.definitions(terms);
  std::size_t rotation = 0;
  for (const model::Encoding& one : group.position)
    if (model::rotary_frequencies(one, asked)) {
      add_rotary(
          page, one,
          rotation == 0 ? fmt::format("{}", index) : fmt::format("{}-{}", index, rotation),
          trained, asked);
      ++rotation;
    }
}

}  // namespace

std::string inspect_page(const model::ModelDescription& model, int64_t length) {
  plot::HtmlPage page(model.model_type + ": position encoding");
  const int64_t trained = std::max<int64_t>(model.length, 1);
  page.lead(
      fmt::format("{}, {}, trained for {}{}.", model.model_type, plural(model.layers, "layer"),
                  plural(model.length, "position"),
                  length == trained ? "" : fmt::format("; here with {} positions", length)));
  page.paragraph("Read from `" + model.source + "`.");
  if (model.image) page.paragraph("Image: " + image_text(*model.image) + ".");
  std::size_t index = 0;
  for (const LayerGroup& group : model.groups)
    add_group(page, group, index++, trained, std::max<int64_t>(length, 1));
  if (!model.notes.empty()) page.heading("Notes").list(model.notes);
  page.command(command_text());
  return page.html();
}

}  // namespace gnomon::cli
