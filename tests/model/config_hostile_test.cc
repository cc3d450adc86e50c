// For any text, the reader of config.json returns a description or throws FormatError.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "model/config_text.h"

namespace gnomon::model {
namespace config_hostile_test {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Json = nlohmann::json;

// Each encoding of a group has an entry with the group's layers, and there are no other
// entries. A table of the embeddings has one entry for several groups.
void expect_entries(const Json& entries, const ModelDescription& model,
                    const std::string& text) {
  std::size_t most = 0;
  for (const LayerGroup& group : model.groups) {
    const Mixture none{NoPosition{}};
    for (const Encoding& one : group.position.empty() ? none : group.position) {
      ++most;
      const auto is_its = [&](const Json& entry) {
        const auto layers = entry["layers"].get<std::vector<std::int64_t>>();
        return entry["kind"] == kind(one) && entry.value("part", "") == group.part &&
               std::includes(layers.begin(), layers.end(), group.layers.begin(),
                             group.layers.end());
      };
      EXPECT_TRUE(std::any_of(entries.begin(), entries.end(), is_its)) << text;
    }
  }
  EXPECT_LE(entries.size(), most) << text;
}

// Returns whether the config is accepted. A description must be valid: existing layers, finite
// numbers, printable text.
bool taken(const std::string& text) {
  try {
    const ModelDescription model = read_config(text);
    for (const LayerGroup& group : model.groups) {
      for (const std::int64_t layer : group.layers) EXPECT_GE(layer, 0);
      EXPECT_TRUE(std::is_sorted(group.layers.begin(), group.layers.end()));
      const double scale = group.attention.softmax_scale;
      EXPECT_TRUE(std::isfinite(scale) && scale >= 0) << text;
    }
    for (const std::string& note : model.notes) {
      EXPECT_EQ(internal::ill_formed_utf8(note), note.npos);
      for (const char c : note) EXPECT_GE(static_cast<unsigned char>(c), 32);
    }
    if (model.layers <= 256) {
      const Json json = Json::parse(to_json(model));
      expect_entries(json["groups"], model, text);
      for (const Json& group : json["groups"])
        for (const Json& one : group.value("inv_freq", Json::array()))
          EXPECT_TRUE(one.is_number()) << text;
    }
    return true;
  } catch (const FormatError& error) {
    EXPECT_LE(error.offset(), text.size()) << text;
    EXPECT_EQ(internal::ill_formed_utf8(error.what()), std::string_view::npos) << text;
    for (const char c : std::string(error.what()))
      EXPECT_GE(static_cast<unsigned char>(c), 32) << text;
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what() << " of " << text;
  }
  return false;
}

TEST(ConfigHostile, TextsThatAreNoConfig) {
  refused("", "no JSON value", "");
  refused(" \n ", "no JSON value", "");
  refused("[]", "a config must be a JSON object", "[]");
  for (const char* text : {"null", "true", "7", "\"llama\"", "NaN", "[{}]"})
    refused(text, "a config must be a JSON object", text);
  refused("{", "not JSON: it ends before the name of a member", "");
  refused("{}", "model_type unknown is unknown and no key gives", "{}");
  refused("model_type: llama", "not JSON: m in place of a value", "m");
  refused(llama() + "x", "not JSON: x in place of the end", "x");
  refused(llama() + llama(), "not JSON: { in place of the end", "{");
  const std::string text = llama();
  for (std::size_t size = 0; size < text.size(); ++size)
    EXPECT_FALSE(taken(text.substr(0, size)));
}

TEST(ConfigHostile, Encodings) {
  EXPECT_TRUE(taken("\xEF\xBB\xBF" + llama()));
  refused("\xEF\xBB\xBF" + llama({{"rope_theta", "0"}}), "rope_theta must be", "0");
  std::string wide("\xFF\xFE", 2);
  for (const char c : llama()) wide.append(1, c).append(1, '\0');
  refused(wide, "not JSON: an unprintable byte in place of a value", "\xFF");
  refused(wide.substr(2), "not JSON: an unprintable byte in place of the name of a member",
          std::string(1, '\0'));
  refused(llama({{"note", quoted("caf\xE9")}}), "ill-formed UTF-8 in a string", "\xE9");
  refused(llama({{"model_type", quoted("\xF0\x9F")}}), "ill-formed UTF-8 in a string", "\xF0");
  refused(llama({{"note", quoted("\\ud800")}}), "an unpaired surrogate", "\\ud800");
  EXPECT_TRUE(taken(llama({{"note", quoted("\u00e9\\ud83d\\ude00\\u0000")}})));
}

TEST(ConfigHostile, DepthAndDuplicates) {
  std::string deep;
  for (int i = 0; i < 200'000; ++i) deep += "{\"text_config\":";
  refused(deep, "nested deeper than 64 levels", "{\"text");
  refused(llama({{"x", std::string(100'000, '[')}}), "nested deeper than 64 levels", "[");
  EXPECT_TRUE(taken(llama({{"x", std::string(63, '[') + std::string(63, ']')}})));
  refused(llama({{"x", std::string(64, '[') + std::string(64, ']')}}), "nested deeper than 64",
          "[");
  for (const char* name : {"rope_theta", "hidden_size", "model_type", "num_attention_heads"}) {
    const std::string text = llama();
    const std::string again =
        text.substr(0, text.size() - 1) + ", \"" + name + "\": 77" + std::string(1, '}');
    refused(again, quoted(name) + " occurs twice", "77");
  }
  // Keys that are never read may occur twice.
  EXPECT_TRUE(taken(llama({{"vocab_size", "1, \"vocab_size\": 2"}})));
}

const fs::path folder = fs::path(GNOMON_SOURCE_DIR) / "tests/model/released";

std::vector<Json> released() {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<Json> configs;
  for (const fs::path& path : paths)
    configs.push_back(Json::parse(std::ifstream(path))["config"]);
  return configs;
}

// Calls visit() with each member of each object of the config replaced in turn and then
// restored.
void each_member(Json& json, const std::function<void(Json&)>& visit) {
  for (auto& [name, value] : json.items()) {
    visit(value);
    if (value.is_object()) each_member(value, visit);
  }
}

TEST(ConfigHostile, EveryMemberOfAReleasedConfigMayBeAnything) {
  const std::vector<Json> values = {nullptr,
                                    true,
                                    0,
                                    -1,
                                    3,
                                    INT64_MAX,
                                    INT64_MIN,
                                    1e30,
                                    0.5,
                                    1e-300,
                                    "",
                                    "yarn",
                                    Json::array(),
                                    Json::array({0, 1.5, nullptr, "full_attention"}),
                                    Json::object(),
                                    Json{{"full_attention", {{"rope_theta", 2}}}}};
  int taken_of = 0, all = 0;
  std::mt19937 engine(1);
  for (Json& config : released()) {
    each_member(config, [&](Json& value) {
      const Json before = value;
      for (int i = 0; i < 3; ++i) {
        value = values[engine() % values.size()];
        taken_of += taken(config.dump());
        ++all;
      }
      value = before;
    });
  }
  EXPECT_GT(taken_of, all / 10);
  EXPECT_LT(taken_of, all);
}

TEST(ConfigHostile, EveryFamilyBearsEveryShape) {
  const std::vector<Members> shapes = {
      {},
      {{"hidden_size", "64"}, {"num_attention_heads", "4"}, {"num_hidden_layers", "3"}},
      {{"hidden_size", "1"}, {"num_attention_heads", "1"}, {"num_hidden_layers", "1"}},
      {{"d_model", "64"}, {"num_heads", "4"}, {"num_layers", "2"}, {"head_dim", "1"}},
      {{"hidden_size", "1099511627776"},
       {"num_attention_heads", "65536"},
       {"num_hidden_layers", "300"}},
      {{"num_hidden_layers", "4096"}, {"hidden_size", "16"}, {"num_attention_heads", "1"}},
      {{"head_dim", "256"}, {"rope_scaling", R"({"type": "yarn", "factor": 1e300})"}},
      {{"layer_types", R"(["a", "b", "c"])"},
       {"num_hidden_layers", "3"},
       {"rope_parameters", R"({"a": {}, "b": null, "c": {"rope_theta": 3}})"}},
      {{"rope_theta", "1.0000000000000002"}, {"head_dim", "2"}},
      {{"image_size", "9223372036854775807"}, {"patch_size", "1"}},
  };
  int all = 0, good = 0;
  for (const FamilyInfo& family : families())
    for (Members shape : shapes) {
      SCOPED_TRACE(family.model_type);
      shape["model_type"] = quoted(family.model_type);
      good += taken(object(shape));
      ++all;
    }
  EXPECT_GT(good, all / 4);
}

TEST(ConfigHostile, ChangedBytes) {
  std::mt19937 engine(1);
  const std::string letters = "{}[],:\"0123456789.eE-+NaIu\\ \x80\xff";
  for (const Json& config : released()) {
    const std::string text = config.dump();
    for (int i = 0; i < 20; ++i) {
      std::string changed = text;
      for (std::size_t k = 0; k < 1 + engine() % 3; ++k)
        changed[engine() % changed.size()] = letters[engine() % letters.size()];
      taken(changed);
    }
  }
}

// Very large numbers of layers, kinds of layers and list elements.
TEST(ConfigHostile, LargeClaimsAreRefusedOrCheap) {
  std::string types = "[", ropes = "{";
  for (int i = 0; i < 300; ++i) {
    types.append(i ? ",\"" : "\"").append(std::to_string(i)).append("\"");
    ropes.append(i ? ",\"" : "\"").append(std::to_string(i)).append("\":{\"rope_theta\":");
    ropes.append(std::to_string(i + 2)).append("}");
  }
  const Members kinds{{"num_hidden_layers", "300"},
                      {"layer_types", types + "]"},
                      {"rope_parameters", ropes + "}"}};
  refused(llama(kinds), "layers must have at most 256 different rotations", "{");
  Members wide = kinds;
  wide["num_hidden_layers"] = "200";
  wide["head_dim"] = "65536";
  refused(llama(wide), "all kinds of layers together must have at most 1048576 frequencies",
          "{");
  EXPECT_TRUE(taken(llama({{"num_hidden_layers", "65536"}, {"head_dim", "65536"}})));
  Members many;
  for (int i = 0; i < 65536; ++i) many.emplace(std::to_string(i), "0");
  refused(llama(many), "an object of a config must have at most 65536 members", "64, ");
  std::string thousands = "[10000";
  for (int i = 1; i < 65536; ++i) thousands.append(",").append(std::to_string(10000 + i % 300));
  refused(llama({{"model_type", "\"granite_swa\""},
                 {"num_hidden_layers", "65536"},
                 {"layer_rope_theta", thousands + "]"}}),
          "layers must have at most 256 different rotations", "{");
  refused(llama({{"layer_types", thousands + ",1]"}}), "layer_types must be a string", "10000");
}

}  // namespace config_hostile_test
}  // namespace gnomon::model
