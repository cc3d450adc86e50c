// Completion scripts in their shells, and manual pages in groff. A shell that is not installed
// is skipped with a message.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "apps/cli/command.h"
#include "program.h"

namespace gnomon::cli {
namespace cli_completion_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

class Completion : public InFolder {
 protected:
  // Completes the last word of a command line in bash.
  Words completed(const Words& line) const {
    std::string words = "gnomon";
    for (const std::string& word : line) words += " '" + word + "'";
    const auto outcome = testing::run(
        "/bin/bash",
        {"--norc", "-c",
         "set -eu; cd '" + folder() + "'; source gnomon.bash; COMP_WORDS=(" + words +
             "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _gnomon; "
             "for one in \"${COMPREPLY[@]}\"; do echo \"$one\"; done"},
        testing::Streams::separate);
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    EXPECT_EQ(outcome.errors, "");
    Words found;
    std::istringstream lines(outcome.output);
    for (std::string one; std::getline(lines, one);) found.push_back(one);
    return found;
  }
};

TEST_F(Completion, InBash) {
  testing::put(file("gnomon.bash"), done({"completion", "bash"}));
  testing::put(file("a b.npy"), "");
  EXPECT_THAT(completed({"ta"}), ElementsAre("table"));
  EXPECT_THAT(completed({"table", "s"}), ElementsAre("sinusoidal"));
  EXPECT_THAT(completed({"table", "rotary", "--pa"}), ElementsAre("--pairing"));
  EXPECT_THAT(completed({"table", "rotary", "--pairing", ""}),
              ElementsAre("halves", "adjacent"));
  EXPECT_THAT(completed({"table", "rotary", "--"}),
              AllOf(Contains("--angles"), Not(Contains("--shift")), Contains("--help")));
  EXPECT_THAT(completed({"table", "rotary", "--dim", ""}), ElementsAre());
  EXPECT_THAT(completed({"table", "rotary", "-o", "a"}), ElementsAre("a b.npy"));
  EXPECT_THAT(completed({"bias", "alibi", "--max"}), ElementsAre("--max-bias"));
  EXPECT_THAT(completed({"bias", "t5", "--max"}), ElementsAre("--max-distance"));
  EXPECT_THAT(completed({"rotate", "a"}), ElementsAre("a b.npy"));
  EXPECT_THAT(completed({"man", "ta"}), ElementsAre("table"));
}

// A copy of the program beside a program that prints the help of a lab.
TEST_F(Completion, OptionsOfTheLabComeFromItsHelp) {
  fs::create_directory(file("it's"));
  fs::copy(GNOMON_PROGRAM, file("it's/gnomon"));
  testing::put(file("it's/gnomon-lab"),
               "#!/bin/sh\nprintf 'Usage: gnomon lab [TEXT...]\\n\\nCompares.\\n"
               "  --encodings A,B  --json\\n\\nExample: gnomon lab\\n'\n");
  fs::permissions(file("it's/gnomon-lab"), fs::perms::owner_all);
  const auto print = [&](const Words& words) {
    const auto outcome = testing::run(file("it's/gnomon"), words, testing::Streams::separate);
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    return outcome.output;
  };
  testing::put(file("gnomon.bash"), print({"completion", "bash"}));
  EXPECT_THAT(completed({"lab", "--"}), ElementsAre("--encodings", "--json"));
  EXPECT_THAT(print({"completion", "fish"}), HasSubstr("-l encodings\n"));
  EXPECT_THAT(print({"man", "lab"}), HasSubstr("gnomon lab [TEXT...]"));
}

TEST_F(Completion, EveryCommandIsInEveryScript) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string script = done({"completion", shell});
    for (const Command& command : all_commands())
      for (const auto& argument : command.arguments())
        if (argument.is_option()) {
          const bool is_fish = shell == std::string("fish");
          EXPECT_THAT(script, HasSubstr(is_fish ? argument.name.substr(2) : argument.name));
        }
  }
}

// Checks the syntax of a script with `shell --no-execute`.
void expect_syntax(const std::string& shell, const std::string& script) {
  std::string program;
  for (const char* folder : {"/usr/bin/", "/bin/", "/usr/local/bin/"})
    if (fs::exists(folder + shell)) program = folder + shell;
  if (program.empty()) GTEST_SKIP() << shell << " is not installed";
  const auto outcome = testing::run(program, {"-n", script}, testing::Streams::joined);
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(outcome.output, "");
}

TEST_F(Completion, ScriptOfZshIsWellFormed) {
  expect_syntax("zsh", testing::put(file("_gnomon"), done({"completion", "zsh"})));
}

TEST_F(Completion, ScriptOfFishIsWellFormed) {
  expect_syntax("fish", testing::put(file("gnomon.fish"), done({"completion", "fish"})));
}

TEST_F(Completion, WritesTheFilesThatAreInstalled) {
  EXPECT_EQ(done({"completion", "--share", file("share")}), "");
  EXPECT_EQ(testing::contents(file("share/bash-completion/completions/gnomon")),
            done({"completion", "bash"}));
  EXPECT_TRUE(fs::exists(file("share/zsh/site-functions/_gnomon")));
  EXPECT_TRUE(fs::exists(file("share/fish/vendor_completions.d/gnomon.fish")));
  const Words pages = names("share/man/man1");
  EXPECT_THAT(pages, Contains("gnomon.1"));
  for (const Command& command : all_commands()) {
    const std::string page = "gnomon-" + command.name() + ".1";
    EXPECT_THAT(pages, Contains(page));
    EXPECT_EQ(testing::contents(file("share/man/man1/" + page)), done({"man", command.name()}));
  }
  EXPECT_THAT(refused({"completion"}), HasSubstr("SHELL or --share must be given"));
  EXPECT_THAT(refused({"completion", "tcsh"}), HasSubstr("SHELL must be one of bash, zsh"));
  testing::put(file("not-a-folder"), "");
  EXPECT_THAT(refused({"completion", "--share", file("not-a-folder")}),
              HasSubstr("Not a directory"));
}

TEST_F(Completion, ManualPagesAreWellFormedAndHaveTheHelp) {
  if (!fs::exists("/usr/bin/groff")) GTEST_SKIP() << "groff is not installed";
  done({"completion", "--share", file("share")});
  for (const std::string& page : names("share/man/man1")) {
    const auto formatted = testing::run(
        "/usr/bin/groff", {"-ww", "-man", "-Tascii", "-P-cbou", file("share/man/man1/" + page)},
        testing::Streams::separate);
    EXPECT_EQ(formatted.code, 0);
    EXPECT_EQ(formatted.errors, "") << page;
    EXPECT_THAT(formatted.output, AllOf(HasSubstr("SYNOPSIS"), HasSubstr("DESCRIPTION")));
    if (page == "gnomon-table.1") {
      EXPECT_THAT(formatted.output,
                  AllOf(HasSubstr("gnomon-table - write"), HasSubstr("--scale-base (512)"),
                        HasSubstr("--pairing halves \\")));
    }
  }
}

}  // namespace cli_completion_test
}  // namespace gnomon::cli
