#include "apps/lab/report/report.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>

#include "apps/lab/data/corpus.h"
#include "apps/lab/runs/session.h"
#include "apps/lab/tasks/make_model.h"
#include "lab/tiny.h"

namespace gnomon::lab {
namespace terminal_test {

// Sets the title of a terminal, and reverses the direction of text.
const std::string hostile = "\x1b]0;t\a\u009b\u202e";

void expect_escaped(const std::string& text) {
  EXPECT_NE(text.find("Left out: \\x1b]0;t\\x07"), std::string::npos) << text;
  for (const char* raw : {"\x1b", "\a", "\u009b", "\u202e"})
    EXPECT_EQ(text.find(raw), std::string::npos) << text;
}

// With --finetune, the names of settings.json are checked when the models are made.
TEST(Terminal, NamesOfEncodingsThatAreLeftOutAreEscaped) {
  Results results;
  results.left_out = {{hostile, "unknown"}};
  expect_escaped(terminal_summary(results, Colour::never));

  SessionResult session;
  session.settings = testing::tiny();
  session.settings.encodings = {"none", hostile};
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(std::tmpfile(), std::fclose);
  ASSERT_TRUE(stream);
  remove_unusable_encodings(session, load_corpus(session.settings), stream.get());
  EXPECT_EQ(session.settings.encodings, std::vector<std::string>{"none"});
  std::string printed(static_cast<std::size_t>(std::ftell(stream.get())), '\0');
  std::rewind(stream.get());
  ASSERT_EQ(std::fread(printed.data(), 1, printed.size(), stream.get()), printed.size());
  expect_escaped(printed);
}

}  // namespace terminal_test
}  // namespace gnomon::lab
