// Small configs of the families without another fixture, compared with the classes of
// transformers; and whether each family has a fixture. tools/released/tiny_configs.py makes
// tiny_configs.json.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "gnomon/model/config.h"

namespace gnomon::model {
namespace tiny_configs_test {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const fs::path folder = fs::path(GNOMON_SOURCE_DIR) / "tests/model";

const Json& entries() {
  static const Json all = Json::parse(std::ifstream(folder / "tiny_configs.json"));
  return all;
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& [name, entry] : entries().items()) all.push_back(name);
  return all;
}

// Expected frequencies come from float32.
bool same(const Json& got, const Json& wanted, double bound) {
  if (wanted.is_array())
    return got.is_array() &&
           std::equal(got.begin(), got.end(), wanted.begin(), wanted.end(),
                      [&](const Json& a, const Json& b) { return same(a, b, bound); });
  if (!wanted.is_number() || !got.is_number()) return got == wanted;
  const double expected = wanted.get<double>();
  return std::abs(got.get<double>() - expected) <= bound * std::abs(expected);
}

// Keys of `wanted` that differ from the groups of the model, with an example.
using Differences = std::map<std::string, std::string>;

void compare_layer(const Json& groups, const Json& wanted, std::int64_t layer, double bound,
                   Differences& found) {
  const auto note = [&](const std::string& key, const Json& got, const Json& expected) {
    found.try_emplace(key, "layer " + std::to_string(layer) + ": " + got.dump() +
                               ", expected " + expected.dump());
  };
  Json kinds = Json::array();
  const Json* group = nullptr;
  for (const Json& one : groups) {
    const Json& layers = one["layers"];
    if (std::find(layers.begin(), layers.end(), layer) == layers.end()) continue;
    if (wanted.contains("part") && one.value("part", "") != wanted["part"]) continue;
    kinds.push_back(one["kind"]);
    if (!group && one["kind"] == wanted.value("kind", one["kind"])) group = &one;
  }
  if (!group) return note("kind", kinds, wanted.value("kind", Json()));
  for (const auto& [key, value] : wanted.items()) {
    if (key == "layers" || key == "part" || key == "kind") continue;
    const Json got = group->value(key, Json("absent"));
    if (!same(got, value, bound)) note(key, got, value);
  }
}

Differences compare(const std::string& config, const std::string& family, const Json& wanted,
                    double bound = 2e-6) {
  Differences found;
  const ModelDescription model = read_config(config);
  EXPECT_EQ(model.model_type, family);
  const Json groups = Json::parse(to_json(model))["groups"];
  if (wanted.contains("layers") && model.layers != wanted["layers"])
    found["layers"] = std::to_string(model.layers);
  if (wanted.contains("length") && model.length != wanted["length"])
    found["length"] = std::to_string(model.length);
  EXPECT_FALSE(wanted["groups"].empty());
  for (const Json& group : wanted["groups"]) {
    std::set<std::int64_t> layers;  // all layers of the part, unless the group names its own
    for (const Json& one : groups)
      if (!group.contains("part") || one.value("part", "") == group["part"])
        for (const Json& layer : one["layers"]) layers.insert(layer.get<std::int64_t>());
    if (group.contains("layers")) layers = group["layers"].get<std::set<std::int64_t>>();
    EXPECT_FALSE(layers.empty()) << group;
    for (const std::int64_t layer : layers) compare_layer(groups, group, layer, bound, found);
  }
  return found;
}

// {"config": ..., "expected": {"layers", "length", "groups": as in `gnomon inspect --json`},
// "defaults": expected values of a config of only a model_type, "differences": {"expected.KEY"
// or "defaults.KEY": reason}}. Each difference must be listed, and each listed one must exist.
class TinyConfig : public ::testing::TestWithParam<std::string> {};

TEST_P(TinyConfig, IsReadAsTheClassOfItsFamilyReadsIt) {
  const Json& entry = entries()[GetParam()];
  const Json listed = entry.value("differences", Json::object());
  const Json bare = {{"model_type", GetParam()}};
  std::set<std::string> found;
  for (const char* of : {"expected", "defaults"}) {
    if (!entry.contains(of)) continue;
    const Json& config = std::string(of) == "expected" ? entry["config"] : bare;
    for (const auto& [key, example] : compare(config.dump(), GetParam(), entry[of])) {
      const std::string name = std::string(of) + "." + key;
      found.insert(name);
      EXPECT_TRUE(listed.contains(name)) << name << ": " << example;
    }
  }
  for (const auto& [name, reason] : listed.items())
    EXPECT_TRUE(found.contains(name))
        << name
        << " does not differ: remove it from DIFFERENCES of tools/released/tiny_sizes.py";
}

INSTANTIATE_TEST_SUITE_P(Families, TinyConfig, ::testing::ValuesIn(names()),
                         [](const auto& one) {
                           std::string name = one.param;
                           for (char& c : name)
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           return name;
                         });

// Configs that tools/released/drawn_configs.py drew: a sample, or GNOMON_DRAWN_CONFIGS.
// Differences of numbers close to each other, as in the ramp of llama3, have errors of 2e-6 and
// more in float32.
TEST(DrawnConfigs, AreReadAsTheirClassesReadThem) {
  const char* given = std::getenv("GNOMON_DRAWN_CONFIGS");
  const fs::path path = given ? fs::path(given) : folder / "drawn_configs.json";
  const Json drawn = Json::parse(std::ifstream(path));
  int agreed = 0, differed = 0;
  std::map<std::string, int> refused;
  for (const Json& one : drawn) {
    const std::string family = one["family"];
    Differences found;
    try {
      found = compare(one["config"].dump(), family, one["expected"], 1e-5);
    } catch (const std::exception& error) {
      ++refused[family + ": " + error.what()];
      continue;
    }
    ++(found.empty() ? agreed : differed);
    for (const auto& [key, example] : found)
      ADD_FAILURE() << family << ", " << key << ": " << example << "\n" << one["config"].dump();
  }
  std::printf("%d of %zu drawn configs agree with transformers, %d differ\n", agreed,
              drawn.size(), differed);
  for (const auto& [why, count] : refused) std::printf("%d refused: %s\n", count, why.c_str());
  EXPECT_GT(agreed, static_cast<int>(drawn.size()) * 9 / 10);
}

// The families of released configs and layer cases: the type of the part that they are about.
std::set<std::string> families_in(const fs::path& path) {
  std::set<std::string> found;
  for (const auto& file : fs::directory_iterator(path)) {
    if (file.path().extension() != ".json") continue;
    const Json sample = Json::parse(std::ifstream(file.path()));
    std::string part = sample.value("part", "");
    if (part.empty() && sample["config"].contains("text_config")) part = "text_config";
    found.insert(read_config(sample["config"].dump(), {.part = part}).model_type);
  }
  return found;
}

TEST(Family, HasAReleasedConfigOrALayerCaseOrATinyConfig) {
  const std::set<std::string> released = families_in(folder / "released");
  const std::set<std::string> layers = families_in(folder / "layers");
  std::string missing;
  for (const FamilyInfo& family : families())
    if (!released.contains(family.model_type) && !layers.contains(family.model_type) &&
        !entries().contains(family.model_type))
      missing.append(" ").append(family.model_type);
  EXPECT_EQ(missing, "") << "record them with tools/released/tiny_configs.py";
}

}  // namespace tiny_configs_test
}  // namespace gnomon::model
