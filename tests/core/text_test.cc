#include "src/core/text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

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
  EXPECT_EQ(shown("a\n\x7f\xff\xc3"), "\"a\\x0a\\x7f\\xff\\xc3\"");
  EXPECT_EQ(shown(std::string(80, 'n')), "\"" + std::string(80, 'n') + "\"");
  EXPECT_EQ(shown(std::string(81, 'n')), "\"" + std::string(80, 'n') + "...\"");
  EXPECT_EQ(printable(std::string(99, '\a'), 8), "\\x07\\x07...");
  EXPECT_EQ(shown(std::string(79, 'n') + "\u20ac" + "n"),
            "\"" + std::string(79, 'n') + "\u20ac...\"");
}

TEST(Text, EscapesWhatATerminalActsOn) {
  EXPECT_EQ(printable("\x1b]0;x\a\r\n\t"), "\\x1b]0;x\\x07\\x0d\\x0a\\x09");
  EXPECT_EQ(printable("\u009b2J \u0080\u009f"), "\\u009b2J \\u0080\\u009f");
  EXPECT_EQ(printable("fdp.\u202egnp"), "fdp.\\u202egnp");
  EXPECT_EQ(printable("\x9b\xed\xa0\x80"), "\\x9b\\xed\\xa0\\x80");
  EXPECT_EQ(printable("\xc0\xaf\xc3"), "\\xc0\\xaf\\xc3");  // overlong, and cut
  EXPECT_EQ(printable_lines("\n\x1b[2J\n\nIt is\r\na truth \u20ac\n"),
            "\n\\x1b[2J\n\nIt is\\x0d\na truth \u20ac\n");
  EXPECT_EQ(printable_lines(""), "");
  // The controls of Unicode's PropList.txt, property Bidi_Control, and the two separators.
  const std::vector<std::uint32_t> more{0x61c,  0x200e, 0x200f, 0x2028, 0x2029, 0x202a, 0x202b,
                                        0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069};
  for (std::uint32_t point = 0; point < 0x110000; ++point) {
    if (point >= 0xd800 && point < 0xe000) continue;
    const bool escaped = point < 0x20 || (point >= 0x7f && point < 0xa0) ||
                         std::binary_search(more.begin(), more.end(), point);
    const std::string text = encoded(point), result = printable(text);
    EXPECT_EQ(result != text, escaped) << point;
    EXPECT_EQ(printable(result), result) << point;
    if (escaped) {
      EXPECT_EQ(result[0], '\\') << point;
    }
  }
}

}  // namespace text_test
}  // namespace gnomon::internal
