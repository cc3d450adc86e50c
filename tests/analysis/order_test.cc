#include "gnomon/analysis/order.h"

#include <gtest/gtest.h>

#include <cmath>

#include "gnomon/bias/alibi.h"
#include "gnomon/embedding/sinusoidal.h"
#include "testing.h"

namespace gnomon::analysis {
namespace order_test {

using testing::message_of;
using testing::Tensor;

constexpr OrderContent content{.tokens = 12, .heads = 2, .head_dim = 8, .seed = 3};

EmbeddingTable table() {
  return lower(Sinusoidal{.width = 16, .recipe = SinusoidalRecipe::interleaved},
               testing::iota(0, 12));
}
RotaryTable rotary() {
  return RotaryTable({.rotary_dim = 8, .pairing = Pairing::halves}, testing::iota(0, 12));
}

LayerPlan rotated_by_attention(const RotaryTable& table) {
  return {{.query_rotary = table, .key_rotary = table}};
}

TEST(OrderSensitivity, WithoutPositionOrderCannotBeTold) {
  EXPECT_LE(order_sensitivity(content, {}), 0x1p-17 * 5);
}

TEST(OrderSensitivity, EveryPlaceTellsIt) {
  const EmbeddingTable sines = table();
  const RotaryTable turns = rotary();
  EXPECT_GT(order_sensitivity(content, {{}, sines}), 1e-3);
  EXPECT_GT(order_sensitivity(content, rotated_by_attention(turns)), 1e-3);
  EXPECT_GT(order_sensitivity(content, {{.bias = lower(Alibi{.heads = 2})}}), 1e-3);
}

TEST(OrderSensitivity, RotationsOfHeadsAreAsThatOfAttention) {
  const RotaryTable turns = rotary();
  LayerPlan before;
  before.query_rotations = before.key_rotations = {turns};
  EXPECT_NEAR(order_sensitivity(content, before),
              order_sensitivity(content, rotated_by_attention(turns)), 1e-6);
}

TEST(LastAttentionWeights, AreTheSoftmaxOfABias) {
  // Queries of zeros: the bias alone decides. ALiBi of 2 heads has the slopes 1/16 and 1/256.
  const OrderContent zeros{.tokens = 12, .heads = 2, .head_dim = 8, .seed = 3, .shared = 0};
  LayerPlan plan{{.bias = lower(Alibi{.heads = 2})}};
  plan.softmax.factor = 0;  // scale of q.k; the bias is added after it
  Tensor<double, 2> weights({2, 12});
  last_attention_weights(zeros, plan, weights.view());
  for (int h = 0; h < 2; ++h) {
    double sum = 0;
    for (int d = 0; d < 12; ++d) sum += std::exp(-d / (h == 0 ? 16.0 : 256.0));
    for (int j = 0; j < 12; ++j)
      EXPECT_NEAR(weights.view()(h, j), std::exp(-(11 - j) / (h == 0 ? 16.0 : 256.0)) / sum,
                  1e-12);
  }
}

TEST(LastAttentionWeights, KeysAreIndependentOfTheQuery) {
  const OrderContent many{.tokens = 400, .heads = 4, .head_dim = 32, .seed = 1};
  Tensor<double, 2> weights({4, 400});
  last_attention_weights(many, {}, weights.view());
  for (int h = 0; h < 4; ++h) {
    double sum = 0;
    for (int j = 0; j < 400; ++j) sum += weights.view()(h, j);
    EXPECT_NEAR(sum, 1, 1e-12);
    // The score of equal contents is about sqrt(D) = 5.7; of independent ones, normal.
    EXPECT_LT(weights.view()(h, 399), 0.1);
  }
  EXPECT_EQ(message_of([&] { last_attention_weights(content, {}, weights.view()); }),
            "[order] out must be [2, 12], got [4, 400]");
}

TEST(AttentionWeights, RowsSumToOneAndTheFutureIsHidden) {
  const RotaryTable turns = rotary();
  for (Visibility visibility : {Visibility::causal, Visibility::bidirectional}) {
    Tensor<double, 3> weights({2, 12, 12});
    attention_weights(content, rotated_by_attention(turns), visibility, weights.view());
    for (int h = 0; h < 2; ++h)
      for (int i = 0; i < 12; ++i) {
        double sum = 0;
        for (int j = 0; j < 12; ++j) {
          const double weight = weights.view()(h, i, j);
          if (visibility == Visibility::causal && j > i)
            EXPECT_TRUE(std::isnan(weight));
          else
            sum += weight;
        }
        EXPECT_NEAR(sum, 1, 1e-14);
      }
  }
}

// If all contents are equal, tokens differ by position only.
TEST(AttentionWeights, OfSharedContentsAreEvenWithoutPosition) {
  OrderContent alike = content;
  alike.shared = 1;
  Tensor<double, 3> weights({2, 12, 12});
  attention_weights(alike, {}, Visibility::bidirectional, weights.view());
  for (double weight : weights.values) EXPECT_NEAR(weight, 1.0 / 12, 1e-15);
  const RotaryTable turns = rotary();
  attention_weights(alike, rotated_by_attention(turns), Visibility::causal, weights.view());
  EXPECT_GT(weights.view()(0, 11, 11), weights.view()(0, 11, 5));
}

// Without position, the words in another order have the same weights in that order.
TEST(AttentionWeights, TokensOfOneWordAreEqual) {
  OrderContent text{.tokens = 4, .heads = 1, .head_dim = 8, .words = {0, 2, 1, 0}};
  OrderContent other = text;
  other.words = {0, 1, 0, 2};
  Tensor<double, 3> a({1, 4, 4}), b({1, 4, 4});
  attention_weights(text, {}, Visibility::bidirectional, a.view());
  attention_weights(other, {}, Visibility::bidirectional, b.view());
  EXPECT_EQ(a.view()(0, 1, 0), a.view()(0, 1, 3));
  EXPECT_NE(a.view()(0, 1, 0), a.view()(0, 1, 2));
  EXPECT_NEAR(a.view()(0, 1, 2), b.view()(0, 3, 1), 1e-15);
  OrderContent counted = text, plain = text;
  counted.words = {0, 1, 2, 3}, plain.words = {};
  attention_weights(counted, {}, Visibility::bidirectional, a.view());
  attention_weights(plain, {}, Visibility::bidirectional, b.view());
  EXPECT_EQ(a.values, b.values);
  text.words = {0};
  EXPECT_EQ(
      message_of([&] { attention_weights(text, {}, Visibility::bidirectional, a.view()); }),
      "[order] words must have one entry per token (4), got 1");
  text.words = {0, 1, 2, -1};
  EXPECT_EQ(
      message_of([&] { attention_weights(text, {}, Visibility::bidirectional, a.view()); }),
      "[order] words must be 0 to 65535, got -1");
}

// A bias with equal contents: the weights are the softmax of the bias.
TEST(AttentionWeights, TheBiasIsAdded) {
  Tensor<double, 3> with({2, 12, 12}), without({2, 12, 12});
  attention_weights(content, {{.bias = SlopeBias{{0.5, 0}}}}, Visibility::causal, with.view());
  attention_weights(content, {}, Visibility::causal, without.view());
  for (int j = 0; j <= 5; ++j) {
    const double ratio = with.view()(0, 5, j) / without.view()(0, 5, j);
    const double nearest = with.view()(0, 5, 5) / without.view()(0, 5, 5);
    EXPECT_NEAR(ratio / nearest, std::exp(-0.5 * (5 - j)), 1e-12);
    EXPECT_NEAR(with.view()(1, 5, j), without.view()(1, 5, j), 1e-15);
  }
}

TEST(OrderSensitivity, RefusesWhatDoesNotFit) {
  const EmbeddingTable sines = table();
  EXPECT_EQ(message_of([&] {
              order_sensitivity({.tokens = 5, .heads = 2, .head_dim = 8}, {{}, sines});
            }),
            "[order] the table must be [5, 16], got [12, 16]");
  EXPECT_EQ(message_of([] { order_sensitivity({.tokens = 1}, {}); }),
            "[order] tokens must be at least 2, got 1");
  EXPECT_EQ(message_of([] { order_sensitivity({.heads = 0}, {}); }),
            "[order] heads must be at least 1, got 0");
  EXPECT_EQ(message_of([] { order_sensitivity({.shared = 1.5}, {}); }),
            "[order] shared must be from 0 to 1, got 1.5");
  EXPECT_EQ(message_of([] { order_sensitivity({.head_dim = 0}, {}); }),
            "[order] head_dim must be at least 1, got 0");
  constexpr std::int64_t wide = std::int64_t{1} << 32;
  EXPECT_EQ(
      message_of([] { order_sensitivity({.tokens = 2, .heads = wide, .head_dim = wide}, {}); }),
      "[order] tokens x heads x head_dim must fit in memory, "
      "got 2 x 4294967296 x 4294967296");
  EXPECT_EQ(
      message_of([] {
        order_sensitivity(
            {.tokens = 2, .heads = wide, .head_dim = wide >> 7, .words = {0, 65535}}, {});
      }),
      "[order] words x heads x head_dim must fit in memory, got 65536 x 4294967296 x 33554432");
  EmbeddingTable lying = sines;
  lying.values.resize(5);
  EXPECT_EQ(message_of([&] { order_sensitivity(content, {{}, lying}); }),
            "[order] the table must have tokens x width values, got 5");
  Tensor<double, 3> whole({2, 12, 12}), out({2, 12, 11});
  EXPECT_EQ(message_of([&] { attention_weights(content, {}, Visibility{}, whole.view()); }),
            "[order] visibility must be causal or bidirectional, got 0");
  EXPECT_EQ(message_of([&] { attention_weights(content, {}, Visibility::causal, out.view()); }),
            "[order] out must be [2, 12, 12], got [2, 12, 11]");
}

}  // namespace order_test
}  // namespace gnomon::analysis
