#include "gnomon/model/scheme.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing.h"

namespace gnomon::model {
namespace model_scheme_test {

using ::testing::HasSubstr;
using testing::message_of;

constexpr Shape shape{32, 4, 16};

Encoding usual(std::string_view name) { return find_encoding(name).usual(shape); }
Scheme parsed(std::string_view text, std::int64_t layers) {
  return parse_scheme(text, shape, layers);
}

TEST(Scheme, SaysWhatEachLayerDoes) {
  const Mixture rotary{usual("rotary")}, none{usual("none")};
  EXPECT_EQ(parsed("rotary", 3).layers, (std::vector<Mixture>{rotary, rotary, rotary}));
  EXPECT_EQ(parsed("rotary*3/none", 6).layers,
            (std::vector<Mixture>{rotary, rotary, rotary, none, rotary, rotary}));
  EXPECT_EQ(parsed("rotary+alibi", 2).layers,
            std::vector<Mixture>(2, Mixture{usual("rotary"), usual("alibi")}));
  EXPECT_EQ(parsed("none/rotary", 2).layers, (std::vector<Mixture>{none, rotary}));
  EXPECT_EQ(every_layer(rotary, 3), parsed("rotary", 3));
}

TEST(Scheme, EveryNameOfTheListIsOne) {
  for (const EncodingInfo& one : encodings())
    EXPECT_EQ(parsed(one.name, 2), every_layer({one.usual(shape)}, 2)) << one.name;
}

TEST(Scheme, WhatIsAddedToTheEmbeddingsStandsApart) {
  const Scheme scheme = parsed("learned+rotary/learned", 2);
  EXPECT_EQ(before_layers(scheme), Mixture{usual("learned")});
  EXPECT_EQ(within_layer(scheme, 0), Mixture{usual("rotary")});
  EXPECT_EQ(within_layer(scheme, 1), Mixture{});
  EXPECT_EQ(capacity(scheme), 16);
  EXPECT_EQ(capacity(parsed("rotary*3/none", 4)), std::nullopt);
  EXPECT_EQ(sharing({usual("rotary"), usual("t5")}), Sharing::all_layers);
  EXPECT_EQ(sharing({usual("rotary"), usual("swin")}), Sharing::each_layer);
}

TEST(Scheme, NamesAreTheShortestText) {
  for (const char* text : {"rotary", "rotary*3/none", "rotary+alibi", "none/rotary*2",
                           "learned+rotary/learned", "sinusoidal+t5"})
    EXPECT_EQ(names(parsed(text, 8)), text);
  EXPECT_EQ(names(parsed("rotary*4", 8)), "rotary");
  EXPECT_EQ(names(parsed("rotary/rotary", 8)), "rotary");
}

TEST(Scheme, RefusesWhatItDoesNotUnderstand) {
  const auto says = [](std::string_view text, std::int64_t layers) {
    return message_of([&] { parsed(text, layers); });
  };
  EXPECT_THAT(says("rotray", 2), HasSubstr("got rotray; nearest: rotary"));
  EXPECT_EQ(says("rotary*x", 2), "[scheme] a number of layers must follow *, got x");
  EXPECT_EQ(says("rotary*0", 2), "[scheme] a number of layers must follow *, got 0");
  EXPECT_EQ(says("rotary*", 2), "[scheme] a number of layers must follow *, got ");
  EXPECT_EQ(says("rotary+", 2), "[scheme] each of +, * and / must follow a name, got rotary+");
  EXPECT_EQ(says("", 2), "[scheme] each of +, * and / must follow a name, got ");
  EXPECT_EQ(says("rotary*3/none", 3),
            "[scheme] must have at most the 3 layers of the model, got rotary*3/none");
  EXPECT_EQ(says("rotary*9223372036854775807/none*9223372036854775807", 3),
            "[scheme] must have at most the 3 layers of the model, got "
            "rotary*9223372036854775807/none*9223372036854775807");
  EXPECT_EQ(says("rotary", 0), "[scheme] layers must be at least 1, got 0");
  EXPECT_EQ(
      says("rotary+xpos", 2),
      "[scheme] at most one encoding of a layer can enter at queries and keys, got rotary "
      "and xpos");
  EXPECT_EQ(says("sinusoidal/none", 2),
            "[scheme] all layers must have the encodings that are added to the embeddings, "
            "sinusoidal, got none");
  EXPECT_THROW(check(Scheme{}), std::invalid_argument);
}

TEST(Scheme, JsonGoesThereAndBack) {
  for (const char* text : {"rotary", "rotary*3/none", "learned+rotary/learned", "t5+rotary"}) {
    const Scheme scheme = parsed(text, 4);
    EXPECT_EQ(scheme_from_json(to_json(scheme)), scheme) << to_json(scheme);
  }
  EXPECT_EQ(to_json(parsed("alibi/none", 2)),
            R"({"layers":[[{"kind":"alibi","heads":4,"max_bias":8.0,"head_offset":0,)"
            R"("local_heads":0,"bias_scale":1.0,"rounding":"none"}],[{"kind":"none"}]]})");
  for (const char* text :
       {"", "[]", "{}", R"({"layers":3})", R"({"layers":[3]})", R"({"layers":[]})",
        R"({"layers":[[3]]})", R"({"layers":[[]],"more":1})"})
    EXPECT_THROW(scheme_from_json(text), std::invalid_argument) << text;
  EXPECT_THROW(scheme_from_json(R"({"layers":)" + std::string(100'000, '[') +
                                std::string(100'000, ']') + "}"),
               std::invalid_argument);
}

}  // namespace model_scheme_test
}  // namespace gnomon::model
