// Lookup of encodings by name, title or synonym.
#include <algorithm>
#include <string>
#include <vector>

#include "gnomon/error.h"
#include "gnomon/model/encoding.h"
#include "src/core/nearest.h"

namespace gnomon::model {
namespace {

// Calls use(synonym) for each of the synonyms.
void for_each_synonym(const EncodingInfo& info, auto&& use) {
  constexpr std::string_view between = ", ";
  for (std::string_view rest = info.synonyms; !rest.empty();) {
    const std::size_t end = std::min(rest.find(between), rest.size());
    use(rest.substr(0, end));
    rest.remove_prefix(std::min(end + between.size(), rest.size()));
  }
}

}  // namespace

const EncodingInfo& find_encoding(std::string_view name) {
  const std::string wanted = gnomon::internal::plain(name);
  std::vector<std::string_view> names;
  for (const EncodingInfo& one : encodings()) {
    if (wanted == gnomon::internal::plain(one.name) ||
        wanted == gnomon::internal::plain(one.title))
      return one;
    names.push_back(one.name);
  }
  for (const EncodingInfo& one : encodings()) {
    bool found = false;
    for_each_synonym(one, [&](std::string_view synonym) {
      found = found || wanted == gnomon::internal::plain(synonym);
      names.push_back(synonym);
    });
    if (found) return one;
  }
  refuse("encoding",
         "name must be one of the " + std::to_string(encodings().size()) +
             " that `gnomon list` prints",
         gnomon::internal::with_nearest(names, name));
}

std::string canonical_names(std::string_view scheme) {
  constexpr std::string_view separators = "+*/@";
  std::string text;
  for (char before = 0;;) {
    std::size_t end = std::min(scheme.find_first_of(separators), scheme.size());
    // ++ at the end of a name is a part of it: RoPE++.
    const std::string_view rest = scheme.substr(end);
    if (end > 0 && rest.starts_with("++") &&
        (rest.size() == 2 || separators.find(rest[2]) != separators.npos))
      end += 2;
    const std::string_view part = scheme.substr(0, end);
    // A number of layers follows *, a numbering of positions follows @.
    const bool name = before != '*' && before != '@' && !part.empty();
    text += name ? find_encoding(part).name : part;
    if (end == scheme.size()) return text;
    before = scheme[end];
    text += before;
    scheme.remove_prefix(end + 1);
  }
}

}  // namespace gnomon::model
