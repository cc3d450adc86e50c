#include "gnomon/rotary/vjepa2.h"

#include <gtest/gtest.h>

#include <cmath>

#include "gnomon/parallel.h"
#include "testing.h"

namespace gnomon {
namespace vjepa2_test {

using testing::as_double;
using testing::half_ulp;
using testing::message_of;
using List = std::vector<double>;

// One block as in the model's code: omega over arange(D / 2) / (D / 2), cos and sin repeated as
// a whole, x cos + stack(-x[1::2], x[0::2]).flatten() sin. With each element, the sum of the
// magnitudes of its two terms, to which its error bound is relative.
struct Rotated {
  List values, magnitudes;
};
Rotated rotated_block(const List& x, double position, double base) {
  const std::size_t half = x.size() / 2;
  List frequencies;
  for (std::size_t j = 0; j < half; ++j)
    frequencies.push_back(1 /
                          std::pow(base, static_cast<double>(j) / static_cast<double>(half)));
  List repeated = frequencies;
  repeated.insert(repeated.end(), frequencies.begin(), frequencies.end());
  Rotated result;
  for (std::size_t e = 0; e < x.size(); ++e) {
    const double other = e % 2 == 0 ? -x[e + 1] : x[e - 1], angle = position * repeated[e];
    result.values.push_back(x[e] * std::cos(angle) + other * std::sin(angle));
    result.magnitudes.push_back(std::fabs(x[e]) + std::fabs(other));
  }
  return result;
}

// Head [t | y | x | rest] of a token.
Rotated rotated_head(const List& x, const std::array<double, 3>& position, double base) {
  const std::size_t block = 2 * (x.size() / 3 / 2);
  Rotated all;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const auto begin = x.begin() + std::ptrdiff_t(axis * block);
    const Rotated one =
        rotated_block(List(begin, begin + std::ptrdiff_t(block)), position[axis], base);
    all.values.insert(all.values.end(), one.values.begin(), one.values.end());
    all.magnitudes.insert(all.magnitudes.end(), one.magnitudes.begin(), one.magnitudes.end());
  }
  for (std::size_t d = 3 * block; d < x.size(); ++d) {
    all.values.push_back(x[d]);
    all.magnitudes.push_back(0);
  }
  return all;
}

template <typename T>
void check_sizes() {
  constexpr std::int64_t frames = 2, height = 3, width = 4, tokens = frames * height * width;
  for (const std::int64_t size : {6, 8, 64, 80, 101, 600}) {
    SCOPED_TRACE(size);
    const Vjepa2Table table({.head_dim = size}, grid(frames, height, width));
    auto before = testing::random_tensor<T, 4>({2, tokens, 3, size});
    auto after = before;
    rotate(after.view(), table);
    for (std::int64_t b = 0; b < 2; ++b)
      for (std::int64_t t = 0; t < tokens; ++t)
        for (std::int64_t h = 0; h < 3; ++h) {
          List x;
          for (std::int64_t d = 0; d < size; ++d)
            x.push_back(as_double(before.view()(b, t, h, d)));
          const Rotated expected = rotated_head(
              x, {double(t / (height * width)), double(t / width % height), double(t % width)},
              1e4);
          for (std::int64_t d = 0; d < size; ++d) {
            const double exact = expected.values[std::size_t(d)];
            const double sum = 3 * 0x1p-24 * expected.magnitudes[std::size_t(d)];
            const double rounding = sizeof(T) == 2 ? half_ulp<T> : 0.0;
            ASSERT_NEAR(as_double(after.view()(b, t, h, d)), exact,
                        sum + rounding * (std::fabs(exact) + sum) + 0x1p-25);
          }
        }
  }
}

TEST(Vjepa2, RotatesEveryTypeAndSizeOnEveryIsa) {
  for (Isa isa : available_isas()) {
    SCOPED_TRACE(name(isa));
    const ScopedIsa scoped(isa);
    check_sizes<float>();
    check_sizes<double>();
    check_sizes<Half>();
    check_sizes<BFloat16>();
  }
}

// Heads before tokens, wider rows, and different positions in each row.
TEST(Vjepa2, StridedViewsAndPositionsByRow) {
  const std::vector<std::int64_t> ids{0, 4, 7, 1, 100000, 3};
  const auto axis = [&](std::int64_t add) {
    std::vector<std::int64_t> shifted = ids;
    for (std::int64_t& id : shifted) id += add;
    return explicit_ids(View<const std::int64_t, 2>(shifted.data(), {2, 3}));
  };
  const std::vector<Positions> axes{axis(0), axis(5), axis(1)};
  const Vjepa2Table table({.head_dim = 14, .base = 500}, axes);
  EXPECT_EQ(table.batch(), 2);
  const auto before = testing::random_tensor<float, 4>({2, 2, 3, 17});  // [B, H, T, S + 3]
  auto after = before;
  rotate(View<float, 4>(after.values.data() + 1, {2, 3, 2, 14}, {102, 17, 51, 1}), table);
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t h = 0; h < 2; ++h)
      for (std::int64_t t = 0; t < 3; ++t) {
        List x;
        for (std::int64_t d = 0; d < 14; ++d) x.push_back(before.view()(b, h, t, 1 + d));
        const auto p = static_cast<double>(ids[std::size_t(b * 3 + t)]);
        const Rotated expected = rotated_head(x, {p, p + 5, p + 1}, 500);
        for (std::int64_t d = 0; d < 14; ++d)
          ASSERT_NEAR(after.view()(b, h, t, 1 + d), expected.values[std::size_t(d)],
                      3 * 0x1p-24 * expected.magnitudes[std::size_t(d)]);
        for (std::int64_t d : {0, 15, 16})
          ASSERT_EQ(after.view()(b, h, t, d), before.view()(b, h, t, d));
      }
}

// <M x, y> = <x, M' y>, but M' M is not 1, since M is not a rotation.
template <typename T>
void check_transpose(double tolerance) {
  const Vjepa2Table table({.head_dim = 80}, grid(3, 2, 2));
  const auto x = testing::random_tensor<T, 3>({12, 2, 80}, 1);
  const auto y = testing::random_tensor<T, 3>({12, 2, 80}, 2);
  auto forward = x, backward = y;
  rotate(forward.view(), table);
  rotate_backward(backward.view(), table);
  double left = 0, right = 0;
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    left += double(forward.values[i]) * double(y.values[i]);
    right += double(x.values[i]) * double(backward.values[i]);
  }
  EXPECT_NEAR(left, right, tolerance);
  rotate_backward(forward.view(), table);
  double most = 0;
  for (std::size_t i = 0; i < x.values.size(); ++i)
    most = std::fmax(most, std::fabs(double(forward.values[i]) - double(x.values[i])));
  EXPECT_GT(most, 0.1);
}

TEST(Vjepa2, BackwardIsTheTransposeAndNotTheInverse) {
  for (Isa isa : available_isas()) {
    SCOPED_TRACE(name(isa));
    const ScopedIsa scoped(isa);
    check_transpose<double>(1e-11);
    check_transpose<float>(1e-4);
  }
}

TEST(Vjepa2, TheSameBitsForAnyNumberOfThreads) {
  const int before = threads();
  const Vjepa2Table table({.head_dim = 64}, grid(4, 12, 12));
  const auto x = testing::random_tensor<Half, 3>({576, 4, 64});
  set_threads(1);
  auto one = x;
  rotate(one.view(), table);
  for (int count : {2, 7}) {
    set_threads(count);
    auto many = x;
    rotate(many.view(), table);
    EXPECT_EQ(one.values, many.values);
  }
  set_threads(before);
}

TEST(Vjepa2, RefusesWhatItCannotMean) {
  const Vjepa2 fine{.head_dim = 8};
  EXPECT_EQ(message_of([] { Vjepa2Table({.head_dim = 5}, grid(1, 1, 1)); }),
            "[vjepa2] head_dim must be at least 6, got 5");
  EXPECT_EQ(message_of([&] { Vjepa2Table(fine, grid(2, 2)); }),
            "[vjepa2] the grid must have 3 axes, t, y, x, got 2");
  EXPECT_EQ(message_of([&] {
              const std::vector<Positions> two(2);
              Vjepa2Table(fine, two);
            }),
            "[vjepa2] there must be positions on 3 axes, t, y, x, got 2");
  EXPECT_EQ(message_of([&] { Vjepa2Table({.head_dim = 8, .base = 1}, grid(1, 1, 1)); }),
            "[rotary] base must be finite and greater than 1, got 1");
  const Vjepa2Table table(fine, grid(1, 2, 2));
  testing::Tensor<float, 3> x({4, 1, 9});
  EXPECT_EQ(message_of([&] { rotate(x.view(), table); }),
            "[vjepa2] x must have head_dim = 8 elements per head, got 9");
  testing::Tensor<float, 3> few({3, 1, 8});
  EXPECT_EQ(message_of([&] { rotate(few.view(), table); }),
            "[vjepa2] x must have the table's 4 tokens, got 3");
  EXPECT_EQ(message_of([&] {
              rotate(View<float, 3>(x.values.data(), {4, 1, 8}, {16, 16, 2}), table);
            }),
            "[vjepa2] the elements of a head must be contiguous: stride 1, got 2");
  const std::vector<Positions> rows(3, consecutive(2, 0, 3));
  testing::Tensor<float, 4> two({2, 2, 1, 8});
  EXPECT_EQ(message_of([&] { rotate(two.view(), Vjepa2Table(fine, rows)); }),
            "[vjepa2] x must have the table's 3 rows, got 2");
  testing::Tensor<float, 4> none({0, 4, 1, 8});
  rotate(none.view(), table);
}

}  // namespace vjepa2_test
}  // namespace gnomon
