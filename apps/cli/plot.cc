// `gnomon plot`: charts of encodings.
#include <filesystem>
#include <memory>

#include "apps/cli/arguments.h"
#include "apps/cli/command.h"
#include "apps/cli/drawings.h"
#include "apps/cli/output.h"
#include "gnomon/error.h"
#include "gnomon/io/file.h"

namespace gnomon::cli {
namespace {

constexpr const char* help =
    R"(Usage: gnomon plot WHAT [KIND] [options] -o FILE.html

Draws a chart as an HTML file, or (-o FILE.json) as a Vega-Lite spec. WHAT:

  table        the table of an encoding as a heat map, 50 x 128
  similarity   the similarity of all pairs of positions
  grid         the similarity of three cells of a 16 x 32 grid with all others
  rotary       rotary scores by distance, for all-ones and for random q and k
  wavelengths  the wavelengths of rotary pairs and a context length
  bias         the bias by distance and head
  attention    attention weights without and with position

  KIND          table, similarity: added to the embeddings (sinusoidal); bias:
                added to the scores (alibi); attention: any encoding (rotary)
  --parameters F.npy   a trained table (table, similarity, grid, bias)
  --dim D       channels, or rotated elements (128)
  --length N    positions, distances or context length (default: by WHAT)
  --base B      rope_theta (10000)
  --heads H     bias: number of heads (8)
  --grid HxW    grid: 16x32;   --cells y,x;y,x  the selected cells
  -o FILE (.html .json)

Example: gnomon plot wavelengths --base 500000 --length 8192 -o waves.html
)";

struct Options {
  PlotOptions plot;
  OutputOptions output;
};

int run(const Options& o) {
  check_ending(o.output, {".html", ".json"});
  const Drawing* chosen = nullptr;
  std::vector<std::string> names;
  for (const Drawing& one : drawings()) {
    names.emplace_back(one.what);
    if (o.plot.what == one.what) chosen = &one;
  }
  if (!chosen) refuse_name("plot", names, o.plot.what);
  const plot::Figure figure = chosen->draw(o.plot);
  if (std::filesystem::path(o.output.path).extension() == ".json") {
    io::write_aside(o.output.path, figure.spec + "\n");
    return 0;
  }
  io::write_aside(o.output.path, plot::html(figure));
  return 0;
}

}  // namespace

Command plot_command() {
  Command command("plot", help);
  auto o = std::make_shared<Options>();
  command.required("WHAT", &o->plot.what);
  command.option("KIND", &o->plot.kind);
  command.option("--parameters", &o->plot.parameters);
  command.option("--dim", &o->plot.dim);
  command.option("--length", &o->plot.length);
  command.option("--base", &o->plot.base);
  command.option("--heads", &o->plot.heads);
  command.option("--grid", &o->plot.grid);
  command.option("--cells", &o->plot.cells);
  command.required("-o", &o->output.path);
  command.run = [o] { return run(*o); };
  return command;
}

}  // namespace gnomon::cli
