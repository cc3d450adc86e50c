// Compares the texts that src/io/json.h accepts and refuses with the JSON library.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "gnomon/error.h"
#include "src/io/json.h"
#include "testing.h"

namespace gnomon::internal {
namespace json_library_test {

using ::testing::HasSubstr;
using Reference = nlohmann::json;

// The reason why a text, or `read` of it, is refused; empty if it is accepted.
std::string error(const std::string& text, const std::function<void(Json)>& read = {}) {
  try {
    const JsonDocument document(text, "x.json");
    if (read) read(document.root());
  } catch (const FormatError& error) {
    EXPECT_LE(error.offset(), text.size()) << text;
    return error.what();
  }
  return {};
}

// The result of the JSON library. It stops at a number that overflows a double, so the rest of
// the text may be invalid.
enum class Verdict { accepts = 1, refuses, stops };
Verdict judge(const std::string& text, Reference& value) {
  try {
    value = Reference::parse(text);
    return Verdict::accepts;
  } catch (const Reference::out_of_range&) {
    return Verdict::stops;
  } catch (const Reference::parse_error&) {
    return Verdict::refuses;
  }
}

void expect_same(Json got, const Reference& wanted) {
  if (wanted.is_object()) {
    ASSERT_TRUE(got.is(JsonType::object));
    std::size_t members = 0;
    got.for_each_member([&](const std::string& name, Json value) {
      ++members;
      ASSERT_TRUE(wanted.contains(name)) << name;
      if (const auto one = gnomon::testing::message_of([&] { got.find(name); }); one.empty()) {
        EXPECT_EQ(got.find(name)->offset(), value.offset());
        expect_same(value, wanted[name]);
      } else {
        EXPECT_THAT(one, HasSubstr("occurs twice"));
      }
    });
    EXPECT_GE(members, wanted.size());
  } else if (wanted.is_array()) {
    ASSERT_TRUE(got.is(JsonType::array));
    std::size_t i = 0;
    got.for_each_element([&](Json one) {
      ASSERT_LT(i, wanted.size());
      expect_same(one, wanted[i++]);
    });
    EXPECT_EQ(i, wanted.size());
  } else if (wanted.is_string()) {
    EXPECT_EQ(got.string("it"), wanted.get<std::string>());
  } else if (wanted == 0.0) {  // also 1e-400, which is refused on access
    EXPECT_TRUE(got.is(JsonType::number));
  } else if (wanted.is_number()) {
    EXPECT_EQ(got.number("it"), wanted.get<double>());
    if (wanted.is_number_unsigned()) {
      EXPECT_EQ(got.count("it"), wanted.get<std::uint64_t>());
    }
    const bool wide = wanted.is_number_unsigned() && wanted.get<std::uint64_t>() > INT64_MAX;
    if (wanted.is_number_integer() && !wide) {
      EXPECT_EQ(got.integer("it"), wanted.get<std::int64_t>());
    }
  } else if (wanted.is_boolean()) {
    EXPECT_EQ(got.boolean("it"), wanted.get<bool>());
  } else {
    EXPECT_TRUE(got.is_null());
  }
}

// Valid and nearly valid JSON texts.
class Inventor {
 public:
  explicit Inventor(unsigned seed) : engine_(seed) {}

  std::size_t below(std::size_t n) { return engine_() % n; }
  char of(std::string_view letters) { return letters[below(letters.size())]; }

  std::string value(int depth) {
    switch (below(depth > 0 ? 9 : 6)) {
      case 0:
        return std::string(std::array{"null", "true", "false"}[below(3)]);
      case 1:
        return std::to_string(static_cast<std::int64_t>(engine_() << 32 | engine_()));
      case 2:
      case 3:
        return number();
      case 4:
      case 5:
        return string();
      case 6:
        return list('[', ']', [&] { return value(depth - 1); });
      default:
        return list('{', '}', [&] {
          return string().append(space()).append(":").append(space()).append(value(depth - 1));
        });
    }
  }
  // Changes one or two bytes.
  std::string changed(std::string text) {
    static constexpr std::string_view letters =
        "{}[],:\"0123456789.eE+-truefalsn \n\\ubd8c/\x80\xc3\xa9\x01";
    const std::size_t at = below(text.size());
    switch (below(4)) {
      case 0:
        text[at] = of(letters);
        break;
      case 1:
        text.insert(at, 1, of(letters));
        break;
      case 2:
        text.erase(at, 1 + below(2));
        break;
      default:
        text[at] = static_cast<char>(text[at] ^ 1 << below(8));
    }
    return text;
  }

 private:
  std::string space() { return std::string(below(3) / 2, of(" \n\t\r")); }
  std::string number() {
    std::string text = below(2) ? "-" : "";
    text += std::to_string(below(1000));
    if (below(2)) text.append(1, '.').append(std::to_string(below(100000)));
    if (below(2))
      text.append(1, of("eE"))
          .append(std::array{"", "+", "-"}[below(3)])
          .append(std::to_string(below(330)));
    return text;
  }
  std::string string() {
    std::string text = "\"";
    for (std::size_t i = below(6); i > 0; --i) switch (below(6)) {
        case 0:
          text += std::array{"\\n", "\\\"", "\\\\", "\\/", "\\u0041", "\\u00e9"}[below(6)];
          break;
        case 1:
          text += std::array{"\u00e9", "\u20ac", "\U0001F600", "\\ud83d\\ude00"}[below(4)];
          break;
        default:
          text += of("abc ,:]}");
      }
    return text + "\"";
  }
  template <typename Item>
  std::string list(char open, char close, Item item) {
    std::string text(1, open);
    for (std::size_t i = 0, count = below(5); i < count; ++i)
      text.append(i ? "," : "").append(space()).append(item()).append(space());
    return text + close;
  }

  std::mt19937 engine_;
};

TEST(JsonReader, AgreesWithTheJsonLibrary) {
  int taken = 0, refused = 0;
  const auto compare = [&](const std::string& text) {
    // The words of Python are an extension, and a zero byte ends a text for the library.
    if (text.find("NaN") != text.npos || text.find("Inf") != text.npos ||
        text.find('\0') != text.npos)
      return;
    Reference wanted;
    const Verdict verdict = judge(text, wanted);
    if (verdict == Verdict::stops) return;
    const std::string got = error(text);
    EXPECT_EQ(got == "", verdict == Verdict::accepts) << text << "\n" << got;
    ++(got == "" ? taken : refused);
    if (got == "") {
      EXPECT_EQ(error(text, [&](Json json) { expect_same(json, wanted); }), "") << text;
    }
  };
  for (unsigned seed = 0; seed < 1500 && !HasFailure(); ++seed) {
    Inventor inventor(seed);
    const std::string text = inventor.value(4);
    compare(text);
    for (int i = 0; i < 8; ++i) compare(inventor.changed(text));
  }
  EXPECT_GT(taken, 4000);
  EXPECT_GT(refused, 4000);
}

TEST(JsonReader, EveryTruncationAndEveryFlippedBit) {
  const std::string text =
      R"({"a":[1, -2.5e3,"x\u00e9\ud83d\ude00\n"],"b":{"c":null,"d":[true,false]},"é":NaN})";
  ASSERT_EQ(error(text), "");
  for (std::size_t size = 0; size < text.size(); ++size) {
    EXPECT_NE(error(text.substr(0, size)), "") << size;
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = text;
      changed[size] = static_cast<char>(changed[size] ^ 1 << bit);
      Reference wanted;
      const bool extended = changed.find("NaN") != text.npos;
      if (extended) changed.replace(changed.find("NaN"), 3, "  0");
      if (changed.find('\0') == text.npos) {
        EXPECT_EQ(error(changed) == "", judge(changed, wanted) == Verdict::accepts) << changed;
      }
    }
  }
}

}  // namespace json_library_test
}  // namespace gnomon::internal
