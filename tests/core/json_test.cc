#include "src/core/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "testing.h"

namespace gnomon::internal {
namespace json_test {

std::string lists(int levels) {
  const auto count = static_cast<std::size_t>(levels);
  return std::string(count, '[') + std::string(count, ']');
}
std::string objects(int levels) {
  std::string text;
  for (int i = 0; i < levels; ++i) text += "{\"a\":";
  return text + "1" + std::string(static_cast<std::size_t>(levels), '}');
}

std::string error(const std::string& text) {
  return gnomon::testing::message_of(
      [&] { parse_json<nlohmann::json>(text, "op", "the \"file\""); });
}

TEST(ParseJson, ReadsUpToTheDepthLimit) {
  for (const std::string& text : {lists(64), objects(64)}) {
    EXPECT_EQ(parse_json<nlohmann::json>(text, "op", "x").dump(), text);
    EXPECT_EQ(parse_json<nlohmann::ordered_json>(text, "op", "x").dump(), text);
  }
}

TEST(ParseJson, RefusesDeeperText) {
  for (const std::string& text :
       {lists(65), objects(65), "[" + objects(64) + "]", lists(100'000), objects(100'000),
        std::string(100'000, '['), "[\"\\\\\"," + lists(64) + "]"})
    EXPECT_EQ(error(text),
              "[op] the \"file\" must be JSON of at most 64 levels, got more levels");
}

// Neither brackets in strings nor closed lists are levels.
TEST(ParseJson, CountsOnlyOpenLevels) {
  const std::string brackets =
      "\"" + std::string(100, '[') + "\\\"" + std::string(100, '{') + "\"";
  EXPECT_EQ(error(brackets), "");
  std::string flat = "[";
  for (int i = 0; i < 100; ++i) flat += "[],{},";
  EXPECT_EQ(error(flat + "0]"), "");
  EXPECT_EQ(error("]]]]" + lists(66)).find("must be JSON of"), std::string::npos);
}

TEST(ParseJson, RefusesOtherText) {
  EXPECT_EQ(error(""), "[op] the \"file\" must be JSON, got \"\"");
  EXPECT_EQ(error("{\x1b"), "[op] the \"file\" must be JSON, got \"{\\x1b\"");
  for (const char* text : {"{", "[1,]", "nul", "{} {}", "\"\xff\"", "\"", "\"\\", "NaN"})
    EXPECT_NE(error(text).find("must be JSON, got"), std::string::npos) << text;
}

TEST(ParseJson, RefusesANameTwiceInAnObject) {
  EXPECT_EQ(error(R"({"heads": 4, "heads": 8})"),
            "[op] the names of an object in the \"file\" must differ, got \"heads\" twice");
  EXPECT_NE(error(R"([1, {"a": {"b": 1, "\u0062": {}}}])"), "");
  EXPECT_EQ(error(R"([{"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]}, {"a": "a"}])"), "");
}

}  // namespace json_test
}  // namespace gnomon::internal
