// Configs as released, against what Hugging Face's own functions make of them.
#include "gnomon/model/config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "testing.h"

namespace gnomon::model {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const fs::path folder = fs::path(GNOMON_SOURCE_DIR) / "tests/model/released";

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".json") all.push_back(entry.path().stem());
  std::sort(all.begin(), all.end());
  return all;
}

// {"config": as released, "expected": [groups, as `gnomon inspect --json` prints them]}; a
// "part" says which part of the config is read.
// inv_freq comes from float32, so it is compared to 2e-6; scales to 1e-6.
class Released : public ::testing::TestWithParam<std::string> {};

void expect_near(const Json& got, const Json& wanted, double relative,
                 const std::string& what) {
  const double expected = wanted.get<double>();
  EXPECT_NEAR(got.get<double>(), expected, relative * std::abs(expected)) << what;
}

void expect_value(const std::string& name, const Json& got, const Json& wanted) {
  if (name == "inv_freq" || name == "slopes") {
    ASSERT_EQ(got.size(), wanted.size()) << name;
    for (std::size_t i = 0; i < got.size(); ++i)
      expect_near(got[i], wanted[i], 2e-6, name + " " + std::to_string(i));
  } else if (wanted.is_number_float()) {
    expect_near(got, wanted, 1e-6, name);
  } else {
    EXPECT_EQ(got, wanted) << name;
  }
}

TEST_P(Released, IsReadAsItsOwnCodeReadsIt) {
  const Json sample = Json::parse(std::ifstream(folder / (GetParam() + ".json")));
  const ModelDescription model =
      read_config(sample["config"].dump(), {.part = sample.value("part", "")});
  for (const Json& wanted : sample["expected"]) {
    std::optional<std::int64_t> length;
    if (wanted.contains("length")) length = wanted["length"].get<std::int64_t>();
    const Json all = Json::parse(to_json(model, length));
    const Json groups = all["groups"];
    const auto found = std::find_if(groups.begin(), groups.end(), [&](const Json& group) {
      for (const char* key : {"layers", "part", "kind", "first"})
        if (wanted.contains(key) && group.value(key, Json()) != wanted[key]) return false;
      return true;
    });
    ASSERT_NE(found, groups.end()) << wanted.value("layers", Json()) << all["notes"];
    for (const auto& [name, value] : wanted.items()) {
      if (name == "length") continue;
      ASSERT_TRUE(found->contains(name)) << name;
      expect_value(name, (*found)[name], value);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Released, ::testing::ValuesIn(names()), [](const auto& one) {
  std::string name = one.param;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

}  // namespace
}  // namespace gnomon::model
