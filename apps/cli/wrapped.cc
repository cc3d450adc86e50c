#include "apps/cli/wrapped.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace gnomon::cli {

void print_wrapped(std::string_view text, std::string_view first, std::string_view indent) {
  std::string line(first);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    if (line.size() + 1 + word.size() > 78 && line.size() > indent.size()) {
      fmt::print("{}\n", line);
      line = indent;
    }
    if (!line.empty() && line.back() != ' ') line += ' ';
    line += word;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  fmt::print("{}\n", line);
}

}  // namespace gnomon::cli
