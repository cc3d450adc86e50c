// Released configs, compared with the results of Hugging Face's functions.
#include "gnomon/model/config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "gnomon/error.h"
#include "gnomon/rotary/axial.h"
#include "model/group.h"
#include "testing.h"

namespace gnomon::model {
namespace config_test {

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

// {"config": as released, "expected": [groups as in `gnomon inspect --json`]}, with the keys of
// version 1 or 2. "part" is the part of the config to read. inv_freq comes from float32, so its
// tolerance is 2e-6; that of scales is 1e-6.
class Released : public ::testing::TestWithParam<std::string> {};

// The group with the names of version 2, for the keys whose values are the same in version 1.
Json with_names_of_version_2(Json group) {
  for (const auto& [old, name] : {std::pair("first", "head_offset"),
                                  {"dim", "width"},
                                  {"before", "left"},
                                  {"after", "right"}})
    if (const auto found = group.find(old); found != group.end()) {
      group[name] = *found;
      group.erase(old);
    }
  return group;
}

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
  for (const Json& expected : sample["expected"]) {
    const Json wanted = with_names_of_version_2(expected);
    std::optional<std::int64_t> length;
    if (wanted.contains("length")) length = wanted["length"].get<std::int64_t>();
    const Json all = Json::parse(to_json(model, length));
    const Json groups = all["groups"];
    const auto found = std::find_if(groups.begin(), groups.end(), [&](const Json& group) {
      for (const char* key : {"layers", "part", "kind", "head_offset"})
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

// ---- Parts

const Json tower = {{"model_type", "qwen2_5_vl"},
                    {"depth", 32},
                    {"hidden_size", 1280},
                    {"num_heads", 16},
                    {"patch_size", 14}};
const Json thinker = {{"model_type", "qwen2_5_omni"},
                      {"thinker_config",
                       {{"model_type", "qwen2_5_omni_thinker"},
                        {"audio_config", Json::object()},
                        {"text_config", {{"model_type", "qwen2_5_omni_text"}}},
                        {"vision_config", {{"depth", 2}}}}},
                      {"talker_config", {{"model_type", "qwen2_5_omni_talker"}}}};

Json with_tower(const char* type) {
  return {{"model_type", type}, {"text_config", Json::object()}, {"vision_config", tower}};
}

std::string reason_of(const Json& config, const std::string& part = {}) {
  try {
    read_config(config.dump(), {.part = part});
  } catch (const FormatError& error) {
    return error.what();
  }
  return "no error";
}

bool has_note(const ModelDescription& model, std::string_view text) {
  return std::any_of(model.notes.begin(), model.notes.end(), [&](const std::string& note) {
    return note.find(text) != std::string::npos;
  });
}

TEST(Part, IsTheLanguageModelUnlessOneIsAskedFor) {
  const auto model = read_config(with_tower("qwen2_5_vl").dump());
  EXPECT_EQ(model.model_type, "qwen2_5_vl");
  EXPECT_TRUE(has_note(model, "text_config; other parts: vision_config")) << model.notes[0];
}

TEST(Part, OfItsWholesNameIsATowerAllTheSame) {
  const auto model = read_config(with_tower("qwen2_5_vl").dump(), {.part = "vision_config"});
  EXPECT_EQ(model.model_type, "qwen2_5_vl_vision");
  EXPECT_EQ(model.layers, 32);
  ASSERT_EQ(model.groups.size(), 1u);
  for (const std::int64_t length : {1, 1000})
    EXPECT_EQ(resolve(model.groups[0], length).frequencies, lower(rotary::qwen_vl_vision(80)));
  EXPECT_DOUBLE_EQ(resolve(model.groups[0], 1).softmax_scale, 1 / std::sqrt(80.0));
}

// Without a model_type, the type comes from the whole config. Another family is read by its own
// model_type.
TEST(Part, HasTheTypeThatItsWholeGivesIt) {
  Json config = with_tower("qwen2_5_vl");
  config["vision_config"].erase("model_type");
  EXPECT_EQ(read_config(config.dump(), {.part = "vision_config"}).model_type,
            "qwen2_5_vl_vision");
  config["vision_config"] = {{"model_type", "dinov2"}};
  EXPECT_EQ(read_config(config.dump(), {.part = "vision_config"}).model_type, "dinov2");
  // GLM-4.6V's tower is that of GLM-4.1V, whose text model has the same name.
  config = with_tower("glm46v");
  config["vision_config"] = {{"model_type", "glm4v"}};
  EXPECT_EQ(read_config(config.dump(), {.part = "vision_config"}).model_type, "glm4v_vision");
}

TEST(Part, IsFoundByItsPathOrTheEndOfIt) {
  for (const char* name : {"vision_config", "thinker_config.vision_config"}) {
    const auto model = read_config(thinker.dump(), {.part = name});
    EXPECT_EQ(model.model_type, "qwen2_5_omni_vision_encoder") << name;
    EXPECT_EQ(model.layers, 2) << name;
  }
  EXPECT_EQ(kind_of(read_config(thinker.dump()).groups.at(0)), "rotary");
  EXPECT_EQ(read_config(thinker.dump(), {.part = "thinker_config"}).layers, 28);
  EXPECT_EQ(read_config(thinker.dump(), {.part = "talker_config"}).model_type,
            "qwen2_5_omni_talker");
}

TEST(Part, ThatIsNotThereIsRefusedWithThoseThatAre) {
  EXPECT_NE(reason_of(with_tower("llava"), "audio_config")
                .find("no part audio_config; it has text_config, vision_config"),
            std::string::npos);
  EXPECT_NE(reason_of({{"model_type", "llama"}}, "vision_config").find("has no parts"),
            std::string::npos);
  Json twice = thinker;
  twice["talker_config"]["vision_config"] = Json::object();
  EXPECT_NE(reason_of(twice, "vision_config").find("occurs twice"), std::string::npos);
  const Json quantized = {{"model_type", "llama"}, {"quantization_config", Json::object()}};
  EXPECT_NE(reason_of(quantized, "quantization_config").find("has no parts"),
            std::string::npos);
}

TEST(Part, IsNamedWhereThereIsNoLanguageModel) {
  const Json sam = {{"model_type", "sam"},
                    {"vision_config", Json::object()},
                    {"mask_decoder_config", Json::object()}};
  EXPECT_NE(reason_of(sam).find("its parts: mask_decoder_config, vision_config"),
            std::string::npos)
      << reason_of(sam);
  EXPECT_EQ(read_config(sam.dump(), {.part = "vision_config"}).layers, 12);
}

// ---- Towers

Json vision(Json config, const char* type) {
  config["model_type"] = type;
  return config;
}

TEST(Tower, ThatIsNotUnderstoodIsRefused) {
  const std::pair<Json, const char*> configs[] = {
      {vision({{"hidden_size", 64}}, "never_seen"), "model_type never_seen is unknown"},
      {vision({{"num_heads", 48}}, "qwen2_5_vl_vision"), "multiple"},
      {vision({{"hidden_size", 1056}, {"num_heads", 16}}, "qwen2_5_vl_vision"),
       "multiple of 4"},
      {vision({{"rope_parameters", {{"rope_type", "yarn"}}}}, "pixtral"), "axial or default"},
      {vision({{"rope_parameters", {{"partial_rotary_factor", 0.5}}}}, "pixtral"),
       "not understood"},
      {vision({{"head_dim", 32}}, "pixtral"), "head_dim must be"},
      {vision({{"rope_theta", 1}}, "dinov3_vit"), "rope_theta"},
      {vision({{"vt_hidden_size", 1152}}, "kimi_k25_vision"), "only the config"},
      {vision({{"image_size", {672, 1008}}}, "sam3_vit_model"), "square"},
      {vision({{"num_hidden_layers", 5}}, "lfm3_vl_vision"), "layer_types"},
      {vision({{"image_size", 8}}, "clip_vision_model"), "at least patch_size"},
      {vision({{"image_size", {224, 224, 3}}}, "vit"), "one number or two"},
      {vision({{"posemb_grid_size", 1 << 30}}, "inkling2_vision"), "at most 2^20"},
      {vision({{"pos_emb_height", 1 << 30}}, "kimi_k25_vision"), "at most 2^20"},
      {vision({{"pretrain_image_size", 7}}, "sam3_vit_model"), "1 to 2^40 rows"},
      {vision({{"num_frames", 1 << 30}}, "videomae"), "at most 2^20"},
      {vision({{"is_hybrid", true}}, "dpt"), "not understood"},
      {vision({{"tubelet_size", {2, 16}}}, "vivit"), "tubelet_size"},
      {vision({{"tubelet_size", {0, 16, 16}}}, "vivit"), "rows and columns, at least 1"},
      {vision({{"position_embedding_type", "rope"}}, "detr"), "sine or learned"},
      {vision({{"architectures", {"PerceiverForOpticalFlow"}}}, "perceiver"), "architectures"}};
  for (const auto& [config, why] : configs)
    EXPECT_NE(reason_of(config).find(why), std::string::npos) << config << "\n"
                                                              << reason_of(config);
}

// A name as long as the text, and nesting, must not make the paths longer.
TEST(Part, CostsNoMoreThanItsText) {
  std::string nested = "{}";
  for (int depth = 0; depth < 40; ++depth) nested = "{\"a_config\":" + nested + "}";
  EXPECT_NE(reason_of(Json::parse(nested), "b_config").find("a_config.a_config.a_config"),
            std::string::npos);
  EXPECT_LT(reason_of(Json::parse(nested), "b_config").size(), 300u);
  const Json long_name = {{std::string(100'000, 'a') + "_config", {{"b_config", Json()}}}};
  EXPECT_NE(reason_of(long_name, "b_config").find("has no parts"), std::string::npos);
}

}  // namespace config_test
}  // namespace gnomon::model
