// The one parser that turns JSON text into values of nlohmann-json. Those values are copied,
// compared and written recursively, so the depth of untrusted text is limited. src/io/json.h
// reads large files without copies.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "gnomon/error.h"
#include "src/core/float_mode.h"
#include "src/core/text.h"

namespace gnomon::internal {

inline constexpr int max_json_depth = 64;

// Returns whether lists and objects are nested deeper than max_json_depth. O(bytes).
bool is_nested_too_deep(std::string_view json) noexcept;

// `Value`: nlohmann::json or nlohmann::ordered_json. Throws std::invalid_argument of
// `operation` that names `what` (for example a path) if the text is nested too deep or not
// JSON, or if a name occurs twice in an object.
template <typename Value>
Value parse_json(std::string_view text, std::string_view operation, const std::string& what) {
  if (is_nested_too_deep(text))
    refuse(operation,
           what + " must be JSON of at most " + std::to_string(max_json_depth) + " levels",
           "more levels");
  const DefaultFloatMode mode;               // strtod rounds in that of the caller
  std::vector<std::set<std::string>> names;  // of the objects around the parsed value
  std::optional<std::string> repeated;
  const auto note = [&](int, auto event, Value& parsed) {
    using Event = typename Value::parse_event_t;
    if (event == Event::object_start) names.emplace_back();
    if (event == Event::object_end) names.pop_back();
    if (event == Event::key) {
      auto name = parsed.template get<std::string>();
      if (!names.back().insert(name).second) repeated = std::move(name);
    }
    return true;
  };
  Value value = Value::parse(text, note, /*allow_exceptions=*/false);
  if (value.is_discarded()) refuse(operation, what + " must be JSON", shown(text));
  if (repeated)
    refuse(operation, "the names of an object in " + what + " must differ",
           shown(*repeated) + " twice");
  return value;
}

}  // namespace gnomon::internal
