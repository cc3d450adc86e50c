#include "apps/cli/model_file.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>
#include <iterator>

#include "apps/cli/arguments.h"
#include "gnomon/error.h"
#include "gnomon/io/file.h"
#include "gnomon/model/config.h"
#include "gnomon/model/gguf_files.h"
#include "gnomon/model/gguf_model.h"

namespace gnomon::cli {

namespace fs = std::filesystem;

namespace {

// Keeps only the groups of `part`, if the layers of the model have parts and one has this name.
bool keep_part(model::ModelDescription& model, const std::string& part) {
  const auto is_of_part = [&](const model::LayerGroup& one) { return one.part == part; };
  if (part.empty() || std::none_of(model.groups.begin(), model.groups.end(), is_of_part))
    return false;
  std::erase_if(model.groups, std::not_fn(is_of_part));
  return true;
}

}  // namespace

model::ModelDescription read_model(const std::string& path, const std::string& yarn_factor,
                                   const std::string& part, const std::string& assume_pairing) {
  const auto factor =
      parse_name<model::YarnFactor>("yarn-factor",
                                    {{"as-written", model::YarnFactor::as_written},
                                     {"by-lengths", model::YarnFactor::by_lengths}},
                                    yarn_factor.empty() ? "as-written" : yarn_factor);
  std::optional<Pairing> pairing;
  if (!assume_pairing.empty()) pairing = parse_pairing(assume_pairing);
  if (path == "-") {
    const std::string text(std::istreambuf_iterator<char>(std::cin), {});
    return model::read_config(text, {.name = "standard input",
                                     .yarn_factor = factor,
                                     .part = part,
                                     .assume_pairing = pairing});
  }
  const fs::path file =
      fs::is_directory(path) ? fs::path(path) / "config.json" : fs::path(path);
  const io::MappedFile mapped(file);
  if (mapped.text().starts_with("GGUF")) {
    if (!yarn_factor.empty())
      refuse("inspect", "--yarn-factor applies to a config.json, not to a GGUF file", path);
    if (pairing)
      refuse("inspect", "--assume-pairing applies to a config.json, not to a GGUF file", path);
    model::ModelDescription model = model::read_gguf(model::GgufFiles(file).gguf());
    if (!part.empty() && !keep_part(model, part))
      refuse("inspect", "--part must name a part of the GGUF file", part);
    return model;
  }
  const auto read = [&](const std::string& name) {
    return model::read_config(mapped.text(), {.name = file.string(),
                                              .yarn_factor = factor,
                                              .part = name,
                                              .assume_pairing = pairing});
  };
  if (part == "encoder" || part == "decoder") {
    model::ModelDescription model = read({});
    if (keep_part(model, part)) return model;
  }
  return read(part);
}

std::string part_of_groups(const model::ModelDescription& model) {
  const auto of_first = [&](const model::LayerGroup& one) {
    return one.part == model.groups.front().part;
  };
  const bool one_part = std::all_of(model.groups.begin(), model.groups.end(), of_first);
  return one_part && !model.groups.empty() ? model.groups.front().part : "";
}

}  // namespace gnomon::cli
