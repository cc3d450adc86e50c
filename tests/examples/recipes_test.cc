// The programs of docs/recipes.md, and what the page says of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "examples/programs.h"
#include "io/temporary.h"

namespace gnomon {
namespace recipes_test {

using examples_test::done;
using examples_test::numbers;
using ::testing::HasSubstr;
using Recipes = examples_test::Examples;

std::string text_of(const std::string& file) {
  return testing::contents(GNOMON_SOURCE_DIR "/docs/" + file);
}

std::string hide_numbers(const std::string& text) {
  return std::regex_replace(text, examples_test::number, "#");
}

// Runs a program whose output the page shows, with other numbers of the form 1.2e-03.
std::string shown(const std::string& name) {
  const std::string output = done(name);
  EXPECT_THAT(hide_numbers(text_of("recipes.md")),
              HasSubstr("```text\n" + hide_numbers(output) + "```\n"));
  return output;
}

TEST_F(Recipes, BothFormsOfLatentAttentionGiveTheResultInDouble) {
  const auto errors = numbers(shown("mla"));
  ASSERT_EQ(errors.size(), 4u);
  EXPECT_LE(errors[0], 1e-5);
  EXPECT_LE(errors[1], 1e-5);
  EXPECT_LE(errors[2], 2e-2);  // half an ulp of bfloat16 in each latent
  EXPECT_GE(errors[2], 1e-4);
  EXPECT_GE(errors[3], 0.1);
}

TEST_F(Recipes, SharedPrefixesGiveTheResultOfCopies) {
  const auto errors = numbers(shown("prefix"));
  ASSERT_EQ(errors.size(), 3u);
  for (const double error : errors) EXPECT_LE(error, 1e-6);
}

TEST_F(Recipes, DraftsGiveTheTokensOfDecodingOneByOne) {
  const auto errors = numbers(shown("drafts"));
  ASSERT_EQ(errors.size(), 4u);
  EXPECT_EQ(errors[0], 0);
  for (const double error : errors) EXPECT_LE(error, 1e-5);
}

TEST_F(Recipes, RanksWithWholeGroupsOfHeadsGiveTheBitsOfOneCall) {
  const auto errors = numbers(shown("tensor_parallel"));
  ASSERT_EQ(errors.size(), 13u);
  for (std::size_t i = 0; i < 12; ++i)
    EXPECT_LE(errors[i], i % 4 == 3 ? 1e-5 : 0) << i;  // 4 queries, 4 ranks: shared key heads
  EXPECT_GE(errors[12], 0.1);
}

TEST_F(Recipes, MergedPartsGiveTheResultInDouble) {
  const auto errors = numbers(shown("merge"));
  ASSERT_EQ(errors.size(), 4u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_LE(errors[i], 5e-6) << i;
  EXPECT_GE(errors[3], 0.01);
}

TEST_F(Recipes, TwoEnginesGiveTheBitsOfOneThatRunsAlone) {
  EXPECT_THAT(done("two_engines"), HasSubstr("runs alone: the same bits\n"));
}

// Returns the lines without indentation.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    lines.push_back(line.substr(std::min(line.size(), line.find_first_not_of(' '))));
  return lines;
}

std::vector<std::string> programs() {
  static const std::regex row(R"(\n\| \[(\w+)\.cc\])");
  const std::string page = text_of("recipes.md");
  std::vector<std::string> names;
  for (std::sregex_iterator at(page.begin(), page.end(), row), end; at != end; ++at)
    names.push_back((*at)[1]);
  return names;
}

TEST(RecipesPage, HasTheNumbersOfLinesOfThePrograms) {
  const std::string page = text_of("recipes.md");
  EXPECT_GE(programs().size(), 6u);
  for (const std::string& name : programs()) {
    const auto lines = lines_of(text_of("examples/" + name + ".cc"));
    const auto calls = std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
      return line.find("gnomon::") != std::string::npos;
    });
    const std::string file = name + ".cc";
    EXPECT_THAT(
        page, HasSubstr("| [" + file + "](examples/" + file + ") | " +
                        std::to_string(lines.size()) + " | " + std::to_string(calls) + " | "));
  }
}

TEST(RecipesPage, ShowsLinesOfThePrograms) {
  std::vector<std::vector<std::string>> sources;
  for (const std::string& name : programs())
    sources.push_back(lines_of(text_of("examples/" + name + ".cc")));
  static const std::regex block("```cpp\n([^`]+)```\n");
  const std::string page = text_of("recipes.md");
  int blocks = 0;
  for (std::sregex_iterator at(page.begin(), page.end(), block), end; at != end; ++at) {
    const auto lines = lines_of((*at)[1]);
    EXPECT_TRUE(std::any_of(sources.begin(), sources.end(),
                            [&](const std::vector<std::string>& source) {
                              return std::search(source.begin(), source.end(), lines.begin(),
                                                 lines.end()) != source.end();
                            }))
        << "no program has the lines\n"
        << (*at)[1];
    ++blocks;
  }
  EXPECT_GE(blocks, 10);
}

}  // namespace recipes_test
}  // namespace gnomon
