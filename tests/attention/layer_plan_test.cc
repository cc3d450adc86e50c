// Tests plans that are filled by hand: compares each step before attention with its formula in
// double.
#include "gnomon/attention/layer_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "testing.h"

namespace gnomon {
namespace layer_plan_test {

using testing::as_double;
using testing::half_ulp;
using testing::message_of;
using testing::random_tensor;
using testing::Tensor;

constexpr std::int64_t batch = 2, tokens = 5, heads = 3, key_heads = 1, size = 8;

RotaryTable turns(std::int64_t first = 0) {
  return {{.rotary_dim = 6, .pairing = Pairing::adjacent, .head_offset = 1},
          consecutive(tokens, first)};
}

// A head vector of a token, in double.
using Head = std::vector<double>;

Head turned(Head x, const RotaryTable& table, std::int64_t token) {
  for (std::int64_t i = 0; i < 3; ++i) {
    const double cos = double{table.cos()(0, token, i)}, sin = double{table.sin()(0, token, i)};
    double &a = x[static_cast<std::size_t>(1 + 2 * i)],
           &b = x[static_cast<std::size_t>(2 + 2 * i)];
    const double first = a * cos - b * sin;
    b = a * sin + b * cos, a = first;
  }
  return x;
}

double squares(const Head& x) {
  double sum = 0;
  for (const double one : x) sum += one * one;
  return sum;
}

// An RMS norm with one weight for each element.
Head normed(Head x, const WeightedNorm& norm) {
  const double root = std::sqrt(squares(x) / static_cast<double>(size) + norm.norm.epsilon);
  for (std::size_t d = 0; d < x.size(); ++d) x[d] *= double{norm.weight[d]} / root;
  return x;
}

Head scaled(Head x, double factor) {
  for (double& one : x) one *= factor;
  return x;
}

// Expects each head of `before` to become formula(head vector, token, head).
template <typename T, typename Formula>
void expect_heads(const Tensor<T, 4>& got, const Tensor<T, 4>& before, double roundings,
                  Formula formula) {
  for (std::ptrdiff_t b = 0; b < before.extents[0]; ++b)
    for (std::ptrdiff_t t = 0; t < before.extents[1]; ++t)
      for (std::ptrdiff_t h = 0; h < before.extents[2]; ++h) {
        Head x(size);
        for (std::ptrdiff_t d = 0; d < size; ++d)
          x[static_cast<std::size_t>(d)] = as_double(before.view()(b, t, h, d));
        const Head wanted = formula(x, t, h);
        const double most = std::sqrt(squares(wanted));
        const double ulp = std::max(half_ulp<T>, 0x1p-48);
        for (std::ptrdiff_t d = 0; d < size; ++d)
          ASSERT_NEAR(as_double(got.view()(b, t, h, d)), wanted[static_cast<std::size_t>(d)],
                      roundings * ulp * most)
              << b << " " << t << " " << h << " " << d;
      }
}

template <typename T>
class LayerPlanOf : public ::testing::Test {};
using Types = ::testing::Types<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(LayerPlanOf, Types);

WeightedNorm norm(unsigned seed) {
  return {.norm = {.kind = NormKind::rms, .epsilon = 0.01},
          .heads = 1,
          .head_dim = size,
          .weight = random_tensor<float, 1>({size}, seed).values};
}

TYPED_TEST(LayerPlanOf, PreparesInTheOrderOfItsFields) {
  using T = TypeParam;
  const auto q = random_tensor<T, 4>({batch, tokens, heads, size}, 1);
  const auto k = random_tensor<T, 4>({batch, tokens, key_heads, size}, 2);
  const auto v = random_tensor<T, 4>({batch, tokens, key_heads, size}, 3);
  LayerPlan plan;
  plan.query_rotations = {turns(), turns(40)}, plan.key_rotations = {turns()};
  plan.query_norm = norm(4), plan.key_norm = norm(5), plan.value_norm = norm(6);
  plan.value_scale = 0.75;
  plan.query_scale = QueryTemperature{.beta = 0.5, .length = 2};
  plan.scale_positions = std::make_shared<Positions>(consecutive(tokens));
  for (const NormOrder order : {NormOrder::before_rotation, NormOrder::after_rotation}) {
    plan.norm_order = order;
    const bool before = order == NormOrder::before_rotation;
    auto new_q = q, new_k = k, new_v = v;
    prepare(plan, new_q.view(), new_k.view(), new_v.view());
    expect_heads(new_q, q, 8, [&](Head x, std::int64_t t, std::int64_t) {
      if (before) x = normed(x, *plan.query_norm);
      x = turned(turned(x, turns(), t), turns(40), t);
      if (!before) x = normed(x, *plan.query_norm);
      return scaled(x, query_scale(*plan.query_scale, t));
    });
    expect_heads(new_k, k, 8, [&](Head x, std::int64_t t, std::int64_t) {
      if (before) return turned(normed(x, *plan.key_norm), turns(), t);
      return normed(turned(x, turns(), t), *plan.key_norm);
    });
    expect_heads(new_v, v, 4, [&](const Head& x, std::int64_t, std::int64_t) {
      return scaled(normed(x, *plan.value_norm), plan.value_scale);
    });
  }
}

TYPED_TEST(LayerPlanOf, BringsVectorsOfCosineAttentionToTheirLength) {
  using T = TypeParam;
  auto q = random_tensor<T, 4>({batch, tokens, heads, size}, 1);
  auto k = random_tensor<T, 4>({batch, tokens, key_heads, size}, 2);
  const auto q_before = q, k_before = k;
  LayerPlan plan;
  plan.query_rotations = plan.key_rotations = {turns()};
  plan.cosine = {10, 1.5, 0.25};
  prepare(plan, q.view(), k.view());
  expect_heads(q, q_before, 8, [&](const Head& x, std::int64_t t, std::int64_t h) {
    const Head y = turned(x, turns(), t);
    return scaled(y, plan.cosine[static_cast<std::size_t>(h)] / std::sqrt(squares(y)));
  });
  expect_heads(k, k_before, 8, [&](const Head& x, std::int64_t t, std::int64_t) {
    const Head y = turned(x, turns(), t);
    return scaled(y, 1 / std::sqrt(squares(y)));
  });
}

TYPED_TEST(LayerPlanOf, AddsItsTableToTheEmbeddings) {
  using T = TypeParam;
  const auto before = random_tensor<T, 3>({batch, tokens, 12}, 1);
  const auto numbers = random_tensor<float, 2>({batch * tokens, 12}, 2);
  // A table shared by the batch, or with a row for each token of it.
  for (const std::int64_t rows : {tokens, batch * tokens}) {
    LayerPlan plan;
    plan.table =
        EmbeddingTable{rows, 12, {numbers.values.begin(), numbers.values.begin() + rows * 12}};
    auto x = before, in_layer = before;
    EXPECT_FALSE(has_own_input(plan));
    add_position(plan, x.view());
    prepare_input(plan, heads, in_layer.view());
    EXPECT_EQ(in_layer.values, before.values);
    for (std::ptrdiff_t b = 0; b < batch; ++b)
      for (std::ptrdiff_t t = 0; t < tokens; ++t)
        for (std::ptrdiff_t c = 0; c < 12; ++c) {
          const double wanted = as_double(before.view()(b, t, c)) +
                                double{numbers.view()((b * tokens + t) % rows, c)};
          ASSERT_NEAR(as_double(x.view()(b, t, c)), wanted, half_ulp<T> * std::abs(wanted));
        }
    plan.table_in_layers = true;
    EXPECT_TRUE(has_own_input(plan));
    auto again = before;
    add_position(plan, again.view());
    EXPECT_EQ(again.values, before.values);
    prepare_input(plan, heads, again.view());
    EXPECT_EQ(again.values, x.values);
  }
}

// Conformer: the elements of the input are rotated head by head.
TYPED_TEST(LayerPlanOf, RotatesTheLayersInputByHeads) {
  using T = TypeParam;
  const auto before = random_tensor<T, 4>({batch, tokens, heads, size}, 1);
  auto x = before;
  LayerPlan plan;
  plan.hidden_rotary = turns();
  EXPECT_TRUE(has_own_input(plan));
  prepare_input(plan, heads, View<T, 3>(x.values.data(), {batch, tokens, heads * size}));
  expect_heads(x, before, 2, [&](const Head& one, std::int64_t t, std::int64_t) {
    return turned(one, turns(), t);
  });
}

TEST(LayerPlan, AnEmptyOneChangesNothing) {
  auto q = random_tensor<float, 4>({batch, tokens, heads, size}, 1);
  auto x = random_tensor<float, 3>({batch, tokens, 12}, 2);
  const auto q_before = q.values, x_before = x.values;
  prepare({}, q.view(), {});
  prepare({}, {}, q.view(), q.view());
  add_position({}, x.view());
  prepare_input({}, 5, x.view());
  EXPECT_EQ(q.values, q_before);
  EXPECT_EQ(x.values, x_before);
}

// Keys rotated once, before they are appended to a cache, or by attention in each pass.
TEST(LayerPlan, RotatesInPrepareOrInAttention) {
  auto q = random_tensor<double, 4>({batch, tokens, heads, size}, 1);
  auto k = random_tensor<double, 4>({batch, tokens, key_heads, size}, 2);
  const auto v = random_tensor<double, 4>({batch, tokens, key_heads, size}, 3);
  Tensor<double, 4> inside(q.extents), before(q.extents);
  LayerPlan plan{{.mask = {.visibility = Visibility::causal},
                  .query_rotary = turns(),
                  .key_rotary = turns()}};
  prepare(plan, q.view(), k.view());
  attention({q.view(), k.view(), v.view()}, plan, inside.view());
  rotate_in_prepare(plan);
  EXPECT_FALSE(plan.query_rotary || plan.key_rotary);
  EXPECT_EQ(plan.query_rotations.size(), 1U);
  EXPECT_EQ(plan.key_rotations.size(), 1U);
  prepare(plan, q.view(), k.view());
  attention({q.view(), k.view(), v.view()}, plan, before.view());
  for (std::size_t i = 0; i < inside.values.size(); ++i)
    EXPECT_NEAR(inside.values[i], before.values[i], 1e-13);
}

// Keys that are values (DeepSeek-V4): the loss as a function of q and kv, with sums in double.
double shared_loss(const Tensor<double, 4>& q, const Tensor<double, 4>& kv,
                   const Tensor<double, 4>& weights) {
  double loss = 0;
  const auto head = [](const Tensor<double, 4>& x, std::int64_t b, std::int64_t t,
                       std::int64_t h) {
    Head one(size);
    for (std::int64_t d = 0; d < size; ++d)
      one[static_cast<std::size_t>(d)] = x.view()(b, t, h, d);
    return turned(one, turns(), t);
  };
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t t = 0; t < tokens; ++t)
      for (std::int64_t h = 0; h < heads; ++h) {
        const Head query = head(q, b, t, h);
        double sum = 0, along = 0;  // along: of the values with the rotated weights
        const Head wanted = head(weights, b, t, h);  // w . R(-t) o = (R(t) w) . o
        for (std::int64_t j = 0; j <= t; ++j) {
          const Head key = head(kv, b, j, 0);
          double score = 0, value = 0;
          for (std::size_t d = 0; d < key.size(); ++d)
            score += query[d] * key[d], value += wanted[d] * key[d];
          sum += std::exp(0.6 * score);
          along += std::exp(0.6 * score) * value;
        }
        loss += along / sum;
      }
  return loss;
}

TEST(LayerPlan, FinishRotatesTheOutputBack) {
  auto q = random_tensor<double, 4>({batch, tokens, heads, size}, 1);
  auto kv = random_tensor<double, 4>({batch, tokens, key_heads, size}, 2);
  const auto weights = random_tensor<double, 4>({batch, tokens, heads, size}, 3);
  LayerPlan plan{{.mask = {.visibility = Visibility::causal}, .softmax = {.scale = 0.6}}};
  plan.query_rotations = {turns()}, plan.key_rotations = {turns()};
  plan.output_rotary = turns();
  auto rotated_q = q, rotated_kv = kv, out = q;
  Tensor<double, 3> lse({batch, heads, tokens});
  prepare(plan, rotated_q.view(), rotated_kv.view());
  attention({rotated_q.view(), rotated_kv.view(), rotated_kv.view()}, plan, out.view(),
            lse.view());
  finish(plan, out.view());
  double loss = 0;
  for (std::size_t i = 0; i < out.values.size(); ++i) loss += out.values[i] * weights.values[i];
  EXPECT_NEAR(loss, shared_loss(q, kv, weights), 1e-12);
  // The gradient: dO and O forward, then dQ, and dK + dV, back.
  auto out_grad = weights, dq = q, dk = kv, dv = kv;
  finish_backward(plan, out_grad.view());
  finish_backward(plan, out.view());
  attention_backward({rotated_q.view(), rotated_kv.view(), rotated_kv.view()}, plan, out.view(),
                     lse.view(), out_grad.view(),
                     {.q = dq.view(), .k = dk.view(), .v = dv.view()});
  for (std::size_t i = 0; i < dk.values.size(); ++i) dk.values[i] += dv.values[i];
  rotate(dq.view(), turns(), Direction::inverse);
  rotate(dk.view(), turns(), Direction::inverse);
  const auto expect = [&](Tensor<double, 4>& x, const Tensor<double, 4>& gradient) {
    for (std::size_t i = 0; i < x.values.size(); i += 3) {
      const double before = x.values[i];
      x.values[i] = before + 1e-5;
      const double up = shared_loss(q, kv, weights);
      x.values[i] = before - 1e-5;
      const double down = shared_loss(q, kv, weights);
      x.values[i] = before;
      // The table is in float: its cos^2 + sin^2 is 1 within 1e-7.
      ASSERT_NEAR(gradient.values[i], (up - down) / 2e-5, 2e-6) << i;
    }
  };
  expect(q, dq);
  expect(kv, dk);
}

// After the plan's own rotations and, as declared, before norms; grouped heads share angles.
TEST(LayerPlan, RotatesByTheAnglesOfTokens) {
  auto q = random_tensor<double, 4>({batch, tokens, heads, size}, 1);
  auto k = random_tensor<double, 4>({batch, tokens, key_heads, size}, 2);
  const auto angles = random_tensor<double, 4>({batch, tokens, key_heads, 3}, 4);
  auto expected_q = q, expected_k = k;
  LayerPlan plan;
  plan.query_rotations = {turns()};
  plan.prepared_rotation = TokenRotation{6, Pairing::adjacent, 1};
  plan.norm_order = NormOrder::after_rotation;
  plan.key_norm = norm(4);
  rotate(expected_q.view(), turns());
  rotate_by_angles(expected_q.view(), angles.view(), *plan.prepared_rotation);
  rotate_by_angles(expected_k.view(), angles.view(), *plan.prepared_rotation);
  const auto row = [](const std::vector<float>& numbers) {
    return numbers.empty() ? View<const float, 2>()
                           : View<const float, 2>(numbers.data(), {1, size});
  };
  normalise_heads(expected_k.view(), plan.key_norm->norm, row(plan.key_norm->weight),
                  row(plan.key_norm->bias));
  prepare(plan, q.view(), k.view(), {}, {.angles = angles.view()});
  EXPECT_EQ(q.values, expected_q.values);
  EXPECT_EQ(k.values, expected_k.values);

  const char* const rule =
      "[layer] angles must be given if, and only if, the plan has a prepared_rotation, got ";
  EXPECT_EQ(message_of([&] { prepare(plan, q.view(), k.view()); }),
            std::string(rule) + "no angles");
  EXPECT_EQ(message_of([&] { prepare({}, q.view(), k.view(), {}, {.angles = angles.view()}); }),
            std::string(rule) + "angles");
  const auto of_queries = random_tensor<double, 4>({batch, tokens, heads, 3}, 4);
  EXPECT_EQ(message_of([&] { prepare(plan, {}, k.view(), {}, {.angles = of_queries.view()}); }),
            "[token_angles] the heads of angles must divide those of x, 1, got 3");
}

TEST(LayerPlan, RefusesWhatDoesNotFit) {
  auto q = random_tensor<float, 4>({batch, tokens, heads, size}, 1);
  auto x = random_tensor<float, 3>({batch, tokens, 12}, 2);
  LayerPlan plan;
  plan.query_scale = QueryTemperature{.beta = 0.5, .length = 2};
  EXPECT_EQ(message_of([&] { prepare(plan, q.view(), {}); }),
            "[layer] query_scale requires scale_positions, got none");
  plan = {};
  plan.query_norm = norm(4);
  plan.query_norm->bias = {1, 2, 3};
  EXPECT_EQ(message_of([&] { prepare(plan, q.view(), {}); }),
            "[layer] weights and biases of a norm must have 1 x 8 elements, got 3");
  plan = {};
  plan.table = EmbeddingTable{4, 12, std::vector<float>(48)};
  EXPECT_EQ(message_of([&] { add_position(plan, x.view()); }),
            "[layer] x must have 4 tokens, got 10");
  plan = {};
  plan.hidden_rotary = turns();
  EXPECT_EQ(message_of([&] { prepare_input(plan, 5, x.view()); }),
            "[layer] heads must divide the width of x, 12, got 5");
  std::vector<std::int32_t> whole(24);
  EXPECT_EQ(message_of([&] {
              prepare_input(plan, 3, View<std::int32_t, 3>(whole.data(), {1, 2, 12}));
            }),
            "[layer] x must have elements of f32, f16, bf16 or f64, got i32");
  EXPECT_EQ(message_of([&] { prepare_input(plan, 3, q.view()); }),
            "[layer] x must have 3 axes, got 4 axes, [2, 5, 3, 8]");
}

}  // namespace layer_plan_test
}  // namespace gnomon
