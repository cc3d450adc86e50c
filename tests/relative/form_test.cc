#include "gnomon/relative/form.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "attention/oracle.h"
#include "testing.h"

namespace gnomon {
namespace relative_form_test {

using testing::message_of;
using testing::Tensor;

RelativeVectors table(std::int64_t heads, std::int64_t size, std::int64_t first,
                      std::vector<std::int32_t> rows, unsigned seed) {
  std::int32_t most = 0;
  for (const std::int32_t row : rows) most = std::max(most, row);
  const auto count = static_cast<std::size_t>(heads * (most + 1) * size);
  return {.heads = heads,
          .head_dim = size,
          .min_distance = first,
          .rows = std::move(rows),
          .values = testing::random_numbers(count, seed),
          .coordinates = {}};
}

// Five queries after two cached tokens, four query heads on two key heads: every part, one of
// them by coordinates.
struct Everything {
  testing::AttentionCase c;
  testing::AttentionTensors x;
  Tensor<double, 4> out_grad = testing::random_tensor<double, 4>({2, 5, 4, 2}, 9);
  Tensor<float, 3> gates = testing::random_tensor<float, 3>({2, 4, 5}, 10);

  Everything() {
    RelativeForm& form = c.plan.relative;
    form.keys = {table(4, 3, -6, {0, 0, 1, 2, 3, 4, 5, 5, 5, 6, 7}, 1),
                 table(1, 3, -3, {0, 1, 2, 3, 4, 5, 6}, 2)};
    form.keys[1].coordinates = {0, 1, 2, 0, 1, 2, 3};
    form.queries = {table(1, 3, -8, {6, 6, 6, 5, 5, 4, 4, 3, 2, 2, 1, 1, 0, 0}, 3)};
    form.values = {table(4, 2, -6, {0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2}, 4)};
    form.shift = testing::random_numbers(12, 5);
    c.batch = 2, c.queries = 5, c.keys = 7, c.heads = 4, c.key_heads = 2;
    c.size = 3, c.values = 2, c.plan.softmax.scale = 0.6;
    c.plan.mask = {
        .visibility = Visibility::bidirectional, .offset = 2, .left = 4, .right = {}};
    c.plan.bias = SlopeBias{{0.5, 0.25, 0.125, 0.1}};
    c.gates = gates.view();
    c.plan.softmax.cap = 3;
    c.plan.softmax.sinks = {0.1, -0.2, 0.3, 0.4};
    x = {testing::random_tensor<double, 4>({2, 5, 4, 3}, 6),
         testing::random_tensor<double, 4>({2, 7, 2, 3}, 7),
         testing::random_tensor<double, 4>({2, 7, 2, 2}, 8)};
  }
};

TEST(RelativeForm, ScoresAreWhatTheFormAddsToProducts) {
  const Everything all;
  const testing::AttentionCase& c = all.c;
  Tensor<double, 3> out({4, 5, 7});
  relative_scores(all.c.plan.relative, 2, all.x.q.view()[1], all.x.k.view()[1], out.view());
  const auto ready = testing::ready_queries(c, all.x.q);
  for (std::int64_t h = 0; h < 4; ++h)
    for (std::int64_t i = 0; i < 5; ++i)
      for (std::int64_t j = 0; j < 7; ++j) {
        const double* query = testing::head_of(all.x.q, 1, i, h);
        const double* shifted = testing::head_of(ready, 1, i, h);
        const double* key = testing::head_of(all.x.k, 1, j, h / 2);
        auto expected = testing::product_of(c, 1, h, i, j, shifted, key);
        for (int d = 0; d < 3; ++d) expected -= query[d] * key[d];
        EXPECT_NEAR(out.view()(h, i, j), static_cast<double>(expected), 1e-13);
      }
}

TEST(RelativeForm, NothingAddsNothing) {
  const Everything all;
  Tensor<double, 3> out({4, 5, 7}, 3.0);
  relative_scores({}, 2, all.x.q.view()[0], all.x.k.view()[0], out.view());
  EXPECT_EQ(out.values, std::vector<double>(out.values.size()));
  Tensor<double, 3> empty({4, 0, 7});
  relative_scores(all.c.plan.relative, 2, all.x.q.view()[0].slice(0, 0, 0), all.x.k.view()[0],
                  empty.view());
}

// Checks the gradient of the oracle against its own finite differences.
TEST(RelativeForm, TheOraclesGradientIsThatOfItsForward) {
  Everything all;
  const auto loss = [&] {
    const auto forward = testing::oracle(all.c, all.x);
    double sum = 0;
    for (std::size_t n = 0; n < forward.out.values.size(); ++n)
      sum += forward.out.values[n] * all.out_grad.values[n];
    return sum;
  };
  const auto grad = testing::oracle_backward(all.c, all.x, all.out_grad);
  const auto agree = [&](std::vector<double>& numbers, const std::vector<double>& computed,
                         const char* what) {
    ASSERT_EQ(numbers.size(), computed.size()) << what;
    for (std::size_t n = 0; n < numbers.size(); ++n) {
      const double kept = numbers[n], step = 1e-5;
      numbers[n] = kept + step;
      const double above = loss();
      numbers[n] = kept - step;
      const double below = loss();
      numbers[n] = kept;
      EXPECT_NEAR(computed[n], (above - below) / (2 * step), 1e-8) << what << " " << n;
    }
  };
  agree(all.x.q.values, grad.q.values, "q");
  agree(all.x.k.values, grad.k.values, "k");
  agree(all.x.v.values, grad.v.values, "v");
  agree(all.c.plan.relative.keys[0].values, grad.met_keys.vectors[0], "keys");
  agree(all.c.plan.relative.keys[1].values, grad.met_keys.vectors[1], "keys by coordinates");
  agree(all.c.plan.relative.queries[0].values, grad.met_queries.vectors[0], "queries");
  agree(all.c.plan.relative.values[0].values, grad.met_values.vectors[0], "values");
  agree(all.c.plan.relative.shift, grad.shift, "shift");
  agree(all.c.plan.softmax.sinks, grad.sinks, "sinks");
  agree(std::get<SlopeBias>(all.c.plan.bias).slopes, grad.numbers, "slopes");
  for (std::size_t n = 0; n < all.gates.values.size(); ++n) {
    const float kept = all.gates.values[n], step = 0x1p-8F;
    all.gates.values[n] = kept + step;
    const double above = loss(), up = all.gates.values[n];
    all.gates.values[n] = kept - step;
    const double below = loss(), down = all.gates.values[n];
    all.gates.values[n] = kept;
    EXPECT_NEAR(grad.gates.values[n], (above - below) / (up - down), 1e-5) << n;
  }
}

TEST(RelativeForm, RefusesWhatBreaksItsRules) {
  const auto says = [](auto change) {
    RelativeForm form{.keys = {table(2, 3, -1, {0, 1, 2}, 1)},
                      .queries = {},
                      .values = {table(1, 4, -1, {0, 0, 1}, 2)},
                      .shift = std::vector<double>(6)};
    change(form);
    return message_of([&] { check(form, 2, 3, 4); });
  };
  EXPECT_EQ(says([](RelativeForm&) {}), "");
  EXPECT_EQ(says([](RelativeForm& form) { form.keys[0].heads = 3; }),
            "[relative] keys must have 1 head or 2, got 3");
  EXPECT_EQ(says([](RelativeForm& form) { form.keys[0].head_dim = 4; }),
            "[relative] keys must have head_dim 3, got 4");
  EXPECT_EQ(says([](RelativeForm& form) { form.keys[0].values.pop_back(); }),
            "[relative] keys must have heads x vectors x head_dim values, a positive "
            "multiple of 6, got 17");
  EXPECT_EQ(says([](RelativeForm& form) { form.keys[0].values.clear(); }),
            "[relative] keys must have heads x vectors x head_dim values, a positive "
            "multiple of 6, got 0");
  EXPECT_EQ(says([](RelativeForm& form) { form.values[0].rows.clear(); }),
            "[relative] values must have a row for a distance, got 0");
  EXPECT_EQ(says([](RelativeForm& form) { form.keys[0].rows[2] = 3; }),
            "[relative] rows of keys must be 0 to 2, got 3");
  EXPECT_EQ(says([](RelativeForm& form) { form.keys[0].rows[0] = -1; }),
            "[relative] rows of keys must be 0 to 2, got -1");
  EXPECT_EQ(says([](RelativeForm& form) { form.keys[0].rows = {0, 2, 1}; }),
            "[relative] rows of keys must be non-decreasing or non-increasing, "
            "got both");
  EXPECT_EQ(says([](RelativeForm& form) { form.keys[0].min_distance = INT64_MAX; }),
            "[relative] the last distance of keys must fit 64 bits, got 9223372036854775807");
  EXPECT_EQ(says([](RelativeForm& form) { form.shift.pop_back(); }),
            "[relative] shift must have heads x head_dim = 6 numbers, got 5");
  EXPECT_EQ(message_of([] { check({}, 0, 1, 1); }),
            "[relative] heads must be at least 1, got 0");
  EXPECT_EQ(message_of([] { check({}, 1, 0, 1); }),
            "[relative] the head_dim of keys must be at least 1, got 0");
  EXPECT_EQ(message_of([] { check({}, 1, 1, 0); }),
            "[relative] the head_dim of values must be at least 1, got 0");
  constexpr std::int64_t wide = std::int64_t{1} << 32;  // the product is 0 in 64 bits
  RelativeForm of_wide;
  of_wide.keys = {{.heads = wide, .head_dim = wide, .rows = {0}, .values = {1}}};
  EXPECT_EQ(message_of([&] { check(of_wide, wide, wide, 1); }),
            "[relative] heads x head_dim must fit in memory, got 4294967296 x 4294967296");
  of_wide = {};
  of_wide.shift = {1};
  EXPECT_EQ(message_of([&] { check(of_wide, wide, wide, 1); }),
            "[relative] heads x head_dim must fit in memory, got 4294967296 x 4294967296");
}

TEST(RelativeForm, ScoresRefuseWhatDoesNotFit) {
  const Tensor<double, 3> q({2, 2, 3}), k({4, 1, 3});
  Tensor<double, 3> out({2, 2, 4});
  RelativeForm form;
  form.keys = {table(1, 3, -2, {0, 1, 2, 3, 4}, 1)};
  const auto says = [&](std::int64_t offset, const Tensor<double, 3>& keys) {
    return message_of(
        [&] { relative_scores(form, offset, q.view(), keys.view(), out.view()); });
  };
  EXPECT_EQ(says(1, k), "");
  EXPECT_EQ(says(0, k), "[relative] distances must be -2 to 2, got 3");
  EXPECT_EQ(says(-1, k), "[relative] offset must not be negative, got -1");
  EXPECT_EQ(
      says(1, Tensor<double, 3>({4, 1, 2})),
      "[relative] k must be [keys, heads, head_dim] with the head_dim of q [2, 2, 3] and heads "
      "that divide its, got [4, 1, 2]");
  EXPECT_EQ(says(1, Tensor<double, 3>({5, 1, 3})),
            "[relative] out must be [2, 2, 5], got [2, 2, 4]");
  form.keys[0].coordinates = {0, 1, 0};
  EXPECT_EQ(says(1, k), "[relative] positions must have a coordinate: 0 to 2, got 3");
}

}  // namespace relative_form_test
}  // namespace gnomon
