#include "src/model/config/parts.h"

#include <algorithm>
#include <array>

#include "src/model/families/family.h"

namespace gnomon::model::internal {
namespace {

// Nested objects that do not describe a model.
constexpr std::array no_models{"quantization_config", "compression_config", "generation_config",
                               "attn_config",         "ffn_config",         "peft_config",
                               "task_specific_params"};

constexpr std::size_t most_parts = 256;

// A star stands for the type of the whole model.
std::string spelled_out(std::string_view type, std::string_view whole) {
  if (!type.starts_with('*')) return std::string(type);
  return std::string(whole).append(type.substr(1));
}

// The type of a part, if the family of the whole model knows it; otherwise empty.
std::string part_of(std::string_view whole, std::string_view part) {
  if (const Family* const row = find_row(whole))
    for (const auto& [key, type] : row->parts)
      if (key == part) return spelled_out(type, whole);
  return {};
}

// The type of the language model. Families without one are returned unchanged.
std::string language_model_of(const std::string& whole) {
  const Family* const row = find_row(whole);
  return row && !row->language.empty() ? spelled_out(row->language, whole) : whole;
}

bool describes_a_model(const std::string& name, const Json& value) {
  if (!value.is(JsonType::object) || name.size() > 64) return false;
  if (std::find(no_models.begin(), no_models.end(), name) != no_models.end()) return false;
  return name.ends_with("_config") || value.find("model_type").has_value();
}

// A tower may have the type of the whole config: Qwen2.5-VL's is also called qwen2_5_vl.
std::string part_type(const std::string& whole, const std::string& name, const Json& value) {
  const std::string own = type_of(value).value_or("");
  const bool is_whole = own == whole || !part_of(own, name).empty();
  if (!own.empty() && !is_whole) return own;
  for (const std::string& one : {whole, own})
    if (const auto known = part_of(one, name); !known.empty()) return known;
  const bool language =
      std::find(language_parts.begin(), language_parts.end(), name) != language_parts.end();
  return own.empty() && language ? language_model_of(whole) : own;
}

void add_parts(const Json& object, const std::string& type, const std::string& before,
               int depth, std::vector<Part>& parts) {
  object.for_each_member([&](const std::string& name, Json value) {
    if (!describes_a_model(name, value)) return;
    if (parts.size() == most_parts)
      value.fail("a config must have at most " + std::to_string(most_parts) + " parts");
    const std::string own = part_type(type, name, value);
    parts.push_back({.path = before + name, .object = value, .type = own});
    if (depth < 3) add_parts(value, own, before + name + ".", depth + 1, parts);
  });
}

}  // namespace

std::optional<std::string> type_of(const Json& object) {
  const auto type = object.find("model_type");
  if (!type || type->is_null()) return std::nullopt;
  return type->string("model_type");
}

std::vector<Part> find_parts(const Json& object, const std::string& type) {
  std::vector<Part> parts;
  add_parts(object, type, "", 0, parts);
  return parts;
}

std::string names_of(const std::vector<Part>& parts) {
  std::string names;
  for (const Part& part : parts) names += (names.empty() ? "" : ", ") + part.path;
  return names;
}

const Part& find_part(const Json& whole, const std::vector<Part>& parts,
                      const std::string& name) {
  const Part* found = nullptr;
  for (const Part& part : parts) {
    if (part.path == name) return part;
    if (!part.path.ends_with("." + name)) continue;
    if (found) whole.fail("the part " + name + " occurs twice; the parts: " + names_of(parts));
    found = &part;
  }
  if (found) return *found;
  if (parts.empty()) whole.fail("the config has no part " + name + ": it has no parts");
  whole.fail("the config has no part " + name + "; it has " + names_of(parts));
}

}  // namespace gnomon::model::internal
