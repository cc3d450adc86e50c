// The subcommands of `gnomon`. Each has a file of its name with its help text (one screen), its
// options and its implementation. A new subcommand is added to the list in command.cc.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "apps/command_line/command_line.h"

namespace gnomon::cli {

// A subcommand: its options, which CommandLine parses, its help and its implementation.
class Command : public CommandLine {
 public:
  // `help`: what --help prints; it begins with its usage line.
  Command(const char* name, const char* help) : CommandLine(name), help_(help) {}

  const std::string& help() const { return help_; }

  std::function<int()> run;  // called after parse(); returns the exit status

 private:
  std::string help_;
};

Command inspect_command();
Command table_command();
Command bias_command();
Command rotate_command();
Command export_command();
Command convert_command();
Command resize_command();
Command plot_command();
Command check_command();
Command list_command();
Command explain_command();
Command bench_command();
Command completion_command();
Command man_command();

// The names of all subcommands, in the order of the help, and the subcommands without the lab.
std::vector<std::string> command_names();
std::vector<Command> all_commands();

// The command of this process as a line for a shell: "gnomon plot table -o table.html".
const std::string& command_text();
const char* program_help();
// Returns the line of the program's help about a command.
std::string summary(const std::string& command);

// The commands that gnomon-lab runs.
inline constexpr const char* lab_commands[] = {"lab", "generate", "evaluate", "compare",
                                               "batches"};
// Returns the help of one of them, or an empty text if gnomon-lab is not installed.
std::string lab_help(const std::string& command);
// Replaces this process by gnomon-lab. argv[1]: one of lab_commands.
int run_lab(char** argv);

// Runs the program: parses the arguments, runs the command, prints errors as one line on
// stderr. Returns the exit status.
int run_program(int argc, char** argv);

}  // namespace gnomon::cli
