#include "gnomon/error.h"

#include <gtest/gtest.h>

#include "testing.h"

namespace gnomon {
namespace error_test {

using testing::message_of;

TEST(Refuse, NamesOperationRuleAndValue) {
  EXPECT_EQ(message_of([] { refuse("rotary", "dim must be even", 7); }),
            "[rotary] dim must be even, got 7");
  EXPECT_EQ(message_of([] { refuse("rotary", "base must be greater than 1", 0.1); }),
            "[rotary] base must be greater than 1, got 0.1");
}

TEST(ShapeText, IsAList) {
  EXPECT_EQ(shape_text(std::array<std::ptrdiff_t, 3>{2, 0, -3}), "[2, 0, -3]");
  EXPECT_EQ(shape_text(std::vector<std::int64_t>{}), "[]");
}

TEST(FormatError, NamesFileReasonAndByte) {
  const FormatError error("x.npy", 128, "the header is cut off");
  EXPECT_STREQ(error.what(), "[x.npy] the header is cut off, at byte 128");
  EXPECT_EQ(error.offset(), 128u);
}

TEST(Errors, ShowControlsOfNamesAsEscapes) {
  EXPECT_EQ(message_of([] { refuse("a\x1b[2J", "rule\u202e", "b\n\xff"); }),
            "[a\\x1b[2J] rule\\u202e, got b\\x0a\\xff");
  const FormatError error("x\x1b.npy", 1, "\u009b");
  EXPECT_STREQ(error.what(), "[x\\x1b.npy] \\u009b, at byte 1");
  EXPECT_EQ(error.file(), "x\x1b.npy");
}

}  // namespace error_test
}  // namespace gnomon
