#include "gnomon/embedding/learned.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gnomon/embedding/table.h"
#include "testing.h"

namespace gnomon {
namespace learned_test {

using ::testing::ElementsAre;
using testing::message_of;

TEST(Learned, PlainRowsAreThePositions) {
  const Learned gpt2 = learned_plain(1024, 768);
  EXPECT_EQ(gpt2, (Learned{.rows = 1024, .width = 768, .offset = 0}));
  EXPECT_EQ(capacity(gpt2), 1024);
  EXPECT_THAT(learned_rows(gpt2, consecutive(3, 1021, 2)),
              ElementsAre(1021, 1022, 1023, 1021, 1022, 1023));
}

TEST(Learned, OptStandsTwoRowsIn) {
  const Learned opt = learned_opt(2048, 512);
  EXPECT_EQ(opt.rows, 2050);
  EXPECT_EQ(capacity(opt), 2048);
  EXPECT_THAT(learned_rows(opt, consecutive(2, 2046)), ElementsAre(2048, 2049));
  // cumsum(mask) * mask - 1 + 2: padding takes row 1.
  const std::vector<std::uint8_t> mask{0, 0, 1, 1, 1};
  const Positions left = from_padding_mask(View<const std::uint8_t, 2>(mask.data(), {1, 5}));
  EXPECT_THAT(learned_rows(opt, left), ElementsAre(1, 1, 2, 3, 4));
}

TEST(Learned, RobertaHoldsPaddingIdxAndOneFewer) {
  const Learned roberta = learned_roberta(514, 768);
  EXPECT_EQ(roberta.rows, 514);
  EXPECT_EQ(capacity(roberta), 512);
  // cumsum(id != pad) * (id != pad) + padding_idx.
  const std::vector<std::uint8_t> mask{1, 1, 1, 0, 0};
  const Positions right = from_padding_mask(View<const std::uint8_t, 2>(mask.data(), {1, 5}));
  EXPECT_THAT(learned_rows(roberta, right), ElementsAre(2, 3, 4, 1, 1));
  EXPECT_EQ(learned_rows(roberta, consecutive(512)).back(), 513);
  EXPECT_EQ(capacity(learned_roberta(514, 768, 0)), 513);
  EXPECT_EQ(learned_rows(learned_roberta(514, 768, 0), right),
            (std::vector<std::int64_t>{1, 2, 3, 0, 0}));
}

TEST(Learned, PaddingOfAPlainTableTakesRowZeroWhateverItsId) {
  const std::vector<std::uint8_t> mask{0, 1};
  const Positions positions =
      from_padding_mask(View<const std::uint8_t, 2>(mask.data(), {1, 2}), 99);
  EXPECT_THAT(learned_rows(learned_plain(4, 8), positions), ElementsAre(0, 0));
}

TEST(Learned, PackedSequencesStartAgain) {
  const std::vector<std::int64_t> lengths{2, 3};
  EXPECT_THAT(learned_rows(learned_opt(3, 8), packed(lengths, 6)),
              ElementsAre(2, 3, 2, 3, 4, 1));
}

TEST(Learned, ThePositionPastTheEndIsRefusedAndNeverClamped) {
  EXPECT_EQ(message_of([] { learned_rows(learned_plain(1024, 768), consecutive(2, 1023)); }),
            "[learned] position must have a row: the table holds 0 to 1023, got 1024");
  EXPECT_EQ(message_of([] { learned_rows(learned_opt(2048, 768), consecutive(1, 2048)); }),
            "[learned] position must have a row: the table holds 0 to 2047, got 2048");
  EXPECT_EQ(message_of([] { learned_rows(learned_roberta(514, 768), consecutive(513)); }),
            "[learned] position must have a row: the table holds 0 to 511, got 512");
  // -1 is neither the last row nor, with an offset, the padding row.
  const std::vector<std::int64_t> before{0, -1};
  EXPECT_EQ(message_of([&] { learned_rows(learned_plain(8, 4), explicit_ids(before)); }),
            "[learned] position must have a row: the table holds 0 to 7, got -1");
  EXPECT_EQ(message_of([&] { learned_rows(learned_opt(8, 4), explicit_ids(before)); }),
            "[learned] position must have a row: the table holds 0 to 7, got -1");
}

TEST(Learned, RowsGoStraightToAddRows) {
  const Learned spec = learned_opt(4, 3);
  const auto table = testing::random_tensor<float, 2>({spec.rows, spec.width});
  const Positions positions = consecutive(4, 0, 2);
  const std::vector<std::int64_t> rows = learned_rows(spec, positions);
  testing::Tensor<float, 3> x({2, 4, 3});
  add_rows(x.view(), table.view(), View<const std::int64_t, 2>(rows.data(), {2, 4}));
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t t = 0; t < 4; ++t)
      for (std::int64_t c = 0; c < 3; ++c) EXPECT_EQ(x.view()(b, t, c), table.view()(t + 2, c));
}

TEST(Learned, NoTokensNeedNoRows) {
  EXPECT_TRUE(learned_rows(learned_plain(1, 1), consecutive(0)).empty());
}

TEST(Learned, RefusesWhatBreaksItsBounds) {
  EXPECT_EQ(message_of([] { capacity(Learned{}); }),
            "[learned] rows must be at least 1, got 0");
  EXPECT_EQ(message_of([] { learned_plain(8, 0); }),
            "[learned] width must be at least 1, got 0");
  EXPECT_EQ(message_of([] { capacity({.rows = 3, .width = 1, .offset = 3}); }),
            "[learned] offset must be from 0 to rows - 1, 2, got 3");
  EXPECT_EQ(message_of([] { capacity({.rows = 3, .width = 1, .offset = -1}); }),
            "[learned] offset must be from 0 to rows - 1, 2, got -1");
  EXPECT_EQ(message_of([] { learned_roberta(2, 8); }),
            "[learned] padding_idx must be from 0 to max_position_embeddings - 2, 0, got 1");
  EXPECT_EQ(message_of([] { learned_opt(0, 8); }),
            "[learned] max_positions must be at least 1, got 0");
  EXPECT_EQ(message_of([] {
              learned_rows(learned_plain(4, 4),
                           {.batch = 1, .tokens = 2, .ids = {0, 1}, .sequences = {}});
            }),
            "[learned] sequences must have one entry per id, 2, got 0");
}

}  // namespace learned_test
}  // namespace gnomon
