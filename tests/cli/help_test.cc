// The help of every command fits a screen and names every option, and its example is parsed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "apps/cli/command.h"
#include "io/temporary.h"
#include "process.h"

namespace gnomon::cli {
namespace help_test {

using ::testing::HasSubstr;

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) all.push_back(line);
  return all;
}

TEST(Help, FitsAScreen) {
  for (const Command& command : all_commands()) {
    const auto text = lines(command.help());
    EXPECT_LE(text.size(), 24u) << command.name();
    for (const std::string& line : text) EXPECT_LE(line.size(), 80u) << line;
  }
}

TEST(Help, NamesEveryOptionAndShowsAnExample) {
  for (const Command& command : all_commands()) {
    EXPECT_THAT(command.help(), HasSubstr("Usage: gnomon " + command.name()));
    EXPECT_THAT(command.help(), HasSubstr("Example: gnomon " + command.name()));
    for (const std::string& option : command.options())
      EXPECT_THAT(command.help(), HasSubstr(option)) << command.name();
  }
}

TEST(Help, IsPrintedByTheProgram) {
  const auto commands = all_commands();
  for (const Command& command : commands) {
    const auto outcome =
        testing::run(GNOMON_PROGRAM, {command.name(), "--help"}, testing::Streams::separate);
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.output, command.help());
    EXPECT_EQ(outcome.errors, "");
  }
  const auto all = testing::run(GNOMON_PROGRAM, {"--help"}, testing::Streams::separate);
  EXPECT_EQ(all.code, 0);
  for (const Command& command : commands)
    EXPECT_THAT(all.output, HasSubstr("\n  " + command.name() + " "));
}

TEST(Help, OfACommandIsPrintedInThreeWays) {
  for (const char* option : {"--help", "-h"})
    EXPECT_EQ(testing::run(GNOMON_PROGRAM, {"table", option}, testing::Streams::joined).output,
              testing::run(GNOMON_PROGRAM, {"help", "table"}, testing::Streams::joined).output);
  EXPECT_EQ(testing::run(GNOMON_PROGRAM, {"help", "tabel"}, testing::Streams::joined).code, 2);
}

TEST(Help, ThePageOfTheProgramHasEveryCommand) {
  const std::string page = testing::contents(GNOMON_SOURCE_DIR "/docs/cli/program.md");
  for (const std::string& name : command_names())
    EXPECT_TRUE(page.find("| `" + name) != page.npos || page.find("| [`" + name) != page.npos)
        << name;
}

}  // namespace help_test
}  // namespace gnomon::cli
