// Descriptions: a group at a length, the group of a layer, and the keys of the JSON.
#include "gnomon/model/description.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "model/config_text.h"
#include "model/group.h"
#include "testing.h"

namespace gnomon::model {
namespace description_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::UnorderedElementsAre;
using Json = nlohmann::json;
using gnomon::testing::message_of;

LayerGroup rotary_group(RopeScaling scaling = NoScaling{}) {
  return {.layers = {0, 1, 2},
          .position = {ScaledRotary{
              .rotary = {.rotary_dim = 8, .pairing = Pairing::adjacent, .head_offset = 4},
              .scaling = std::move(scaling),
              .length = 64}},
          .head_dim = 16,
          .attention = {.softmax_scale = 0.25}};
}

TEST(Description, ResolvesAtALength) {
  const auto plain = resolve(rotary_group(), 1);
  EXPECT_EQ(plain.frequencies.pairing, Pairing::adjacent);
  EXPECT_EQ(plain.frequencies.head_offset, 4);
  EXPECT_EQ(plain.softmax_scale, 0.25);
  ASSERT_EQ(plain.frequencies.inv_freq.size(), 4u);
  for (int i = 0; i < 4; ++i)
    EXPECT_NEAR(plain.frequencies.inv_freq[static_cast<std::size_t>(i)],
                std::pow(10000.0, -i / 4.0), 1e-15);
  // Dynamic NTK: base 10000 (2 L / 64 - 1)^(8/6) past the trained 64.
  const LayerGroup dynamic = rotary_group(DynamicNtkScaling{.factor = 2, .trained_length = 64});
  EXPECT_EQ(resolve(dynamic, 64).frequencies.inv_freq, plain.frequencies.inv_freq);
  const double base = 10000 * std::pow(2.0 * 256 / 64 - 1, 8.0 / 6);
  for (int i = 0; i < 4; ++i)
    EXPECT_NEAR(resolve(dynamic, 256).frequencies.inv_freq[static_cast<std::size_t>(i)],
                std::pow(base, -i / 4.0), 4e-15);
}

// The scales of cos and sin, of the scaling and of the attention are separate numbers.
TEST(Description, ResolvesScalesApart) {
  const auto resolved = resolve(
      rotary_group(YarnScaling{.factor = 4, .original_length = 64, .softmax_mscale = 0.5}),
      256);
  EXPECT_NEAR(resolved.frequencies.table_scale, 0.1 * std::log(4.0) + 1, 1e-15);
  const double magnitude = 0.1 * 0.5 * std::log(4.0) + 1;
  EXPECT_NEAR(resolved.softmax_scale, 0.25 * magnitude * magnitude, 1e-15);
}

TEST(Description, RefusesToResolveWhatDoesNotRotate) {
  EXPECT_EQ(message_of([] { resolve({.layers = {0}, .position = {Alibi{4}}}, 8); }),
            "[model] the group must have a rotary encoding, got alibi");
  EXPECT_THAT(message_of([] { resolve(rotary_group(), 0); }),
              HasSubstr("length must be at least"));
}

TEST(Description, GroupOfALayer) {
  const auto t5 = read_config(R"({"model_type": "t5", "num_layers": 2, "num_decoder_layers": 3,
                                  "num_heads": 4, "d_model": 64})");
  EXPECT_EQ(group_of(t5, 1, "encoder").part, "encoder");
  EXPECT_EQ(group_of(t5, 2, "decoder").part, "decoder");
  for (const auto& [layer, part, layers] :
       {std::tuple(2, "encoder", "2"), {3, "decoder", "3"}, {-1, "decoder", "3"}})
    EXPECT_EQ(message_of([&] { group_of(t5, layer, part); }),
              std::string("[model] layer must be one of ") + layers + ", got " +
                  std::to_string(layer));
  for (const auto& [part, got] : {std::pair("", "none"), {"middle", "middle"}})
    EXPECT_EQ(message_of([&] { group_of(t5, 0, part); }),
              std::string("[model] part of t5 must be one of decoder, encoder, got ") + got);
  const auto smol = read_config(llama({{"model_type", "\"smollm3\""}}));
  EXPECT_EQ(kind_of(group_of(smol, 3)), "none");
  for (const int layer : {0, 1, 2}) EXPECT_EQ(kind_of(group_of(smol, layer)), "rotary");
}

std::set<std::string> names(const Json& json) {
  std::set<std::string> all;
  for (const auto& [name, value] : json.items()) all.insert(name);
  return all;
}
Json json_of(const std::string& config, std::optional<std::int64_t> length = {}) {
  return Json::parse(to_json(read_config(config, {.name = "m/config.json"}), length));
}

TEST(Description, JsonOfARotaryModel) {
  const Json json = json_of(llama({{"rope_scaling", R"({"type": "linear", "factor": 4})"}}));
  EXPECT_THAT(names(json), UnorderedElementsAre("version", "source", "model_type", "layers",
                                                "length", "width", "notes", "groups"));
  EXPECT_EQ(json["version"], 2);
  EXPECT_EQ(json["source"], "m/config.json");
  EXPECT_EQ(json["model_type"], "llama");
  EXPECT_EQ(json["layers"], 4);
  EXPECT_EQ(json["length"], 4096);
  EXPECT_EQ(json["notes"], Json::array());
  ASSERT_EQ(json["groups"].size(), 1u);
  const Json& group = json["groups"][0];
  EXPECT_THAT(names(group), IsSupersetOf({"layers", "kind", "pairing", "head_dim", "rotary_dim",
                                          "base", "scaling", "inv_freq", "table_scale",
                                          "query_scale", "softmax_scale", "axes"}));
  EXPECT_EQ(group["layers"], Json({0, 1, 2, 3}));
  EXPECT_EQ(group["kind"], "rotary");
  EXPECT_EQ(group["pairing"], "halves");
  EXPECT_EQ(group["head_dim"], 16);
  EXPECT_EQ(group["rotary_dim"], 16);
  EXPECT_EQ(group["base"], 10000.0);
  EXPECT_EQ(group["scaling"], Json({{"type", "linear"}, {"factor", 4.0}}));
  ASSERT_EQ(group["inv_freq"].size(), 8u);
  EXPECT_EQ(group["inv_freq"][0], 0.25);
  EXPECT_EQ(group["table_scale"], 1.0);
  EXPECT_EQ(group["query_scale"], Json({{"type", "none"}}));
  EXPECT_EQ(group["softmax_scale"], 0.25);
  EXPECT_TRUE(group["axes"].is_null());
  EXPECT_EQ(json_of(llama())["groups"][0]["scaling"], Json({{"type", "none"}}));
}

TEST(Description, JsonAtALength) {
  const std::string config = scaled({{"type", "\"dynamic\""}, {"factor", "2"}});
  EXPECT_EQ(json_of(config, 8192)["length"], 8192);
  EXPECT_LT(json_of(config, 8192)["groups"][0]["inv_freq"][7],
            json_of(config)["groups"][0]["inv_freq"][7]);
  EXPECT_EQ(json_of(config, 1)["groups"], json_of(config)["groups"]);
}

TEST(Description, JsonOfAxesAndTemperature) {
  const Json vl = json_of(scaled({{"type", "\"mrope\""}, {"mrope_section", "[2, 3, 3]"}},
                                 {{"model_type", "\"qwen2_vl\""}}));
  EXPECT_EQ(vl["groups"][0]["axes"], Json({0, 0, 1, 1, 1, 2, 2, 2}));
  const Json llama4 = json_of(llama({{"model_type", "\"llama4_text\""}}));
  for (const Json& group : llama4["groups"])
    EXPECT_EQ(
        group["query_scale"],
        group["kind"] == "rotary"
            ? Json({{"type", "none"}})
            : Json({{"type", "temperature"}, {"beta", 0.1}, {"length", 8192}, {"shift", 1}}));
}

TEST(Description, JsonOfOtherKinds) {
  const auto group = [](const std::string& type, Members more = {}) {
    more["model_type"] = quoted(type);
    return json_of(llama(more))["groups"][0];
  };
  const Json alibi = group("bloom");
  EXPECT_EQ(alibi["kind"], "alibi");
  EXPECT_EQ(alibi["slopes"], Json({0.25, 0.0625, 0.015625, 0.00390625}));
  EXPECT_EQ(alibi["softmax_scale"], 0.25);
  const Json t5 = json_of(R"({"model_type": "t5", "num_layers": 2, "num_heads": 4})")["groups"];
  ASSERT_EQ(t5.size(), 2u);
  EXPECT_EQ(t5[0]["part"], "encoder");
  EXPECT_EQ(t5[0]["kind"], "t5");
  EXPECT_EQ(t5[0]["buckets"], 32);
  EXPECT_EQ(t5[0]["max_distance"], 128);
  EXPECT_EQ(t5[0]["direction"], "bidirectional");
  EXPECT_EQ(t5[1]["direction"], "causal");
  const Json learned = group("opt");
  EXPECT_EQ(learned["kind"], "learned");
  EXPECT_EQ(learned["rows"], 4098);
  EXPECT_EQ(learned["offset"], 2);
  EXPECT_EQ(learned["capacity"], 4096);
  const Json sinusoidal = group("xglm");
  EXPECT_EQ(sinusoidal["kind"], "sinusoidal");
  EXPECT_EQ(sinusoidal["recipe"], "tensor2tensor");
  EXPECT_EQ(sinusoidal["offset"], 2);
  const Json none = group("mamba");
  EXPECT_EQ(none["kind"], "none");
  EXPECT_THAT(names(none), UnorderedElementsAre("layers", "kind", "query_scale"));
  const Json shaw = group("bert", {{"position_embedding_type", "\"relative_key\""}});
  EXPECT_EQ(shaw["kind"], "shaw");
  EXPECT_EQ(shaw["rows"], 8191);
  EXPECT_EQ(shaw["left"], 4095);
  EXPECT_EQ(shaw["right"], 4095);
  EXPECT_EQ(shaw["meets"], "queries");
  const Json xl = group("transfo-xl", {{"clamp_len", "1099511627776"}});
  EXPECT_EQ(xl["clamp"], std::int64_t{1} << 40);
}

ModelDescription sample() {
  ModelDescription model{.source = "a/config.json",
                         .model_type = "made_up",
                         .layers = 6,
                         .length = 128,
                         .groups = {},
                         .notes = {"a note"}};
  const std::vector<double> ones(4, 1.0), twos(4, 2.0);
  model.groups.push_back(
      {.layers = {0, 2},
       .position = {ScaledRotary{
           .rotary = {.rotary_dim = 8, .pairing = Pairing::adjacent, .head_offset = 4},
           .scaling = LongRopeScaling{.short_factors = ones,
                                      .long_factors = twos,
                                      .original_length = 64,
                                      .attention_factor = 1.5},
           .length = 128,
           .axes = {0, 1, 2, 0}}},
       .head_dim = 12,
       .attention = {.softmax_scale = 0.25,
                     .query_scale = QueryTemperature{.beta = 0.1, .length = 64, .shift = 1}}});
  model.groups.push_back({.layers = {1}, .head_dim = 12, .attention = {.softmax_scale = 0.25}});
  model.groups.push_back({.layers = {3}, .position = {Alibi{.heads = 2}}});
  model.groups.push_back(
      {.layers = {4},
       .part = "encoder",
       .position = {T5Bias{.heads = 2, .direction = T5Direction::bidirectional}}});
  model.groups.push_back(
      {.layers = {5}, .position = {Learned{.rows = 514, .width = 8, .offset = 2}}});
  return model;
}

TEST(Description, ResolvesAGroupAtALength) {
  const ModelDescription model = sample();
  const ResolvedRotary inside = resolve(model.groups[0], 64);
  const ResolvedRotary beyond = resolve(model.groups[0], 65);
  for (int i = 0; i < 4; ++i) {
    const double plain = std::pow(10000.0, -i / 4.0);
    EXPECT_DOUBLE_EQ(inside.frequencies.inv_freq[std::size_t(i)], plain);
    EXPECT_DOUBLE_EQ(beyond.frequencies.inv_freq[std::size_t(i)], plain / 2);
  }
  EXPECT_EQ(inside.frequencies.pairing, Pairing::adjacent);
  EXPECT_EQ(inside.frequencies.head_offset, 4);
  EXPECT_EQ(inside.frequencies.axes, (std::vector<std::int32_t>{0, 1, 2, 0}));
  EXPECT_EQ(inside.frequencies.table_scale, 1.5);
  EXPECT_EQ(inside.softmax_scale, 0.25);
}

TEST(Description, JsonHasTheKeysOfTheContract) {
  const Json json = Json::parse(to_json(sample()));
  EXPECT_EQ(json["source"], "a/config.json");
  EXPECT_EQ(json["model_type"], "made_up");
  EXPECT_EQ(json["layers"], 6);
  EXPECT_EQ(json["length"], 128);
  EXPECT_EQ(json["notes"], Json({"a note"}));
  const Json rotary = json["groups"][0];
  EXPECT_EQ(rotary["layers"], Json({0, 2}));
  EXPECT_EQ(rotary["kind"], "rotary");
  EXPECT_EQ(rotary["pairing"], "adjacent");
  EXPECT_EQ(rotary["head_dim"], 12);
  EXPECT_EQ(rotary["rotary_dim"], 8);
  EXPECT_EQ(rotary["head_offset"], 4);
  EXPECT_EQ(rotary["base"], 10000.0);
  EXPECT_EQ(rotary["scaling"]["type"], "longrope");
  EXPECT_EQ(rotary["inv_freq"][0], 0.5);  // the long factors: 128 is beyond 64
  EXPECT_EQ(rotary["table_scale"], 1.5);
  EXPECT_EQ(rotary["softmax_scale"], 0.25);
  EXPECT_EQ(rotary["axes"], Json({0, 1, 2, 0}));
  EXPECT_EQ(rotary["query_scale"],
            Json({{"type", "temperature"}, {"beta", 0.1}, {"length", 64}, {"shift", 1}}));
  EXPECT_EQ(Json::parse(to_json(sample(), 64))["groups"][0]["inv_freq"][0], 1.0);

  EXPECT_EQ(json["groups"][1]["kind"], "none");
  EXPECT_EQ(json["groups"][1]["query_scale"], Json({{"type", "none"}}));
  EXPECT_EQ(json["groups"][2]["slopes"], Json({0.0625, 0.00390625}));
  EXPECT_EQ(json["groups"][3]["part"], "encoder");
  EXPECT_EQ(json["groups"][3]["buckets"], 32);
  EXPECT_EQ(json["groups"][3]["max_distance"], 128);
  EXPECT_EQ(json["groups"][3]["direction"], "bidirectional");
  EXPECT_EQ(json["groups"][4]["rows"], 514);
  EXPECT_EQ(json["groups"][4]["capacity"], 512);
}

// The document is valid JSON for any text in the file.
TEST(Description, JsonOfOddText) {
  ModelDescription model{.source = "a\xff\"\\\n",
                         .model_type = std::string("b\0\xc3", 3),
                         .layers = 1,
                         .length = 0,
                         .groups = {rotary_group()},
                         .notes = {"\xed\xa0\x80 \x80", "tab\t", "\u00e9\u20ac\U0001F600", ""}};
  const Json json = Json::parse(to_json(model));
  EXPECT_EQ(json["source"], "a\ufffd\"\\\n");
  EXPECT_EQ(json["model_type"].get<std::string>(), std::string("b\0\ufffd", 5));
  ASSERT_EQ(json["notes"].size(), 4u);
  EXPECT_THAT(json["notes"][0].get<std::string>(), HasSubstr("\ufffd"));
  EXPECT_EQ(json["notes"][1], "tab\t");
  EXPECT_EQ(json["notes"][2], "\u00e9\u20ac\U0001F600");
  EXPECT_EQ(json["length"], 0);
  EXPECT_EQ(Json::parse(
                to_json({.source = "", .model_type = "", .groups = {}, .notes = {}}))["groups"],
            Json::array());
}

}  // namespace description_test
}  // namespace gnomon::model
