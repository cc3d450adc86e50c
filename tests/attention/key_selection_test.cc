// Compares the selection of keys with scores in double and a sort.
#include "gnomon/attention/key_selection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "gnomon/parallel.h"
#include "testing.h"

namespace gnomon {
namespace key_selection_test {

using std::int64_t;
using testing::as_double;
using ::testing::HasSubstr;
using testing::message_of;
using testing::random_tensor;
using testing::Tensor;

// The rows of the greatest scores in ascending order, then -1.
template <typename T>
std::vector<std::int32_t> naive_select(View<const T, 4> q, View<const T, 3> weights,
                                       View<const T, 4> keys, int64_t visible, int64_t kept,
                                       int64_t b, int64_t t) {
  std::vector<double> scores;
  for (int64_t w = 0; w < visible; ++w) {
    double score = 0;
    for (int64_t h = 0; h < q.extent(2); ++h) {
      double product = 0;
      for (int64_t d = 0; d < q.extent(3); ++d)
        product += as_double(q(b, t, h, d)) * as_double(keys(b, w, 0, d));
      score += as_double(weights(b, t, h)) * std::max(product, 0.);
    }
    scores.push_back(score);
  }
  std::vector<std::int32_t> rows(scores.size());
  std::iota(rows.begin(), rows.end(), 0);
  std::stable_sort(rows.begin(), rows.end(), [&](auto a, auto c) {
    return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(c)];
  });
  rows.resize(std::min(rows.size(), static_cast<std::size_t>(kept)));
  std::sort(rows.begin(), rows.end());
  rows.resize(static_cast<std::size_t>(kept), -1);
  return rows;
}

template <typename T>
void expect_naive(int64_t tokens, int64_t entries, int64_t rate, int64_t offset, int64_t kept) {
  const auto q = random_tensor<T, 4>({2, tokens, 3, 20}, 1);
  const auto weights = random_tensor<T, 3>({2, tokens, 3}, 2);
  auto keys = random_tensor<T, 4>({2, entries, 1, 20}, 3);
  Tensor<std::int32_t, 3> selected({2, tokens, kept}, 9);
  const AttentionMask mask{.visibility = Visibility::causal, .offset = offset, .rate = rate};
  const int64_t last = (offset + tokens) / rate;  // entries that the last query sees
  for (int64_t w = last; w < entries; ++w) keys.view()(1, w, 0, 0) = T(NAN);
  select_keys(q.view(), weights.view(), keys.view(), mask, selected.view());
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t t = 0; t < tokens; ++t) {
      const int64_t visible = std::min((t + offset + 1) / rate, entries);
      const auto expected =
          naive_select<T>(q.view(), weights.view(), keys.view(), visible, kept, b, t);
      for (int64_t i = 0; i < kept; ++i)
        ASSERT_EQ(selected.view()(b, t, i), expected[static_cast<std::size_t>(i)])
            << b << " " << t << " " << i;
    }
  // One query at a time, with another number of threads.
  const int before = threads();
  set_threads(before == 1 ? 3 : 1);
  for (int64_t t = 0; t < tokens; t += 7) {
    Tensor<std::int32_t, 3> one({2, 1, kept}, 9);
    select_keys(q.view().slice(1, t, 1), weights.view().slice(1, t, 1), keys.view(),
                {.visibility = Visibility::causal, .offset = offset + t, .rate = rate},
                one.view());
    for (int64_t i = 0; i < kept; ++i) EXPECT_EQ(one.view()(1, 0, i), selected.view()(1, t, i));
  }
  set_threads(before);
}

TEST(KeySelection, IsThatOfASort) {
  expect_naive<float>(21, 6, 4, 0, 3);
  expect_naive<double>(9, 300, 4, 1180, 17);  // two tiles of keys
  expect_naive<Half>(9, 40, 1, 30, 8);
  expect_naive<float>(5, 2, 4, 0, 3);  // all that are visible
}

TEST(KeySelection, OfEqualScoresTheLowerRow) {
  Tensor<float, 4> q({1, 1, 2, 4}, 1.f), keys({1, 6, 1, 4}, -1.f);
  Tensor<float, 3> weights({1, 1, 2}, 1.f);
  Tensor<std::int32_t, 3> selected({1, 1, 3}, 9);
  keys.view()(0, 4, 0, 0) = 9;
  const auto select = [&] {
    select_keys(q.view(), weights.view(), keys.view(),
                {.visibility = Visibility::bidirectional}, selected.view());
    return selected.values;
  };
  EXPECT_EQ(select(), (std::vector<std::int32_t>{0, 1, 4}));
  keys.view()(0, 5, 0, 0) = NAN;  // first, as in torch.topk
  EXPECT_EQ(select(), (std::vector<std::int32_t>{0, 4, 5}));
}

TEST(KeySelection, Errors) {
  const auto q = random_tensor<float, 4>({1, 2, 3, 4});
  const auto weights = random_tensor<float, 3>({1, 2, 3});
  const auto keys = random_tensor<float, 4>({1, 5, 1, 4});
  Tensor<std::int32_t, 3> selected({1, 2, 2});
  const auto refused = [&](ConstTensor w, ConstTensor k, AttentionMask mask) {
    return message_of([&] { select_keys(q.view(), w, k, mask, selected.view()); });
  };
  const AttentionMask causal{.visibility = Visibility::causal, .offset = 3};
  EXPECT_EQ(refused(weights.view(), keys.view(), causal), "");
  EXPECT_THAT(refused(weights.view(), keys.view(), {.visibility = Visibility::causal}),
              HasSubstr("a mask without an offset requires T = S"));
  const auto wrong = random_tensor<float, 3>({1, 2, 4});
  EXPECT_EQ(refused(wrong.view(), keys.view(), causal),
            "[key_selection] axis 2 of weights must be 3, got 4");
  const auto heads = random_tensor<float, 4>({1, 5, 2, 4});
  EXPECT_EQ(refused(weights.view(), heads.view(), causal),
            "[key_selection] axis 2 of keys must be 1, got 2");
  EXPECT_EQ(refused(weights.view(), keys.view(), {.visibility = Visibility::causal, .rate = 0}),
            "[attention] rate must be at least 1, got 0");
  EXPECT_EQ(refused(weights.view(), keys.view(),
                    {.visibility = Visibility::causal, .offset = 3, .left = 3, .rate = 2}),
            "[attention] a rate above 1 requires a causal mask without limits, got 2");
}

}  // namespace key_selection_test
}  // namespace gnomon
