#include "gnomon/relative/decomposed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "relative/paper.h"
#include "testing.h"

namespace gnomon {
namespace decomposed_test {

using testing::message_of;
using testing::Tensor;

// relative_coords of the released code, in float32.
std::int64_t released_index(std::int64_t i, std::int64_t j, std::int64_t q, std::int64_t k) {
  const auto ratio = [](std::int64_t a, std::int64_t b) {
    return std::max(static_cast<double>(a) / static_cast<double>(b), 1.0);
  };
  const float at_query = static_cast<float>(i) * static_cast<float>(ratio(k, q));
  const float at_key = static_cast<float>(j) * static_cast<float>(ratio(q, k));
  const float distance =
      (at_query - at_key) + static_cast<float>(static_cast<double>(k - 1) * ratio(q, k));
  return static_cast<std::int64_t>(distance);
}

// Grids of which one is a multiple of the other. All released models pool by whole strides.
TEST(Decomposed, IndicesAreThoseOfReleasedModels) {
  const auto compare = [](std::int64_t q, std::int64_t k) {
    const Decomposed one{.head_dim = 1, .height = q, .width = 1, .key_height = k};
    const Decomposed other{.head_dim = 1, .height = 1, .width = q, .key_width = k};
    const auto rows = row_indices(one);
    ASSERT_EQ(rows, column_indices(other));
    for (std::int64_t i = 0; i < q; ++i)
      for (std::int64_t j = 0; j < k; ++j)
        ASSERT_EQ(rows[static_cast<std::size_t>(i * k + j)], released_index(i, j, q, k))
            << q << " x " << k << ": " << i << ", " << j;
  };
  for (const std::int64_t n : {1, 2, 7, 8, 13, 14, 64})
    for (const std::int64_t times : {1, 2, 3, 4, 8})
      compare(n, n * times), compare(n * times, n);
}

// The tables and inputs of a model, and the scores as the released code computes them.
struct Model {
  Decomposed spec;
  testing::Paper paper;
  std::int64_t key_height, key_width;
  std::vector<double> height, width;

  // Component c of row r, of 2 max(q, k) - 1 rows, interpolated between the rows of the trained
  // table.
  double resized(const std::vector<double>& table, std::int64_t r, std::int64_t count,
                 std::int64_t c) const {
    const auto rows = static_cast<std::int64_t>(table.size()) / spec.head_dim;
    if (rows == count) return table[static_cast<std::size_t>(r * spec.head_dim + c)];
    const double source = (static_cast<double>(r) + 0.5) * static_cast<double>(rows) /
                              static_cast<double>(count) -
                          0.5;
    const double clipped = std::max(source, 0.0);
    const auto one = static_cast<std::int64_t>(std::floor(clipped));
    const std::int64_t two = one + (one < rows - 1 ? 1 : 0);
    const double part = clipped - std::floor(clipped);
    return (1 - part) * table[static_cast<std::size_t>(one * spec.head_dim + c)] +
           part * table[static_cast<std::size_t>(two * spec.head_dim + c)];
  }
  double loss() const {
    const std::int64_t leading = spec.class_tokens;
    return paper.loss(
        [&](std::int64_t h, std::int64_t i, std::int64_t j) {
          double score = paper.scale * paper.dot(h, i, j);
          if (i < leading || j < leading) return score;
          const std::int64_t query = i - leading, key = j - leading;
          const std::int64_t row =
              released_index(query / spec.width, key / key_width, spec.height, key_height);
          const std::int64_t column =
              released_index(query % spec.width, key % key_width, spec.width, key_width);
          for (std::int64_t c = 0; c < spec.head_dim; ++c)
            score += paper.q.view()(i, h, c) *
                     (resized(height, row, 2 * std::max(spec.height, key_height) - 1, c) +
                      resized(width, column, 2 * std::max(spec.width, key_width) - 1, c));
          return score;
        },
        [](auto...) { return 0.0; });
  }
};

std::vector<Model> models() {
  std::vector<Model> all;
  for (Decomposed spec : {
           Decomposed{.height = 3, .width = 4},  // SAM
           Decomposed{.height = 3, .width = 4, .table_height = 3, .table_width = 11},
           Decomposed{.height = 2, .width = 2, .class_tokens = 1},  // MViT
           Decomposed{.height = 2, .width = 4, .key_height = 4, .key_width = 2},
           Decomposed{.height = 4,
                      .width = 2,
                      .key_height = 2,
                      .key_width = 1,
                      .table_width = 5,
                      .class_tokens = 1},
       }) {
    spec.head_dim = 3;
    const std::int64_t high = spec.key_height ? spec.key_height : spec.height;
    const std::int64_t wide = spec.key_width ? spec.key_width : spec.width;
    Model m{spec,
            {.queries = spec.class_tokens + spec.height * spec.width,
             .keys = spec.class_tokens + high * wide,
             .heads = 2,
             .head_dim = 3,
             .values = 2},
            high,
            wide,
            testing::float_numbers(static_cast<std::size_t>(table_height(spec) * 3), 60),
            testing::float_numbers(static_cast<std::size_t>(table_width(spec) * 3), 61)};
    m.paper.scale = 1 / std::sqrt(3.0);
    m.paper.draw(62);
    all.push_back(std::move(m));
  }
  return all;
}

TEST(Decomposed, AttentionAndGradientsAreTheReleasedModels) {
  for (Model& m : models()) {
    const auto high = testing::float_matrix(table_height(m.spec), 3, m.height);
    const auto wide = testing::float_matrix(table_width(m.spec), 3, m.width);
    const DecomposedPlan plan = lower(m.spec, {high.view(), wide.view()}, m.paper.scale);
    check(plan.form, 2, 3, 2);
    EXPECT_EQ(plan.queries.tokens, m.paper.queries);
    EXPECT_EQ(plan.keys.tokens, m.paper.keys);
    auto c = m.paper.lowered(plan.form);
    c.plan.queries = borrowed(plan.queries), c.plan.keys = borrowed(plan.keys);
    const auto x = m.paper.tensors();
    Tensor<double, 4> out_grad({1, c.queries, 2, 2});
    out_grad.values = m.paper.out_grad.values;
    EXPECT_NEAR(m.paper.weighed(testing::oracle(c, x).out), m.loss(), 1e-11);
    EXPECT_NEAR(m.paper.attention_loss(c), m.loss(), 1e-11);
    const auto grad = testing::oracle_backward(c, x, out_grad);
    Tensor<float, 2> of_high(high.extents), of_wide(wide.extents);
    lower_backward(m.spec, m.paper.scale, testing::relative_gradient(grad),
                   {of_high.view(), of_wide.view()});
    const auto loss = [&] { return m.loss(); };
    testing::expect_gradient(of_high.values, m.height, loss, "height");
    testing::expect_gradient(of_wide.values, m.width, loss, "width");
  }
}

TEST(Decomposed, OneGridHasThePositionsThatAttentionAssumes) {
  const Decomposed spec{.head_dim = 2, .height = 3, .width = 5};
  const Tensor<float, 2> high({5, 2}), wide({9, 2});
  const DecomposedPlan plan = lower(spec, {high.view(), wide.view()}, 1);
  EXPECT_EQ(plan.queries, consecutive(15));
  EXPECT_EQ(plan.keys, consecutive(15));
  EXPECT_EQ(plan.form.keys[0].coordinates[14], 2);
  EXPECT_EQ(plan.form.keys[1].coordinates[14], 4);
}

TEST(Decomposed, RefusesWhatBreaksItsBounds) {
  const auto says = [](auto change) {
    Decomposed spec{.head_dim = 2, .height = 3, .width = 5};
    change(spec);
    return message_of([&] { row_indices(spec); });
  };
  EXPECT_EQ(says([](Decomposed&) {}), "");
  EXPECT_EQ(says([](Decomposed& d) { d.head_dim = 0; }),
            "[decomposed] head_dim must be at least 1, got 0");
  EXPECT_EQ(says([](Decomposed& d) { d.height = 0; }),
            "[decomposed] height must be 1 to 32767, got 0");
  EXPECT_EQ(says([](Decomposed& d) { d.width = 32768; }),
            "[decomposed] width must be 1 to 32767, got 32768");
  EXPECT_EQ(says([](Decomposed& d) { d.key_height = -1; }),
            "[decomposed] key_height must be 0 to 32767, got -1");
  EXPECT_EQ(says([](Decomposed& d) { d.table_height = 4; }),
            "[decomposed] a table must have an odd number of rows, at most 65533, got 4");
  EXPECT_EQ(says([](Decomposed& d) { d.class_tokens = 2; }),
            "[decomposed] class_tokens must be 0 or 1, got 2");
  const Decomposed spec{.head_dim = 2, .height = 3, .width = 5};
  Tensor<float, 2> high({5, 2}), wide({9, 2});
  EXPECT_EQ(message_of([&] { lower(spec, {wide.view(), wide.view()}, 1); }),
            "[decomposed] height must be [5, 2], got [9, 2]");
  EXPECT_EQ(message_of([&] { lower(spec, {high.view(), wide.view()}, -1); }),
            "[decomposed] softmax_scale must be positive and finite, got -1");
  EXPECT_EQ(message_of([&] { lower_backward(spec, 1, {}, {high.view(), wide.view()}); }),
            "[decomposed] the gradient must have two tables of keys, of 10 and 18 numbers, got "
            "0 tables");
  // One row of 2^61 elements, and 7 vectors of 2^61 numbers, which are 5 x 2^61 in 64 bits.
  constexpr std::int64_t wider = std::int64_t{1} << 61;
  const View<float, 2> one_row(high.view().data(), {1, wider}, {0, 0});
  EXPECT_EQ(
      message_of([&] {
        lower_backward(
            {.head_dim = wider, .height = 4, .width = 4, .table_height = 1, .table_width = 1},
            1, {}, {one_row, one_row});
      }),
      "[decomposed] vectors x head_dim must fit in memory, got 7 x 2305843009213693952");
}

}  // namespace decomposed_test
}  // namespace gnomon
