#include "gnomon/bias/clipped.h"

#include <gtest/gtest.h>

#include <cmath>

#include "testing.h"

namespace gnomon {
namespace clipped_test {

using testing::message_of;
using testing::Tensor;

TEST(Clipped, ColumnsRunFromTheKeyFurthestAheadToTheOneFurthestBack) {
  const ClippedBias clipped{.heads = 1, .left = 3, .right = 2};
  EXPECT_EQ(column(clipped, 100), 0);
  EXPECT_EQ(column(clipped, 2), 0);
  EXPECT_EQ(column(clipped, 1), 1);
  EXPECT_EQ(column(clipped, 0), 2);
  EXPECT_EQ(column(clipped, -1), 3);
  EXPECT_EQ(column(clipped, -3), 5);
  EXPECT_EQ(column(clipped, -100), 5);
}

// b[h, clip(i - j)] as [H, Q, K], directly from the formula.
TEST(Clipped, DenseMatrixIsTheFormula) {
  const ClippedBias clipped{.heads = 2, .left = 4, .right = 1};
  const Tensor<float, 2> table = testing::random_tensor<float, 2>({2, 6});
  constexpr int queries = 7, keys = 9, offset = 2;
  Tensor<float, 3> out({2, queries, keys});
  dense(lower(clipped, table.view(), -(offset + queries - 1), offset + queries + keys - 1),
        offset, out.view());
  for (int h = 0; h < 2; ++h)
    for (int i = 0; i < queries; ++i)
      for (int j = 0; j < keys; ++j) {
        int difference = offset + i - j;
        if (difference > 4) difference = 4;
        if (difference < -1) difference = -1;
        EXPECT_EQ(out.view()(h, i, j), table.view()(h, difference + 1));
      }
}

// Ranges inside the table and beyond it on either side.
TEST(Clipped, StripAndGradientAreEachOthersTranspose) {
  for (const auto& [before, after] : {std::pair{5, 0}, {0, 7}, {3, 4}, {0, 0}})
    for (const auto& [first, count] :
         {std::pair{-15, 20}, {-15, 60}, {8, 9}, {-40, 5}, {-9, 2}, {7, 3}, {2, 0}}) {
      const ClippedBias clipped{.heads = 3, .left = before, .right = after};
      const std::int64_t columns = before + 1 + after;
      const Tensor<float, 2> table = testing::random_tensor<float, 2>({3, columns});
      const StripBias spread = lower(clipped, table.view(), first, count);
      ASSERT_EQ(std::ssize(spread.values), 3 * count);
      Tensor<float, 2> grad({3, columns});
      const std::vector<double> strip_grad =
          testing::random_numbers(static_cast<std::size_t>(3 * count), 4);
      lower_backward(clipped, strip_grad, first, count, grad.view());
      for (std::int64_t h = 0; h < 3; ++h) {
        std::vector<double> sums(static_cast<std::size_t>(columns));
        for (std::int64_t n = 0; n < count; ++n) {
          const auto at = static_cast<std::size_t>(h * count + n);
          const std::int64_t c = column(clipped, first + n);
          EXPECT_EQ(spread.values[at], double{table.view()(h, c)});
          sums[static_cast<std::size_t>(c)] += strip_grad[at];
        }
        for (std::int64_t c = 0; c < columns; ++c)
          EXPECT_EQ(grad.view()(h, c), static_cast<float>(sums[static_cast<std::size_t>(c)]));
      }
    }
}

TEST(Clipped, RefusesWhatBreaksItsBounds) {
  EXPECT_EQ(message_of([] { column({}, 0); }), "[clipped] heads must be at least 1, got 0");
  EXPECT_EQ(message_of([] { column({.heads = 1, .left = -1}, 0); }),
            "[clipped] left must not be negative, got -1");
  EXPECT_EQ(message_of([] { column({.heads = 1, .right = -1}, 0); }),
            "[clipped] right must not be negative, got -1");
  const Tensor<float, 2> table({2, 6});
  EXPECT_EQ(message_of([&] { lower(ClippedBias{.heads = 1, .left = 5}, table.view(), 0, 1); }),
            "[clipped] the table must have a row for each head, 1, got 2");
  EXPECT_EQ(message_of([&] { lower(ClippedBias{.heads = 2, .left = 4}, table.view(), 0, 1); }),
            "[clipped] the table must have left + 1 + right columns, 5, got 6");
  Tensor<float, 2> grad({2, 6});
  const std::vector<double> strip_grad(7);
  EXPECT_EQ(message_of([&] {
              lower_backward(ClippedBias{.heads = 2, .left = 5}, strip_grad, 0, 4, grad.view());
            }),
            "[clipped] the gradient of the strip must have heads x distances values, 8, got 7");
}

}  // namespace clipped_test
}  // namespace gnomon
