#include "apps/lab/data/batches.h"

#include <gtest/gtest.h>

#include <map>

namespace gnomon::lab {
namespace windows_test {

Settings settings_for(std::int64_t train_length, std::vector<std::int64_t> lengths) {
  Settings settings;
  settings.train_length = train_length;
  settings.eval_lengths = std::move(lengths);
  return settings;
}

// A text in which every byte is its own index modulo 251.
std::vector<Text> counting_text(std::size_t size) {
  Text text{"counting", std::string(size, '\0')};
  for (std::size_t i = 0; i < size; ++i) text.bytes[i] = static_cast<char>(i % 251);
  return {text};
}

TEST(SegmentWindows, PredictEachTargetOnceFromTheSecondHalfAtEveryLength) {
  const Settings settings = settings_for(8, {8, 16, 32});
  const auto texts = counting_text(1000);
  const auto segments = test_segments(texts, settings);
  ASSERT_FALSE(segments.empty());
  for (const Segment& segment : segments)
    for (std::int64_t length : settings.eval_lengths) {
      const Batch batch = segment_windows(segment, length, settings.longest());
      std::vector<std::int64_t> tail, end_to_end;
      for (std::int64_t w = 0; w < batch.inputs.size(0); ++w)
        for (std::int64_t p = 0; p < length; ++p) {
          const auto target = batch.targets[w][p].item<std::int64_t>();
          EXPECT_EQ((batch.inputs[w][p].item<std::int64_t>() + 1) % 251, target);
          if (p >= length / 2) tail.push_back(target);
          if (w % 2) end_to_end.push_back(target);
        }
      std::vector<std::int64_t> expected;
      for (std::int64_t i = 0; i < settings.longest(); ++i)
        expected.push_back((segment.first_target + i) % 251);
      EXPECT_EQ(tail, expected) << length;
      EXPECT_EQ(end_to_end, expected) << length;
    }
}

TEST(TestSegments, StayInsideTheTextAndApart) {
  Settings settings = settings_for(8, {8, 64});
  settings.eval_segments = 3;
  const auto texts = counting_text(1000);
  const auto segments = test_segments(texts, settings);
  ASSERT_EQ(segments.size(), 3u);
  std::int64_t last = 32;
  for (const Segment& segment : segments) {
    EXPECT_GE(segment.first_target, last + 1);
    last = segment.first_target + 63;
    EXPECT_LT(last, 1000);
  }
}

TEST(RandomBatch, DependsOnSeedAndStepAlone) {
  const auto texts = counting_text(5000);
  const Batch a = random_batch(texts, 4, 16, 1, 7), b = random_batch(texts, 4, 16, 1, 7);
  EXPECT_TRUE(a.inputs.equal(b.inputs));
  EXPECT_FALSE(a.inputs.equal(random_batch(texts, 4, 16, 1, 8).inputs));
  EXPECT_FALSE(a.inputs.equal(random_batch(texts, 4, 16, 2, 7).inputs));
  EXPECT_TRUE(((a.inputs + 1).remainder(251)).equal(a.targets));
}

TEST(PrecedingTokens, AreThoseBeforeEverySecondWindow) {
  const auto texts = counting_text(5000);
  for (const std::uint64_t step : {6u, 7u}) {
    const Batch batch = random_batch(texts, 8, 16, 1, step);
    const PrecedingTokens before = preceding_tokens(texts, 8, 16, 1, step);
    ASSERT_EQ(std::ssize(before.rows), before.tokens.size(0));
    ASSERT_GE(before.rows.size(), 3u);  // 1 of 300 windows has no room before it
    for (std::size_t i = 0; i < before.rows.size(); ++i) {
      const std::int64_t row = before.rows[i];
      EXPECT_EQ(row % 2, step % 2 ? 0 : 1);
      const at::Tensor tokens = before.tokens[static_cast<std::int64_t>(i)];
      EXPECT_TRUE((tokens + 16).remainder(251).equal(batch.inputs[row])) << row;
    }
  }
  // No window of this text has 16 tokens before it.
  EXPECT_TRUE(preceding_tokens(counting_text(30), 8, 16, 1, 1).rows.empty());
}

TEST(RandomBatch, DrawsFromEveryTextByItsSize) {
  std::vector<Text> texts{{"a", std::string(116, 'a')}, {"b", std::string(316, 'b')}};
  std::map<std::int64_t, int> seen;
  for (std::uint64_t step = 0; step < 100; ++step) {
    const Batch batch = random_batch(texts, 8, 16, 1, step);
    for (std::int64_t w = 0; w < 8; ++w) {
      EXPECT_TRUE(batch.inputs[w].eq(batch.inputs[w][0]).all().item<bool>());
      ++seen[batch.inputs[w][0].item<std::int64_t>()];
    }
  }
  EXPECT_NEAR(seen['a'] / 800.0, 0.25, 0.06);  // 100 places against 300
}

TEST(MaskedBatch, HidesTheSameShareOfEveryWindow) {
  const auto texts = counting_text(1000);
  const Batch batch = masked_batch(texts, 5, 40, 1, 7),
              plain = random_batch(texts, 5, 40, 1, 7);
  for (std::int64_t w = 0; w < 5; ++w) {
    std::int64_t masked = 0;
    for (std::int64_t p = 0; p < 40; ++p) {
      const auto target = batch.targets[w][p].item<std::int64_t>();
      const auto input = batch.inputs[w][p].item<std::int64_t>();
      const auto byte = plain.inputs[w][p].item<std::int64_t>();
      if (target == uncounted) {
        EXPECT_EQ(input, byte);
        continue;
      }
      ++masked;
      EXPECT_EQ(target, byte);
      EXPECT_EQ(input, mask_byte);
    }
    EXPECT_EQ(masked, 6);
  }
  EXPECT_TRUE(batch.targets.equal(masked_batch(texts, 5, 40, 1, 7).targets));
  EXPECT_FALSE(batch.targets.equal(masked_batch(texts, 5, 40, 1, 8).targets));
}

TEST(MaskedBatch, HidesEveryPlaceAsOften) {
  const auto texts = counting_text(1000);
  at::Tensor counts = at::zeros({10}, at::kLong);
  for (std::uint64_t step = 0; step < 500; ++step)
    counts += masked_batch(texts, 8, 10, 1, step).targets.ne(uncounted).sum(0);
  // 2 of 10 places, 4000 times: 800 each with a deviation of 25.
  EXPECT_GT(counts.min().item<std::int64_t>(), 700);
  EXPECT_LT(counts.max().item<std::int64_t>(), 900);
}

TEST(MaskedSegment, HidesTheSameBytesAtEveryLength) {
  const Settings settings = settings_for(8, {8, 16, 32});
  const auto texts = counting_text(1000);
  for (const Segment& segment : test_segments(texts, settings)) {
    const Batch shortest = masked_segment(segment, 8, settings);
    EXPECT_EQ(shortest.inputs.size(0), 4);
    EXPECT_TRUE(shortest.targets.ne(uncounted).sum(1).eq(1).all().item<bool>());
    for (const std::int64_t length : {16, 32}) {
      const Batch batch = masked_segment(segment, length, settings);
      EXPECT_EQ(batch.inputs.size(1), length);
      EXPECT_TRUE(batch.inputs.view(-1).equal(shortest.inputs.view(-1)));
      EXPECT_TRUE(batch.targets.view(-1).equal(shortest.targets.view(-1)));
    }
    for (std::int64_t i = 0; i < 32; ++i) {
      const auto target = shortest.targets.view(-1)[i].item<std::int64_t>();
      const auto input = shortest.inputs.view(-1)[i].item<std::int64_t>();
      EXPECT_EQ(target == uncounted ? input : target, (segment.first_target + i) % 251);
    }
  }
}

}  // namespace windows_test
}  // namespace gnomon::lab
