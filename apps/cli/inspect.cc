// `gnomon inspect`: the position encoding of a released model, with resolved parameters.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "apps/cli/command.h"
#include "apps/cli/group_text.h"
#include "apps/cli/inspect_page.h"
#include "apps/cli/model_file.h"
#include "apps/cli/output.h"
#include "apps/command_line/terminal.h"
#include "gnomon/analysis/spectrum.h"
#include "gnomon/error.h"
#include "gnomon/io/file.h"
#include "gnomon/model/config.h"
#include "gnomon/model/description.h"
#include "gnomon/model/gguf_model.h"

namespace gnomon::cli {
namespace {

constexpr const char* inspect_help = R"(Usage: gnomon inspect PATH [options]
       gnomon inspect --families | --architectures

Prints the position encoding of a released model: all parameters that follow
from its config or GGUF file, for a context length.

  PATH              a folder with config.json, the file itself, or a .gguf;
                    - reads a config.json from the standard input
  --length N        context length (default: the training length)
  --layer L         only the groups that contain layer L
  --part NAME       part of a config with several: vision_config, ...; part of
                    a model with both: encoder or decoder
  --yarn-factor F   if a config has a factor and two lengths: as-written, as
                    transformers in 2026, or by-lengths, the ratio of the
                    lengths, as transformers in 2025
  --assume-pairing P  of a family that is not known: halves or adjacent
  --json            all numbers as one JSON document
  --html FILE       charts: wavelengths and the context length, frequencies
                    before and after scaling, score by distance
  -o FILE           .json or .html
  --families        a table of the families known by name (Markdown)
  --architectures   a table of the architectures of GGUF files (Markdown)

Example: gnomon inspect ~/models/Llama-3.1-8B --length 131072
)";

struct InspectOptions {
  std::string path, yarn_factor, part, assume_pairing, html;
  std::optional<std::int64_t> length, layer;
  bool families = false, architectures = false;
  OutputOptions output;
};

void print_families() {
  fmt::print("| model_type | position | base | rotated share | head dimension | layers |\n");
  fmt::print("|---|---|---|---|---|---|\n");
  for (const model::FamilyInfo& one : model::families())
    fmt::print("| {} | {} | {} | {} | {} | {} |\n", one.model_type, one.position, one.base,
               one.rotated, one.head_dim, one.layers);
}

void print_architectures() {
  fmt::print("| general.architecture | model_type | position | read |\n|---|---|---|---|\n");
  for (const model::ArchitectureInfo& one : model::architectures())
    fmt::print("| {} | {} | {} | {} |\n", one.name, one.model_type, one.position, one.read);
}

void print_fact(std::string_view name, std::string_view text) {
  print_wrapped(text, fmt::format("  {:<14}", name), std::string(16, ' '));
}

void print_frequencies(const model::Encoding& encoding, std::int64_t length) {
  if (const auto* alibi = std::get_if<Alibi>(&encoding)) {
    const auto all = slopes(*alibi);
    print_fact("slopes", fmt::format("{:.8g} to {:.8g}", all.front(), all.back()));
  }
  const auto frequencies = model::rotary_frequencies(encoding, length);
  if (!frequencies) return;
  print_fact("scaling", scaling_text(scaling_of(encoding)));
  const auto& inv_freq = frequencies->inv_freq;
  const auto [least, most] = std::minmax_element(inv_freq.begin(), inv_freq.end());
  print_fact("frequencies",
             fmt::format("{:.8g} to {:.8g} radians per position", *most, *least));
  print_fact("wavelengths",
             fmt::format("{:.6g} to {} positions", 2 * M_PI / *most,
                         *least == 0 ? "infinity" : fmt::format("{:.6g}", 2 * M_PI / *least)));
  print_fact(fmt::format("at {}", length),
             fmt::format("{} of {} pairs never complete a full rotation",
                         analysis::unfinished(inv_freq, length).size(), inv_freq.size()));
  print_fact("cos and sin", fmt::format("x {:.8g}", frequencies->table_scale));
}

void print_text(const model::ModelDescription& model, std::int64_t length) {
  const std::string trained =
      model.length > 0 ? ", trained for " + plural(model.length, "position") : "";
  print_wrapped(
      fmt::format("{}, {}{}", model.model_type, plural(model.layers, "layer"), trained), "",
      "");
  if (model.image) print_wrapped(image_text(*model.image), "image: ", "       ");
  for (const model::LayerGroup& group : model.groups) {
    const std::string first =
        fmt::format("{}{}layer{}", group.part, group.part.empty() ? "" : " ",
                    group.layers.size() == 1 ? "" : "s");
    const auto print_layers = [&](const std::string& text) {
      print_wrapped(fmt::format("{}: {}", layers_text(group.layers), text), first, "  ");
    };
    fmt::print("\n");
    if (group.position.empty()) print_layers(none_text(group));
    // One encoding is printed beside the layers, several below them.
    if (group.position.size() > 1)
      print_layers(fmt::format("{} encodings", group.position.size()));
    for (const model::Encoding& one : group.position) {
      const std::string text = encoding_text(one, group.head_dim);
      if (group.position.size() == 1)
        print_layers(text);
      else
        print_fact("position", text);
      print_frequencies(one, length);
    }
    for (const Fact& fact : attention_facts(group, length)) print_fact(fact.name, fact.text);
  }
  if (!model.notes.empty()) fmt::print("\n");
  for (const std::string& note : model.notes) print_wrapped(note, "note: ", "      ");
}

int run_inspect(InspectOptions& o) {
  if (o.families) {
    print_families();
    return 0;
  }
  if (o.architectures) {
    print_architectures();
    return 0;
  }
  if (o.path.empty())
    refuse("inspect", "PATH, --families or --architectures must be given", "none");
  if (!o.html.empty()) {
    o.output.path = o.html;
    if (std::filesystem::path(o.html).extension() != ".html")
      refuse("inspect", "--html must end in .html", o.html);
  }
  if (!o.output.path.empty()) check_ending(o.output, {".json", ".html"});

  model::ModelDescription model = read_model(o.path, o.yarn_factor, o.part, o.assume_pairing);
  if (o.layer) {
    std::erase_if(model.groups, [&](const model::LayerGroup& group) {
      return !std::binary_search(group.layers.begin(), group.layers.end(), *o.layer);
    });
    if (model.groups.empty())
      refuse("inspect", fmt::format("--layer must be 0 to {}", model.layers - 1), *o.layer);
  }
  const std::int64_t length = o.length.value_or(std::max<std::int64_t>(model.length, 1));
  if (!o.output.path.empty()) {
    const bool html = std::filesystem::path(o.output.path).extension() == ".html";
    io::write_atomically(o.output.path, html ? inspect_page(model, length)
                                             : model::to_json(model, o.length) + "\n");
  }
  if (o.output.json)
    fmt::print("{}\n", model::to_json(model, o.length));
  else if (o.output.path.empty())
    print_text(model, length);
  return 0;
}

}  // namespace

Command inspect_command() {
  Command command("inspect", inspect_help);
  auto o = std::make_shared<InspectOptions>();
  command.option("PATH", &o->path).file().not_with({"--families", "--architectures"});
  command.option("--length", &o->length).at_least(1).only_with({"PATH"});
  command.option("--layer", &o->layer).at_least(0).only_with({"PATH"});
  command.option("--part", &o->part).only_with({"PATH"});
  command.option("--yarn-factor", &o->yarn_factor)
      .choices({"as-written", "by-lengths"})
      .only_with({"PATH"});
  command.option("--assume-pairing", &o->assume_pairing)
      .choices({"halves", "adjacent"})
      .only_with({"PATH"});
  command.flag("--json", &o->output.json).only_with({"PATH"});
  command.option("--html", &o->html).output().only_with({"PATH"}).not_with({"-o"});
  command.option("-o", &o->output.path).only_with({"PATH"});
  command.flag("--families", &o->families);
  command.flag("--architectures", &o->architectures).not_with({"--families"});
  command.run = [o] { return run_inspect(*o); };
  return command;
}

}  // namespace gnomon::cli
