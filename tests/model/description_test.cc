// Descriptions: a group at a length, the group of a layer, and the keys of the JSON.
#include "gnomon/model/description.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "testing.h"

namespace gnomon::model {
namespace {

using Json = nlohmann::json;
using testing::message_of;

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
       .kind = "rotary",
       .encoding = ScaledRotary{.rotary = {.dim = 8, .pairing = Pairing::adjacent, .first = 4},
                                .scaling = LongRopeScaling{.short_factors = ones,
                                                           .long_factors = twos,
                                                           .original_length = 64,
                                                           .attention_factor = 1.5},
                                .length = 128,
                                .axes = {0, 1, 2, 0}},
       .head_dim = 12,
       .softmax_scale = 0.25,
       .temperature = QueryTemperature{.beta = 0.1, .length = 64, .shift = 1}});
  model.groups.push_back(
      {.layers = {1}, .kind = "none", .head_dim = 12, .softmax_scale = 0.25});
  model.groups.push_back({.layers = {3}, .kind = "alibi", .encoding = Alibi{.heads = 2}});
  model.groups.push_back(
      {.layers = {4},
       .kind = "t5",
       .part = "encoder",
       .encoding = T5Bias{.heads = 2, .direction = T5Direction::bidirectional}});
  model.groups.push_back({.layers = {5},
                          .kind = "learned",
                          .encoding = Learned{.rows = 514, .dim = 8, .offset = 2},
                          .facts = {{"steps", 3}, {"share", 0.5}}});
  return model;
}

TEST(Description, ResolvesAGroupAtALength) {
  const ModelDescription model = sample();
  const ResolvedRotary inside = resolve(model.groups[0], 64);
  const ResolvedRotary beyond = resolve(model.groups[0], 65);
  for (int i = 0; i < 4; ++i) {
    const double plain = std::pow(10000.0, -i / 4.0);
    EXPECT_DOUBLE_EQ(inside.schedule.inv_freq[std::size_t(i)], plain);
    EXPECT_DOUBLE_EQ(beyond.schedule.inv_freq[std::size_t(i)], plain / 2);
  }
  EXPECT_EQ(inside.schedule.pairing, Pairing::adjacent);
  EXPECT_EQ(inside.schedule.first, 4);
  EXPECT_EQ(inside.schedule.axes, (std::vector<std::int32_t>{0, 1, 2, 0}));
  EXPECT_EQ(inside.schedule.table_scale, 1.5);
  EXPECT_EQ(inside.softmax_scale, 0.25);
}

// DeepSeek's: what the scaling adds to the softmax is in the resolved number.
TEST(Description, TheSoftmaxHasTheScalingsShare) {
  LayerGroup group = sample().groups[0];
  group.encoding = ScaledRotary{.rotary = {.dim = 8, .pairing = Pairing::halves},
                                .scaling = YarnScaling{.factor = 40,
                                                       .original_length = 4096,
                                                       .mscale = 1,
                                                       .mscale_all_dim = 1,
                                                       .softmax_mscale = 1},
                                .length = 4096};
  const double magnitude = 0.1 * std::log(40.0) + 1;
  EXPECT_DOUBLE_EQ(resolve(group, 4096).softmax_scale, 0.25 * magnitude * magnitude);
  EXPECT_DOUBLE_EQ(resolve(group, 4096).schedule.table_scale, 1);
}

TEST(Description, FindsTheGroupOfALayer) {
  const ModelDescription model = sample();
  EXPECT_EQ(&group_of(model, 2), &model.groups[0]);
  EXPECT_EQ(&group_of(model, 4, "encoder"), &model.groups[3]);
  EXPECT_NE(message_of([&] { group_of(model, 4); }).find("got 4"), std::string::npos);
  EXPECT_NE(message_of([&] { resolve(model.groups[1], 64); }).find("got none"),
            std::string::npos);
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
  EXPECT_EQ(rotary["first"], 4);
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
  EXPECT_EQ(json["groups"][3]["bidirectional"], true);
  EXPECT_EQ(json["groups"][4]["rows"], 514);
  EXPECT_EQ(json["groups"][4]["capacity"], 512);
  EXPECT_TRUE(json["groups"][4]["steps"].is_number_integer());
  EXPECT_EQ(json["groups"][4]["share"], 0.5);
}

TEST(Description, OddBytesInANoteDoNotBreakTheJson) {
  ModelDescription model = sample();
  model.source = "a\xff\"\n";
  model.notes = {"\x80 and \xc3"};
  EXPECT_FALSE(Json::parse(to_json(model), nullptr, false).is_discarded());
}

}  // namespace
}  // namespace gnomon::model
