// Configs inside a config: the towers of multimodal models.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "src/io/json.h"

namespace gnomon::model::internal {

using gnomon::internal::Json;
using gnomon::internal::JsonType;

// Language model parts, in order of preference.
inline constexpr std::array language_parts{"text_config", "llm_config", "language_config",
                                           "thinker_config", "text_model_config"};

struct Part {
  std::string path;  // "vision_config", "thinker_config.vision_config"
  Json object;
  // Its model_type, or the type that the whole config's family gives it. Empty: unknown.
  std::string type;
};

// Returns `model_type`, if present.
std::optional<std::string> type_of(const Json& object);
// Returns all nested configs, each before its own nested configs. `type`: the type of the
// whole, or empty. Names above 64 bytes and configs inside more than three others are skipped,
// so that paths are not many times longer than the text.
std::vector<Part> find_parts(const Json& object, const std::string& type);
// "a, b, c".
std::string names_of(const std::vector<Part>& parts);
// Returns the part with that path, or with a name that ends one path only. Otherwise throws
// with a list of the parts.
const Part& find_part(const Json& whole, const std::vector<Part>& parts,
                      const std::string& name);

}  // namespace gnomon::model::internal
