// The naive versions, compared with the kernels. Other tests check the bounds of the kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gnomon/angles.h"
#include "gnomon/attention/attention.h"
#include "gnomon/attention/cosine.h"
#include "gnomon/bias/form.h"
#include "gnomon/embedding/projection.h"
#include "gnomon/embedding/sinusoidal.h"
#include "gnomon/embedding/table.h"
#include "gnomon/relative/form.h"
#include "gnomon/rotary/cached_keys.h"
#include "gnomon/rotary/decoding.h"
#include "gnomon/rotary/int8_keys.h"
#include "gnomon/rotary/paged_append.h"
#include "gnomon/rotary/rotary.h"
#include "gnomon/rotary/temperature.h"
#include "naive/attention.h"
#include "naive/bias.h"
#include "naive/embedding.h"
#include "naive/rotary.h"
#include "testing.h"

namespace gnomon {
namespace naive_test {

using testing::iota;
using testing::random_tensor;
using testing::Tensor;

constexpr double table_rounding = 1e-6;  // tables and sums in float

template <std::size_t Rank>
void expect_near(const Tensor<double, Rank>& got, const Tensor<double, Rank>& naive,
                 double tolerance) {
  ASSERT_EQ(got.values.size(), naive.values.size());
  for (std::size_t i = 0; i < got.values.size(); ++i)
    ASSERT_NEAR(got.values[i], naive.values[i], tolerance) << i;
}

constexpr std::array<std::ptrdiff_t, 3> heads_shape = {7, 2, 12};  // [T, H, D]

RotaryFrequencies frequencies_of(Pairing pairing, double base = 1e4) {
  return lower(Rotary{.rotary_dim = 8, .pairing = pairing, .base = base, .head_offset = 2});
}

TEST(Naive, CosSin) {
  const std::vector<std::int64_t> positions = iota(1000, 5);
  const std::vector<double> frequencies = {1, 0.25, 0.01};
  Tensor<double, 2> cos({5, 3}), sin({5, 3}), naive_cos({5, 3}), naive_sin({5, 3});
  fill_cos_sin(positions, frequencies, cos.view(), sin.view());
  testing::naive_cos_sin(positions, frequencies, naive_cos.view(), naive_sin.view());
  expect_near(cos, naive_cos, 1e-12);
  expect_near(sin, naive_sin, 1e-12);
}

TEST(Naive, Rotate) {
  const std::vector<std::int64_t> positions = iota(100, heads_shape[0]);
  for (const Pairing pairing : {Pairing::halves, Pairing::adjacent})
    for (const Direction direction : {Direction::forward, Direction::inverse}) {
      const RotaryFrequencies frequencies = frequencies_of(pairing);
      auto x = random_tensor<double, 3>(heads_shape), naive = x, at = x;
      rotate(x.view(), RotaryTable(frequencies, positions), direction);
      testing::naive_rotate(naive.view(), positions, frequencies, direction);
      expect_near(x, naive, table_rounding);
      if (direction == Direction::inverse) continue;
      rotate_at(at.view(), View<const std::int64_t, 1>(positions.data(), {heads_shape[0]}),
                frequencies);
      expect_near(at, naive, table_rounding);
    }
}

TEST(Naive, CachedKeys) {
  const auto positions = consecutive(heads_shape[0], 40);
  const auto from = frequencies_of(Pairing::halves), to = frequencies_of(Pairing::halves, 5e4);
  auto keys = random_tensor<double, 3>(heads_shape), naive = keys;
  shift_keys(keys.view(), from, -9);
  testing::naive_shift_keys(naive.view(), from, -9);
  expect_near(keys, naive, table_rounding);
  rerotate_keys(keys.view(), from, to, positions);
  testing::naive_rerotate_keys(naive.view(), positions.ids, from, to);
  expect_near(keys, naive, table_rounding);
}

TEST(Naive, Int8Keys) {
  const auto x = random_tensor<float, 3>(heads_shape);
  Tensor<double, 3> same(heads_shape);
  std::copy(x.values.begin(), x.values.end(), same.values.begin());
  Tensor<std::int8_t, 3> slot(heads_shape), naive(heads_shape);
  Tensor<float, 2> scales({heads_shape[0], heads_shape[1]});
  Tensor<double, 2> naive_scales({heads_shape[0], heads_shape[1]});
  copy_append(x.view(), slot.view(), scales.view());
  testing::naive_quantize(same.view(), naive.view(), naive_scales.view());
  for (std::size_t i = 0; i < slot.values.size(); ++i)
    EXPECT_LE(std::abs(slot.values[i] - naive.values[i]), 1) << i;  // halves, rounded in float
  for (std::size_t i = 0; i < scales.values.size(); ++i)
    EXPECT_NEAR(scales.values[i], naive_scales.values[i], table_rounding);
}

TEST(Naive, PagedAppend) {
  const auto x = random_tensor<double, 3>({3, 2, 4});
  const std::vector<std::int64_t> slots = {5, -1, 2};
  Tensor<double, 4> pages({2, 3, 2, 4}), naive({2, 3, 2, 4});
  const View<double, 4> view = pages.view();
  const View<const std::int64_t, 1> of_tokens(slots.data(), {3});
  copy_append(x.view(), {}, {.keys = view, .slots = of_tokens});
  testing::naive_paged_append(x.view(), slots, naive.view());
  expect_near(pages, naive, 0);
}

TEST(Naive, QueryTemperature) {
  const QueryTemperature temperature{.beta = 0.1, .length = 3, .shift = 1};
  auto q = random_tensor<double, 3>(heads_shape), naive = q;
  scale_queries(q.view(), temperature, consecutive(heads_shape[0]));
  testing::naive_scale_queries(naive.view(), temperature, iota(0, heads_shape[0]));
  expect_near(q, naive, 1e-14);
}

TEST(Naive, Sinusoidal) {
  using enum SinusoidalRecipe;
  for (const SinusoidalRecipe recipe : {interleaved, half_split, tensor2tensor, timestep})
    for (const std::int64_t width : {8, 9}) {
      Sinusoidal spec{.width = width, .recipe = recipe, .scale = 0.5};
      if (recipe == timestep) spec.order = SinusoidalOrder::cosine_first;
      Tensor<double, 2> table({6, width}), naive({6, width});
      fill(spec, std::span<const std::int64_t>(iota(3, 6)), table.view());
      for (std::int64_t t = 0; t < 6; ++t)
        for (std::int64_t c = 0; c < width; ++c)
          naive.view()(t, c) = testing::naive_sinusoidal(spec, static_cast<double>(3 + t), c);
      expect_near(table, naive, 1e-12);
    }
}

TEST(Naive, EmbeddingTables) {
  const auto table = random_tensor<float, 2>({5, 6}, 2);
  Tensor<double, 2> same({5, 6});
  std::copy(table.values.begin(), table.values.end(), same.values.begin());
  auto x = random_tensor<double, 3>({3, 5, 6}), naive = x;
  add_table(x.view(), table.view(), 0.5f);
  testing::naive_add_table(naive.view(), same.view(), 0.5);
  expect_near(x, naive, 1e-14);
  Tensor<std::int64_t, 2> rows({3, 5});
  for (std::size_t i = 0; i < rows.values.size(); ++i)
    rows.values[i] = static_cast<std::int64_t>(i * i % 5);
  add_rows(x.view(), table.view(), rows.view());
  testing::naive_add_rows(naive.view(), same.view(), rows.view());
  expect_near(x, naive, 1e-14);

  Tensor<float, 2> grad({5, 6});
  Tensor<double, 2> naive_grad({5, 6});
  add_table_backward(x.view(), 0.5f, grad.view());
  add_rows_backward(x.view(), rows.view(), grad.view());
  testing::naive_add_table_backward(x.view(), 0.5, naive_grad.view());
  testing::naive_add_rows_backward(x.view(), rows.view(), naive_grad.view());
  for (std::size_t i = 0; i < grad.values.size(); ++i)
    EXPECT_NEAR(grad.values[i], naive_grad.values[i], 1e-5);
}

TEST(Naive, Projection) {
  const auto features = random_tensor<double, 2>({4, 3}),
             grad = random_tensor<double, 2>({4, 5});
  const auto weights = random_tensor<double, 2>({3, 5}, 3);
  Tensor<double, 2> out({4, 5}), naive({4, 5}), sum({3, 5}), naive_sum({3, 5});
  project<double>(features.view(), weights.view(), out.view());
  testing::naive_project(features.view(), weights.view(), naive.view());
  expect_near(out, naive, 1e-14);
  project_backward<double>(features.view(), grad.view(), sum.view());
  testing::naive_project_backward(features.view(), grad.view(), naive_sum.view());
  expect_near(sum, naive_sum, 1e-14);
}

TEST(Naive, BiasForms) {
  constexpr std::int64_t heads = 2, offset = 2, queries = 7, keys = 9;
  const auto numbers = [](std::int64_t count, unsigned seed) {
    return testing::random_numbers(static_cast<std::size_t>(count), seed);
  };
  const StripBias strip{heads, -8, numbers(heads * 15, 1)};
  const GridBias grid{
      .heads = heads, .height = 3, .width = 3, .leading = 1, .values = numbers(heads * 28, 2)};
  const AxesBias axes{heads,
                      {{-8, numbers(heads * 17, 3), {}},
                       {-3, numbers(heads * 7, 4), {0, 1, 2, 3, 0, 1, 2, 3, 0, 1}}}};
  const PiecewiseLogBias piecewise{.heads = heads,
                                   .c = 0.5,
                                   .threshold = 4,
                                   .epsilon = 1e-6,
                                   .knots = {0, 0.41, 0.77},
                                   .offsets = numbers(6, 5),
                                   .slopes = numbers(6, 6)};
  const auto matrix = random_tensor<float, 4>({1, heads, queries, keys}, 7);
  for (const BiasForm& form :
       {BiasForm(SlopeBias{{0.5, 0.25}}), BiasForm(strip), BiasForm(grid), BiasForm(axes),
        BiasForm(piecewise), BiasForm(DenseBias{matrix.view()})}) {
    // A dense bias is indexed by rows.
    const std::int64_t shift = std::holds_alternative<DenseBias>(form) ? 0 : offset;
    Tensor<double, 3> out({heads, queries, keys}), naive({heads, queries, keys});
    dense(form, shift, out.view());
    testing::naive_dense(form, shift, naive.view());
    expect_near(out, naive, 1e-12);
  }
  const auto grad = random_tensor<float, 3>({heads, queries, keys}, 8);
  Tensor<double, 3> same({heads, queries, keys});
  std::copy(grad.values.begin(), grad.values.end(), same.values.begin());
  const auto sums = add_bias_backward(grad.view(), strip, offset).values;
  const auto naive = testing::naive_add_bias_backward(strip, offset, same.view());
  ASSERT_EQ(sums.size(), naive.size());
  for (std::size_t i = 0; i < sums.size(); ++i) EXPECT_NEAR(sums[i], naive[i], 1e-12);
}

TEST(Naive, Attention) {
  constexpr std::int64_t tokens = 5, keys = 7, size = 4, value_size = 3;
  const auto q = random_tensor<double, 2>({tokens, size}, 1),
             k = random_tensor<double, 2>({keys, size}, 2),
             v = random_tensor<double, 2>({keys, value_size}, 3),
             out_grad = random_tensor<double, 2>({tokens, value_size}, 4);
  Tensor<double, 2> bias({tokens, keys}), naive({tokens, value_size});
  for (std::int64_t i = 0; i < tokens; ++i)
    for (std::int64_t j = 0; j < keys; ++j)
      bias.view()(i, j) = j <= i + keys - tokens
                              ? -0.25 * std::abs(static_cast<double>(j - i - keys + tokens))
                              : -std::numeric_limits<double>::infinity();
  testing::naive_attention(q.view(), k.view(), v.view(), bias.view(), 0.5, naive.view());

  const AttentionPlan plan{.mask = {.visibility = Visibility::causal, .offset = keys - tokens},
                           .softmax = {.scale = 0.5},
                           .bias = SlopeBias{{0.25}}};
  const auto all = [](const auto& x) {
    return View<const double, 4>(x.values.data(), {1, x.extents[0], 1, x.extents[1]});
  };
  const auto to = [](auto& x) {
    return View<double, 4>(x.values.data(), {1, x.extents[0], 1, x.extents[1]});
  };
  Tensor<double, 2> out({tokens, value_size});
  Tensor<double, 3> lse({1, 1, tokens});
  attention({all(q), all(k), all(v)}, plan, to(out), lse.view());
  expect_near(out, naive, 1e-12);

  Tensor<double, 2> dq({tokens, size}), dk({keys, size}), dv({keys, value_size}),
      naive_dq = dq, naive_dk = dk, naive_dv = dv, naive_bias({tokens, keys});
  BiasGradient slope;
  attention_backward({all(q), all(k), all(v)}, plan, all(out), lse.view(), all(out_grad),
                     {.q = to(dq), .k = to(dk), .v = to(dv), .bias = &slope});
  testing::naive_attention_backward(q.view(), k.view(), v.view(), bias.view(), 0.5,
                                    out_grad.view(), naive_dq.view(), naive_dk.view(),
                                    naive_dv.view(), naive_bias.view());
  expect_near(dq, naive_dq, 1e-12);
  expect_near(dk, naive_dk, 1e-12);
  expect_near(dv, naive_dv, 1e-12);
  double of_slope = 0;
  for (std::int64_t i = 0; i < tokens; ++i)
    for (std::int64_t j = 0; j <= i + keys - tokens; ++j)
      of_slope -=
          naive_bias.view()(i, j) * std::abs(static_cast<double>(j - i - keys + tokens));
  ASSERT_EQ(slope.values.size(), 1u);
  EXPECT_NEAR(slope.values[0], of_slope, 1e-12);
}

TEST(Naive, RelativeScores) {
  constexpr std::int64_t tokens = 3, keys = 5, size = 4, offset = 2, distances = 9;
  const auto q = random_tensor<double, 3>({tokens, 1, size}, 1),
             k = random_tensor<double, 3>({keys, 1, size}, 2);
  RelativeForm form;
  for (auto* part : {&form.keys, &form.queries})
    part->push_back({.heads = 1,
                     .head_dim = size,
                     .min_distance = -4,
                     .rows = {0, 1, 2, 3, 4, 5, 6, 7, 8},
                     .values = testing::random_numbers(distances * size, 5)});
  form.shift = testing::random_numbers(size, 6);
  Tensor<double, 3> out({1, tokens, keys});
  Tensor<double, 2> naive({tokens, keys});
  relative_scores(form, offset, q.view(), k.view(), out.view());
  const View<const double, 2> vectors(form.keys[0].values.data(), {distances, size}),
      of_queries(form.queries[0].values.data(), {distances, size});
  const View<const double, 1> shift(form.shift.data(), {size});
  const View<const double, 2> one_q(q.values.data(), {tokens, size}),
      one_k(k.values.data(), {keys, size});
  testing::naive_relative_scores(one_q, one_k, vectors, of_queries, shift, -4, offset,
                                 naive.view());
  for (std::size_t i = 0; i < out.values.size(); ++i)
    EXPECT_NEAR(out.values[i], naive.values[i], 1e-13);

  // The terms are linear in the vectors: the gradient of a direction is the terms of it.
  const auto grad = random_tensor<double, 2>({tokens, keys}, 7);
  Tensor<double, 2> keys_grad({distances, size}), queries_grad({distances, size});
  testing::naive_relative_scores_backward(one_q, one_k, shift, -4, offset, grad.view(),
                                          keys_grad.view(), queries_grad.view());
  double by_vectors = 0, by_terms = 0;
  for (std::size_t i = 0; i < keys_grad.values.size(); ++i)
    by_vectors += keys_grad.values[i] * form.keys[0].values[i] +
                  queries_grad.values[i] * form.queries[0].values[i];
  for (std::int64_t i = 0; i < tokens; ++i)
    for (std::int64_t j = 0; j < keys; ++j) {
      double of_shift = 0;
      for (std::int64_t d = 0; d < size; ++d) of_shift += shift(d) * one_k(j, d);
      by_terms += grad.view()(i, j) * (naive.view()(i, j) - of_shift);
    }
  EXPECT_NEAR(by_vectors, by_terms, 1e-12);
}

TEST(Naive, Cosine) {
  const auto x = random_tensor<double, 4>({1, 1, 1, 9}, 1),
             grad = random_tensor<double, 4>({1, 1, 1, 9}, 2);
  Tensor<double, 4> out({1, 1, 1, 9}), x_grad({1, 1, 1, 9});
  Tensor<double, 1> naive({9}), naive_grad({9});
  const std::vector<double> scales = {1.5};
  const View<const double, 1> one(x.values.data(), {9}), its_grad(grad.values.data(), {9});
  normalise(x.view(), scales, out.view());
  normalise_backward(x.view(), grad.view(), scales, x_grad.view());
  testing::naive_normalise(one, 1.5, naive.view());
  testing::naive_normalise_backward(one, 1.5, its_grad, naive_grad.view());
  for (std::size_t d = 0; d < 9; ++d) {
    EXPECT_NEAR(out.values[d], naive.values[d], 1e-14);
    EXPECT_NEAR(x_grad.values[d], naive_grad.values[d], 1e-14);
  }
}

}  // namespace naive_test
}  // namespace gnomon
