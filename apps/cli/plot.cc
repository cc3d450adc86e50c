// `gnomon plot`: charts of encodings.
#include <algorithm>
#include <filesystem>
#include <memory>

#include "apps/cli/command.h"
#include "apps/cli/drawings.h"
#include "apps/cli/output.h"
#include "apps/cli/render.h"
#include "gnomon/io/file.h"

namespace gnomon::cli {
namespace {

constexpr const char* help =
    R"(Usage: gnomon plot WHAT [KIND] [options] -o FILE

Draws a chart as an HTML page, an image, or (.json) a Vega-Lite spec. WHAT:

  table        the table of an encoding as a heat map
  similarity   the similarity of all pairs of positions
  grid         the similarity of chosen cells of a grid with all cells
  rotary       rotary scores by distance (also: decay)
  wavelengths  the wavelengths of rotary pairs and a context length
  bias         the bias by distance, or by offset in a window
  attention    attention weights without and with position
  shuffled     the same for a text and its words in another order

  KIND    table, similarity: added to the embeddings (sinusoidal), or vit
          (trained); grid: sinusoidal, vit; bias: alibi, ...; others: any
  --parameters F.npy   a trained table (table, similarity, grid, bias)
  --dim D       channels, or rotated elements;  --heads H  bias: heads (8)
  --length N    positions, distances or context length
  --base B      rotary, wavelengths: rope_theta (10000)
  --grid HxW    grid: 16x32;   --cells y,x;y,x  the selected cells
  -o FILE (.html .png .svg .json)   images require vl-convert
Example: gnomon plot wavelengths --base 500000 --length 8192 -o waves.html
)";

struct Options {
  PlotOptions plot;
  OutputOptions output;
};

std::string page(const plot::Figure& figure) {
  plot::Figure untitled = figure;
  untitled.title.clear();
  return plot::HtmlPage(figure.title).figure(untitled).command(command_text()).html();
}

int run(const Options& o) {
  check_ending(o.output, {".html", ".png", ".svg", ".json"});
  const auto is_chosen = [&](const Drawing& one) { return o.plot.what == one.what; };
  const plot::Figure figure = std::ranges::find_if(drawings(), is_chosen)->draw(o.plot);
  const std::string ending = std::filesystem::path(o.output.path).extension().string();
  io::write_aside(o.output.path, ending == ".json" ? figure.spec + "\n"
                                 : ending == ".html"
                                     ? page(figure)
                                     : render(plot::standalone(figure), ending));
  return 0;
}

}  // namespace

Command plot_command() {
  Command command("plot", help);
  auto o = std::make_shared<Options>();
  std::vector<std::string> names, others;
  for (const Drawing& one : drawings()) {
    names.emplace_back(one.what);
    others.emplace_back(one.other);
  }
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
  command.required("-o", &o->output.path);
  command.run = [o] { return run(*o); };
  return command;
}

}  // namespace gnomon::cli
