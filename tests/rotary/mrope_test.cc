#include "gnomon/rotary/mrope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "testing.h"

namespace gnomon {
namespace mrope_test {

using testing::message_of;

std::string letters(const std::vector<std::int32_t>& axes) {
  std::string text;
  for (const std::int32_t axis : axes) text += "thwe"[axis];
  return text;
}

std::string axes_of(MRopeOrder order, std::vector<std::int64_t> sections, std::int64_t pairs) {
  return letters(mrope_axes(order, sections, pairs));
}

TEST(MRope, TheFourOrdersByHand) {
  EXPECT_EQ(axes_of(MRopeOrder::sequential, {2, 3, 3}, 8), "tthhhwww");
  EXPECT_EQ(axes_of(MRopeOrder::interleaved, {4, 2, 2}, 8), "thwthwtt");
  EXPECT_EQ(axes_of(MRopeOrder::interleaved, {3, 3, 2}, 8), "thwthwth");
  EXPECT_EQ(axes_of(MRopeOrder::interleaved, {5, 1, 2}, 8), "thwttwtt");
  EXPECT_EQ(axes_of(MRopeOrder::ernie, {3, 3, 2}, 8), "hwhwhwtt");
  EXPECT_EQ(axes_of(MRopeOrder::ggml_interleaved, {4, 2, 2}, 8), "thwthwte");
  EXPECT_EQ(axes_of(MRopeOrder::ggml_interleaved, {3, 2, 2, 1}, 8), "thwthwte");
}

// The released sizes, each computed as in the code of its model, with lists of chunks, slices
// and stacks.
TEST(MRope, ReleasedModelsOrders) {
  std::string qwen2;
  const std::vector<int> chunks{16, 24, 24, 16, 24, 24};  // sections of a head of 128
  for (std::size_t c = 0; c < chunks.size(); ++c)
    qwen2.append(std::size_t(chunks[c]), "thw"[c % 3]);
  EXPECT_EQ(axes_of(MRopeOrder::sequential, {16, 24, 24}, 64), qwen2.substr(0, 64));
  EXPECT_EQ(axes_of(MRopeOrder::sequential, {16, 24, 24}, 64), qwen2.substr(64));

  for (const auto& [sections, pairs] :
       {std::pair{std::vector<std::int64_t>{24, 20, 20}, 64}, {{11, 11, 10}, 32}}) {
    std::string qwen3(std::size_t(pairs), 't');
    for (std::size_t axis : {1u, 2u})
      for (std::size_t i = axis; i < std::size_t(3 * sections[axis]); i += 3)
        qwen3.at(i) = "thw"[axis];
    EXPECT_EQ(axes_of(MRopeOrder::interleaved, sections, pairs), qwen3);
  }

  std::string ernie;
  for (int i = 0; i < 22; ++i) ernie += "hw";
  ernie.append(20, 't');
  EXPECT_EQ(axes_of(MRopeOrder::ernie, {22, 22, 20}, 64), ernie);

  // In ggml, pairs 61 and 62 are beyond the 20 pairs of h and w and do not get axis t.
  std::string ggml = axes_of(MRopeOrder::interleaved, {24, 20, 20}, 64);
  ggml[61] = ggml[62] = 'e';
  EXPECT_EQ(axes_of(MRopeOrder::ggml_interleaved, {24, 20, 20, 0}, 64), ggml);
}

// Angles of every pair from the three positions, in double.
TEST(MRope, TheFrequencyRunsOnFromSectionToSection) {
  const MRope mrope{.rotary_dim = 16,
                    .pairing = Pairing::halves,
                    .base = 1e6,
                    .sections = {2, 3, 3},
                    .order = MRopeOrder::sequential};
  const std::vector<std::int64_t> times{5, 6}, heights{100, 7}, widths{3, 90000};
  const std::vector<Positions> axes{explicit_ids(times), explicit_ids(heights),
                                    explicit_ids(widths)};
  const RotaryTable table(lower(mrope), axes);
  for (std::int64_t token = 0; token < 2; ++token)
    for (std::int64_t i = 0; i < 8; ++i) {
      const auto& ids = i < 2 ? times : i < 5 ? heights : widths;
      const double angle = static_cast<double>(ids[std::size_t(token)]) *
                           std::pow(1e6, -2.0 * static_cast<double>(i) / 16.0);
      EXPECT_NEAR(table.cos()(0, token, i), std::cos(angle), 0x1p-24);
      EXPECT_NEAR(table.sin()(0, token, i), std::sin(angle), 0x1p-24);
    }
}

TEST(MRope, TextRotatesAsPlainRotary) {
  const Positions text = consecutive(9, 41);
  const std::vector<Positions> axes{text, text, text};
  const Rotary plain{.rotary_dim = 64, .pairing = Pairing::adjacent, .base = 5e5};
  const RotaryTable expected(plain, text);
  for (const auto& [order, sections] :
       {std::pair{MRopeOrder::sequential, std::vector<std::int64_t>{8, 12, 12}},
        {MRopeOrder::interleaved, {12, 10, 10}},
        {MRopeOrder::ernie, {11, 11, 10}}}) {
    const RotaryTable table(lower(MRope{64, Pairing::adjacent, 5e5, sections, order}), axes);
    for (std::int64_t token = 0; token < 9; ++token)
      for (std::int64_t i = 0; i < 32; ++i) {
        EXPECT_EQ(table.cos()(0, token, i), expected.cos()(0, token, i));
        EXPECT_EQ(table.sin()(0, token, i), expected.sin()(0, token, i));
      }
  }
}

TEST(MRope, AnyScheduleTakesTheAxes) {
  const RotaryFrequencies scaled{
      .pairing = Pairing::halves, .inv_freq = {1, 0.5, 0.25}, .table_scale = 1.5};
  const std::vector<std::int64_t> sections{1, 1, 1};
  RotaryFrequencies expected = scaled;
  expected.axes = {0, 1, 2};
  EXPECT_EQ(with_mrope_axes(scaled, MRopeOrder::sequential, sections), expected);
}

TEST(MRope, RefusesWhatItCannotMean) {
  const auto refusal = [](MRopeOrder order, std::vector<std::int64_t> sections,
                          std::int64_t pairs) {
    return message_of([&] { mrope_axes(order, sections, pairs); });
  };
  EXPECT_EQ(refusal(MRopeOrder::sequential, {4, 4}, 8), "[mrope] sections must be 3, got 2");
  EXPECT_EQ(refusal(MRopeOrder::sequential, {2, 2, 2}, 8),
            "[mrope] sections must be 8 pairs in sum, got 6");
  EXPECT_EQ(refusal(MRopeOrder::sequential, {2, 2, 5}, 8),
            "[mrope] sections must be 8 pairs in sum, so at most 4 here, got 5");
  EXPECT_EQ(refusal(MRopeOrder::sequential, {3, -1, 6}, 8),
            "[mrope] sections must not be negative, got -1");
  EXPECT_EQ(refusal(MRopeOrder::interleaved, {2, 4, 2}, 8),
            "[mrope] a section of h or w must be at most 3, every third pair of 8, got 4");
  EXPECT_EQ(refusal(MRopeOrder::ernie, {4, 2, 2}, 8),
            "[mrope] ernie's sections of h and w must be alike, 4, got 2");
  EXPECT_EQ(refusal({}, {4, 2, 2}, 8),
            "[mrope] order must be sequential (1) to ggml_interleaved (4), got 0");
  EXPECT_EQ(refusal(MRopeOrder::sequential, {0, 0, 0}, 0),
            "[mrope] pairs must be at least 1, got 0");
}

}  // namespace mrope_test
}  // namespace gnomon
