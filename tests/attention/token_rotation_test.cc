// Attention with queries and keys that are rotated by the angles of tokens.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "gnomon/attention/attention.h"
#include "gnomon/attention/layer_plan.h"
#include "testing.h"

namespace gnomon {
namespace token_rotation_test {

using std::int64_t;
using testing::message_of;
using testing::random_tensor;
using testing::Tensor;

constexpr int64_t batch = 2, queries = 3, keys = 5, heads = 4, key_heads = 2, size = 10;
constexpr TokenRotation rotation{.rotary_dim = 6, .pairing = Pairing::halves, .head_offset = 2};

AttentionPlan plan_of() {
  AttentionPlan plan;
  plan.mask = {.visibility = Visibility::causal, .offset = keys - queries};
  plan.token_rotation = rotation;
  return plan;
}

struct Sample {
  Tensor<double, 4> q = random_tensor<double, 4>({batch, queries, heads, size}, 1);
  Tensor<double, 4> k = random_tensor<double, 4>({batch, keys, key_heads, size}, 2);
  Tensor<double, 4> v = random_tensor<double, 4>({batch, keys, key_heads, size}, 3);
  Tensor<double, 4> angles = random_tensor<double, 4>({batch, keys, key_heads, 3}, 4);
  Tensor<double, 4> weights = random_tensor<double, 4>({batch, queries, heads, size}, 5);

  AttentionInput input() {
    return {.q = q.view(), .k = k.view(), .v = v.view(), .terms = {.angles = angles.view()}};
  }
};

TEST(TokenRotation, IsAttentionOfRotatedQueriesAndKeys) {
  Sample s;
  Tensor<double, 4> out(s.q.extents), expected(s.q.extents);
  const Tensor<double, 4> q_before = s.q;
  const auto views = std::tuple(s.q.view(), s.k.view(), s.v.view(), s.angles.view());
  const auto& [q, k, v, angles] = views;
  attention({.q = q, .k = k, .v = v, .terms = {.angles = angles}}, plan_of(), out.view());
  EXPECT_EQ(s.q.values, q_before.values);
  rotate_by_angles(q, angles.slice(1, keys - queries, queries), rotation);
  rotate_by_angles(k, angles, rotation);
  AttentionPlan plain = plan_of();
  plain.token_rotation.reset();
  attention({.q = q, .k = k, .v = v}, plain, expected.view());
  EXPECT_EQ(out.values, expected.values);
}

// Increments are summed over each sequence of the keys, and their gradient is the sum from the
// token to the end of its sequence.
TEST(TokenRotation, IncrementsAreSummedOverEachSequence) {
  Positions positions = consecutive(keys, 0, batch);
  positions.sequences = {-1, 0, 0, 0, 0, 4, 4, 7, 7, 7};
  AttentionPlan summed = plan_of(), given = plan_of();
  for (AttentionPlan* const one : {&summed, &given}) {
    one->mask.offset = 0;
    one->queries = one->keys = borrowed(positions);
  }
  summed.token_rotation->term = AngleTerm::increments;
  Sample s;
  s.q = random_tensor<double, 4>({batch, keys, heads, size}, 1);
  s.weights = random_tensor<double, 4>({batch, keys, heads, size}, 5);
  Tensor<double, 4> sums(s.angles.extents), sums_grad(s.angles.extents),
      increments_grad(s.angles.extents), out(s.q.extents), expected(s.q.extents);
  cumulative_angles(s.angles.view(), positions, {}, {}, sums.view());
  Tensor<double, 3> lse({batch, heads, keys});
  Tensor<double, 4> q_grad(s.q.extents), k_grad(s.k.extents), v_grad(s.v.extents);
  const auto q = s.q.view(), k = s.k.view(), v = s.v.view(), q_to = q_grad.view(),
             k_to = k_grad.view(), v_to = v_grad.view();
  const auto run = [&](const AttentionPlan& plan, View<double, 4> angles, View<double, 4> grad,
                       Tensor<double, 4>& to) {
    const AttentionInput input{.q = q, .k = k, .v = v, .terms = {.angles = angles}};
    attention(input, plan, to.view(), lse.view());
    attention_backward(input, plan, to.view(), lse.view(), s.weights.view(),
                       {.q = q_to, .k = k_to, .v = v_to, .terms = {.angles = grad}});
  };
  run(given, sums.view(), sums_grad.view(), expected);
  run(summed, s.angles.view(), increments_grad.view(), out);
  EXPECT_EQ(out.values, expected.values);
  cumulative_angles_backward(sums_grad.view(), positions, {}, sums_grad.view());
  EXPECT_EQ(increments_grad.values, sums_grad.values);
}

// sum weights . attention, by central differences; one row of angles is shared by the batch.
TEST(TokenRotation, GradientsAreThoseOfFiniteDifferences) {
  for (const int64_t rows : {1, 2}) {
    Sample s;
    s.angles = random_tensor<double, 4>({rows, keys, key_heads, 3}, 4);
    const AttentionPlan plan = plan_of();
    Tensor<double, 4> out(s.q.extents), q_grad(s.q.extents), k_grad(s.k.extents),
        v_grad(s.v.extents), angle_grad(s.angles.extents, 3.0);
    Tensor<double, 3> lse({batch, heads, queries});
    const auto q = s.q.view(), k = s.k.view(), v = s.v.view(), angles = s.angles.view();
    const AttentionInput input{.q = q, .k = k, .v = v, .terms = {.angles = angles}};
    const auto loss = [&] {
      attention(input, plan, out.view(), lse.view());
      double sum = 0;
      for (std::size_t i = 0; i < out.values.size(); ++i)
        sum += out.values[i] * s.weights.values[i];
      return sum;
    };
    loss();
    const auto q_to = q_grad.view(), k_to = k_grad.view(), v_to = v_grad.view(),
               angles_to = angle_grad.view();
    attention_backward(input, plan, out.view(), lse.view(), s.weights.view(),
                       {.q = q_to, .k = k_to, .v = v_to, .terms = {.angles = angles_to}});
    const auto check = [&](Tensor<double, 4>& of, const Tensor<double, 4>& grad) {
      for (std::size_t i = 0; i < of.values.size(); i += 2) {
        const double before = of.values[i];
        of.values[i] = before + 1e-5;
        const double above = loss();
        of.values[i] = before - 1e-5;
        const double below = loss();
        of.values[i] = before;
        ASSERT_NEAR(grad.values[i], (above - below) / 2e-5, 1e-8) << i;
      }
    };
    check(s.q, q_grad);
    check(s.k, k_grad);
    check(s.angles, angle_grad);
    loss();
    const auto q_only = q_grad.values;
    attention_backward(input, plan, out.view(), lse.view(), s.weights.view(),
                       {.q = q_to, .k = k_to, .v = v_to});
    EXPECT_EQ(q_grad.values, q_only);
  }
}

// Keys that `prepare` rotates once, by sums with a state, as they are appended to a cache.
TEST(TokenRotation, DecodingFromACacheOfRotatedKeysIsTheFullPass) {
  Sample s;
  s.q = random_tensor<double, 4>({batch, keys, heads, size}, 1);
  Tensor<double, 4> whole(s.q.extents), steps(s.q.extents), angles(s.angles.extents);
  const auto q = s.q.view(), k = s.k.view(), v = s.v.view(), increments = s.angles.view();
  LayerPlan plan{plan_of()};
  plan.mask.offset = 0;
  plan.token_rotation->term = AngleTerm::increments;
  attention({.q = q, .k = k, .v = v, .terms = {.angles = increments}}, plan, whole.view());
  rotate_in_prepare(plan);
  EXPECT_FALSE(plan.token_rotation);
  Tensor<double, 3> state({batch, key_heads, 3});
  for (int64_t t = 0; t < keys; ++t) {
    const auto row = angles.view().slice(1, t, 1), new_q = q.slice(1, t, 1),
               out = steps.view().slice(1, t, 1);
    cumulative_angles(increments.slice(1, t, 1), consecutive(1, t), {}, state.view(), row);
    prepare(plan, new_q, k.slice(1, t, 1), {}, {.angles = row});
    plan.mask.offset = t;
    const auto cached = k.slice(1, 0, t + 1), values = v.slice(1, 0, t + 1);
    attention({.q = new_q, .k = cached, .v = values}, plan, out);
  }
  for (std::size_t i = 0; i < whole.values.size(); ++i)
    ASSERT_NEAR(steps.values[i], whole.values[i], 1e-14);
}

// Row 0 is padding, with NaN in its key, its angles and its query.
TEST(TokenRotation, PaddingReachesNothing) {
  Positions positions = consecutive(keys, 0, batch);
  positions.sequences[0] = Positions::padding;
  AttentionPlan plan = plan_of();
  plan.mask.offset = 0;
  plan.queries = plan.keys = borrowed(positions);
  Sample s;
  s.q = random_tensor<double, 4>({batch, keys, heads, size}, 1);
  Tensor<double, 4> clean(s.q.extents), dirty(s.q.extents);
  const auto q = s.q.view(), k = s.k.view(), v = s.v.view(), angles = s.angles.view();
  const AttentionInput input{.q = q, .k = k, .v = v, .terms = {.angles = angles}};
  attention(input, plan, clean.view());
  k(0, 0, 0, 3) = q(0, 0, 1, 4) = angles(0, 0, 1, 2) = std::numeric_limits<double>::quiet_NaN();
  attention(input, plan, dirty.view());
  EXPECT_EQ(clean.values, dirty.values);
}

TEST(TokenRotation, WrongCallsNameTheRule) {
  Sample s;
  Tensor<double, 4> out(s.q.extents);
  const auto q = s.q.view(), k = s.k.view(), v = s.v.view(), angles = s.angles.view();
  const auto error = [&](const AttentionPlan& plan, const ConstTensor& of) {
    return message_of([&] {
      attention({.q = q, .k = k, .v = v, .terms = {.angles = of}}, plan, out.view());
    });
  };
  EXPECT_EQ(error(plan_of(), {}),
            "[attention] angles must be given if, and only if, the plan has a token_rotation, "
            "got no angles");
  const auto few = angles.slice(1, 0, 3);
  EXPECT_EQ(error(plan_of(), few), "[attention] angles must be given for all keys, 5, got 3");
  AttentionPlan plan = plan_of();
  plan.mask.offset = 3;
  EXPECT_EQ(error(plan, angles),
            "[attention] queries that are rotated by the angles of tokens must be rows of the "
            "keys; with the offset, the last is row, got 5");
  const auto wide = random_tensor<double, 4>({batch, keys, heads, 3});
  const auto of_queries = wide.view();
  EXPECT_EQ(error(plan_of(), of_queries),
            "[token_angles] the heads of angles must divide those of x, 2, got 4");
}

}  // namespace token_rotation_test
}  // namespace gnomon
