#include "gnomon/verdicts/verdicts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace gnomon {
namespace verdicts_test {

using ::testing::HasSubstr;
using verdicts::Setting;

nlohmann::json of(std::string_view name, const Setting& setting = {}) {
  return nlohmann::json::parse(verdicts::to_json(name, setting));
}
std::string word(const nlohmann::json& report, const char* property) {
  return report.at("verdicts").at(property).at("word");
}

TEST(Verdicts, DistinguishAbsoluteAndRelativeEncodings) {
  const auto sinusoidal = of("sinusoidal"), rotary = of("rotary"), none = of("none");
  EXPECT_EQ(word(sinusoidal, "distance"), "no");
  EXPECT_EQ(word(rotary, "distance"), "yes");
  EXPECT_EQ(word(none, "order"), "no");
  EXPECT_EQ(word(rotary, "order"), "yes");
  EXPECT_EQ(word(none, "unique"), "no");
}

TEST(Verdicts, BeyondNamesTheEndOfALearnedTable) {
  const auto learned = of("learned", {.width = 64, .heads = 2, .trained = 32, .length = 48});
  EXPECT_EQ(word(learned, "beyond"), "ends");
  EXPECT_EQ(learned.at("verdicts").at("beyond").at("number"), "32");
  EXPECT_EQ(word(of("alibi"), "beyond"), "yes");
}

TEST(Verdicts, SentencesHaveNoHolesAndPromisesAreKept) {
  for (const char* name : {"none", "sinusoidal", "learned", "rotary", "alibi", "t5", "fire",
                           "fox", "pope", "shaw", "grape-additive", "stick-breaking"}) {
    const auto report = of(name, {.width = 64, .heads = 2, .trained = 64, .length = 128});
    EXPECT_EQ(report.at("verdicts").size(), 7u) << name;
    for (const auto& [property, verdict] : report.at("verdicts").items()) {
      const std::string sentence = verdict.at("sentence");
      EXPECT_THAT(sentence, ::testing::Not(HasSubstr("{}"))) << name << ' ' << property;
      EXPECT_EQ(sentence.back(), '.') << name << ' ' << property;
    }
    for (const auto& promise : report.at("promises"))
      EXPECT_TRUE(promise.at("kept")) << name << ": " << promise.at("what");
  }
}

TEST(Verdicts, RefusesSizes) {
  const auto refused = [](std::string_view name, const Setting& setting) -> std::string {
    try {
      verdicts::to_json(name, setting);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refused("rotary", {.heads = 0}), "[check] heads must be at least 1, got 0");
  EXPECT_THAT(refused("rotary", {.width = 100, .heads = 8}), HasSubstr("width must be"));
  EXPECT_THAT(refused("rotary", {.trained = 8}),
              HasSubstr("trained must be 16 to 4096, got 8"));
  EXPECT_THAT(refused("rotary", {.length = 64}), HasSubstr("length must be at least trained"));
  EXPECT_THAT(refused("rotray", {}), HasSubstr("rotary"));
}

}  // namespace verdicts_test
}  // namespace gnomon
