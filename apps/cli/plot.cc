// `gnomon plot`: charts of encodings.
#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>

#include "apps/cli/command.h"
#include "apps/cli/drawings.h"
#include "apps/cli/output.h"
#include "apps/cli/render.h"
#include "gnomon/error.h"
#include "gnomon/io/file.h"
#include "src/core/json.h"

namespace gnomon::cli {
namespace {

constexpr const char* page_of_figures = "page";

constexpr const char* plot_help =
    R"(Usage: gnomon plot WHAT [KIND] [options] -o FILE | --json

Draws a chart as an HTML page, an image, or (.json) a Vega-Lite spec. WHAT:

  table        the table of an encoding as a heat map
  similarity   the similarity of all pairs of positions
  grid         the similarity of chosen cells of a grid with all cells
  rotary       rotary scores by distance (also: decay)
  wavelengths  the wavelengths of rotary pairs and a context length
  bias         the bias by distance, or by offset in a window
  attention    attention weights without and with position
  shuffled     the same for a text and its words in another order
  page         the charts of --figures F.json (a list) on a page with --title T

  KIND    table, similarity: added to the embeddings (sinusoidal), or vit
          (trained); grid: sinusoidal, vit; bias: alibi, ...; others: any
  --parameters F.npy   a trained table (table, similarity, grid, bias)
  --dim D       channels, or rotated elements;  --heads H  bias: heads (8)
  --length N    positions, distances or context length
  --base B      rotary, wavelengths: rope_theta (10000)
  --grid HxW    grid: 16x32;   --cells y,x;y,x  the selected cells
  -o FILE (.html .png .svg .json)   images require vl-convert
  --json   title, caption and spec on stdout, a figure of --figures
Example: gnomon plot wavelengths --base 500000 --length 8192 -o waves.html
)";

struct PlotCommandOptions {
  PlotOptions plot;
  OutputOptions output;
  std::string figures, title;
};

std::string page(const plot::Figure& figure) {
  plot::Figure untitled = figure;
  untitled.title.clear();
  return plot::HtmlPage(figure.title).figure(untitled).command(command_text()).html();
}

Json parsed(const std::string& spec) {
  return internal::parse_json<Json>(spec, "plot", "the spec");
}

// A figure for `page`. "config" has the colours and fonts of an image, for other tools.
Json as_json(const plot::Figure& figure) {
  return {{"title", figure.title},
          {"caption", figure.caption},
          {"spec", parsed(figure.spec)},
          {"config", parsed(plot::standalone(figure)).at("config")}};
}

// A page with the figures of a file, a list of objects as --json prints them. The "command" of
// a single figure is printed.
std::string page_of(const std::string& path, const std::string& title) {
  const io::MappedFile file(path);
  const Json all = internal::parse_json<Json>(file.text(), "plot", path);
  const auto is_figure = [](const Json& one) {
    return one.is_object() && one.contains("spec") && one["spec"].is_object() &&
           std::ranges::all_of(std::array{"title", "caption", "command"}, [&](const char* key) {
             return !one.contains(key) || one[key].is_string();
           });
  };
  if (!all.is_array() || all.empty() || !std::ranges::all_of(all, is_figure))
    refuse("plot", "--figures must be a list of figures as --json prints them", path);
  const bool single = all.size() == 1;
  plot::HtmlPage page(title.empty() && single ? all[0].value("title", "Charts")
                      : title.empty()         ? "Charts"
                                              : title);
  for (std::size_t i = 0; i < all.size(); ++i)
    page.figure({.id = "figure-" + std::to_string(i + 1),
                 .title = single && title.empty() ? "" : all[i].value("title", ""),
                 .caption = all[i].value("caption", ""),
                 .spec = all[i]["spec"].dump()});
  const std::string command = single ? all[0].value("command", "") : "";
  if (!command.empty()) page.command(command);
  return page.html();
}

int run_plot(const PlotCommandOptions& o) {
  const bool is_page = o.plot.what == page_of_figures;
  if (o.output.path.empty() && !o.output.json)
    refuse("plot", "-o FILE or --json must be given", "neither");
  check_ending(o.output, is_page ? std::vector<std::string>{".html"}
                                 : std::vector<std::string>{".html", ".png", ".svg", ".json"});
  if (is_page) {
    io::write_atomically(o.output.path, page_of(o.figures, o.title));
    return 0;
  }
  const auto is_chosen = [&](const Drawing& one) { return o.plot.what == one.what; };
  const plot::Figure figure = std::ranges::find_if(drawings(), is_chosen)->draw(o.plot);
  if (o.output.json) print_json(as_json(figure));
  if (o.output.path.empty()) return 0;
  const std::string ending = std::filesystem::path(o.output.path).extension().string();
  io::write_atomically(o.output.path, ending == ".json" ? figure.spec + "\n"
                                      : ending == ".html"
                                          ? page(figure)
                                          : render(plot::standalone(figure), ending));
  return 0;
}

}  // namespace

Command plot_command() {
  Command command("plot", plot_help);
  auto o = std::make_shared<PlotCommandOptions>();
  std::vector<std::string> names, others;
  for (const Drawing& one : drawings()) {
    names.emplace_back(one.what);
    others.emplace_back(one.other);
  }
  names.emplace_back(page_of_figures);
  others.emplace_back(page_of_figures);
  const std::vector<std::string> drawn(names.begin(), names.end() - 1);
  command.required("WHAT", &o->plot.what).choices(names, others).selects();
  command.option("KIND", &o->plot.kind)
      .only_for({"table", "similarity", "grid", "bias", "attention", "shuffled"});
  command.option("--parameters", &o->plot.parameters)
      .only_for({"table", "similarity", "grid", "bias"});
  command.option("--dim", &o->plot.dim)
      .at_least(1)
      .only_for(
          {"table", "similarity", "grid", "rotary", "wavelengths", "attention", "shuffled"});
  command.option("--length", &o->plot.length)
      .at_least(1)
      .only_for({"table", "similarity", "rotary", "wavelengths", "bias", "attention"});
  command.option("--base", &o->plot.base).only_for({"rotary", "wavelengths"});
  command.option("--heads", &o->plot.heads).at_least(1).only_for({"bias"});
  command.option("--grid", &o->plot.grid).only_for({"grid"});
  command.option("--cells", &o->plot.cells).only_for({"grid"});
  command.option("--figures", &o->figures).file().required_for({page_of_figures});
  command.option("--title", &o->title).only_for({page_of_figures});
  command.option("-o", &o->output.path);
  command.flag("--json", &o->output.json).only_for(drawn);
  command.run = [o] { return run_plot(*o); };
  return command;
}

}  // namespace gnomon::cli
