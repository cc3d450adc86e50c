#include "src/core/text.h"

#include <gtest/gtest.h>

#include <string>

namespace gnomon::internal {
namespace text_test {

// UTF-8 by its definition: every code point that is not a surrogate, encoded in the fewest
// bytes.
std::string encoded(std::uint32_t point) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | (point >> shift & 63)); };
  if (point < 0x80) return {static_cast<char>(point)};
  if (point < 0x800) return {static_cast<char>(0xc0 | point >> 6), tail(0)};
  if (point < 0x10000) return {static_cast<char>(0xe0 | point >> 12), tail(6), tail(0)};
  return {static_cast<char>(0xf0 | point >> 18), tail(12), tail(6), tail(0)};
}

TEST(Text, TakesEveryCodePoint) {
  for (std::uint32_t point = 0; point < 0x120000; ++point) {
    const bool surrogate = point >= 0xd800 && point < 0xe000;
    const std::string text = std::string("a").append(encoded(point)).append("b");
    EXPECT_EQ(ill_formed_utf8(text), surrogate || point > 0x10ffff ? 1 : std::string_view::npos)
        << point;
  }
}

TEST(Text, RefusesOtherSequences) {
  for (const char* bad :
       {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xe0\x9f\xbf",
        "\xf0\x80\x80\x80", "\xf0\x8f\xbf\xbf", "\xf8\x88\x80\x80\x80", "\xff", "\xc2",
        "\xe2\x82", "\xf0\x9f\x92", "\xc2\x41", "\xe2\x82\x41"}) {
    EXPECT_EQ(ill_formed_utf8(std::string("ab") + bad), 2u);
    EXPECT_EQ(ill_formed_utf8(std::string("ab") + bad + "c"), 2u);
  }
  EXPECT_EQ(ill_formed_utf8(""), std::string_view::npos);
}

TEST(Text, ShowsNames) {
  EXPECT_EQ(shown("a \u00e9"), "\"a \u00e9\"");
  EXPECT_EQ(shown("a\n\x7f\xff\xc3"), "\"a????\"");
  EXPECT_EQ(shown(std::string(80, 'n')), "\"" + std::string(80, 'n') + "\"");
  EXPECT_EQ(shown(std::string(81, 'n')), "\"" + std::string(80, 'n') + "...\"");
  EXPECT_EQ(shown(std::string(79, 'n') + "\u20ac" + "n"),
            "\"" + std::string(79, 'n') + "\u20ac...\"");
}

}  // namespace text_test
}  // namespace gnomon::internal
