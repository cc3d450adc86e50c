#include "gnomon/position/multimodal.h"

#include <gtest/gtest.h>

#include <cmath>

#include "testing.h"

namespace gnomon {
namespace multimodal_test {

using testing::message_of;
using Ids = std::vector<std::int64_t>;

MultimodalPositions of(const MultimodalRow& row, const MultimodalRules& rules) {
  return multimodal_positions(row, rules);
}

// All expected values below were derived by hand.

TEST(Multimodal, TextAlone) {
  const MultimodalPositions text = of({TextSpan{4}}, qwen2_vl_rules());
  for (const Positions& axis : text.axes) EXPECT_EQ(axis, consecutive(4));
  EXPECT_EQ(text.next, Ids{4});
  EXPECT_EQ(text.deltas, Ids{0});
}

// Three text tokens, an image of 4 x 6 patches = 2 x 3 tokens, two text tokens.
TEST(Multimodal, AnImageBetweenText) {
  const MultimodalPositions got =
      of({TextSpan{3}, ImageSpan{4, 6}, TextSpan{2}}, qwen2_vl_rules());
  EXPECT_EQ(got.axes[0].ids, (Ids{0, 1, 2, 3, 3, 3, 3, 3, 3, 6, 7}));
  EXPECT_EQ(got.axes[1].ids, (Ids{0, 1, 2, 3, 3, 3, 4, 4, 4, 6, 7}));
  EXPECT_EQ(got.axes[2].ids, (Ids{0, 1, 2, 3, 4, 5, 3, 4, 5, 6, 7}));
  EXPECT_EQ(got.next, Ids{8});
  EXPECT_EQ(got.deltas, Ids{-3});
}

// Example of Qwen2-VL's documentation: a video of 3 x 2 x 2 tokens and five text tokens.
TEST(Multimodal, AVideoByFrames) {
  const MultimodalPositions got =
      of({VideoSpan{.frames = 3, .height = 4, .width = 4}, TextSpan{5}}, qwen2_vl_rules());
  EXPECT_EQ(got.axes[0].ids, (Ids{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(got.axes[1].ids, (Ids{0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 3, 4, 5, 6, 7}));
  EXPECT_EQ(got.axes[2].ids, (Ids{0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 3, 4, 5, 6, 7}));
  EXPECT_EQ(got.deltas, Ids{-9});
}

// Example of Qwen2.5-VL's documentation: 25 tokens per second, one frame per second, two frames
// per temporal patch.
TEST(Multimodal, AVideoBySeconds) {
  const MultimodalRow row{
      VideoSpan{.frames = 3, .height = 4, .width = 4, .seconds_per_frame = 2}, TextSpan{5}};
  for (const FrameClock clock : {FrameClock::whole_seconds, FrameClock::seconds}) {
    const MultimodalPositions got = of(row, qwen2_5_vl_rules(25, clock));
    EXPECT_EQ(got.axes[0].ids,
              (Ids{0, 0, 0, 0, 50, 50, 50, 50, 100, 100, 100, 100, 101, 102, 103, 104, 105}));
    EXPECT_EQ(got.axes[1].ids,
              (Ids{0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 101, 102, 103, 104, 105}));
    EXPECT_EQ(got.next, Ids{106});
    EXPECT_EQ(got.deltas, Ids{89});
  }
}

TEST(Multimodal, FractionsOfASecondBeforeOrAfterTheProduct) {
  const auto times = [](double seconds, std::int64_t tokens_per_second, FrameClock clock) {
    const MultimodalRow row{
        TextSpan{1},
        VideoSpan{.frames = 4, .height = 2, .width = 2, .seconds_per_frame = seconds}};
    return of(row, qwen2_5_vl_rules(tokens_per_second, clock)).axes[0].ids;
  };
  EXPECT_EQ(times(0.5, 2, FrameClock::whole_seconds), (Ids{0, 1, 1, 1, 1}));
  EXPECT_EQ(times(0.5, 2, FrameClock::seconds), (Ids{0, 1, 2, 3, 4}));
  EXPECT_EQ(times(1.5, 3, FrameClock::whole_seconds), (Ids{0, 1, 4, 7, 10}));
  EXPECT_EQ(times(1.5, 3, FrameClock::seconds), (Ids{0, 1, 5, 10, 14}));  // 4.5, 9, 13.5
  EXPECT_EQ(times(9, 5, FrameClock::frames), (Ids{0, 1, 2, 3, 4}));
}

// Five frames of 1 x 2 tokens from position 1: the highest position is 5, the larger side is 2.
TEST(Multimodal, TextAfterALongVideo) {
  const MultimodalRow row{TextSpan{1}, VideoSpan{.frames = 5, .height = 2, .width = 4},
                          TextSpan{2}};
  MultimodalRules rules = qwen2_vl_rules();
  MultimodalPositions got = of(row, rules);
  EXPECT_EQ(got.axes[0].ids, (Ids{0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 7}));
  EXPECT_EQ(got.axes[2].ids, (Ids{0, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 6, 7}));
  EXPECT_EQ(got.next, Ids{8});
  rules.after = AfterVision::sides;
  got = of(row, rules);
  EXPECT_EQ(got.axes[0].ids, (Ids{0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 3, 4}));
  EXPECT_EQ(got.axes[1].ids, (Ids{0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 4}));
  EXPECT_EQ(got.next, Ids{6});  // still the highest position + 1
  EXPECT_EQ(got.deltas, Ids{-7});
}

// Two stamps of 2 and 3 tokens, each before a frame of 1 x 2 tokens.
TEST(Multimodal, Qwen3FramesStandBetweenTheirTimeStamps) {
  const std::vector<std::int64_t> stamps{2, 3};
  const MultimodalRow row =
      stamped_frames(VideoSpan{.frames = 2, .height = 2, .width = 4}, stamps);
  const MultimodalPositions got = of(row, qwen3_vl_rules());
  EXPECT_EQ(got.axes[0].ids, (Ids{0, 1, 2, 2, 4, 5, 6, 7, 7}));
  EXPECT_EQ(got.axes[1].ids, (Ids{0, 1, 2, 2, 4, 5, 6, 7, 7}));
  EXPECT_EQ(got.axes[2].ids, (Ids{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(got.next, Ids{9});
  EXPECT_EQ(got.deltas, Ids{0});
}

TEST(Multimodal, PaddingOfEitherSide) {
  const std::vector<MultimodalRow> rows{{TextSpan{1}, ImageSpan{2, 4}}, {TextSpan{5}}};
  const std::int32_t none = Positions::padding;
  const MultimodalPositions left = multimodal_positions(rows, qwen2_vl_rules());
  EXPECT_EQ(left.axes[0].ids, (Ids{1, 1, 0, 1, 1, 0, 1, 2, 3, 4}));
  EXPECT_EQ(left.axes[2].ids, (Ids{1, 1, 0, 1, 2, 0, 1, 2, 3, 4}));
  EXPECT_EQ(left.axes[1].sequences,
            (std::vector<std::int32_t>{none, none, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(left.next, (Ids{3, 5}));
  EXPECT_EQ(left.deltas, (Ids{-2, 0}));
  const MultimodalPositions right =
      multimodal_positions(rows, qwen2_vl_rules(), PaddingSide::right, 0);
  EXPECT_EQ(right.axes[2].ids, (Ids{0, 1, 2, 0, 0, 0, 1, 2, 3, 4}));
  EXPECT_EQ(right.axes[0].sequences,
            (std::vector<std::int32_t>{0, 0, 0, none, none, 0, 0, 0, 0, 0}));
  EXPECT_EQ(right.next, left.next);
}

// The position of a decoded token is its column plus the delta of the row, as in engines.
TEST(Multimodal, DecodingGoesOnBehindThePrompt) {
  const std::vector<MultimodalRow> rows{{TextSpan{1}, ImageSpan{4, 6}}, {TextSpan{3}}};
  const MultimodalPositions prompt = multimodal_positions(rows, qwen2_vl_rules());
  EXPECT_EQ(prompt.next, (Ids{4, 3}));
  const auto first = text_after(prompt, 2), later = text_after(prompt, 1, 2);
  for (std::size_t axis = 0; axis < 3; ++axis) {
    EXPECT_EQ(first[axis].ids, (Ids{4, 5, 3, 4}));
    EXPECT_EQ(first[axis].sequences, std::vector<std::int32_t>(4, 0));
    EXPECT_EQ(later[axis].ids, (Ids{6, 5}));
  }
  for (std::size_t b = 0; b < 2; ++b)
    EXPECT_EQ(later[0].ids[b], prompt.axes[0].tokens + 2 + prompt.deltas[b]);
}

// Text in one span or in several spans, and an image as a video of one frame.
TEST(Multimodal, SpansJoin) {
  const MultimodalRules rules = qwen2_vl_rules();
  EXPECT_EQ(of({TextSpan{2}, TextSpan{0}, TextSpan{3}}, rules), of({TextSpan{5}}, rules));
  EXPECT_EQ(of({ImageSpan{4, 2}}, rules),
            of({VideoSpan{.frames = 1, .height = 4, .width = 2}}, rules));
  EXPECT_EQ(tokens_of({TextSpan{2}, ImageSpan{4, 2}}, rules), 4);
  const MultimodalPositions none = multimodal_positions(std::vector<MultimodalRow>{}, rules);
  EXPECT_EQ(none.axes[0].batch, 0);
  const MultimodalPositions empty = of({}, rules);
  EXPECT_EQ(empty.axes[0].tokens, 0);
  EXPECT_EQ(empty.next, Ids{0});
}

TEST(Multimodal, RefusesWhatItCannotMean) {
  const auto refusal = [](const MultimodalRow& row, const MultimodalRules& rules) {
    return message_of([&] { multimodal_positions(row, rules); });
  };
  const MultimodalRules fine = qwen2_vl_rules();
  EXPECT_EQ(refusal({TextSpan{-1}}, fine), "[multimodal] tokens must not be negative, got -1");
  EXPECT_EQ(refusal({ImageSpan{4, 3}}, fine),
            "[multimodal] height and width must be multiples of merge = 2, got 3");
  EXPECT_EQ(refusal({ImageSpan{0, 2}}, fine),
            "[multimodal] height and width must be at least 1, got 0");
  EXPECT_EQ(refusal({VideoSpan{.frames = 0, .height = 2, .width = 2}}, fine),
            "[multimodal] frames must be at least 1, got 0");
  VideoSpan video{.frames = 2, .height = 2, .width = 2, .seconds_per_frame = NAN};
  EXPECT_EQ(refusal({video}, fine),
            "[multimodal] seconds_per_frame must be finite and not negative, got nan");
  video.seconds_per_frame = 1e30;
  for (const FrameClock clock : {FrameClock::whole_seconds, FrameClock::seconds})
    EXPECT_EQ(refusal({video}, qwen2_5_vl_rules(2, clock)).substr(0, 59),
              "[multimodal] the time of a frame must be less than 2^62, go");
  EXPECT_EQ(refusal({ImageSpan{std::int64_t{1} << 40, std::int64_t{1} << 40}}, fine),
            "[multimodal] tokens and positions must be less than 2^62, at factor, "
            "got 549755813888");
  EXPECT_EQ(refusal({}, {}), "[multimodal] merge must be at least 1, got 0");
  MultimodalRules rules = fine;
  rules.clock = {};
  EXPECT_EQ(refusal({}, rules),
            "[multimodal] clock must be frames (1), whole_seconds (2) or seconds (3), got 0");
  rules = fine;
  rules.after = {};
  EXPECT_EQ(refusal({}, rules), "[multimodal] after must be highest (1) or sides (2), got 0");
  EXPECT_EQ(refusal({}, qwen2_5_vl_rules(0)),
            "[multimodal] tokens_per_second must be at least 1, got 0");
  EXPECT_EQ(message_of([&] {
              multimodal_positions(std::vector<MultimodalRow>{}, fine, PaddingSide{});
            }),
            "[multimodal] side must be left (1) or right (2), got 0");
  const std::vector<std::int64_t> one{1};
  EXPECT_EQ(message_of([&] { stamped_frames(video, one); }),
            "[multimodal] there must be one stamp for each of 2 frames, got 1");
  EXPECT_EQ(message_of([] { text_after({}, -1); }),
            "[multimodal] tokens must not be negative, got -1");
  EXPECT_EQ(message_of([] { text_after({}, 1, -1); }),
            "[multimodal] generated must not be negative, got -1");
}

}  // namespace multimodal_test
}  // namespace gnomon
