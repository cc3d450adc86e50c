#include "gnomon/relative/shaw.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "relative/paper.h"
#include "testing.h"

namespace gnomon {
namespace shaw_test {

using testing::message_of;
using testing::Tensor;

// index[q][k] as in the released code, for odd and even lengths below and beyond the limits.
template <typename Index>
void expect_rows(const Shaw& shaw, Index index, std::initializer_list<std::int64_t> lengths) {
  for (const std::int64_t length : lengths)
    for (std::int64_t q = 0; q < length; ++q)
      for (std::int64_t k = 0; k < length; ++k)
        ASSERT_EQ(row(shaw, k - q), index(q, k)) << length << ": " << q << ", " << k;
}

TEST(Shaw, RowsAreThoseOfReleasedModels) {
  // clip(j - i, k) + k
  expect_rows({.head_dim = 8, .left = 4, .right = 4, .meets = ShawMeets::queries},
              [](auto q, auto k) {
                return std::max<std::int64_t>(-4, std::min<std::int64_t>(4, k - q)) + 4;
              },
              {1, 2, 7, 8, 13});
  // distance = position_ids_r - position_ids_l; clamp(distance, -left, right) + left
  expect_rows(relative::wav2vec2_bert(64),
              [](auto q, auto k) {
                std::int64_t distance = k - q;
                if (distance < -64) distance = -64;
                if (distance > 8) distance = 8;
                return distance + 64;
              },
              {5, 64, 99, 130});
  // distance = position_ids_l - position_ids_r; distance + max_position_embeddings - 1
  expect_rows(bert_relative_key(64, 33), [](auto q, auto k) { return q - k + 32; },
              {1, 32, 33});
  expect_rows(bert_relative_key_query(64, 16), [](auto q, auto k) { return q - k + 15; }, {16});
  // pos_seq[:, None] - pos_seq[None, :], clipped to -L and L - 1, + L
  expect_rows(relative::speecht5(64, 12),
              [](auto q, auto k) {
                std::int64_t difference = q - k;
                if (difference < -12) difference = -12;
                if (difference >= 12) difference = 11;
                return difference + 12;
              },
              {11, 12, 13, 30});
  EXPECT_EQ(vectors(bert_relative_key(64)), 1023);
  EXPECT_EQ(vectors(relative::wav2vec2_bert(64)), 73);
  EXPECT_EQ(vectors(relative::speecht5(64)), 320);
}

// Equations 3 and 4 with the indices of equation 5, and their gradient.
TEST(Shaw, AttentionAndGradientsAreThePapers) {
  for (const std::int64_t table_heads : {1, 2})
    for (const bool causal : {false, true}) {
      testing::Paper paper{.queries = 5, .keys = 7, .heads = 2, .head_dim = 3, .values = 4};
      paper.offset = 2, paper.causal = causal, paper.scale = 1 / std::sqrt(3.0);
      paper.draw(20);
      const Shaw shaw{.heads = table_heads,
                      .head_dim = 3,
                      .value_dim = 4,
                      .left = 3,
                      .right = causal ? 0 : 2,
                      .meets = ShawMeets::queries_and_weights};
      const std::int64_t each = vectors(shaw), all = table_heads * each;
      auto keys = testing::float_numbers(static_cast<std::size_t>(all * 3), 1);
      auto values = testing::float_numbers(static_cast<std::size_t>(all * 4), 2);
      const auto at = [&](std::int64_t h, std::int64_t i, std::int64_t j) {
        std::int64_t clip = j - (2 + i);
        clip = clip < -3 ? -3 : clip > shaw.right ? shaw.right : clip;
        return (table_heads == 1 ? 0 : h * each) + clip + 3;
      };
      const auto loss = [&] {
        return paper.loss(
            [&](std::int64_t h, std::int64_t i, std::int64_t j) {
              double e = 0;
              for (std::int64_t d = 0; d < 3; ++d)
                e += paper.q.view()(i, h, d) *
                     (paper.k.view()(j, h, d) +
                      keys[static_cast<std::size_t>(at(h, i, j) * 3 + d)]);
              return e / std::sqrt(3.0);
            },
            [&](std::int64_t h, std::int64_t i, std::int64_t j, std::int64_t d) {
              return values[static_cast<std::size_t>(at(h, i, j) * 4 + d)];
            });
      };
      const Tensor<float, 2> k = testing::float_matrix(all, 3, keys);
      const Tensor<float, 2> v = testing::float_matrix(all, 4, values);
      const RelativeForm form = lower(shaw, {k.view(), v.view()}, -6, 11);
      check(form, 2, 3, 4);
      EXPECT_NEAR(paper.lowered_loss(form), loss(), 1e-12);
      EXPECT_NEAR(paper.attention_loss(form), loss(), 1e-11);
      Tensor<float, 2> of_k({all, 3}), of_v({all, 4});
      const auto grad = testing::relative_gradient(paper.backward(form));
      lower_backward(shaw, grad, {of_k.view(), of_v.view()});
      testing::expect_gradient(of_k.values, keys, loss, "keys");
      testing::expect_gradient(of_v.values, values, loss, "values");
      // Gradients are added to the previous values.
      const float once = of_k.values[4];
      lower_backward(shaw, grad, {of_k.view(), of_v.view()});
      EXPECT_FLOAT_EQ(of_k.values[4], 2 * once);
    }
}

// BERT: relative_position_scores_query + relative_position_scores_key, before the division.
TEST(Shaw, RelativeKeyQueryIsBerts) {
  for (const bool both : {false, true}) {
    testing::Paper paper{.queries = 6, .keys = 6, .heads = 2, .head_dim = 3, .values = 2};
    paper.scale = 1 / std::sqrt(3.0);
    paper.draw(30);
    const Shaw shaw = both ? bert_relative_key_query(3, 6) : bert_relative_key(3, 6);
    auto table = testing::float_numbers(11 * 3, 3);
    const auto loss = [&] {
      return paper.loss(
          [&](std::int64_t h, std::int64_t i, std::int64_t j) {
            double score = paper.dot(h, i, j);
            for (std::int64_t d = 0; d < 3; ++d) {
              const double e = table[static_cast<std::size_t>((i - j + 5) * 3 + d)];
              score += paper.q.view()(i, h, d) * e;
              if (both) score += paper.k.view()(j, h, d) * e;
            }
            return score / std::sqrt(3.0);
          },
          [](auto...) { return 0.0; });
    };
    const Tensor<float, 2> values = testing::float_matrix(11, 3, table);
    const RelativeForm form = lower(shaw, {values.view(), {}}, -5, 11);
    check(form, 2, 3, 2);
    EXPECT_NEAR(paper.lowered_loss(form), loss(), 1e-12);
    EXPECT_NEAR(paper.attention_loss(form), loss(), 1e-11);
    Tensor<float, 2> grad({11, 3});
    lower_backward(shaw, testing::relative_gradient(paper.backward(form)), {grad.view(), {}});
    testing::expect_gradient(grad.values, table, loss, "table");
  }
}

TEST(Shaw, RefusesWhatBreaksItsBounds) {
  const auto says = [](auto change) {
    Shaw shaw{.head_dim = 3, .left = 2, .right = 1, .meets = ShawMeets::queries};
    change(shaw);
    return message_of([&] { row(shaw, 0); });
  };
  EXPECT_EQ(says([](Shaw&) {}), "");
  EXPECT_EQ(says([](Shaw& shaw) { shaw.heads = 0; }), "[shaw] heads must be at least 1, got 0");
  EXPECT_EQ(says([](Shaw& shaw) { shaw.head_dim = 0; }),
            "[shaw] head_dim must be at least 1, got 0");
  EXPECT_EQ(says([](Shaw& shaw) { shaw.meets = {}; }),
            "[shaw] meets must be queries, queries_and_weights or queries_and_keys, got 0");
  EXPECT_EQ(says([](Shaw& shaw) { shaw.meets = ShawMeets::queries_and_weights; }),
            "[shaw] value_dim must be at least 1 if meets is queries_and_weights, got 0");
  EXPECT_EQ(says([](Shaw& shaw) { shaw.value_dim = 3; }),
            "[shaw] value_dim must be 0 unless meets is queries_and_weights, got 3");
  EXPECT_EQ(says([](Shaw& shaw) { shaw.order = {}; }),
            "[shaw] order must be past_first or future_first, got 0");
  EXPECT_EQ(says([](Shaw& shaw) { shaw.outside = {}; }),
            "[shaw] outside must be clipped or refused, got 0");
  EXPECT_EQ(says([](Shaw& shaw) { shaw.left = -1; }),
            "[shaw] left must be 0 to 1073741824, got -1");
  EXPECT_EQ(says([](Shaw& shaw) { shaw.right = -1; }),
            "[shaw] right must be 0 to 1073741824, got -1");
  EXPECT_EQ(message_of([] { row(bert_relative_key(8, 4), -4); }),
            "[shaw] distances must be -3 to 3, got -4");
}

TEST(Shaw, RefusesTablesThatDoNotFit) {
  const Shaw shaw{.head_dim = 3, .left = 2, .right = 1, .meets = ShawMeets::queries};
  const Tensor<float, 2> table({4, 3}), other({5, 3});
  Tensor<float, 2> grad({4, 3});
  EXPECT_EQ(message_of([&] { lower(shaw, {other.view(), {}}, -2, 3); }),
            "[shaw] keys must be [4, 3], got [5, 3]");
  EXPECT_EQ(message_of([&] { lower(shaw, {table.view(), {}}, -2, 0); }),
            "[shaw] count of distances must be at least 1, got 0");
  EXPECT_EQ(message_of([&] { lower(shaw, {table.view(), {}}, INT64_MAX, 2); }),
            "[shaw] min_distance + count - 1 must fit in 64 bits; min_distance, "
            "got 9223372036854775807");
  EXPECT_EQ(message_of([&] { lower_backward(shaw, {}, {grad.view(), {}}); }),
            "[shaw] the gradient must have one table of keys, got 0");
  RelativeGradient small;
  small.keys = {std::vector<double>(3)};
  EXPECT_EQ(message_of([&] { lower_backward(shaw, small, {grad.view(), {}}); }),
            "[shaw] the gradient of keys must have 12 numbers, got 3");
  Shaw pair = shaw;
  pair.meets = ShawMeets::queries_and_weights, pair.value_dim = 2;
  EXPECT_EQ(message_of([&] { lower(pair, {table.view(), table.view()}, -2, 3); }),
            "[shaw] values must be [4, 2], got [4, 3]");
}

}  // namespace shaw_test
}  // namespace gnomon
