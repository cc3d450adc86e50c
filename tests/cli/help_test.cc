// The help of every command fits a screen and names every option, and its example is parsed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "apps/cli/command.h"
#include "process.h"

namespace gnomon::cli {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) all.push_back(line);
  return all;
}

TEST(Help, FitsAScreen) {
  CLI::App program;
  for (const Command& command : add_commands(program)) {
    const auto text = lines(command.help);
    EXPECT_LE(text.size(), 24u) << command.app->get_name();
    for (const std::string& line : text) EXPECT_LE(line.size(), 80u) << line;
  }
}

TEST(Help, NamesEveryOptionAndShowsAnExample) {
  CLI::App program;
  for (const Command& command : add_commands(program)) {
    EXPECT_THAT(command.help, HasSubstr("Usage: gnomon " + command.app->get_name()));
    EXPECT_THAT(command.help, HasSubstr("Example: gnomon " + command.app->get_name()));
    for (const CLI::Option* option : command.app->get_options()) {
      const std::string name = option->get_single_name();
      if (name == "help") continue;
      const char* dashes = option->get_positional() ? "" : name.size() == 1 ? "-" : "--";
      EXPECT_THAT(command.help, HasSubstr(dashes + name)) << command.app->get_name();
    }
  }
}

TEST(Help, IsPrintedByTheProgram) {
  CLI::App program;
  const auto commands = add_commands(program);
  for (const Command& command : commands) {
    const auto outcome = testing::run(GNOMON_PROGRAM, {command.app->get_name(), "--help"},
                                      testing::Streams::separate);
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.output, command.help);
    EXPECT_EQ(outcome.errors, "");
  }
  const auto all = testing::run(GNOMON_PROGRAM, {"--help"}, testing::Streams::separate);
  EXPECT_EQ(all.code, 0);
  for (const Command& command : commands)
    EXPECT_THAT(all.output, HasSubstr("\n  " + command.app->get_name() + " "));
}

}  // namespace
}  // namespace gnomon::cli
