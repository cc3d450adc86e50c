// The options and arguments of a command, the rules that they follow, and their parser. An
// error is one line: "[table] --dim must be an integer, got x; see gnomon table --help".
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace gnomon {

class CommandLine {
 public:
  // Where the value of an option is stored. It must live as long as the command. A bool is a
  // flag. A vector receives all remaining arguments.
  using Target =
      std::variant<bool*, std::string*, int*, std::int64_t*, double*, std::optional<int>*,
                   std::optional<std::int64_t>*, std::optional<double>*,
                   std::optional<std::string>*, std::vector<std::string>*>;

  struct Argument {
    std::string name;  // "--tokens", "-o"; without a hyphen: a positional argument, "NAME"
    Target target;
    bool is_required = false;  // required for its kinds
    bool is_listed = true, is_file = false, is_output = false;
    bool selects = false;
    std::optional<std::int64_t> least = {};
    std::vector<std::string> choices = {}, titles = {};  // titles: empty, or one for each
    std::function<std::string()> rule = {};  // rule on choices; empty: "must be one of ..."
    std::vector<std::string> kinds = {}, partners = {}, opponents = {};
    std::vector<std::string> given = {};  // the words of this call; the name of a flag

    bool is_option() const { return name.starts_with('-'); }
    bool is_flag() const { return std::holds_alternative<bool*>(target); }
  };

  explicit CommandLine(std::string name) : name_(std::move(name)) {}

  CommandLine& option(std::string name, Target target);
  CommandLine& required(std::string name, Target target);
  CommandLine& flag(std::string name, bool* target) { return option(std::move(name), target); }

  // Rules of the argument that was added last. A value that breaks one is refused.
  //
  // at_least: the least value of a number. choices: the possible values; case, hyphens and
  // spaces of a given value do not count, and a title is accepted. The target receives the
  // choice. `rule`: returns the text for another value instead of "must be one of ...".
  CommandLine& at_least(std::int64_t least);
  CommandLine& choices(std::vector<std::string> names, std::vector<std::string> titles = {},
                       std::function<std::string()> rule = {});
  // Rules for options that have an effect in some calls only. `selects` marks the argument with
  // choices that `only_for` refers to; `required_for`: as only_for, and those kinds require the
  // option. only_with: one of these options must be given too.
  CommandLine& selects();
  CommandLine& only_for(std::vector<std::string> kinds);
  CommandLine& required_for(std::vector<std::string> kinds);
  CommandLine& only_with(std::vector<std::string> options);
  CommandLine& not_with(std::vector<std::string> options);
  // unlisted: the help of the command does not name the option. file: the value is a path, for
  // the completion of shells. output: it is the path of a file that the command writes; that of
  // -o is.
  CommandLine& unlisted();
  CommandLine& file();
  CommandLine& output();

  const std::string& name() const { return name_; }
  std::span<const Argument> arguments() const { return arguments_; }
  // Names of all options and positional arguments that the help names.
  std::vector<std::string> options() const;
  // Whether the last parse() found an option or argument of that name.
  bool given(std::string_view name) const;

  // words: the arguments after the name of the command. "--name value", "--name=value",
  // "-ovalue"; after "--", all words are positional. A word that begins with a hyphen and a
  // digit is a value. Throws std::invalid_argument with one line.
  void parse(std::span<const std::string> words);

 private:
  [[noreturn]] void fail(const std::string& rule, std::string_view got) const;
  Argument& find(const std::string& name, const std::string& word);
  void give(Argument& argument, const std::string& value);
  void take(const std::string& value);
  void choose(Argument& argument);
  void store(Argument& argument) const;
  std::string selected() const;
  bool applies(const Argument& argument) const;
  void check_uses(const Argument& argument) const;

  std::string name_;
  std::vector<Argument> arguments_;
};

}  // namespace gnomon
