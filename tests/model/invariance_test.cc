// Invariances of each encoding of the list: order, left and right, absolute position, and keys
// from a cache.
#include "gnomon/analysis/invariance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "gnomon/model/encoding.h"
#include "testing.h"

namespace gnomon::model {
namespace {

constexpr Shape shape{.width = 32, .heads = 4, .length = 64};
constexpr analysis::OrderContent content{.tokens = 12, .heads = 4, .head_dim = 8};
constexpr std::int64_t offset = 50;  // positions 50 to 61

// An encoding of the list with random parameters.
struct Trained {
  Encoding encoding;
  std::vector<testing::Tensor<float, 2>> matrices;

  explicit Trained(const EncodingInfo& info) : encoding(info.usual(shape)) {
    unsigned seed = 3;
    for (const Parameter& one : parameters(encoding)) {
      matrices.push_back(testing::random_tensor<float, 2>({one.rows, one.columns}, seed++));
      if (one.initial_deviation == 0)
        std::fill(matrices.back().values.begin(), matrices.back().values.end(),
                  static_cast<float>(one.initial_mean));
    }
  }
  LayerPlan at(std::int64_t queries, std::int64_t keys) const {
    std::vector<View<const float, 2>> values;
    for (const auto& matrix : matrices) values.push_back(matrix.view());
    return lower(encoding, {.queries = queries, .keys = keys}, values);
  }
};

// Whether the encoding depends on distances only, by its form: no table, and a bias and vectors
// by distance. Rotations over a grid depend on rows and columns.
bool goes_by_distance(const Encoding& encoding, const LayerPlan& lowered) {
  const auto of_positions = [](const std::vector<RelativeVectors>& tables) {
    return std::all_of(tables.begin(), tables.end(),
                       [](const auto& table) { return table.coordinates.empty(); });
  };
  const bool cells = lowered.query_rotary && capacity(encoding);
  return !lowered.table && !cells && lowered.query_rotations.empty() &&
         (std::holds_alternative<NoBias>(lowered.bias) ||
          std::holds_alternative<SlopeBias>(lowered.bias) ||
          std::holds_alternative<StripBias>(lowered.bias)) &&
         of_positions(lowered.relative.keys) && of_positions(lowered.relative.queries) &&
         of_positions(lowered.relative.values);
}

bool among(std::string_view name, const std::set<std::string_view>& names) {
  return names.contains(name);
}

TEST(Invariance, OnlyWithoutPositionOrderCannotBeTold) {
  for (const EncodingInfo& one : encodings()) {
    const LayerPlan lowered = Trained(one).at(content.tokens, content.tokens);
    const double deviation = analysis::permutation_deviation(content, lowered);
    if (one.name == "none")
      EXPECT_LE(deviation, 1e-14);
    else
      EXPECT_GT(deviation, 1e-3) << one.name;
  }
}

TEST(Invariance, WhatIsSymmetricCannotTellLeftFromRight) {
  for (const EncodingInfo& one : encodings()) {
    const LayerPlan lowered = Trained(one).at(content.tokens, content.tokens);
    const double deviation = analysis::reversal_deviation(content, lowered);
    if (among(one.name,
              {"none", "alibi", "kerple", "kerple-power", "sandwich", "graphormer"})) {
      EXPECT_LE(deviation, 1e-14) << one.name;
    }
    if (among(one.name, {"sinusoidal", "learned", "rotary", "rotary-scaled", "t5", "dynamic",
                         "shaw", "transformer-xl", "deberta"})) {
      EXPECT_GT(deviation, 1e-3) << one.name;
    }
  }
}

// Encodings by distance. FIRE and tables of the embeddings are not.
TEST(Invariance, WhatGoesByDistanceCannotTellWhereItStands) {
  for (const EncodingInfo& one : encodings()) {
    const Trained trained(one);
    const LayerPlan here = trained.at(content.tokens, content.tokens);
    const LayerPlan there = trained.at(content.tokens, offset + content.tokens);
    const double deviation = analysis::shift_deviation(content, here, there, offset);
    if (goes_by_distance(trained.encoding, here)) {
      EXPECT_LE(deviation, 2e-6) << one.name;  // rotations have float tables
    }
    if (includes(one.enters, Place::embeddings) ||
        among(one.name, {"fire", "swin", "rotary-axial", "vjepa2"})) {
      EXPECT_GT(deviation, 1e-3) << one.name;
    }
    EXPECT_TRUE(goes_by_distance(trained.encoding, here) ||
                !among(one.name, {"none", "rotary", "mrope", "xpos", "alibi", "t5", "clipped",
                                  "kerple", "shaw", "transformer-xl", "deberta"}))
        << one.name;
  }
}

TEST(Invariance, ACacheRepeatsTheFullPass) {
  constexpr std::int64_t counts[] = {5, 6, 1};
  for (const EncodingInfo& one : encodings()) {
    const Trained trained(one);
    const LayerPlan whole = trained.at(content.tokens, content.tokens);
    std::vector<LayerPlan> lowered;
    std::vector<analysis::CachedPiece> pieces;
    std::int64_t keys = 0;
    for (const std::int64_t count : counts) lowered.push_back(trained.at(count, keys += count));
    for (std::size_t i = 0; i < lowered.size(); ++i) pieces.push_back({counts[i], lowered[i]});
    EXPECT_LE(analysis::cache_deviation(content, whole, pieces), 0x1p-16) << one.name;
  }
}

}  // namespace
}  // namespace gnomon::model
