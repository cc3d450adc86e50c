// Parsers of option values: positions, grids, names of enums.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gnomon/angles.h"
#include "gnomon/rotary/rotary.h"
#include "src/core/nearest.h"

namespace gnomon::cli {

using Integers = std::vector<std::int64_t>;
using Doubles = std::vector<double>;

// Integer positions: "0:1024" (without the end), "0:1024:2", "5,9,131071", or an integer `.npy`
// file [T].
Integers parse_positions(const std::string& text);
// Like parse_positions, but also accepts fractions: "0.5,1.25", or a floating-point `.npy`
// file.
std::variant<Integers, Doubles> parse_any_positions(const std::string& text);

// Parses "8x16x32" as extents, at least 1 each; the number of them is least to most.
Integers parse_extents(const std::string& text, std::size_t least, std::size_t most);
// Parses "16x32" as height and width.
std::pair<std::int64_t, std::int64_t> parse_grid(const std::string& text);

// Returns the value named `text` in `names`; case and separators do not count. `option`: the
// name of the option for the message.
template <typename T>
using Names = std::vector<std::pair<std::string, T>>;
template <typename T>
std::vector<std::string> names_of(const Names<T>& names) {
  std::vector<std::string> all;
  for (const auto& [name, value] : names) all.push_back(name);
  return all;
}

[[noreturn]] void refuse_name(const std::string& option, const std::vector<std::string>& names,
                              const std::string& got);
template <typename T>
T parse_name(const std::string& option, const Names<T>& names, const std::string& text) {
  for (const auto& [name, value] : names)
    if (internal::plain(name) == internal::plain(text)) return value;
  refuse_name(option, names_of(names), text);
}

Pairing parse_pairing(const std::string& text);  // halves, adjacent
Angles parse_angles(const std::string& text);    // exact, float32

}  // namespace gnomon::cli
