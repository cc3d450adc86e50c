#include "gnomon/bias/swin.h"

#include <gtest/gtest.h>

#include "bias/released.h"
#include "testing.h"

namespace gnomon {
namespace swin_test {

using testing::message_of;
using testing::Tensor;

// Indices of the released models: the coordinates of all cells, their differences shifted to
// start at 0, the row differences multiplied by the number of columns; then BEiT's three
// additional indices.
std::vector<std::int64_t> released_indices(std::int64_t height, std::int64_t width,
                                           bool class_token) {
  const std::int64_t cells = height * width, border = class_token ? 1 : 0;
  const std::int64_t side = cells + border;
  const std::int64_t rows = (2 * height - 1) * (2 * width - 1) + (class_token ? 3 : 0);
  std::vector<std::int64_t> index(static_cast<std::size_t>(side * side), -1);
  const auto at = [&](std::int64_t i, std::int64_t j) -> std::int64_t& {
    return index[static_cast<std::size_t>(i * side + j)];
  };
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x)
      for (std::int64_t v = 0; v < height; ++v)
        for (std::int64_t u = 0; u < width; ++u)
          at(border + y * width + x, border + v * width + u) =
              (y - v + height - 1) * (2 * width - 1) + (x - u + width - 1);
  if (class_token) {
    for (std::int64_t j = 0; j < side; ++j) at(0, j) = rows - 3;
    for (std::int64_t i = 0; i < side; ++i) at(i, 0) = rows - 2;
    at(0, 0) = rows - 1;
  }
  return index;
}

constexpr std::pair<std::int64_t, std::int64_t> windows[] = {
    {7, 7}, {12, 12}, {4, 5}, {5, 2}, {1, 9}, {9, 1}, {1, 1}, {14, 14}, {8, 3}};

TEST(Swin, IndicesAreThoseOfReleasedModels) {
  for (const auto& [height, width] : windows)
    for (const std::int64_t tokens_in_front : {0, 1}) {
      const Swin swin{
          .heads = 1, .height = height, .width = width, .class_tokens = tokens_in_front};
      const auto expected = released_indices(height, width, tokens_in_front == 1);
      EXPECT_EQ(offset_indices(swin), expected) << height << " x " << width;
      const std::int64_t side = tokens(swin);
      for (std::int64_t i = 0; i < side; ++i)
        for (std::int64_t j = 0; j < side; ++j)
          ASSERT_EQ(offset_index(swin, i, j), expected[static_cast<std::size_t>(i * side + j)]);
    }
}

// Indices computed by the released implementation, for an odd and an even window.
TEST(Swin, IndicesAreThoseThatWereComputed) {
  const auto released = testing::released_biases();
  ASSERT_EQ(released["swin"].size(), 2u);
  for (const auto& one : released["swin"]) {
    const Swin swin{.heads = 1, .height = one["window"][0], .width = one["window"][1]};
    const std::int64_t side = tokens(swin);
    for (std::size_t row = 0; row < one["rows"].size(); ++row) {
      ASSERT_EQ(std::ssize(one["index"][row]), side);
      for (std::int64_t j = 0; j < side; ++j)
        ASSERT_EQ(offset_index(swin, one["rows"][row], j),
                  one["index"][row][static_cast<std::size_t>(j)]);
    }
  }
}

// The buffer of Swin-T for a window of 2 x 2, small enough to check by eye.
TEST(Swin, TwoByTwoWindow) {
  EXPECT_EQ(offset_indices({.heads = 1, .height = 2, .width = 2}),
            (std::vector<std::int64_t>{4, 3, 1, 0, 5, 4, 2, 1, 7, 6, 4, 3, 8, 7, 5, 4}));
}

TEST(Swin, DenseGathersTheTable) {
  for (const auto& [height, width] : windows)
    for (const std::int64_t tokens_in_front : {0, 1}) {
      const Swin swin{
          .heads = 3, .height = height, .width = width, .class_tokens = tokens_in_front};
      const std::int64_t side = tokens(swin);
      const auto table = testing::random_tensor<float, 2>({offsets(swin), 3});
      const BiasForm form = lower(swin, table.view());
      EXPECT_EQ(heads(form), 3);
      EXPECT_EQ(gradient_size(form), offsets(swin));
      const auto expected = released_indices(height, width, tokens_in_front == 1);
      Tensor<float, 3> out({3, side, side});
      dense(form, 0, out.view());
      for (std::int64_t h = 0; h < 3; ++h)
        for (std::int64_t i = 0; i < side; ++i)
          for (std::int64_t j = 0; j < side; ++j)
            ASSERT_EQ(out.view()(h, i, j),
                      table.view()(expected[static_cast<std::size_t>(i * side + j)], h));
    }
}

TEST(Swin, GradientIsTheTransposeOfTheGather) {
  for (const std::int64_t tokens_in_front : {0, 1}) {
    const Swin swin{.heads = 2, .height = 3, .width = 5, .class_tokens = tokens_in_front};
    const std::int64_t side = tokens(swin), rows = offsets(swin);
    const auto expected = released_indices(3, 5, tokens_in_front == 1);
    const auto table = testing::random_tensor<float, 2>({rows, 2});
    const auto grad = testing::random_tensor<float, 3>({2, side, side}, 3);
    const BiasGradient of_form = add_bias_backward(grad.view(), lower(swin, table.view()), 0);
    Tensor<float, 2> table_grad({rows, 2}, 1.0f);
    lower_backward(swin, of_form.values, table_grad.view());
    for (std::int64_t h = 0; h < 2; ++h) {
      std::vector<long double> sums(static_cast<std::size_t>(rows), 1);
      for (std::int64_t i = 0; i < side; ++i)
        for (std::int64_t j = 0; j < side; ++j)
          sums[static_cast<std::size_t>(expected[static_cast<std::size_t>(i * side + j)])] +=
              static_cast<long double>(grad.view()(h, i, j));
      for (std::int64_t n = 0; n < rows; ++n)
        EXPECT_NEAR(table_grad.view()(n, h),
                    static_cast<double>(sums[static_cast<std::size_t>(n)]), 1e-6)
            << h << ", offset " << n;
    }
  }
}

TEST(Swin, RefusesWhatBreaksItsBounds) {
  EXPECT_EQ(message_of([] { tokens({.heads = 0, .height = 2, .width = 2}); }),
            "[swin] heads must be at least 1, got 0");
  EXPECT_EQ(message_of([] { tokens({.heads = 1, .height = 0, .width = 2}); }),
            "[swin] height must be 1 to 32767, got 0");
  EXPECT_EQ(message_of([] { tokens({.heads = 1, .height = 2, .width = 40000}); }),
            "[swin] width must be 1 to 32767, got 40000");
  EXPECT_EQ(
      message_of([] { tokens({.heads = 1, .height = 2, .width = 2, .class_tokens = 2}); }),
      "[swin] class_tokens must be 0 or 1, got 2");
  const Swin swin{.heads = 2, .height = 2, .width = 2};
  EXPECT_EQ(message_of([&] { offset_index(swin, 0, 4); }),
            "[swin] positions must be 0 to 3, got 4");
  const Tensor<float, 2> few({8, 2}), narrow({9, 1});
  EXPECT_EQ(message_of([&] { lower(swin, few.view()); }),
            "[swin] the table must have a row for each offset, 9, got 8");
  EXPECT_EQ(message_of([&] { lower(swin, narrow.view()); }),
            "[swin] the table must have a column for each head, 2, got 1");
  Tensor<float, 2> grad({9, 2});
  EXPECT_EQ(message_of([&] { lower_backward(swin, std::vector<double>(9), grad.view()); }),
            "[swin] the gradient of the grid must have heads x offsets values, 18, got 9");
}

}  // namespace swin_test
}  // namespace gnomon
