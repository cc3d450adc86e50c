// The subcommands of `gnomon`. Each has a file of its name with its help text (one screen), its
// options and its implementation. A new subcommand is added to the list in command.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace CLI {
class App;
}

namespace gnomon::cli {

// A subcommand. CLI11 parses its options; its header, which takes seconds to compile, is included
// by command.cc only.
class Command {
 public:
  // Where the value of an option is stored. It must live as long as `run`.
  using Target = std::variant<std::string*, int*, std::int64_t*, double*, std::optional<int>*,
                              std::optional<std::int64_t>*, std::optional<double>*,
                              std::optional<std::string>*>;

  // `help`: what --help prints; it begins with its usage line.
  Command(const char* name, const char* help);
  Command(Command&&) noexcept;
  ~Command();

  // Adds an option ("--tokens", "-o") or a positional argument ("NAME"). *given: set if it is
  // given.
  Command& option(const char* name, Target target, bool* given = nullptr);
  Command& required(const char* name, Target target);
  Command& flag(const char* name, bool* target);
  // Other arguments are accepted and stored in `rest`.
  Command& others(std::vector<std::string>* rest);

  const std::string& name() const { return name_; }
  const std::string& help() const { return help_; }
  // Names of all options and positional arguments, without --help.
  std::vector<std::string> options() const;
  // argv: those of `gnomon NAME ...`. Throws std::invalid_argument with one line.
  void parse(int argc, const char* const* argv);

  std::function<int()> run;  // after parse(); returns the exit status

 private:
  std::string name_, help_;
  std::unique_ptr<CLI::App> program_;
  CLI::App* app_;
};

Command inspect_command();
Command table_command();
Command bias_command();
Command rotate_command();
Command convert_command();
Command resize_command();
Command plot_command();
Command check_command();
Command bench_command();

// All subcommands, in the order of the help.
std::vector<Command> all_commands();

// Replaces this process by gnomon-lab. argv: those of `gnomon lab ...`.
int run_lab(char** argv);

// Runs the program: parses the arguments, runs the command, prints errors as one line on
// stderr. Returns the exit status.
int run_program(int argc, char** argv);

}  // namespace gnomon::cli
