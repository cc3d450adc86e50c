// Texts of the entries: formula and users are on the page, names are unique, and each
// checkpoint tensor is one of a parameter.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "gnomon/model/encoding.h"
#include "src/model/encodings/lowering.h"

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

TEST(EncodingPages, SynonymsFindTheirEncoding) {
  int synonyms = 0;
  for (const EncodingInfo& one : encodings()) {
    std::istringstream list{std::string(one.synonyms)};
    for (std::string synonym; std::getline(list, synonym, ','); ++synonyms)
      EXPECT_EQ(find_encoding(synonym).name, one.name) << synonym;
  }
  EXPECT_GE(synonyms, 50);
}

// Encodings of several names may have more parameters in some settings.
TEST(EncodingPages, TensorsAndPathsAreThoseOfParameters) {
  std::map<std::size_t, std::set<std::string>> all, tensors;
  for (const EncodingInfo& one : encodings()) {
    const Encoding encoding = one.usual({.width = 32, .heads = 4, .length = 16});
    std::set<std::string> paths;
    for (const Parameter& parameter : parameters(encoding)) {
      all[encoding.index()].insert(parameter.name);
      EXPECT_TRUE(paths.insert(parameter.path.empty() ? parameter.name : parameter.path).second)
          << one.name << ' ' << parameter.path;
      std::int64_t elements = 1;
      for (const std::int64_t extent : parameter.shape) elements *= extent;
      if (!parameter.shape.empty()) {
        EXPECT_EQ(elements, parameter.rows * parameter.columns) << parameter.name;
      }
    }
    for (const CheckpointName& tensor : internal::tensors(encoding))
      tensors[encoding.index()].emplace(tensor.parameter);
  }
  EXPECT_GE(tensors.size(), 11u);
  for (const auto& [index, names] : tensors)
    for (const std::string& name : names) EXPECT_TRUE(all[index].contains(name)) << name;
}

}  // namespace encoding_pages_test
}  // namespace gnomon::model
