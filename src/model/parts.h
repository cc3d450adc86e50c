// The configs inside a config: the towers of multimodal models.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "src/io/json.h"

namespace gnomon::model::internal {

using gnomon::internal::Json;
using gnomon::internal::JsonType;

// The parts that are language models, in the order of preference.
inline constexpr std::array language_parts{"text_config", "llm_config", "language_config",
                                           "thinker_config", "text_model_config"};

struct Part {
  std::string path;  // "vision_config", "thinker_config.vision_config"
  Json object;
  // Its own model_type, or that which its whole has there; empty where neither is known.
  std::string type;
};

// `model_type`, where there is one.
std::optional<std::string> type_of(const Json& object);
// All configs inside one, each before those inside it. `type`: the whole's, or empty. Names of
// more than 64 bytes, and what is inside more than three others, are no parts: a text cannot
// make the paths many times longer than itself.
std::vector<Part> find_parts(const Json& object, const std::string& type);
// "a, b, c".
std::string names_of(const std::vector<Part>& parts);
// The part of that path, or of a name that ends one path only; fails with a list of them.
const Part& find_part(const Json& whole, const std::vector<Part>& parts,
                      const std::string& name);

}  // namespace gnomon::model::internal
