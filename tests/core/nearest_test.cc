#include "src/core/nearest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gnomon::internal {
namespace nearest_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::string_view names[] = {"rotary", "rotary-axial", "alibi",  "t5",
                                      "xpos",   "swin",         "swin-v2"};

TEST(Nearest, PlainNamesHaveLowerCaseLettersAndDigits) {
  EXPECT_EQ(plain("T5-Bias"), "t5bias");
  EXPECT_EQ(plain("rotary_axial"), plain("Rotary axial"));
  EXPECT_EQ(plain("--"), "");
  EXPECT_EQ(plain("RoPE++"), "ropeplusplus");
  EXPECT_EQ(plain("a+b"), "ab");
}

TEST(Nearest, OneEditIsNear) {
  EXPECT_THAT(nearest(names, "rotray"), ElementsAre("rotary"));    // a swap
  EXPECT_THAT(nearest(names, "5t"), ElementsAre("t5"));            // a swap in a short name
  EXPECT_THAT(nearest(names, "ALIBY"), ElementsAre("alibi"));      // a substitution
  EXPECT_THAT(nearest(names, "albi"), ElementsAre("alibi"));       // an insertion
  EXPECT_THAT(nearest(names, "xpoos"), ElementsAre("xpos"));       // a deletion
  EXPECT_THAT(nearest(names, "t6"), ElementsAre("t5"));            // a short name
  EXPECT_THAT(nearest(names, "rottarry"), ElementsAre("rotary"));  // two edits of 8
}

TEST(Nearest, APartIsNearAndTheOrderIsKept) {
  EXPECT_THAT(nearest(names, "rot"), ElementsAre("rotary", "rotary-axial"));
  EXPECT_THAT(nearest(names, "swinv2"), ElementsAre("swin-v2", "swin"));
  EXPECT_THAT(nearest(std::span(names), "ar"), IsEmpty());
}

TEST(Nearest, AtMostThreeAndNoneIfAllAreFar) {
  constexpr std::string_view many[] = {"abcd", "abcx", "abcy", "abcz"};
  EXPECT_THAT(nearest(many, "abcw"), ElementsAre("abcd", "abcx", "abcy"));
  EXPECT_THAT(nearest(names, "attention"), IsEmpty());
  EXPECT_THAT(nearest(names, ""), IsEmpty());
}

TEST(Nearest, TheMessageHasTheNearestNames) {
  EXPECT_EQ(with_nearest(names, "rotray"), "rotray; nearest: rotary");
  EXPECT_EQ(with_nearest(names, "Rot"), "Rot; nearest: rotary, rotary-axial");
  EXPECT_EQ(with_nearest(names, "attention"), "attention");
}

}  // namespace nearest_test
}  // namespace gnomon::internal
