// Every architecture that llama.cpp names is read, or refused with a reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "model/gguf_model.h"
#include "src/model/families/family.h"
#include "testing.h"

namespace gnomon::model {
namespace gguf_architectures_test {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> names_of_llama_cpp() {
  std::ifstream in(GNOMON_SOURCE_DIR "/tests/model/recorded/llama_cpp_architectures.txt");
  std::vector<std::string> names;
  for (std::string line; std::getline(in, line);)
    if (!line.starts_with('#')) names.push_back(line);
  return names;
}

// A file with every key that an architecture requires.
Model model_of(const std::string& architecture) {
  Model model(architecture, {.layers = 8, .heads = 4, .width = 64, .length = 4096});
  model.size(".attention.head_count_kv", 4)
      .size(".attention.sliding_window", 32)
      .size(".attention.relative_buckets_count", 32)
      .integers(".rope.dimension_sections", {2, 3, 3, 0})
      .booleans(".attention.sliding_window_pattern", {1, 1, 0, 1, 1, 0, 1, 1});
  return model;
}

TEST(GgufArchitectures, EveryNameOfLlamaCppIsReadOrRefusedWithAReason) {
  const std::vector<std::string> names = names_of_llama_cpp();
  ASSERT_GT(names.size(), 150u);
  std::size_t refused_names = 0;
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const internal::Family* const row = internal::find_architecture(name);
    ASSERT_TRUE(row) << "no row: a file of this architecture is refused as unknown";
    if (row->gguf.refused.empty()) {
      const ModelDescription model = read(model_of(name));
      EXPECT_EQ(model.model_type, name);
      EXPECT_EQ(model.layers, 8);
      continue;
    }
    ++refused_names;
    refused(model_of(name),
            "the architecture " + name + " is not read: " + std::string(row->gguf.refused),
            "general.architecture");
  }
  EXPECT_LT(refused_names, 10u);
}

TEST(GgufArchitectures, EveryRowIsAnArchitectureOfLlamaCpp) {
  const auto list = names_of_llama_cpp();
  const std::set<std::string> names(list.begin(), list.end());
  for (const internal::Family& row : internal::all_families())
    EXPECT_TRUE(row.gguf.architecture.empty() ||
                names.contains(std::string(row.gguf.architecture)))
        << row.gguf.architecture;
}

TEST(GgufArchitectures, TheListNamesThemAll) {
  std::set<std::string> listed;
  for (const ArchitectureInfo& one : architectures()) {
    EXPECT_TRUE(listed.insert(one.name).second) << one.name;
    EXPECT_FALSE(one.position.empty() && one.read.starts_with("yes")) << one.name;
    EXPECT_TRUE(one.read.starts_with("yes") || one.read.starts_with("no: ")) << one.read;
  }
  for (const std::string& name : names_of_llama_cpp())
    EXPECT_TRUE(listed.contains(name)) << name;
}

}  // namespace gguf_architectures_test
}  // namespace gnomon::model
