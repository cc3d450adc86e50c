#include "gnomon/embedding/cross_modal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "testing.h"

namespace gnomon {
namespace cross_modal_test {

using ::testing::ElementsAre;
using testing::message_of;
using testing::Tensor;
using Real = long double;

const MultimodalRow mixed{TextSpan{2}, ImageSpan{2, 3}, TextSpan{1}, ImageSpan{1, 2},
                          TextSpan{2}};

CrossModal changed(auto change) {
  CrossModal spec = cross_modal_usual(8);
  change(spec);
  return spec;
}

TEST(CrossModal, TokensHaveThePositionsOfTheirKind) {
  const CrossModalTokens tokens = cross_modal_tokens(cross_modal_usual(8), mixed);
  EXPECT_THAT(tokens.types, ElementsAre(0, 0, 1, 1, 1, 1, 1, 1, 0, 1, 1, 0, 0));
  EXPECT_THAT(tokens.indices, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(tokens.patches.coordinates,
              ElementsAre(0, 0, 0, 1, 0, 2, 1, 0, 1, 1, 1, 2, 0, 0, 0, 1));
  EXPECT_EQ(tokens.patches.cells, 8);
}

TEST(CrossModal, ImagesCountOrDoNot) {
  const CrossModal whole = changed([](CrossModal& s) { s.index = TextIndex::sequence; });
  EXPECT_THAT(cross_modal_tokens(whole, mixed).indices, ElementsAre(0, 1, 8, 11, 12));
  EXPECT_THAT(cross_modal_tokens(whole, mixed, 5).indices, ElementsAre(5, 6, 13, 16, 17));
  const CrossModal numbered = changed([](CrossModal& s) {
    s.image_type = ImageType::by_number;
    s.types = 3;
  });
  EXPECT_THAT(cross_modal_tokens(numbered, mixed).types,
              ElementsAre(0, 0, 1, 1, 1, 1, 1, 1, 0, 2, 2, 0, 0));
}

// sin and cos of position / 10000^(2 i / channels), from both definitions.
Real wave(std::int64_t position, std::int64_t pair, std::int64_t channels, bool cosine) {
  const Real angle =
      static_cast<Real>(position) *
      std::pow(Real{10000}, -2 * static_cast<Real>(pair) / static_cast<Real>(channels));
  return cosine ? std::cos(angle) : std::sin(angle);
}

TEST(CrossModal, RowsAreSinusoidsAndTheTypesVector) {
  for (const std::int64_t channels : {4, 12, 40}) {
    const CrossModal spec = cross_modal_usual(channels);
    const CrossModalTokens tokens = cross_modal_tokens(spec, mixed);
    const auto types = testing::random_tensor<float, 2>({2, channels});
    const EmbeddingTable table = lower(spec, tokens, types.view());
    ASSERT_EQ(table.tokens, 13);
    std::size_t text = 0, patch = 0;
    for (std::int64_t t = 0; t < 13; ++t) {
      const std::int64_t type = tokens.types[static_cast<std::size_t>(t)];
      for (std::int64_t c = 0; c < channels; ++c) {
        Real expected = 0;
        if (type == 0) {
          expected = wave(tokens.indices[text], c / 2, channels, c % 2 == 1);
        } else {  // x, then y, each sines before cosines
          const std::int64_t half = channels / 2, within = c % half;
          const std::int64_t at = tokens.patches.coordinates[2 * patch + (c < half ? 1u : 0u)];
          expected = wave(at, within % (half / 2), half, within >= half / 2);
        }
        expected += static_cast<Real>(types.view()(type, c));
        EXPECT_NEAR(table.view()(t, c), static_cast<double>(expected),
                    0x1p-24 * std::fabs(static_cast<double>(expected)) + 0x1p-44)
            << "token " << t << " channel " << c;
      }
      ++(type == 0 ? text : patch);
    }
  }
}

TEST(CrossModal, AnImageIsTheSameWhereverItStands) {
  const CrossModal spec = cross_modal_usual(16);
  const auto types = testing::random_tensor<float, 2>({2, 16});
  const auto table = [&](const MultimodalRow& row) {
    return lower(spec, cross_modal_tokens(spec, row), types.view());
  };
  const EmbeddingTable front = table({ImageSpan{3, 2}, TextSpan{4}});
  const EmbeddingTable back = table({TextSpan{4}, ImageSpan{3, 2}});
  for (std::int64_t c = 0; c < 16; ++c) {
    for (std::int64_t n = 0; n < 6; ++n) EXPECT_EQ(front.view()(n, c), back.view()(4 + n, c));
    for (std::int64_t n = 0; n < 4; ++n) EXPECT_EQ(front.view()(6 + n, c), back.view()(n, c));
  }
}

TEST(CrossModal, GradientIsThatOfFiniteDifferences) {
  const CrossModal spec = cross_modal_usual(8);
  const CrossModalTokens tokens = cross_modal_tokens(spec, mixed);
  const auto weights = testing::random_tensor<float, 2>({13, 8}, 4);
  Tensor<float, 2> grad({2, 8}, 1.0f);
  lower_backward(spec, tokens, weights.view(), grad.view());
  for (std::int64_t type = 0; type < 2; ++type)
    for (std::int64_t c = 0; c < 8; ++c) {
      // The table is linear in the types, with slope 1 in each row of the type.
      const auto objective = [&](double step) {
        Tensor<float, 2> types({2, 8});
        types.view()(type, c) = static_cast<float>(step);
        const EmbeddingTable table = lower(spec, tokens, types.view());
        double sum = 0;
        for (std::int64_t t = 0; t < 13; ++t)
          sum += double{table.view()(t, c)} * double{weights.view()(t, c)};
        return sum;
      };
      EXPECT_NEAR(grad.view()(type, c), 1 + (objective(1) - objective(-1)) / 2, 4e-6);
    }
}

TEST(CrossModal, NothingGivesNoRows) {
  const CrossModal spec = cross_modal_usual(8);
  const Tensor<float, 2> types({2, 8});
  EXPECT_EQ(lower(spec, cross_modal_tokens(spec, {}), types.view()).tokens, 0);
  const MultimodalRow empty{TextSpan{0}};
  EXPECT_EQ(cross_modal_tokens(spec, empty).tokens(), 0);
}

TEST(CrossModal, RefusesWhatBreaksItsBounds) {
  const auto refused = [](auto change, const MultimodalRow& row = mixed) {
    return message_of([&] { cross_modal_tokens(changed(change), row); });
  };
  EXPECT_EQ(message_of([] { cross_modal_usual(6); }),
            "[grid] width must be a positive multiple of 4, got 6");
  EXPECT_EQ(refused([](CrossModal& s) { s.text.width = 12; }),
            "[cross_modal] patches must have the width of text, 12, got 8");
  EXPECT_EQ(refused([](CrossModal& s) { s.patches.axes[0].column = 2; }),
            "[cross_modal] an axis of patches must be column 0 (y) or 1 (x), got 2");
  EXPECT_EQ(refused([](CrossModal& s) { s.types = 1; }),
            "[cross_modal] types must be at least 2, got 1");
  EXPECT_EQ(refused([](CrossModal& s) { s.index = {}; }),
            "[cross_modal] index must be text or sequence, got 0");
  EXPECT_EQ(refused([](CrossModal& s) { s.image_type = {}; }),
            "[cross_modal] image_type must be one or by_number, got 0");
  EXPECT_EQ(refused([](CrossModal& s) { s.image_type = ImageType::by_number; }),
            "[cross_modal] a row must have one type per image, so the number of images must be "
            "at most 1, got 2");
  const auto as_is = [](CrossModal&) {};
  EXPECT_EQ(refused(as_is, {TextSpan{-1}}),
            "[cross_modal] tokens of a text must not be negative, got -1");
  EXPECT_EQ(refused(as_is, {ImageSpan{2, 0}}),
            "[cross_modal] an image must have 1 to 2^31 rows and columns, got 0");
  EXPECT_EQ(refused(as_is, {ImageSpan{1 << 20, 1 << 20}}),
            "[cross_modal] tokens of a row must be at most 2^31, got 1099511627776");
  EXPECT_EQ(refused(as_is, {VideoSpan{3, 2, 2}}),
            "[cross_modal] videos are not supported: pass the frames as images; video, got 3");
  EXPECT_EQ(message_of([] { cross_modal_tokens(cross_modal_usual(8), mixed, -1); }),
            "[cross_modal] offset must be 0 to 2^31, got -1");

  const CrossModal spec = cross_modal_usual(8);
  CrossModalTokens tokens = cross_modal_tokens(spec, mixed);
  Tensor<float, 2> types({2, 8}), narrow({2, 4}), grad({12, 8});
  EXPECT_EQ(message_of([&] { lower(spec, tokens, narrow.view()); }),
            "[cross_modal] types must be [2, 8], got [2, 4]");
  EXPECT_EQ(message_of([&] { lower_backward(spec, tokens, grad.view(), types.view()); }),
            "[cross_modal] the table's gradient must be [13, 8], got [12, 8]");
  tokens.types[0] = 1;
  EXPECT_EQ(message_of([&] { lower(spec, tokens, types.view()); }),
            "[cross_modal] indices must have one entry per text token, 4, got 5");
  tokens.types[0] = 2;
  EXPECT_EQ(message_of([&] { lower(spec, tokens, types.view()); }),
            "[cross_modal] types of tokens must be 0 to 1, got 2");
}

}  // namespace cross_modal_test
}  // namespace gnomon
