// The subcommands of `gnomon`. Each lives in a file of its name: a help text that fits a
// screen, its options, and what it does. A new one joins the list in command.cc.
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

// A subcommand without options yet. `help` begins with its usage line.
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

// All of them on `program`, in the order of the help.
std::vector<Command> add_commands(CLI::App& program);

// The whole program: parses, runs, turns errors into one line on stderr; the exit status.
int run_program(int argc, char** argv);

}  // namespace gnomon::cli
