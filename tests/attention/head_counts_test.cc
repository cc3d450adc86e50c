// Every number of heads from 1 to 257, also grouped, and calls without tokens: rotation,
// biases, attention and the KV cache, against formulas in double.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "gnomon/attention/attention.h"
#include "gnomon/attention/kv_cache.h"
#include "gnomon/bias/alibi.h"
#include "gnomon/bias/t5.h"
#include "gnomon/rotary/rotary.h"
#include "testing.h"

namespace gnomon {
namespace head_counts_test {

using std::int64_t;
using testing::random_tensor;
using testing::Tensor;

constexpr int64_t most_heads = 257, batch = 2, tokens = 3, size = 4;

// Rotated elements of a head, in pairs (i, i + size / 2), base 10000.
double rotated(const View<const float, 4>& x, int64_t b, int64_t t, int64_t h, int64_t d,
               int64_t position) {
  const int64_t half = size / 2, i = d % half;
  const double angle =
      static_cast<double>(position) * std::pow(10'000.0, -2.0 * static_cast<double>(i) / size);
  const double first = x(b, t, h, i), second = x(b, t, h, i + half);
  return d < half ? first * std::cos(angle) - second * std::sin(angle)
                  : second * std::cos(angle) + first * std::sin(angle);
}

TEST(HeadCounts, EachIsRotated) {
  const RotaryTable table({.rotary_dim = size, .pairing = Pairing::halves},
                          testing::iota(5, tokens));
  for (int64_t heads = 1; heads <= most_heads; ++heads) {
    const auto q = random_tensor<float, 4>({batch, tokens, heads, size}, 1);
    auto out = q;
    rotate(out.view(), table);
    double worst = 0;
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t t = 0; t < tokens; ++t)
        for (int64_t h = 0; h < heads; ++h)
          for (int64_t d = 0; d < size; ++d)
            worst = std::max(
                worst, std::abs(out.view()(b, t, h, d) - rotated(q.view(), b, t, h, d, 5 + t)));
    EXPECT_LT(worst, 3 * 0x1p-24 * 10) << heads;
  }
}

// The slopes by the rule of the paper: those of the greatest power of two, then every second
// one of the next.
TEST(HeadCounts, EachHasABias) {
  for (int64_t heads = 1; heads <= most_heads; ++heads) {
    int64_t power = 1;
    while (2 * power <= heads) power *= 2;
    const std::vector<double> slope = slopes({.heads = heads});
    ASSERT_EQ(std::ssize(slope), heads);
    Tensor<double, 3> bias({heads, 2, 3});
    dense(lower(Alibi{.heads = heads}), 1, bias.view());
    for (int64_t h = 0; h < heads; ++h) {
      const double exponent =
          h < power
              ? -8.0 * static_cast<double>(h + 1) / static_cast<double>(power)
              : -4.0 * static_cast<double>(2 * (h - power) + 1) / static_cast<double>(power);
      const double exact = std::exp2(exponent);
      EXPECT_NEAR(slope[static_cast<std::size_t>(h)], exact, exact * 0x1p-50) << heads;
      EXPECT_NEAR(bias.view()(h, 1, 0), -2 * exact, exact * 0x1p-49) << heads << ' ' << h;
      EXPECT_EQ(bias.view()(h, 0, 1), 0) << heads << ' ' << h;
    }
    // T5, 4 buckets of distances up to 2: bucket d for the past, 0 for the future.
    const T5Bias t5{
        .heads = heads, .direction = T5Direction::causal, .buckets = 4, .max_distance = 8};
    const auto values = random_tensor<float, 2>({4, heads}, 2);
    const BiasForm form = lower(t5, values.view(), -2, 4);
    Tensor<float, 3> of_t5({heads, 2, 3});
    dense(form, 1, of_t5.view());
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < 2; ++i)
        for (int64_t j = 0; j < 3; ++j)
          EXPECT_EQ(of_t5.view()(h, i, j), values.view()(std::max<int64_t>(0, i + 1 - j), h))
              << heads;
  }
}

struct Inputs {
  Tensor<float, 4> q, k, v;
};
Inputs inputs(int64_t heads, int64_t key_heads) {
  return {random_tensor<float, 4>({batch, tokens, heads, size}, 1),
          random_tensor<float, 4>({batch, tokens, key_heads, size}, 2),
          random_tensor<float, 4>({batch, tokens, key_heads, size}, 3)};
}

// The greatest error of causal attention with ALiBi.
double error(const Inputs& x, const View<const float, 4>& out) {
  const int64_t heads = x.q.extents[2], group = heads / x.k.extents[2];
  const std::vector<double> slope = slopes({.heads = heads});
  double worst = 0;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t i = 0; i < tokens; ++i)
      for (int64_t h = 0; h < heads; ++h) {
        std::vector<double> weight;
        double sum = 0;
        for (int64_t j = 0; j <= i; ++j) {
          double dot = 0;
          for (int64_t d = 0; d < size; ++d)
            dot += double{x.q.view()(b, i, h, d)} * double{x.k.view()(b, j, h / group, d)};
          weight.push_back(std::exp(dot / 2 - slope[static_cast<std::size_t>(h)] *
                                                  static_cast<double>(i - j)));
          sum += weight.back();
        }
        for (int64_t d = 0; d < size; ++d) {
          double exact = 0;
          for (int64_t j = 0; j <= i; ++j)
            exact += weight[static_cast<std::size_t>(j)] / sum *
                     double{x.v.view()(b, j, h / group, d)};
          worst = std::max(worst, std::abs(out(b, i, h, d) - exact));
        }
      }
  return worst;
}

TEST(HeadCounts, EachIsAttendedTo) {
  for (int64_t heads = 1; heads <= most_heads; ++heads) {
    const AttentionPlan plan{.mask = {.visibility = Visibility::causal},
                             .bias = lower(Alibi{.heads = heads})};
    for (int64_t key_heads : {int64_t{1}, heads % 3 ? heads : heads / 3, heads}) {
      const Inputs x = inputs(heads, key_heads);
      Tensor<float, 4> out(x.q.extents);
      attention({x.q.view(), x.k.view(), x.v.view()}, plan, out.view());
      EXPECT_LT(error(x, std::as_const(out).view()), 0x1p-17 * 5) << heads << ' ' << key_heads;
    }
  }
}

TEST(HeadCounts, EachIsCached) {
  for (int64_t heads = 1; heads <= most_heads; ++heads) {
    const Inputs x = inputs(heads, heads);
    KvCache<float> cache(
        {.batch = batch, .capacity = 4, .heads = heads, .head_dim = size, .value_dim = size},
        lower(Rotary{.rotary_dim = size, .pairing = Pairing::halves}));
    cache.append(x.k.view(), x.v.view(), consecutive(tokens, 7, batch));
    double worst = 0;
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t t = 0; t < tokens; ++t)
        for (int64_t h = 0; h < heads; ++h)
          for (int64_t d = 0; d < size; ++d) {
            worst = std::max(worst, std::abs(cache.keys()(b, t, h, d) -
                                             rotated(x.k.view(), b, t, h, d, 7 + t)));
            EXPECT_EQ(cache.values()(b, t, h, d), x.v.view()(b, t, h, d));
          }
    EXPECT_LT(worst, 3 * 0x1p-24 * 10) << heads;
  }
}

// No tokens, no keys, or no row of a batch: nothing is written, and nothing is refused.
TEST(HeadCounts, CallsWithoutTokensDoNothing) {
  const RotaryTable none({.rotary_dim = size, .pairing = Pairing::halves},
                         std::vector<int64_t>{});
  Tensor<float, 4> empty({batch, 0, 2, size}), no_rows({0, tokens, 2, size});
  rotate(empty.view(), none);
  AttentionPlan plan{.mask = {.visibility = Visibility::causal}};
  attention({empty.view(), empty.view(), empty.view()}, plan, empty.view());
  attention({no_rows.view(), no_rows.view(), no_rows.view()}, plan, no_rows.view());
  // Queries that have no keys get zeros.
  const auto q = random_tensor<float, 4>({batch, tokens, 2, size}, 1);
  Tensor<float, 4> out(q.extents, 5.0f);
  plan.mask.visibility = Visibility::bidirectional;
  plan.mask.offset = 0;
  attention({q.view(), empty.view(), empty.view()}, plan, out.view());
  for (const float one : out.values) EXPECT_EQ(one, 0);
}

}  // namespace head_counts_test
}  // namespace gnomon
