// The model that a path names: a folder with config.json, the file itself, or a GGUF file.
#pragma once

#include <string>

#include "gnomon/model/description.h"

namespace gnomon::cli {

// `yarn_factor`: "as-written" or "by-lengths". `part`: of a config, as in ConfigOptions; or
// "encoder", "decoder" of a model with both: its groups alone.
model::ModelDescription read_model(const std::string& path,
                                   const std::string& yarn_factor = "as-written",
                                   const std::string& part = {});

}  // namespace gnomon::cli
