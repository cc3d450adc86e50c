// The subcommands of `gnomon`. Each has a file of its name with its help text (one screen), its
// options and its implementation. A new subcommand is added to the list in command.cc.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace gnomon::cli {

struct Command {
  CLI::App* app;
  const char* help;          // what --help prints
  std::function<int()> run;  // after parsing; returns the exit status
};

// Adds a subcommand without options. `help` begins with its usage line.
CLI::App* add_app(CLI::App& program, const char* name, const char* help);

Command add_inspect(CLI::App& program);
Command add_table(CLI::App& program);
Command add_bias(CLI::App& program);
Command add_rotate(CLI::App& program);
Command add_convert(CLI::App& program);
Command add_resize(CLI::App& program);
Command add_plot(CLI::App& program);
Command add_check(CLI::App& program);
Command add_bench(CLI::App& program);

// Replaces this process by gnomon-lab. argv: those of `gnomon lab ...`.
int run_lab(char** argv);

// Adds all subcommands to `program`, in the order of the help.
std::vector<Command> add_commands(CLI::App& program);

// Runs the program: parses the arguments, runs the command, prints errors as one line on
// stderr. Returns the exit status.
int run_program(int argc, char** argv);

}  // namespace gnomon::cli
