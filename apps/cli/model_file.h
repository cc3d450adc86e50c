// Reads the model at a path: a folder with config.json, a config file, or a GGUF file.
#pragma once

#include <string>

#include "gnomon/model/description.h"

namespace gnomon::cli {

// `yarn_factor`: "as-written" (also if empty) or "by-lengths"; for a config only. `part`: a
// part of a config, as in ConfigOptions. "encoder" or "decoder" keeps only the groups of that
// part, for a model with both. `assume_pairing` (configs only): "halves", "adjacent" or empty.
model::ModelDescription read_model(const std::string& path, const std::string& yarn_factor = {},
                                   const std::string& part = {},
                                   const std::string& assume_pairing = {});

// Returns the part of the groups, if all belong to one; else empty text.
std::string part_of_groups(const model::ModelDescription& model);

}  // namespace gnomon::cli
