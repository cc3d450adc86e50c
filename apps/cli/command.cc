#include "apps/cli/command.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstring>
#include <new>
#include <stdexcept>

#include "gnomon/error.h"
#include "gnomon/version.h"

namespace gnomon::cli {
namespace {

constexpr const char* program_help = R"(Usage: gnomon COMMAND [options]

Positional encodings for Transformers: tables, rotations, charts, comparisons.

  lab      train and compare encodings on your text, write a report
  inspect  print the position encoding of a released model
  table    write cos and sin or sinusoidal embeddings as .npy, .csv or .json
  bias     write the matrix that a bias adds to the scores
  rotate   rotate queries or keys in a .npy file
  convert  reorder weights for the other rotary pairing
  resize   resample a learned table for another length or grid
  plot     draw tables, similarity, decay, wavelengths, biases, attention
  check    print properties of encodings, as numbers
  bench    measure time, share of the roof and error of every kernel

  gnomon COMMAND --help    print the options of a command, with an example
  gnomon --version

Example: gnomon check rotary
)";

// Joins the lines of a parser's message.
std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text;
}

std::string parse_message(const std::string& name, const CLI::ParseError& error) {
  return fmt::format("[{0}] {1}; see {2} --help", name, one_line(error.what()),
                     name == "gnomon" ? name : "gnomon " + name);
}

int fail(const std::string& message) {
  fmt::print(stderr, "gnomon: {}\n", one_line(message));
  return 2;
}

using Add = Command (*)(CLI::App&);
constexpr std::pair<const char*, Add> list[] = {
    {"inspect", add_inspect}, {"table", add_table},     {"bias", add_bias},
    {"rotate", add_rotate},   {"convert", add_convert}, {"resize", add_resize},
    {"plot", add_plot},       {"check", add_check},     {"bench", add_bench},
};

int parse_and_run(int argc, char** argv) {
  if (argc < 2 || !std::strcmp(argv[1], "--help") || !std::strcmp(argv[1], "-h") ||
      !std::strcmp(argv[1], "help")) {
    std::fputs(program_help, argc < 2 ? stderr : stdout);
    return argc < 2 ? 2 : 0;
  }
  if (!std::strcmp(argv[1], "--version")) {
    fmt::print("gnomon {}\n", GNOMON_VERSION);
    return 0;
  }
  if (!std::strcmp(argv[1], "lab")) return run_lab(argv + 1);
  Add add = nullptr;
  std::string names = "lab";
  for (const auto& [name, its_add] : list) {
    names += std::string(", ") + name;
    if (!std::strcmp(name, argv[1])) add = its_add;
  }
  if (!add) refuse("gnomon", "command must be one of " + names, argv[1]);
  // Only the requested command is added, so that `gnomon bench table` does not parse as `gnomon
  // table`.
  CLI::App program;
  program.set_help_flag();
  const Command command = add(program);
  for (int i = 2; i < argc; ++i)
    if (!std::strcmp(argv[i], "--help") || !std::strcmp(argv[i], "-h")) {
      std::fputs(command.help, stdout);
      return 0;
    }
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return fail(parse_message(argv[1], error));
  }
  return command.run();
}

}  // namespace

CLI::App* add_app(CLI::App& program, const char* name, const char* help) {
  CLI::App* app = program.add_subcommand(name, help);
  app->set_help_flag();
  app->add_flag("-h,--help");
  return app;
}

std::vector<Command> add_commands(CLI::App& program) {
  std::vector<Command> commands;
  for (const auto& [name, add] : list) commands.push_back(add(program));
  return commands;
}

int run_program(int argc, char** argv) {
  try {
    const int status = parse_and_run(argc, argv);
    if (std::fflush(stdout) != 0)
      refuse("gnomon", "standard output must be writable", std::strerror(errno));
    return status;
  } catch (const std::bad_alloc&) {
    return fail("[gnomon] the result must fit in memory, got more");
  } catch (const std::length_error&) {
    return fail("[gnomon] the result must fit in memory, got more");
  } catch (const std::exception& error) {
    return fail(error.what());
  }
}

}  // namespace gnomon::cli
