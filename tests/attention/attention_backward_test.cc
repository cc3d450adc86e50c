#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attention/backward_pass.h"
#include "attention/gradient_bounds.h"
#include "attention/oracle.h"
#include "attention/sample.h"
#include "gnomon/attention/attention.h"
#include "gnomon/isa.h"

namespace gnomon {
namespace attention_backward_test {

using namespace gnomon::testing;
using ::testing::Each;
using testing::Tensor;

template <typename T>
class AttentionBackward : public ::testing::Test {};
using ElementTypes = ::testing::Types<float, Half, BFloat16, double>;
TYPED_TEST_SUITE(AttentionBackward, ElementTypes);

TYPED_TEST(AttentionBackward, KeepsTheErrorPromisedByTheHeader) {
  for (unsigned seed = 1; seed <= 32; ++seed)
    expect_gradients_within_bounds<TypeParam>(sample(seed));
}

TYPED_TEST(AttentionBackward, KeepsItsErrorAtScoresOfThirty) {
  for (std::int64_t size : {1, 16, 128, 256})
    expect_gradients_within_bounds<TypeParam>(steep(size));
}

// Compares the chain rule of the reference and the kernel with finite differences.
TEST(AttentionBackwardInDouble, AgreesWithFiniteDifferences) {
  const ScopedThreads one(1);
  int tried = 0;
  for (unsigned seed = 200; tried < 12; ++seed) {
    Sample s = sample(seed);
    if (s.c.queries > 33 || s.c.size > 16 || s.c.heads > 4 || s.c.keys > 70 || !s.c.keys)
      continue;
    ++tried;
    SCOPED_TRACE(s.text);
    BackwardPass<double> run(s);
    run(s.c);
    const auto loss = [&](const Sample& at) {
      Placed<double> q(at.x.q, Layout::plain), k(at.x.k, Layout::plain);
      Placed<double> v(at.x.v, Layout::plain), out(at.out_grad, Layout::plain);
      attention({.q = q.read(), .k = k.read(), .v = v.read(), .terms = {.gates = at.c.gates}},
                at.c.plan, out.view());
      const auto got = out.numbers();
      double sum = 0;
      for (std::size_t i = 0; i < got.values.size(); ++i)
        sum += got.values[i] * at.out_grad.values[i];
      return sum;
    };
    constexpr double step = 1e-5;
    const auto compare_one = [&](double& number, double grad) {
      const double value = number;
      number = value + step;
      const double above = loss(s);
      number = value - step;
      const double below = loss(s);
      number = value;
      EXPECT_NEAR(grad, (above - below) / (2 * step), 1e-7 * (1 + std::abs(grad)));
    };
    const auto compare = [&](std::vector<double>& numbers, const std::vector<double>& grad) {
      ASSERT_EQ(numbers.size(), grad.size());
      for (std::size_t n = 0; n < 12 && n < numbers.size(); ++n) {
        const std::size_t i = n * 7919 % numbers.size();
        compare_one(numbers[i], grad[i]);
      }
    };
    compare(s.x.q.values, run.q_grad.numbers().values);
    compare(s.x.k.values, run.k_grad.numbers().values);
    compare(s.x.v.values, run.v_grad.numbers().values);
    compare(s.c.plan.softmax.sinks, run.sinks);
    if (auto* slope = std::get_if<SlopeBias>(&s.c.plan.bias))
      compare(slope->slopes, run.bias.values);
    if (auto* strip = std::get_if<StripBias>(&s.c.plan.bias))
      compare(strip->values, run.bias.values);
    if (auto* grid = std::get_if<GridBias>(&s.c.plan.bias))
      compare(grid->values, run.bias.values);
    if (auto* axes = std::get_if<AxesBias>(&s.c.plan.bias)) {
      std::int64_t before = 0;  // number of parameters of the previous axes
      for (std::size_t a = 0; a < axes->axes.size(); before += axes->distances(a++)) {
        std::vector<double> of_axis;
        for (std::int64_t h = 0; h < axes->heads; ++h) {
          const auto from = run.bias.values.begin() + h * axes->distances() + before;
          of_axis.insert(of_axis.end(), from, from + axes->distances(a));
        }
        compare(axes->axes[a].values, of_axis);
      }
    }
    if (auto* piecewise_log = std::get_if<PiecewiseLogBias>(&s.c.plan.bias)) {
      const auto pieces = static_cast<std::size_t>(piecewise_log->pieces());
      std::vector<double> offsets, slopes;
      double of_c = 0, of_threshold = 0;
      for (std::size_t n = 0; n < run.bias.values.size(); ++n) {
        const double value = run.bias.values[n];
        const std::size_t place = n % (2 * pieces + 2);
        if (place < pieces)
          offsets.push_back(value);
        else if (place < 2 * pieces)
          slopes.push_back(value);
        else
          (place == 2 * pieces ? of_c : of_threshold) += value;
      }
      compare(piecewise_log->offsets, offsets);
      compare(piecewise_log->slopes, slopes);
      compare_one(piecewise_log->c, of_c);
      compare_one(piecewise_log->threshold, of_threshold);
    }
  }
}

TYPED_TEST(AttentionBackward, GivesTheSameBitsForAnyNumberOfThreads) {
  using T = TypeParam;
  for (unsigned seed : {3, 8, 21, 34, 55}) {
    const Sample s = sample(seed);
    BackwardPass<T> first(s);
    {
      const ScopedThreads one(1);
      first(s.c);
    }
    for (int count : {2, 7}) {
      BackwardPass<T> run(s);
      const ScopedThreads several(count);
      run(s.c);
      EXPECT_EQ(run.q_grad.numbers().values, first.q_grad.numbers().values) << s.text;
      EXPECT_EQ(run.k_grad.numbers().values, first.k_grad.numbers().values) << s.text;
      EXPECT_EQ(run.v_grad.numbers().values, first.v_grad.numbers().values) << s.text;
      EXPECT_EQ(run.bias.values, first.bias.values) << s.text;
      EXPECT_EQ(run.sinks, first.sinks) << s.text;
      EXPECT_EQ(run.dense.values, first.dense.values) << s.text;
    }
  }
}

TYPED_TEST(AttentionBackward, GivesZeroWhereNothingIsSeen) {
  using T = TypeParam;
  Sample s = sample(1);
  s.c = {
      .batch = 1, .queries = 3, .keys = 4, .heads = 2, .key_heads = 1, .size = 8, .values = 8};
  Positions queries = consecutive(3), keys = consecutive(4);
  queries.sequences = {0, Positions::padding, 7};
  keys.sequences = {0, Positions::padding, 0, 9};
  s.c.plan.queries = borrowed(queries), s.c.plan.keys = borrowed(keys);
  s.c.plan.mask.visibility = Visibility::bidirectional;
  s.x = {random_tensor<double, 4>({1, 3, 2, 8}, 1), random_tensor<double, 4>({1, 4, 1, 8}, 2),
         random_tensor<double, 4>({1, 4, 1, 8}, 3)};
  s.out_grad = random_tensor<double, 4>({1, 3, 2, 8}, 4);
  BackwardPass<T> run(s);
  run(s.c);
  const auto q = run.q_grad.numbers(), k = run.k_grad.numbers(), v = run.v_grad.numbers();
  for (std::ptrdiff_t d = 0; d < 8; ++d) {
    for (std::ptrdiff_t i : {1, 2}) EXPECT_EQ(q.view()(0, i, 1, d), 0);
    for (std::ptrdiff_t j : {1, 3}) EXPECT_EQ(k.view()(0, j, 0, d), 0);
    for (std::ptrdiff_t j : {1, 3}) EXPECT_EQ(v.view()(0, j, 0, d), 0);
    EXPECT_NE(v.view()(0, 0, 0, d), 0);
  }
}

// If one side is empty, the gradients of the other side are overwritten.
TEST(AttentionBackwardInDouble, OverwritesWithZerosWhereOneSideIsEmpty) {
  for (auto [queries, keys] : {std::pair{0, 3}, std::pair{3, 0}}) {
    Tensor<double, 4> q({1, queries, 1, 4}, 1.), k({1, keys, 1, 4}, 1.), out = q;
    const Tensor<double, 3> lse({1, 1, queries}, -std::numeric_limits<double>::infinity());
    auto q_grad = q, k_grad = k, v_grad = k;
    BiasGradient bias;
    attention_backward(
        {q.view(), k.view(), k.view()},
        {.mask = {.visibility = Visibility::bidirectional}, .bias = SlopeBias{{1}}}, out.view(),
        lse.view(), q.view(),
        {.q = q_grad.view(), .k = k_grad.view(), .v = v_grad.view(), .bias = &bias});
    EXPECT_THAT(q_grad.values, Each(0));
    EXPECT_THAT(k_grad.values, Each(0));
    EXPECT_THAT(v_grad.values, Each(0));
    EXPECT_EQ(bias.values, std::vector<double>{0});
  }
}

TEST(AttentionBackwardErrors, NameTheTensorThatDoesNotFit) {
  Tensor<float, 4> q({1, 3, 2, 4}), k({1, 5, 1, 4}), wrong({1, 4, 2, 4});
  Tensor<float, 3> lse({1, 2, 3}), short_lse({1, 2, 2});
  const AttentionPlan plan{.mask = {.visibility = Visibility::bidirectional}};
  const auto says = [&](View<const float, 4> out_grad, View<const float, 3> sums,
                        View<float, 4> q_grad, View<float, 4> k_grad) {
    return message_of([&] {
      auto v_grad = k;
      attention_backward({q.view(), k.view(), k.view()}, plan, q.view(), sums, out_grad,
                         {.q = q_grad, .k = k_grad, .v = v_grad.view()});
    });
  };
  auto q_grad = q, k_grad = k;
  EXPECT_EQ(says(q.view(), lse.view(), q_grad.view(), k_grad.view()), "");
  EXPECT_EQ(says(wrong.view(), lse.view(), q_grad.view(), k_grad.view()),
            "[attention] axis 1 of out_grad must be 3, got 4");
  EXPECT_EQ(says(q.view(), short_lse.view(), q_grad.view(), k_grad.view()),
            "[attention] axis 2 of lse must be 3, got 2");
  EXPECT_EQ(says(q.view(), lse.view(), wrong.view(), k_grad.view()),
            "[attention] axis 1 of the gradient of q must be 3, got 4");
  EXPECT_EQ(says(q.view(), lse.view(), q_grad.view(), wrong.view()),
            "[attention] axis 1 of the gradient of k must be 5, got 4");
  const Tensor<Half, 4> half({1, 5, 1, 4});
  EXPECT_EQ(message_of([&] {
              attention_backward({q.view(), half.view(), half.view()}, plan, q.view(),
                                 lse.view(), q.view(),
                                 {.q = q_grad.view(), .k = k_grad.view(), .v = k_grad.view()});
            }),
            "[attention] k must have elements of f32, as q has, for gradients, got f16");
}

}  // namespace attention_backward_test
}  // namespace gnomon
