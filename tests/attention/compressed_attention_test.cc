// Compares attention over a window and compressed keys with one softmax in double, and its
// gradients with finite differences.
#include "gnomon/attention/compressed_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "gnomon/attention/key_selection.h"
#include "testing.h"

namespace gnomon {
namespace compressed_attention_test {

using std::int64_t;
using testing::as_double;
using testing::message_of;
using testing::random_tensor;
using testing::Tensor;

constexpr int64_t batch = 2, tokens = 21, heads = 4, key_heads = 2, head_dim = 8, rate = 4;

template <typename T>
struct Case {
  // 3 rows of the window precede the queries, and 12 tokens the text of the window.
  int64_t before = 3, position = 12, entries_of = (position + tokens) / rate;
  Tensor<T, 4> q = random_tensor<T, 4>({batch, tokens, heads, head_dim}, 1);
  Tensor<T, 4> kv = random_tensor<T, 4>({batch, before + tokens, key_heads, head_dim}, 2);
  Tensor<T, 4> entries = random_tensor<T, 4>({batch, entries_of, key_heads, head_dim}, 3);
  Tensor<std::int32_t, 3> selected{{batch, tokens, 3}, -1};
  bool selects = false;
  AttentionPlan plan = {.mask = {.visibility = Visibility::causal, .offset = before, .left = 4},
                        .softmax = {.scale = 0.7, .sinks = {0.5, -1, 2, 0}}};
  AttentionMask mask = {.visibility = Visibility::causal, .offset = position, .rate = rate};

  explicit Case(bool with_selection) : selects(with_selection) {
    const auto index = random_tensor<float, 4>({batch, tokens, 2, 6}, 4);
    const auto weights = random_tensor<float, 3>({batch, tokens, 2}, 5);
    const auto keys = random_tensor<float, 4>({batch, entries_of, 1, 6}, 6);
    select_keys(index.view(), weights.view(), keys.view(), mask, selected.view());
    selected.view()(1, 2, 0) = selected.view()(1, 2, 1) = selected.view()(1, 2, 2) = -1;
  }
  // Valid until the next call, because tensors borrow the shapes of views.
  CompressedInput input() {
    views = {std::as_const(q).view(), std::as_const(kv).view(), std::as_const(entries).view()};
    CompressedInput all{.q = views[0], .kv = views[1], .entries = views[2]};
    if (selects) all.selected = selected_view = std::as_const(selected).view();
    return all;
  }
  std::array<View<const T, 4>, 3> views = {};
  View<const std::int32_t, 3> selected_view = {};
  bool sees(int64_t b, int64_t i, int64_t w) const {
    if (!selects) return w < (i + position + 1) / rate;
    for (int64_t n = 0; n < 3; ++n)
      if (selected.view()(b, i, n) == w) return true;
    return false;
  }
};

struct NaiveRow {
  std::vector<double> out;
  double lse = 0;
};

// One softmax over the keys of the window, the entries and the sink.
template <typename T>
NaiveRow naive_compressed(const Case<T>& c, int64_t b, int64_t i, int64_t h) {
  NaiveRow row{std::vector<double>(head_dim)};
  double sum = 0;
  const auto add = [&](const Tensor<T, 4>& rows, int64_t j) {
    double score = 0;
    for (int64_t d = 0; d < head_dim; ++d)
      score += as_double(c.q.view()(b, i, h, d)) * as_double(rows.view()(b, j, h / 2, d));
    const double p = std::exp(score * *c.plan.softmax.scale);
    sum += p;
    for (int64_t d = 0; d < head_dim; ++d)
      row.out[static_cast<std::size_t>(d)] += p * as_double(rows.view()(b, j, h / 2, d));
  };
  for (int64_t j = std::max<int64_t>(i + c.before - 4, 0); j <= i + c.before; ++j) add(c.kv, j);
  for (int64_t w = 0; w < c.entries_of; ++w)
    if (c.sees(b, i, w)) add(c.entries, w);
  if (!c.plan.softmax.sinks.empty())
    sum += std::exp(c.plan.softmax.sinks[static_cast<std::size_t>(h)]);
  for (double& one : row.out) one /= sum;
  row.lse = std::log(sum);
  return row;
}

template <typename Visit>
void each_row(const Visit& visit) {
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t i = 0; i < tokens; ++i)
      for (int64_t h = 0; h < heads; ++h) visit(b, i, h);
}

template <typename T>
void expect_naive(double tolerance) {
  for (const bool selects : {false, true}) {
    Case<T> c(selects);
    Tensor<T, 4> out({batch, tokens, heads, head_dim}), again = out;
    Tensor<Accumulator<T>, 3> lse({batch, heads, tokens});
    compressed_attention(c.input(), c.plan, c.mask, out.view(), lse.view());
    each_row([&](int64_t b, int64_t i, int64_t h) {
      const NaiveRow expected = naive_compressed(c, b, i, h);
      EXPECT_NEAR(lse.view()(b, h, i), expected.lse, tolerance);
      for (int64_t d = 0; d < head_dim; ++d)
        ASSERT_NEAR(as_double(out.view()(b, i, h, d)),
                    expected.out[static_cast<std::size_t>(d)], tolerance)
            << selects << " " << b << " " << i << " " << h;
    });
    // What a query does not see does not reach it: here the last entry, before its window ends.
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t h = 0; h < key_heads; ++h)
        c.entries.view()(b, c.entries_of - 1, h, 1) = T(NAN);
    compressed_attention(c.input(), c.plan, c.mask, again.view());
    each_row([&](int64_t b, int64_t i, int64_t h) {
      if (c.sees(b, i, c.entries_of - 1)) return;
      for (int64_t d = 0; d < head_dim; ++d)
        ASSERT_EQ(as_double(out.view()(b, i, h, d)), as_double(again.view()(b, i, h, d)));
    });
  }
}

TEST(CompressedAttention, IsOneSoftmaxOverBothSetsOfKeys) {
  expect_naive<double>(1e-13);
  expect_naive<float>(5e-6);
  expect_naive<BFloat16>(0.03);
}

TEST(CompressedAttention, GradientsAreFiniteDifferences) {
  for (const bool selects : {false, true}) {
    Case<double> c(selects);
    const auto weights = random_tensor<double, 4>({batch, tokens, heads, head_dim}, 9);
    Tensor<double, 4> out = weights, dq = c.q, dkv = c.kv, de = c.entries;
    Tensor<double, 3> lse({batch, heads, tokens});
    std::vector<double> sinks(heads);
    compressed_attention(c.input(), c.plan, c.mask, out.view(), lse.view());
    compressed_attention_backward(
        c.input(), c.plan, c.mask, out.view(), lse.view(), weights.view(),
        {.q = dq.view(), .kv = dkv.view(), .entries = de.view(), .sinks = sinks});
    const auto loss = [&] {
      double sum = 0;
      each_row([&](int64_t b, int64_t i, int64_t h) {
        const NaiveRow row = naive_compressed(c, b, i, h);
        for (int64_t d = 0; d < head_dim; ++d)
          sum += weights.view()(b, i, h, d) * row.out[static_cast<std::size_t>(d)];
      });
      return sum;
    };
    const auto expect = [&](std::vector<double>& x, const std::vector<double>& gradient,
                            std::size_t step, const char* name) {
      for (std::size_t n = 0; n < x.size(); n += step) {
        const double before = x[n];
        x[n] = before + 1e-5;
        const double up = loss();
        x[n] = before - 1e-5;
        const double down = loss();
        x[n] = before;
        ASSERT_NEAR(gradient[n], (up - down) / 2e-5, 1e-7) << name << " " << n;
      }
    };
    expect(c.q.values, dq.values, 97, "q");
    expect(c.kv.values, dkv.values, 53, "kv");
    expect(c.entries.values, de.values, 13, "entries");
    expect(c.plan.softmax.sinks, sinks, 1, "sinks");
  }
}

// Token by token, with the window's rows and the entries so far.
TEST(CompressedAttention, DecodesTheFullPass) {
  for (const bool selects : {false, true}) {
    Case<float> c(selects);
    Tensor<float, 4> out({batch, tokens, heads, head_dim}), one({batch, 1, heads, head_dim});
    compressed_attention(c.input(), c.plan, c.mask, out.view());
    for (int64_t t = 0; t < tokens; ++t) {
      AttentionPlan plan = c.plan;
      plan.mask.offset = c.before + t;
      AttentionMask mask = c.mask;
      *mask.offset += t;
      const int64_t seen = std::min((t + c.position + 1) / rate, c.entries_of);
      const auto q = c.q.view().slice(1, t, 1), kv = c.kv.view().slice(1, 0, c.before + t + 1);
      const auto entries = c.entries.view().slice(1, 0, seen);
      const auto selected = c.selected.view().slice(1, t, 1);
      CompressedInput input{.q = q, .kv = kv, .entries = entries};
      if (selects) input.selected = selected;
      compressed_attention(input, plan, mask, one.view());
      each_row([&](int64_t b, int64_t i, int64_t h) {
        if (i > 0) return;
        for (int64_t d = 0; d < head_dim; ++d)
          ASSERT_NEAR(one.view()(b, 0, h, d), out.view()(b, t, h, d), 2e-6);
      });
    }
  }
}

TEST(CompressedAttention, WithoutEntriesIsAttention) {
  Case<float> c(false);
  const Tensor<float, 4> none({batch, 0, key_heads, head_dim});
  Tensor<float, 4> out({batch, tokens, heads, head_dim}), expected = out;
  CompressedInput input = c.input();
  const View<const float, 4> empty(c.kv.values.data(), {batch, 0, key_heads, head_dim});
  input.entries = empty;
  compressed_attention(input, c.plan, c.mask, out.view());
  attention({input.q, input.kv, input.kv}, c.plan, expected.view());
  EXPECT_EQ(out.values, expected.values);
}

TEST(CompressedAttention, Errors) {
  Case<float> c(true);
  Tensor<float, 4> out({batch, tokens, heads, head_dim});
  const auto refused = [&] {
    return message_of([&] { compressed_attention(c.input(), c.plan, c.mask, out.view()); });
  };
  EXPECT_EQ(refused(), "");
  c.selected.view()(0, 3, 1) = 8;
  EXPECT_EQ(refused(), "[compressed_attention] selected must be -1 or an entry below 8, got 8");
  c = Case<float>(true);
  c.plan.bias = SlopeBias{std::vector<double>(heads, 1)};
  EXPECT_EQ(refused(),
            "[compressed_attention] the plan must have a mask and a softmax only, got a bias");
  c = Case<float>(false);
  c.entries = random_tensor<float, 4>({batch, 2, 1, head_dim});
  EXPECT_EQ(refused(), "[compressed_attention] axis 2 of entries must be 2, got 1");
}

}  // namespace compressed_attention_test
}  // namespace gnomon
