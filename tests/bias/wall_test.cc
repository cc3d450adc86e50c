// The gates of Wall from tokens, compared with the formula. tests/model/token_terms_test.cc
// compares their gradient with differences, tests/attention/channel_gates_test.cc attention.
#include "gnomon/bias/wall.h"

#include <gtest/gtest.h>

#include <cmath>

#include "testing.h"

namespace gnomon::wall_test {

using testing::message_of;
using testing::random_tensor;
using testing::Tensor;

// The gate n of a token.
long double naive_channel_gate(const Tensor<float, 2>& w, const Tensor<float, 1>& b,
                               const Tensor<float, 3>& x, std::int64_t row, std::int64_t t,
                               std::int64_t n) {
  long double z = static_cast<long double>(b.view()(n));
  for (std::int64_t c = 0; c < x.extents[2]; ++c)
    z += static_cast<long double>(w.view()(n, c)) *
         static_cast<long double>(x.view()(row, t, c));
  return -std::log1p(std::exp(-z));
}

TEST(Wall, GatesEqualTheFormula) {
  const Wall wall{.heads = 2, .head_dim = 3, .width = 5};
  const auto x = random_tensor<float, 3>({2, 4, 5}, 1);
  const auto w = random_tensor<float, 2>({6, 5}, 2);
  auto b = random_tensor<float, 1>({6}, 3);
  b.values[0] = 300, b.values[1] = -300;  // no overflow
  Tensor<float, 4> out({2, 4, 2, 3});
  channel_gates(wall, {w.view(), b.view()}, x.view(), out.view());
  for (std::int64_t row = 0; row < 8; ++row)
    for (std::int64_t n = 0; n < 6; ++n)
      EXPECT_FLOAT_EQ(out.view()(row / 4, row % 4, n / 3, n % 3),
                      static_cast<float>(naive_channel_gate(w, b, x, row / 4, row % 4, n)));
}

TEST(Wall, Refusals) {
  const Tensor<float, 2> w({6, 5});
  const Tensor<float, 1> b({6});
  const Tensor<float, 3> x({1, 4, 5});
  Tensor<float, 4> out({1, 4, 2, 3});
  const auto message = [&](const Wall& wall) {
    return message_of([&] { channel_gates(wall, {w.view(), b.view()}, x.view(), out.view()); });
  };
  EXPECT_EQ(message({2, 3, 5}), "");
  EXPECT_EQ(message({0, 3, 5}), "[wall] heads must be at least 1, got 0");
  EXPECT_EQ(message({2, 0, 5}), "[wall] head_dim must be at least 1, got 0");
  EXPECT_EQ(message({2, 3, 0}), "[wall] width must be at least 1, got 0");
  EXPECT_EQ(message({3, 3, 5}), "[wall] weight must be [9, 5], got [6, 5]");
  EXPECT_EQ(message({1, 6, 5}), "[wall] out must be [1, 4, 1, 6], got [1, 4, 2, 3]");
}

}  // namespace gnomon::wall_test
