// The described object of a config: the whole, a part, or its language model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gnomon/model/config.h"
#include "src/model/config/parts.h"

namespace gnomon::model::internal {

struct Subject {
  Json object;
  std::optional<std::string> type = {};  // its model_type
  std::string path = {};                 // empty: the whole config
  // Known model_types of the whole config and of each config on the path to the object.
  std::vector<std::string> types = {};
  std::vector<Part> parts = {};  // parts of the whole config
};

// `part`: as in ConfigOptions. Throws FormatError if the whole is not an object or has no such
// part.
Subject find_subject(const Json& whole, const std::string& part);
// read_config of a parsed text.
ModelDescription describe(const Json& whole, const Subject& subject,
                          const ConfigOptions& options);

}  // namespace gnomon::model::internal
