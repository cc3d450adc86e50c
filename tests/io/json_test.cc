#include "src/io/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <limits>
#include <string>

#include "gnomon/error.h"
#include "src/core/text.h"
#include "testing.h"

namespace gnomon::internal {
namespace json_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Message and offset of the FormatError; empty if `read` throws nothing. Messages must be
// printable.
std::string error(const std::string& text, const std::function<void(Json)>& read = {},
                  std::uint64_t begin = 0) {
  try {
    const JsonDocument document(text, "x.json", begin);
    if (read) read(document.root());
  } catch (const FormatError& error) {
    EXPECT_EQ(error.file(), "x.json");
    EXPECT_GE(error.offset(), begin) << text;
    EXPECT_LE(error.offset(), begin + text.size()) << text;
    const std::string what = error.what();
    EXPECT_EQ(ill_formed_utf8(what), what.npos) << text;
    for (const char c : what) EXPECT_GE(static_cast<unsigned char>(c), 32) << text;
    return error.reason() + ", at byte " + std::to_string(error.offset());
  }
  return {};
}

template <typename Read>
auto read(const std::string& text, Read read) {
  const JsonDocument document(text, "x.json");
  return read(document.root());
}
double number(const std::string& text) {
  return read(text, [](Json json) { return json.number("it"); });
}
std::int64_t integer(const std::string& text) {
  return read(text, [](Json json) { return json.integer("it"); });
}
std::string string(const std::string& text) {
  return read(std::string(1, '"').append(text).append(1, '"'),
              [](Json json) { return json.string("it"); });
}
std::string number_error(const std::string& text) {
  return error(text, [](Json json) { json.number("it"); });
}
std::string integer_error(const std::string& text) {
  return error(text, [](Json json) { json.integer("it"); });
}
std::string count_error(const std::string& text) {
  return error(text, [](Json json) { json.count("it"); });
}

TEST(JsonReader, ReadsEveryKindOfValue) {
  const std::string text =
      " {\"n\" : null ,\t\"t\":true,\r\n\"f\":false, \"i\": -12, \"d\":2.5e-1,\"s\":\"a\","
      "\"l\":[1,[],{}, \"b\"],\"o\":{\"k\":[ ]}} \n";
  const JsonDocument document(text, "x.json");
  const Json root = document.root();
  EXPECT_EQ(document.name(), "x.json");
  ASSERT_TRUE(root.is(JsonType::object));
  EXPECT_TRUE(root.find("n")->is_null());
  EXPECT_TRUE(root.find("t")->boolean("t"));
  EXPECT_FALSE(root.find("f")->boolean("f"));
  EXPECT_EQ(root.find("i")->integer("i"), -12);
  EXPECT_EQ(root.find("d")->number("d"), 0.25);
  EXPECT_EQ(root.find("s")->string("s"), "a");
  EXPECT_EQ(root.find("missing"), std::nullopt);
  std::vector<JsonType> types;
  root.find("l")->for_each_element([&](Json one) { types.push_back(one.type()); });
  EXPECT_THAT(types, ElementsAre(JsonType::number, JsonType::array, JsonType::object,
                                 JsonType::string));
  std::vector<std::string> names;
  root.for_each_member([&](const std::string& name, Json value) {
    names.push_back(name);
    EXPECT_EQ(value.offset(), root.find(name)->offset());
  });
  EXPECT_THAT(names, ElementsAre("n", "t", "f", "i", "d", "s", "l", "o"));
  EXPECT_TRUE(root.find("o")->find("k")->is(JsonType::array));
  // Other types have no members and no elements.
  root.find("l")->for_each_member([](const std::string&, Json) { FAIL(); });
  root.for_each_element([](Json) { FAIL(); });
  EXPECT_EQ(root.find("l")->find("k"), std::nullopt);
}

TEST(JsonReader, EveryValueMayStandAlone) {
  for (const char* text : {"null", "true", "false", "0", "\"\"", "[]", "{}", " 1 ", "\n[]\t",
                           "\xEF\xBB\xBF{}", "\xEF\xBB\xBF 1"})
    EXPECT_EQ(error(text), "") << text;
}

TEST(JsonReader, Numbers) {
  EXPECT_EQ(number("0"), 0);
  EXPECT_TRUE(std::signbit(number("-0")));
  EXPECT_EQ(number("1E+3"), 1000);
  EXPECT_EQ(number("-12.50e-1"), -1.25);
  EXPECT_EQ(number("0.1"), 0.1);
  EXPECT_EQ(number("1.7976931348623157e308"), std::numeric_limits<double>::max());
  EXPECT_EQ(number("5e-324"), std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(number("123456789012345678901234567890"), 123456789012345678901234567890.0);
  // Text that the json module of Python writes.
  EXPECT_TRUE(std::isnan(number("NaN")));
  EXPECT_EQ(number("Infinity"), HUGE_VAL);
  EXPECT_EQ(number("-Infinity"), -HUGE_VAL);
  EXPECT_EQ(read("[NaN,Infinity, -Infinity]", [](Json j) { return j.numbers("it").size(); }),
            3u);

  for (const char* text :
       {"01",   "-01",    "+1",        ".5",    "1.",        "1.e3", "-",     "--1",  "1e",
        "1e+",  "1e1.5",  "0x10",      "1_0",   "1a",        "1 2",  "-NaN",  "nan",  "NAN",
        "Inf",  "inf",    "-infinity", "NaN1",  "Infinityy", "tru",  "truee", "True", "nul",
        "None", "falsey", "-true",     "1\"\"", "1[]",       "1{}"})
    EXPECT_THAT(error(text), HasSubstr("not JSON: ")) << text;
  EXPECT_EQ(number_error("1e400"),
            "it must be a number that fits a double, got 1e400, at byte 0");
  EXPECT_THAT(number_error("-1e-400"), HasSubstr("fits a double"));
  EXPECT_EQ(number_error(" \"1\""), "it must be a number, got \"1\", at byte 1");
  EXPECT_THAT(number_error("null"), HasSubstr("got null"));
}

TEST(JsonReader, Integers) {
  EXPECT_EQ(integer("-0"), 0);
  EXPECT_EQ(integer("4096.0"), 4096);
  EXPECT_EQ(integer("4.096e3"), 4096);
  EXPECT_EQ(integer("9007199254740992.0"), 9007199254740992);
  EXPECT_EQ(integer("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(integer("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(integer_error("9223372036854775808"),
            "it must be an integer within 64 bits, got 9223372036854775808, at byte 0");
  EXPECT_THAT(integer_error("1.5"), HasSubstr("it must be an integer, got 1.5"));
  EXPECT_THAT(integer_error("1e30"), HasSubstr("at most 2^53 unless written as an integer"));
  EXPECT_THAT(integer_error("1e400"), HasSubstr("a number that fits a double"));
  EXPECT_THAT(integer_error("NaN"), HasSubstr("it must be an integer, got NaN"));
  EXPECT_THAT(integer_error("-Infinity"), HasSubstr("got -Infinity"));
  EXPECT_THAT(integer_error("true"), HasSubstr("it must be an integer, got true"));
  EXPECT_THAT(integer_error("[1]"), HasSubstr("it must be an integer, got a list"));
}

TEST(JsonReader, Counts) {
  const auto count = [](Json json) { return json.count("it"); };
  EXPECT_EQ(read("0", count), 0u);
  EXPECT_EQ(read(" 18446744073709551615 ", count), UINT64_MAX);
  EXPECT_THAT(count_error("18446744073709551616"), HasSubstr("within 64 bits"));
  for (const char* text : {"-0", "-1", "1.0", "1e2", "NaN", "Infinity", "\"1\"", "[1]", "{}",
                           "null", "true", "\"\""})
    EXPECT_THAT(count_error(text), HasSubstr("it must be a non-negative integer in digits"))
        << text;
}

TEST(JsonReader, EscapesAndSurrogates) {
  EXPECT_EQ(string(R"(\"\\\/\b\f\n\r\t)"), "\"\\/\b\f\n\r\t");
  EXPECT_EQ(string(R"(a\u0041\u00e9\u20AC\ud83d\uDE00z)"), "aA\u00e9\u20ac\U0001F600z");
  EXPECT_EQ(string(R"(\uffff\uD800\uDC00\uDBFF\uDFFF)"), "\uffff\U00010000\U0010FFFF");
  EXPECT_EQ(string(R"(\u0000)"), std::string(1, '\0'));
  EXPECT_EQ(string("\x7f"), "\x7f");
  const auto message = [](const std::string& inside) {
    return error("[\"ab" + inside + "\"]");
  };
  for (const char* half : {R"(\uD800)", R"(\uDBFF x)", R"(\uDC00)", R"(\uDFFF\uD800)",
                           R"(\uD800\u0041)", R"(\uD800\uD800)", R"(\uD800\n)", R"(\uD800\)"})
    EXPECT_EQ(message(half), "not JSON: an unpaired surrogate in a string, at byte 4") << half;
  for (const char* four : {R"(\u)", R"(\u1)", R"(\u12)", R"(\u123)", R"(\u12g4)", R"(\u 123)",
                           R"(\u+123)", R"(\u-123)", R"(\u0x12)"})
    EXPECT_EQ(message(four), "not JSON: \\u without four hexadecimal digits, at byte 4")
        << four;
  for (const char* other :
       {R"(\x41)", R"(\')", R"(\0)", R"(\U0041)", R"(\ )", "\\\n", "\\\x80"})
    EXPECT_EQ(message(other), "not JSON: an unknown escape in a string, at byte 4") << other;
  EXPECT_THAT(error("\"\\"), HasSubstr("an unknown escape"));
  EXPECT_EQ(error("\"abc"), "not JSON: an unterminated string, at byte 4");
  EXPECT_EQ(error("\"\\n"), "not JSON: an unterminated string, at byte 3");
  EXPECT_EQ(error(R"(["a\"])"), "not JSON: an unterminated string, at byte 6");
  for (int c = 0; c < 32; ++c)
    EXPECT_EQ(message(std::string(1, static_cast<char>(c))),
              "not JSON: a control character in a string, at byte 4");
}

// Unicode, table 3-7: the first and last sequence of every row, and their invalid neighbours.
TEST(JsonReader, Utf8) {
  for (const char* text :
       {"\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xec\xbf\xbf", "\xed\x80\x80", "\xed\x9f\xbf",
        "\xee\x80\x80", "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf3\xbf\xbf\xbf",
        "\xf4\x80\x80\x80", "\xf4\x8f\xbf\xbf"})
    EXPECT_EQ(string(text), text);
  for (const char* text :
       {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc2", "\xc2\x7f", "\xc2\xc0", "\xe0\x9f\xbf",
        "\xe0\xa0", "\xed\xa0\x80", "\xed\xbf\xbf", "\xf0\x8f\xbf\xbf", "\xf0\x90\x80",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xfe"})
    EXPECT_EQ(error("{\"\u00e9" + std::string(text) + "\":1}"),
              "not JSON: ill-formed UTF-8 in a string, at byte 4");
  EXPECT_EQ(error("\xff"), "not JSON: an unprintable byte in place of a value, at byte 0");
  EXPECT_THAT(error("[1\xc2\xa0]"),
              HasSubstr("an unprintable byte in place of the end of a value"));
}

TEST(JsonReader, DepthIsLimited) {
  const auto nested = [](const std::string& open, const std::string& close, int depth) {
    std::string text;
    for (int i = 0; i < depth; ++i) text += open;
    text += "0";
    for (int i = 0; i < depth; ++i) text += close;
    return text;
  };
  EXPECT_EQ(error(nested("[", "]", 64)), "");
  EXPECT_EQ(error(nested("[", "]", 65)), "nested deeper than 64 levels, at byte 64");
  EXPECT_EQ(error(nested("{\"a\":", "}", 64)), "");
  EXPECT_EQ(error(nested("{\"a\":", "}", 65)), "nested deeper than 64 levels, at byte 320");
  EXPECT_EQ(error(nested("[{\"a\":", "}]", 32)), "");
  EXPECT_THAT(error(nested("[{\"a\":", "}]", 33)), HasSubstr("nested deeper than 64 levels"));
  EXPECT_EQ(error(std::string(10'000'000, '[')), "nested deeper than 64 levels, at byte 64");
}

TEST(JsonReader, WhatIsMissing) {
  EXPECT_EQ(error(""), "no JSON value, at byte 0");
  EXPECT_EQ(error(" \n"), "no JSON value, at byte 2");
  EXPECT_EQ(error("\xEF\xBB\xBF"), "no JSON value, at byte 3");
  EXPECT_EQ(error("\xEF\xBB{}"),
            "not JSON: an unprintable byte in place of a value, at byte 0");
  EXPECT_EQ(error("{} {}"), "not JSON: { in place of the end, at byte 3");
  EXPECT_EQ(error("[1 2]"), "not JSON: 2 in place of , or ], at byte 3");
  EXPECT_EQ(error("[1,]"), "not JSON: ] in place of a value, at byte 3");
  EXPECT_EQ(error("[,1]"), "not JSON: , in place of a value, at byte 1");
  EXPECT_EQ(error("[1}"), "not JSON: } in place of , or ], at byte 2");
  EXPECT_EQ(error("{\"a\":1]"), "not JSON: ] in place of , or }, at byte 6");
  EXPECT_EQ(error("{\"a\":1,}"), "not JSON: } in place of the name of a member, at byte 7");
  EXPECT_EQ(error("{a:1}"), "not JSON: a in place of the name of a member, at byte 1");
  EXPECT_EQ(error("{\"a\" 1}"), "not JSON: 1 in place of :, at byte 5");
  EXPECT_EQ(error("{\"a\":}"), "not JSON: } in place of a value, at byte 5");
  EXPECT_EQ(error("{'a':1}"), "not JSON: ' in place of the name of a member, at byte 1");
  EXPECT_EQ(error("[1] // c"), "not JSON: / in place of the end, at byte 4");
  EXPECT_EQ(error("[1"), "not JSON: it ends before , or ], at byte 2");
  EXPECT_EQ(error("[1]\v"), "not JSON: an unprintable byte in place of the end, at byte 3");
  EXPECT_EQ(error(std::string("[1\0]", 4)),
            "not JSON: an unprintable byte in place of the end of a value, at byte 2");
}

TEST(JsonReader, MembersByName) {
  const std::string text = R"({"a":1,"\u0062":2,"ab":3,"":4,"q\"":5,"b\\":6,"a\u0000":7})";
  const JsonDocument document(text, "x.json");
  const auto value = [&](std::string_view name) {
    const auto found = document.root().find(name);
    return found ? found->integer("it") : 0;
  };
  EXPECT_EQ(value("a"), 1);
  EXPECT_EQ(value("b"), 2);
  EXPECT_EQ(value("ab"), 3);
  EXPECT_EQ(value(""), 4);
  EXPECT_EQ(value("q\""), 5);
  EXPECT_EQ(value("b\\"), 6);
  EXPECT_EQ(value(std::string_view("a\0", 2)), 7);
  for (const char* name : {"abc", "c", "q", "b\\\\", "\\u0062", "q\\\""})
    EXPECT_EQ(value(name), 0) << name;

  const auto find = [](std::string_view name) {
    return [name](Json json) { json.find(name); };
  };
  EXPECT_EQ(error(R"({"a":1,"b":2,"a":3})", find("a")), "\"a\" occurs twice, at byte 17");
  EXPECT_EQ(error(R"({"a":1,"b":2,"a":3})", find("b")), "");
  EXPECT_EQ(error(R"({"a":1,"\u0061": null})", find("a")), "\"a\" occurs twice, at byte 17");
  EXPECT_EQ(error(R"({"x":{"a":1},"a":3})", find("a")), "");
}

TEST(JsonReader, Lists) {
  const std::string text = R"([[1, 2.0, -3], ["a", "\u0062"], [1.5, NaN], [], [1, "x"], 7])";
  const JsonDocument document(text, "x.json");
  std::vector<Json> lists;
  document.root().for_each_element([&](Json one) { lists.push_back(one); });
  EXPECT_THAT(lists[0].integers("it"), ElementsAre(1, 2, -3));
  EXPECT_THAT(lists[0].numbers("it"), ElementsAre(1.0, 2.0, -3.0));
  EXPECT_THAT(lists[1].strings("it"), ElementsAre("a", "b"));
  EXPECT_EQ(lists[2].numbers("it").size(), 2u);
  EXPECT_TRUE(lists[3].strings("it").empty());
  const auto message = [&](auto call) { return gnomon::testing::message_of(call); };
  EXPECT_EQ(message([&] { lists[4].integers("it"); }),
            "[x.json] it must be an integer, got \"x\", at byte 52");
  EXPECT_EQ(message([&] { lists[4].strings("it"); }),
            "[x.json] it must be a string, got 1, at byte 49");
  EXPECT_EQ(message([&] { lists[5].numbers("it"); }),
            "[x.json] it must be a list of numbers, got 7, at byte 58");
  EXPECT_EQ(message([&] { lists[2].integers("it"); }),
            "[x.json] it must be an integer, got 1.5, at byte 33");
  EXPECT_EQ(message([&] { document.root().numbers("it"); }),
            "[x.json] it must be a number, got a list, at byte 1");

  std::string many = "[0";
  for (std::size_t i = 1; i < Json::max_list; ++i) many += ",0";
  EXPECT_EQ(error(many + "]", [](Json json) { json.numbers("it"); }), "");
  EXPECT_EQ(error(many + ",0]", [](Json json) { json.integers("it"); }),
            "it must have at most 65536 elements, at byte 131073");
}

TEST(JsonReader, MessagesSayWhatWasGotAndWhereInTheFile) {
  const auto boolean = [](Json json) { json.find("k")->boolean("k"); };
  EXPECT_EQ(error(R"({"k": 1})", boolean), "k must be true or false, got 1, at byte 6");
  EXPECT_EQ(error(R"({"k": 1})", boolean, 1000),
            "k must be true or false, got 1, at byte 1006");
  EXPECT_EQ(error("[1,", {}, 8), "not JSON: it ends before a value, at byte 11");
  EXPECT_EQ(error("{}", [](Json json) { json.fail("no"); }, 8), "no, at byte 8");
  EXPECT_THAT(error(R"({"k": {}})", boolean), HasSubstr("got an object"));
  EXPECT_THAT(error(R"({"k": "a\n\u0007\"\u00e9"})", boolean),
              HasSubstr("got \"a\\x0a\\x07\"\u00e9\", at byte 6"));
  EXPECT_THAT(error("{\"k\":\"" + std::string(79, 'a') + "\u00e9\u00e9\"}", boolean),
              HasSubstr("a\u00e9...\""));
  EXPECT_THAT(error("{\"k\": 0." + std::string(1000, '3') + "}", boolean),
              HasSubstr("got 0." + std::string(38, '3') + "..., at byte 6"));
}

TEST(JsonReader, RefusesATextThatIsTooLong) {
  constexpr std::size_t size = JsonDocument::max_size + 1;
  void* const pages = mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  const std::string_view text(static_cast<const char*>(pages), size);
  EXPECT_EQ(gnomon::testing::message_of([&] { JsonDocument(text, "x.json"); }),
            "[x.json] JSON of 268435457 bytes, more than 268435456, at byte 0");
  munmap(pages, size);
}

}  // namespace json_test
}  // namespace gnomon::internal
