#include "apps/command_line/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "src/core/text.h"

namespace gnomon {
namespace {

// Code points, which are columns for the names that occur.
std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

int terminal_width() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return std::max<int>(size.ws_col, 40);
}

std::string styled(Style style, std::string_view text) {
  static const char* const no_color = std::getenv("NO_COLOR");
  if (text.empty() || (no_color && *no_color) || !::isatty(STDOUT_FILENO))
    return std::string(text);
  const int code = style == Style::bold ? 1 : style == Style::good ? 32 : 31;
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

std::string wrapped(std::string_view text, std::string_view first, std::string_view indent,
                    int width) {
  std::string lines, line(first);
  bool has_word = false;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    if (has_word && columns(line) + 1 + columns(word) > static_cast<std::size_t>(width)) {
      lines += line + '\n';
      line = indent;
    }
    if (!line.empty() && line.back() != ' ') line += ' ';
    line += word;
    has_word = true;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines + line + '\n';
}

void print_wrapped(std::string_view text, std::string_view first, std::string_view indent) {
  const std::string head = internal::printable(first);
  const std::string lines = wrapped(internal::printable(text), head, indent, terminal_width());
  fmt::print("{}{}", styled(Style::bold, head), lines.substr(head.size()));
}

}  // namespace gnomon
