// Tests that what the library knows of a family of models stands in one place.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "src/model/families/family.h"

namespace gnomon {
namespace families_test {

namespace fs = std::filesystem;

using model::internal::all_families;
using model::internal::Family;
using model::internal::find_row;

// Returns the files of src/model with a string that is a model type. Not counted: kinds of
// encodings, names of GGUF architectures, and references to rows, which the next test checks.
std::map<std::string, std::set<std::string>> files_by_type() {
  static const std::regex quoted(R"re("([^"\n]*)")re");
  static const std::regex reference(
      R"re(\b(language|part|gguf)\([^()]*\)|\.architecture = "[^"]*")re");
  std::map<std::string, std::set<std::string>> files;
  const fs::path root = fs::path(GNOMON_SOURCE_DIR) / "src/model";
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file() || entry.path().parent_path().filename() == "encodings")
      continue;
    std::ifstream in(entry.path());
    std::string text(std::istreambuf_iterator<char>(in), {});
    text = std::regex_replace(text, reference, "");
    for (std::sregex_iterator at(text.begin(), text.end(), quoted), end; at != end; ++at)
      if (find_row((*at)[1].str()))
        files[(*at)[1]].insert(entry.path().lexically_relative(root).string());
  }
  return files;
}

TEST(Families, EachModelTypeStandsInOneFile) {
  auto files = files_by_type();
  files["mamba"].erase("config/reading.cc");            // part of the name of a layer type
  files["perceiver"].erase("weights/weight_names.cc");  // part of the names of tensors
  // Names of tokenizers.
  for (const char* name : {"gpt2", "qwen2"}) files[name].erase("gguf/gguf_vocabulary.cc");
  for (const Family& row : all_families()) {
    const std::string type(row.model_type);
    if (type.empty()) continue;
    ASSERT_TRUE(files.contains(type)) << type << " is not found: the search is wrong";
    EXPECT_EQ(files.at(type).size(), 1u)
        << type << " stands in " << ::testing::PrintToString(files.at(type))
        << "; what the library knows of a family belongs to its row";
  }
}

TEST(Families, EachModelTypeHasOneRow) {
  std::set<std::string_view> seen, architectures;
  for (const Family& row : all_families()) {
    if (!row.model_type.empty()) {
      EXPECT_TRUE(seen.insert(row.model_type).second) << row.model_type;
    }
    if (!row.gguf.architecture.empty()) {
      EXPECT_TRUE(architectures.insert(row.gguf.architecture).second) << row.gguf.architecture;
    }
  }
}

TEST(Families, PartsHaveRows) {
  for (const Family& row : all_families()) {
    const auto check = [&](std::string_view type) {
      const std::string whole = type.starts_with('*')
                                    ? std::string(row.model_type).append(type.substr(1))
                                    : std::string(type);
      EXPECT_TRUE(find_row(whole)) << row.model_type << " names " << whole;
    };
    if (!row.language.empty()) check(row.language);
    for (const auto& [key, type] : row.parts) check(type);
  }
}

}  // namespace families_test
}  // namespace gnomon
