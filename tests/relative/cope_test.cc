// The lowering of contextual positions, and their terms for inspection.
// tests/attention/walk_test.cc has the kernels.
#include "gnomon/relative/cope.h"

#include <gtest/gtest.h>

#include <vector>

#include "naive/walk.h"
#include "testing.h"

namespace gnomon {
namespace cope_test {

using testing::message_of;
using testing::random_numbers;
using testing::random_tensor;
using testing::Tensor;

const Cope cope{.heads = 2, .head_dim = 4, .positions = 3};

TEST(Cope, LowersToItsTableAndBack) {
  const auto table = random_tensor<float, 2>({6, 4}, 1);
  const RelativeForm form = lower(cope, table.view());
  ASSERT_TRUE(form.contextual);
  EXPECT_EQ(form.contextual->positions(), 3);
  EXPECT_EQ(form.contextual->values,
            std::vector<double>(table.values.begin(), table.values.end()));
  EXPECT_FALSE(form.empty());

  RelativeGradient grad;
  grad.contextual = random_numbers(24, 2);
  Tensor<float, 2> sum({6, 4}, 1.f);
  lower_backward(cope, grad, sum.view());
  for (std::size_t n = 0; n < 24; ++n)
    EXPECT_EQ(sum.values[n], static_cast<float>(1 + grad.contextual[n]));
}

TEST(Cope, TermsAreThoseOfTheNaiveVersion) {
  const std::int64_t keys = 9, size = 4;
  const auto q = random_tensor<double, 2>({1, size}, 3),
             k = random_tensor<double, 2>({keys, size}, 4);
  ContextualVectors table{.heads = 2, .head_dim = size, .values = random_numbers(24, 5)};
  const Tensor<double, 2> seen({1, keys}, 1.0);
  const testing::NaiveInput input{q.view(), k.view(), k.view(), seen.view(), 0.5};
  std::vector<double> scores;
  for (std::int64_t j = 0; j < keys; ++j)
    scores.push_back(0.5 * testing::naive_product(q.view(), 0, k.view(), j));
  add_contextual(table, 1, q.values, scores);
  double lse = 0;
  const testing::Matrix e(table.values.data() + 12, {3, size});
  const auto weights = testing::naive_contextual_weights(
      input, e, 0, -std::numeric_limits<double>::infinity(), lse);
  for (std::size_t j = 0; j < scores.size(); ++j)
    EXPECT_NEAR(std::exp(scores[j] - lse), weights[j], 1e-14);
}

TEST(Cope, RefusesSpecsAndShapes) {
  const Tensor<float, 2> table({6, 4});
  const auto message = [&](const Cope& spec) {
    return message_of([&] { lower(spec, table.view()); });
  };
  EXPECT_EQ(message({.heads = 0, .head_dim = 4}), "[cope] heads must be at least 1, got 0");
  EXPECT_EQ(message({.head_dim = 0}), "[cope] head_dim must be at least 1, got 0");
  EXPECT_EQ(message({.head_dim = 4, .positions = 0}),
            "[cope] positions must be 1 to 1048576, got 0");
  EXPECT_EQ(message({.head_dim = 4, .positions = 5}),
            "[cope] the table must be [5, 4], got [6, 4]");
  Tensor<float, 2> grad({6, 4});
  EXPECT_EQ(message_of([&] { lower_backward(cope, {}, grad.view()); }),
            "[cope] the gradient must have 24 numbers of contextual vectors, got 0");
  std::vector<double> scores(2);
  const RelativeForm form = lower(cope, table.view());
  EXPECT_EQ(message_of([&] { add_contextual(*form.contextual, 2, random_numbers(4), scores); }),
            "[relative] head must be 0 to 1, got 2");
  EXPECT_EQ(message_of([&] {
              const Tensor<double, 3> x({2, 2, 4});
              Tensor<double, 3> out({2, 2, 2});
              relative_scores(form, 0, x.view(), x.view(), out.view());
            }),
            "[relative] contextual positions depend on a softmax scale and a mask, which these "
            "scores do not have, got contextual vectors");
}

}  // namespace cope_test
}  // namespace gnomon
