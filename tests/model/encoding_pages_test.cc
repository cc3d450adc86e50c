// Every encoding has a formula and a page that contains the formula and the users.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>

#include "gnomon/model/encoding.h"

namespace gnomon::model {
namespace encoding_pages_test {

// The words with one space between them, so that line breaks and columns do not count.
std::string words(const std::string& text) {
  std::istringstream in(text);
  std::string all = " ";
  for (std::string word; in >> word;) all += word + " ";
  return all;
}

std::string page_of(const EncodingInfo& info) {
  std::ifstream in(std::string(GNOMON_SOURCE_DIR) + "/docs/" + std::string(info.page));
  EXPECT_TRUE(in) << info.page;
  return words({std::istreambuf_iterator<char>(in), {}});
}

TEST(EncodingPages, FormulaLinesAreOnThePage) {
  for (const EncodingInfo& one : encodings()) {
    const std::string page = page_of(one);
    std::istringstream formula{std::string(one.formula)};
    int lines = 0;
    for (std::string line; std::getline(formula, line); ++lines) {
      // Tables of a page have a formula without its left side.
      const bool names = line.starts_with("row = ") || line.starts_with("f(r) = ");
      const std::string wanted = words(names ? line.substr(line.find('=') + 1) : line);
      EXPECT_NE(page.find(wanted.substr(1, wanted.size() - 2)), std::string::npos)
          << one.name << ": " << line;
    }
    EXPECT_GE(lines, 1) << one.name;
  }
}

TEST(EncodingPages, UsersAreOnThePage) {
  int users = 0;
  for (const EncodingInfo& one : encodings()) {
    const std::string page = page_of(one);
    // "A, B; with an offset C, D (a remark)": A, B, C and D.
    std::string list(one.users);
    list = std::regex_replace(list, std::regex("\\([^)]*\\)"), "");
    list = std::regex_replace(
        list, std::regex("; (with an offset|with another scale|in other recipes) "), ", ");
    std::istringstream names(list);
    for (std::string name; std::getline(names, name, ','); ++users) {
      const std::string wanted = words(name);
      EXPECT_NE(page.find(wanted.substr(1, wanted.size() - 2)), std::string::npos)
          << one.name << ": " << name;
    }
  }
  EXPECT_GE(users, 100);
}

}  // namespace encoding_pages_test
}  // namespace gnomon::model
