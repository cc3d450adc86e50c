#include "gnomon/attention/weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "gnomon/bias/alibi.h"
#include "naive/attention.h"
#include "testing.h"

namespace gnomon {
namespace weights_test {

using std::int64_t;
using testing::message_of;
using testing::random_tensor;
using testing::Tensor;

constexpr double infinity = std::numeric_limits<double>::infinity();

// Two key heads of four, a window, and more keys than one block of unit vectors.
struct Case {
  int64_t queries = 5, keys = 300, heads = 4, key_heads = 2, head_dim = 8;
  AttentionPlan plan = {.mask = {.visibility = Visibility::causal, .offset = 295, .left = 290},
                        .bias = SlopeBias{slopes(Alibi{.heads = 4})}};
  Tensor<float, 4> q = random_tensor<float, 4>({2, queries, heads, head_dim}, 1);
  Tensor<float, 4> k = random_tensor<float, 4>({2, keys, key_heads, head_dim}, 2);

  View<const float, 4> queries_view = std::as_const(q).view();  // a tensor borrows its shape
  View<const float, 4> keys_view = std::as_const(k).view();

  Case() = default;
  Case(const Case&) = delete;
  AttentionInput input() const { return {.q = queries_view, .k = keys_view, .v = {}}; }
  bool hidden(int64_t i, int64_t j) const { return j > i + 295 || j < i + 295 - 290; }
};

TEST(Weights, AndScoresAreThoseOfTheNaiveVersion) {
  const Case c;
  Tensor<double, 4> weights({2, c.heads, c.queries, c.keys}), scores(weights.extents);
  attention_weights(c.input(), c.plan, weights.view(), scores.view());
  const auto& of_heads = std::get<SlopeBias>(c.plan.bias).slopes;
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t h = 0; h < c.heads; ++h) {
      Tensor<double, 2> q({c.queries, c.head_dim}), k({c.keys, c.head_dim});
      Tensor<double, 2> bias({c.queries, c.keys}), expected(bias.extents);
      for (int64_t d = 0; d < c.head_dim; ++d) {
        for (int64_t i = 0; i < c.queries; ++i) q.view()(i, d) = c.q.view()(b, i, h, d);
        for (int64_t j = 0; j < c.keys; ++j) k.view()(j, d) = c.k.view()(b, j, h / 2, d);
      }
      for (int64_t i = 0; i < c.queries; ++i)
        for (int64_t j = 0; j < c.keys; ++j)
          bias.view()(i, j) = c.hidden(i, j) ? -infinity
                                             : -of_heads[static_cast<std::size_t>(h)] *
                                                   static_cast<double>(std::abs(i + 295 - j));
      const double scale = softmax_scale(c.head_dim);
      testing::naive_weights(q.view(), k.view(), bias.view(), scale, expected.view());
      for (int64_t i = 0; i < c.queries; ++i)
        for (int64_t j = 0; j < c.keys; ++j) {
          EXPECT_NEAR(weights.view()(b, h, i, j), expected.view()(i, j), 0x1p-46);
          double score = bias.view()(i, j);
          for (int64_t d = 0; d < c.head_dim; ++d)
            score += scale * q.view()(i, d) * k.view()(j, d);
          if (c.hidden(i, j))
            EXPECT_EQ(scores.view()(b, h, i, j), -infinity);
          else
            EXPECT_NEAR(scores.view()(b, h, i, j), score, 0x1p-40 * 16);
        }
    }
}

// Vectors on values change the output, not the weights; float outputs are those of double.
TEST(Weights, DoNotDependOnRelativeValues) {
  Case c;
  c.plan.mask = {.visibility = Visibility::bidirectional, .offset = 295};
  Tensor<float, 4> plain({2, c.heads, c.queries, c.keys}), with(plain.extents);
  attention_weights(c.input(), c.plan, plain.view());
  RelativeVectors vectors{.heads = 1, .head_dim = c.head_dim, .min_distance = 0};
  vectors.rows = {0};
  vectors.values.assign(static_cast<std::size_t>(c.head_dim), 3.0);
  c.plan.relative.values = {vectors};
  attention_weights(c.input(), c.plan, with.view());
  EXPECT_EQ(plain.values, with.values);
}

TEST(Weights, RefuseWrongShapesAndScoresOfStickBreaking) {
  Case c;
  Tensor<double, 4> weights({2, c.heads, c.queries, c.keys - 1});
  EXPECT_EQ(message_of([&] { attention_weights(c.input(), c.plan, weights.view()); }),
            "[attention_weights] weights must be [2, 4, 5, 300], got [2, 4, 5, 299]");
  Tensor<double, 4> scores({2, c.heads, c.queries, c.keys});
  c.plan.bias = {};
  c.plan.stick_breaking = StickBreaking{};
  EXPECT_EQ(message_of([&] { attention_weights(c.input(), c.plan, {}, scores.view()); }),
            "[attention_weights] scores require a softmax, got stick-breaking");
}

}  // namespace weights_test
}  // namespace gnomon
