// `gnomon completion`: completion scripts of bash, zsh and fish, from the list of options.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <regex>
#include <set>
#include <system_error>

#include "apps/cli/command.h"
#include "apps/cli/manual.h"
#include "gnomon/error.h"
#include "gnomon/io/file.h"
#include "src/io/folder.h"

namespace gnomon::cli {
namespace {

constexpr const char* completion_help =
    R"(Usage: gnomon completion SHELL
       gnomon completion --share DIR

Prints the script with which a shell completes commands, kinds, options, values
and files. SHELL: bash, zsh or fish. `cmake --install` installs the scripts.

  --share DIR   writes the scripts of all shells and the manual pages to their
                places below DIR (for example ~/.local/share)

Example: gnomon completion --share ~/.local/share
)";

using Words = std::vector<std::string>;
using Argument = CommandLine::Argument;

std::string joined(const Words& words) { return fmt::format("{}", fmt::join(words, " ")); }

// CompletionOptions that apply to a kind; all options if it is empty.
Words options_of(const Command& command, const std::string& kind) {
  Words names;
  for (const Argument& one : command.arguments())
    if (one.is_option() && (kind.empty() || one.kinds.empty() ||
                            std::ranges::find(one.kinds, kind) != one.kinds.end()))
      names.push_back(one.name);
  names.emplace_back("--help");
  return names;
}

// The options of the commands of gnomon-lab, another program, are those that their help names.
Words lab_options(const std::string& command) {
  static const std::regex option("--[a-z][a-z-]*");
  const std::string text = lab_help(command);
  std::set<std::string> names;
  for (std::sregex_iterator at(text.begin(), text.end(), option), end; at != end; ++at)
    names.insert(at->str());
  return {names.begin(), names.end()};
}

// The common part of the scripts of bash and zsh: a function that calls `_gnomon_words` or
// `_gnomon_files`. Variables: n, the number of words after gnomon; cmd, kind, last and word:
// the first, the second, the last complete and the present word.
std::string cases_of(const Command& command) {
  std::string text = fmt::format("  {})\n    case $last in\n", command.name());
  Words kinds, places;
  bool takes_files = false;
  for (const Argument& one : command.arguments()) {
    if (!one.is_option()) {
      places.push_back(joined(one.choices));
      takes_files = takes_files || one.is_file;
      if (one.selects) kinds = one.choices;
    } else if (!one.choices.empty()) {
      text +=
          fmt::format("    {}) _gnomon_words '{}'; return ;;\n", one.name, joined(one.choices));
    } else if (!one.is_flag()) {
      text +=
          fmt::format("    {}) {}return ;;\n", one.name, one.is_file ? "_gnomon_files; " : "");
    }
  }
  text += "    esac\n    case $n,$word in\n    *,-*) ;;\n";
  for (std::size_t i = 0; i < places.size(); ++i)
    if (!places[i].empty())
      text += fmt::format("    {},*) _gnomon_words '{}'; return ;;\n", i + 2, places[i]);
  if (takes_files) text += "    *) _gnomon_files; return ;;\n";
  text += "    esac\n    case $kind in\n";
  for (const std::string& kind : kinds)
    text +=
        fmt::format("    {}) _gnomon_words '{}' ;;\n", kind, joined(options_of(command, kind)));
  return text + fmt::format("    *) _gnomon_words '{}' ;;\n    esac ;;\n",
                            joined(options_of(command, "")));
}

std::string body() {
  std::string text = fmt::format(
      "  if [ $n -eq 1 ]; then _gnomon_words '{} help --help --version'; return; fi\n"
      "  case $cmd in\n"
      "  help) _gnomon_words '{}' ;;\n",
      joined(command_names()), joined(command_names()));
  for (const char* name : lab_commands)
    text += fmt::format(
        "  {}) case $word in -*) _gnomon_words '{}' ;; *) _gnomon_files ;; esac ;;\n", name,
        joined(lab_options(name)));
  for (const Command& command : all_commands()) text += cases_of(command);
  return text + "  esac\n";
}

std::string bash() {
  return "# Completion of gnomon for bash, written by `gnomon completion bash`.\n"
         "_gnomon_words() { mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$word\"); }\n"
         "_gnomon_files() {\n"
         "  compopt -o filenames 2>/dev/null || :\n"
         "  mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
         "}\n"
         "_gnomon() {\n"
         "  local n=$COMP_CWORD cmd=${COMP_WORDS[1]-} kind=${COMP_WORDS[2]-}\n"
         "  local last=${COMP_WORDS[COMP_CWORD-1]-} word=${COMP_WORDS[COMP_CWORD]-}\n"
         "  COMPREPLY=()\n" +
         body() + "}\ncomplete -F _gnomon gnomon\n";
}

std::string zsh() {
  return "#compdef gnomon\n"
         "# Completion of gnomon for zsh, written by `gnomon completion zsh`.\n"
         "_gnomon_words() { compadd -- ${=1}; }\n"
         "_gnomon_files() { _files; }\n"
         "_gnomon() {\n"
         "  local n=$((CURRENT - 1)) cmd=$words[2] kind=$words[3]\n"
         "  local last=$words[CURRENT-1] word=$words[CURRENT]\n" +
         body() +
         "}\n"
         "# Called by zsh, or read by `source`.\n"
         "if [ \"$funcstack[1]\" = _gnomon ]; then _gnomon \"$@\"; else compdef _gnomon "
         "gnomon; fi\n";
}

std::string fish() {
  std::string text =
      "# Completion of gnomon for fish, written by `gnomon completion fish`.\n"
      "complete -c gnomon -f\n";
  const auto add = [&](const std::string& condition, const std::string& rest) {
    text += fmt::format("complete -c gnomon -n '{}' {}\n", condition, rest);
  };
  for (const std::string& name : command_names())
    add("__fish_use_subcommand", fmt::format("-a {} -d '{}'", name, summary(name)));
  for (const char* name : lab_commands) {
    const std::string seen = std::string("__fish_seen_subcommand_from ") + name;
    add(seen, "-F");
    for (const std::string& option : lab_options(name)) add(seen, "-l " + option.substr(2));
  }
  for (const Command& command : all_commands()) {
    const std::string seen = "__fish_seen_subcommand_from " + command.name();
    int place = 1;
    for (const Argument& one : command.arguments()) {
      const std::string values = fmt::format("-a '{}'", joined(one.choices));
      if (!one.is_option()) {
        ++place;
        if (one.is_file) add(seen, "-F");
        if (!one.choices.empty())
          add(fmt::format("{}; and test (count (commandline -opc)) -eq {}", seen, place),
              values);
        continue;
      }
      const bool is_long = one.name.starts_with("--");
      std::string rest = is_long ? "-l " + one.name.substr(2) : "-s " + one.name.substr(1);
      if (!one.is_flag()) rest += one.is_file ? " -rF" : " -x";
      if (!one.choices.empty()) rest += " " + values;
      add(one.kinds.empty()
              ? seen
              : fmt::format("{}; and __fish_seen_subcommand_from {}", seen, joined(one.kinds)),
          rest);
    }
  }
  return text;
}

struct CompletionOptions {
  std::string shell, share;
};

void write_below(const std::filesystem::path& path, const std::string& text) {
  // create_directories of libstdc++ loses the reason if a folder cannot be examined.
  std::filesystem::path folder;
  for (const std::filesystem::path& part : path.parent_path()) {
    folder /= part;
    if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST)
      refuse(folder.string(), "must be a writable folder",
             std::generic_category().message(errno));
  }
  io::remove_leftovers(folder);
  io::write_atomically(path, text);
}

int run_completion(const CompletionOptions& o) {
  if (o.shell.empty() && o.share.empty())
    refuse("completion", "SHELL or --share must be given", "neither");
  if (o.shell == "bash") fmt::print("{}", bash());
  if (o.shell == "zsh") fmt::print("{}", zsh());
  if (o.shell == "fish") fmt::print("{}", fish());
  if (o.share.empty()) return 0;
  const std::filesystem::path share = o.share;
  write_below(share / "bash-completion/completions/gnomon", bash());
  write_below(share / "zsh/site-functions/_gnomon", zsh());
  write_below(share / "fish/vendor_completions.d/gnomon.fish", fish());
  for (const ManualPage& page : manual_pages())
    write_below(share / "man/man1" / page.file, page.text);
  return 0;
}

}  // namespace

Command completion_command() {
  Command command("completion", completion_help);
  auto o = std::make_shared<CompletionOptions>();
  command.option("SHELL", &o->shell).choices({"bash", "zsh", "fish"});
  command.option("--share", &o->share).file().not_with({"SHELL"});
  command.run = [o] { return run_completion(*o); };
  return command;
}

}  // namespace gnomon::cli
