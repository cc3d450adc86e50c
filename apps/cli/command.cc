#include "apps/cli/command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <string_view>

#include "apps/command_line/streams.h"
#include "gnomon/error.h"
#include "gnomon/version.h"
#include "src/core/nearest.h"
#include "src/core/text.h"
#include "src/io/folder.h"

namespace gnomon::cli {
namespace {

constexpr const char* help = R"(Usage: gnomon COMMAND [options]

Positional encodings for Transformers: tables, rotations, charts, comparisons.

  lab         train and compare encodings on your text, write a report
  generate    continue a text with a model that the lab trained
  evaluate    measure such a model on other texts and context lengths
  compare     compare the results in two output folders of the lab
  batches     write the batches of the lab for another program that trains
  inspect     print the position encoding of a released model
  table       write the table of an encoding as .npy, .csv or .json
  bias        write the matrix that a bias adds to the scores
  rotate      rotate queries or keys in a .npy file
  export      write the position of a layer as an ONNX model
  convert     reorder weights for the other rotary pairing
  resize      resample a learned table for another length or grid
  plot        draw tables, similarity, decay, wavelengths, biases, attention
  list        print the encodings, one line each
  explain     print the formula, source, users, cost and picture of an encoding
  check       print which claimed properties encodings have, with numbers
  bench       measure time, share of the roof and error of every kernel
  completion  print the completion script of a shell
  man         print a manual page

  gnomon COMMAND --help    print the options of a command, with an example
  gnomon --version

Example: gnomon check rotary
)";

using Make = Command (*)();
constexpr std::pair<const char*, Make> list[] = {
    {"inspect", inspect_command},
    {"table", table_command},
    {"bias", bias_command},
    {"rotate", rotate_command},
    {"export", export_command},
    {"convert", convert_command},
    {"resize", resize_command},
    {"plot", plot_command},
    {"list", list_command},
    {"explain", explain_command},
    {"check", check_command},
    {"bench", bench_command},
    {"completion", completion_command},
    {"man", man_command},
};

std::string command_line;

// A word with other characters than these is quoted.
std::string shell_word(const std::string& word) {
  constexpr const char* plain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+./:,=@%";
  if (!word.empty() && word.find_first_not_of(plain) == word.npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

int parse_and_run(int argc, char** argv) {
  char help_option[] = "--help";
  if (argc == 3 && !std::strcmp(argv[1], "help")) {  // gnomon help COMMAND
    argv[1] = argv[2];
    argv[2] = help_option;
  }
  if (argc < 2 || !std::strcmp(argv[1], "--help") || !std::strcmp(argv[1], "-h") ||
      !std::strcmp(argv[1], "help")) {
    std::fputs(help, argc < 2 ? stderr : stdout);
    return argc < 2 ? 2 : 0;
  }
  if (!std::strcmp(argv[1], "--version")) {
    fmt::print("gnomon {}\n", GNOMON_VERSION);
    return 0;
  }
  for (const char* name : lab_commands)
    if (!std::strcmp(argv[1], name)) return run_lab(argv);
  Make make = nullptr;
  for (const auto& [name, factory] : list)
    if (!std::strcmp(name, argv[1])) make = factory;
  if (!make) {
    const std::vector<std::string> names = command_names();
    const std::vector<std::string_view> views(names.begin(), names.end());
    refuse("gnomon", fmt::format("command must be one of {}", fmt::join(names, ", ")),
           internal::with_nearest(views, argv[1]));
  }
  Command command = make();
  for (int i = 2; i < argc; ++i)
    if (!std::strcmp(argv[i], "--help") || !std::strcmp(argv[i], "-h")) {
      std::fputs(command.help().c_str(), stdout);
      return 0;
    }
  command.parse(std::vector<std::string>(argv + 2, argv + argc));
  for (const CommandLine::Argument& one : command.arguments())
    if (one.is_output && !one.given.empty())
      io::remove_leftovers(std::filesystem::path(one.given[0]).parent_path());
  return command.run();
}

}  // namespace

const char* program_help() { return help; }

std::string summary(const std::string& command) {
  const std::string text = help, line = "\n  " + command + " ";
  const std::size_t begin = text.find_first_not_of(' ', text.find(line) + line.size());
  return text.substr(begin, text.find('\n', begin) - begin);
}

std::vector<std::string> command_names() {
  std::vector<std::string> names(std::begin(lab_commands), std::end(lab_commands));
  for (const auto& [name, make] : list) names.emplace_back(name);
  return names;
}

std::vector<Command> all_commands() {
  std::vector<Command> commands;
  for (const auto& [name, make] : list) commands.push_back(make());
  return commands;
}

const std::string& command_text() { return command_line; }

int run_program(int argc, char** argv) {
  reserve_standard_streams();
  try {
    command_line = "gnomon";
    for (int i = 1; i < argc; ++i) command_line += " " + shell_word(argv[i]);
    const int status = parse_and_run(argc, argv);
    check_standard_output();
    return status;
  } catch (const std::exception& error) {
    print_error("gnomon: " + internal::printable(error_text(error, "gnomon")));
    return 2;
  }
}

}  // namespace gnomon::cli
