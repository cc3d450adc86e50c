// Plans of encodings for a batch with different positions in each row.
#include <gtest/gtest.h>

#include "gnomon/model/encoding.h"
#include "testing.h"

namespace gnomon::model {
namespace window_batch_test {

// Two rows: one padded on the left, one with two packed sequences.
Positions rows() {
  return {.batch = 2,
          .tokens = 4,
          .ids = {0, 0, 1, 2, 0, 1, 0, 1},
          .sequences = {Positions::padding, 0, 0, 0, 0, 0, 1, 1}};
}
Window window() { return {.queries = 4, .keys = 4, .batch = BatchPositions{rows(), rows()}}; }

TEST(WindowOfABatch, RotatesEachRowByItsOwnPositions) {
  const Rotary rotary{.rotary_dim = 8, .pairing = Pairing::halves};
  const LayerPlan plan = lower(Encoding(rotary), window(), {});
  const RotaryTable expected(rotary, rows());
  ASSERT_TRUE(plan.query_rotary);
  ASSERT_EQ(plan.query_rotary->batch(), 2);
  for (std::ptrdiff_t b = 0; b < 2; ++b)
    for (std::ptrdiff_t t = 0; t < 4; ++t)
      for (std::ptrdiff_t i = 0; i < 4; ++i)
        EXPECT_EQ(plan.query_rotary->cos()(b, t, i), expected.cos()(b, t, i));
}

TEST(WindowOfABatch, HasARowOfTheTableForEachToken) {
  const auto table = testing::random_tensor<float, 2>({3, 5});
  const View<const float, 2> values[] = {table.view()};
  const LayerPlan plan = lower(Encoding(Learned{.rows = 3, .width = 5}), window(), values);
  ASSERT_TRUE(plan.table);
  ASSERT_EQ(plan.table->tokens, 8);
  const Positions all = rows();
  for (std::ptrdiff_t row = 0; row < 8; ++row) {
    if (all.sequences[static_cast<std::size_t>(row)] == Positions::padding) continue;
    for (std::ptrdiff_t c = 0; c < 5; ++c)
      EXPECT_EQ(plan.table->view()(row, c),
                table.view()(all.ids[static_cast<std::size_t>(row)], c));
  }
}

TEST(WindowOfABatch, ReachesAllDistances) {
  const Distances reach = window().distances();
  EXPECT_LE(reach.min_distance, -2);
  EXPECT_GE(reach.min_distance + reach.count - 1, 2);
}

TEST(WindowOfABatch, RefusesPositionsOfOtherTokens) {
  Window wrong = window();
  wrong.batch->keys = consecutive(3);
  EXPECT_THROW(lower(Encoding(Rotary{.rotary_dim = 8, .pairing = Pairing::halves}), wrong, {}),
               std::invalid_argument);
}

}  // namespace window_batch_test
}  // namespace gnomon::model
