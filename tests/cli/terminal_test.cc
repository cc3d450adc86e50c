// Width and colour on a terminal (a pseudo terminal of the test), and their absence in a pipe.
#include "apps/command_line/terminal.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "program.h"

namespace gnomon::cli {
namespace cli_terminal_test {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* config = R"({"model_type": "llama", "hidden_size": 4096,
  "num_hidden_layers": 32, "num_attention_heads": 32, "max_position_embeddings": 8192,
  "rope_theta": 500000.0})";

enum class NoColor { unset = 1, set };

// Runs the program on a terminal of that many columns. Returns its output.
std::string on_terminal(const std::vector<std::string>& arguments, int columns,
                        NoColor no_color) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || ::grantpt(terminal) != 0 || ::unlockpt(terminal) != 0) return {};
  const winsize size{.ws_row = 24,
                     .ws_col = static_cast<unsigned short>(columns),
                     .ws_xpixel = 0,
                     .ws_ypixel = 0};
  const std::string name = ::ptsname(terminal);
  const int program = ::open(name.c_str(), O_RDWR | O_NOCTTY);
  ::ioctl(terminal, TIOCSWINSZ, &size);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(program, STDOUT_FILENO);
    if (no_color == NoColor::set)
      ::setenv("NO_COLOR", "1", 1);
    else
      ::unsetenv("NO_COLOR");
    std::vector<std::string> all{GNOMON_PROGRAM};
    all.insert(all.end(), arguments.begin(), arguments.end());
    std::vector<char*> pointers;
    for (std::string& one : all) pointers.push_back(one.data());
    pointers.push_back(nullptr);
    ::execv(pointers[0], pointers.data());
    ::_exit(127);
  }
  ::close(program);
  std::string text;
  char block[4096];
  for (ssize_t got; (got = ::read(terminal, block, sizeof block)) > 0;)
    text.append(block, static_cast<std::size_t>(got));
  ::waitpid(child, nullptr, 0);
  ::close(terminal);
  std::erase(text, '\r');
  return text;
}

std::size_t longest_line(const std::string& text) {
  std::size_t most = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) most = std::max(most, line.size());
  return most;
}

TEST(Terminal, WrapsAtTheWidth) {
  EXPECT_EQ(wrapped("one two three", "", "", 7), "one two\nthree\n");
  EXPECT_EQ(wrapped("one two three", "a: ", "   ", 10), "a: one two\n   three\n");
  EXPECT_EQ(wrapped("incomprehensible word", "a: ", "   ", 10),
            "a: incomprehensible\n   word\n");
  EXPECT_EQ(wrapped("", "a: ", "", 10), "a: \n");
  EXPECT_EQ(wrapped("\xc3\xa9\xc3\xa9 \xc3\xa9\xc3\xa9", "", "", 5),
            "\xc3\xa9\xc3\xa9 \xc3\xa9\xc3\xa9\n");
}

class InTerminal : public InFolder {};

TEST_F(InTerminal, InspectWrapsToTheWidthAndHasColour) {
  const std::string path = testing::put(file("config.json"), config);
  const std::string narrow = on_terminal({"inspect", path}, 50, NoColor::set);
  if (narrow.empty()) GTEST_SKIP() << "this machine has no pseudo terminals";
  const std::string wide = on_terminal({"inspect", path}, 120, NoColor::set);
  EXPECT_THAT(narrow, HasSubstr("llama, 32 layers"));
  EXPECT_LE(longest_line(narrow), 50u);
  EXPECT_GT(longest_line(wide), 60u);
  EXPECT_THAT(narrow, Not(HasSubstr("\x1b")));
  EXPECT_THAT(on_terminal({"inspect", path}, 80, NoColor::unset), HasSubstr("\x1b[1m"));
}

TEST_F(InTerminal, APipeHas80ColumnsAndNoColour) {
  const std::string path = testing::put(file("config.json"), config);
  const std::string text = done({"inspect", path});
  EXPECT_LE(longest_line(text), 80u);
  EXPECT_GT(longest_line(text), 60u);
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  for (const char* dtype : {"f32", "f64"})
    EXPECT_LE(longest_line(done({"table", "sinusoidal", "--dim", "64", "--positions", "0:20",
                                 "--dtype", dtype})),
              80u);
  EXPECT_LE(longest_line(done({"bias", "t5", "--heads", "1", "--queries", "20", "--keys", "40",
                               "--indices"})),
            80u);
  EXPECT_LE(longest_line(done({"bench", "table", "--tokens", "1", "--threads", "1"})), 80u);
}

}  // namespace cli_terminal_test
}  // namespace gnomon::cli
