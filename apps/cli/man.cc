// `gnomon man`: manual pages, from the help texts.
#include <fmt/format.h>

#include <memory>

#include "apps/cli/command.h"
#include "apps/cli/manual.h"
#include "gnomon/error.h"
#include "gnomon/version.h"

namespace gnomon::cli {
namespace {

constexpr const char* man_help =
    R"(Usage: gnomon man [COMMAND]

Prints the manual page of a command (default: of the program) in roff.
`cmake --install` installs the pages.

Example: gnomon man table | man -l -
)";

// Text as roff shows it: no requests, and hyphens that can be copied.
std::string escaped(const std::string& text) {
  std::string roff;
  bool at_start = true;
  for (const char c : text) {
    if (at_start && (c == '.' || c == '\'')) roff += "\\&";
    at_start = c == '\n';
    if (c == '\\')
      roff += "\\e";
    else if (c == '-')
      roff += "\\-";
    else if (c == '\'')
      roff += "\\(aq";
    else if (c == '`')
      roff += "\\(ga";
    else if (c == '^')
      roff += "\\(ha";
    else if (c == '~')
      roff += "\\(ti";
    else
      roff += c;
  }
  return roff;
}

std::string verbatim(const char* title, std::string text) {
  const std::size_t begin = text.find_first_not_of('\n');
  if (begin == std::string::npos) return {};
  text = text.substr(begin, text.find_last_not_of('\n') + 1 - begin);
  return fmt::format(".SH {}\n.nf\n{}\n.fi\n", title, escaped(text));
}

// A help text has its usage, an empty line, a description and, at its end, an example.
std::string page(const std::string& name, const std::string& about, const std::string& text) {
  constexpr std::string_view usage = "Usage: ";
  const std::size_t body = text.find("\n\n");
  const std::size_t example = std::min(text.rfind("\nExample: "), text.size());
  std::string upper;
  for (const char c : name) upper += c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  const std::string sample =
      example < text.size() ? text.substr(example + std::string("\nExample: ").size()) : "";
  return fmt::format(".TH {} 1 \"\" \"gnomon {}\"\n.SH NAME\n{} \\- {}\n", escaped(upper),
                     GNOMON_VERSION, escaped(name), escaped(about)) +
         verbatim("SYNOPSIS", text.substr(usage.size(), body - usage.size())) +
         verbatim("DESCRIPTION", text.substr(body, example - body)) +
         verbatim("EXAMPLE", sample) + ".SH SEE ALSO\n.BR gnomon (1)\n";
}

}  // namespace

namespace {

ManualPage manual_page(const std::string& command, const std::string& text) {
  const std::string name = "gnomon-" + command;
  return {name + ".1", page(name, summary(command), text)};
}

ManualPage manual_page_of_program() {
  return {"gnomon.1", page("gnomon", "positional encodings for Transformers", program_help())};
}

}  // namespace

std::vector<ManualPage> manual_pages() {
  std::vector<ManualPage> pages{manual_page_of_program()};
  for (const char* name : lab_commands)
    if (const std::string text = lab_help(name); !text.empty())
      pages.push_back(manual_page(name, text));
  for (const Command& command : all_commands())
    pages.push_back(manual_page(command.name(), command.help()));
  return pages;
}

Command man_command() {
  Command command("man", man_help);
  auto name = std::make_shared<std::string>();
  command.option("COMMAND", name.get()).choices(command_names());
  command.run = [name] {
    ManualPage found = manual_page_of_program();
    for (const Command& one : all_commands())
      if (one.name() == *name) found = manual_page(*name, one.help());
    for (const char* one : lab_commands)
      if (one == *name) {
        const std::string text = lab_help(one);
        if (text.empty()) refuse("man", "gnomon-lab must be installed", "none");
        found = manual_page(one, text);
      }
    fmt::print("{}", found.text);
    return 0;
  };
  return command;
}

}  // namespace gnomon::cli
