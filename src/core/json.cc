#include "src/core/json.h"

namespace gnomon::internal {

bool is_nested_too_deep(std::string_view json) noexcept {
  int depth = 0;
  bool in_string = false;
  for (std::size_t at = 0; at < json.size(); ++at) {
    const char c = json[at];
    if (c == '"') {
      in_string = !in_string;
    } else if (in_string) {
      at += c == '\\';  // the next character cannot end the string
    } else if (c == '[' || c == '{') {
      if (++depth > max_json_depth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace gnomon::internal
