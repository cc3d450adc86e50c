// What of a config is described: the whole, a part of it, or the language model in it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gnomon/model/config.h"
#include "src/model/parts.h"

namespace gnomon::model::internal {

struct Subject {
  Json object;
  std::optional<std::string> type = {};  // its model_type
  std::string path = {};                 // empty: the config itself
  // model_type of the whole and of each config on the way to the object, where they are known.
  std::vector<std::string> types = {};
  std::vector<Part> parts = {};  // of the whole
};

// `part`: as in ConfigOptions. Throws FormatError when the whole is no object or has no such
// part.
Subject find_subject(const Json& whole, const std::string& part);
// read_config of a text that is parsed.
ModelDescription describe(const Json& whole, const Subject& subject,
                          const ConfigOptions& options);

}  // namespace gnomon::model::internal
