#include "gnomon/rotary/token_angles.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "gnomon/parallel.h"
#include "testing.h"

namespace gnomon {
namespace token_angles_test {

using std::int64_t;
using testing::as_double;
using testing::half_ulp;
using testing::message_of;
using testing::random_numbers;

// Rotates one pair of every head in long double. `between` receives |a| + |b|.
template <typename T, typename Angle>
std::array<long double, 2> naive_rotate_by_angles(View<const T, 4> x,
                                                  View<const Angle, 4> angles,
                                                  const TokenRotation& r, int64_t b, int64_t t,
                                                  int64_t h, int64_t pair, double sign) {
  const bool halves = r.pairing == Pairing::halves;
  const int64_t first = r.head_offset + (halves ? pair : 2 * pair);
  const int64_t second = first + (halves ? r.rotary_dim / 2 : 1);
  const int64_t group = x.extent(2) / angles.extent(2);
  const long double u = sign * static_cast<long double>(
                                   angles(angles.extent(0) == 1 ? 0 : b, t, h / group, pair));
  const long double p = as_double(x(b, t, h, first)), q = as_double(x(b, t, h, second));
  return {p * std::cos(u) - q * std::sin(u), p * std::sin(u) + q * std::cos(u)};
}

template <typename T, typename Angle>
void expect_rotated(View<const T, 4> x, View<const Angle, 4> angles, const TokenRotation& r,
                    View<const T, 4> got, double sign) {
  const bool halves = r.pairing == Pairing::halves;
  const int64_t pairs = r.rotary_dim / 2;
  for (int64_t b = 0; b < x.extent(0); ++b)
    for (int64_t t = 0; t < x.extent(1); ++t)
      for (int64_t h = 0; h < x.extent(2); ++h) {
        std::vector<bool> turned(static_cast<std::size_t>(x.extent(3)));
        for (int64_t i = 0; i < pairs; ++i) {
          const auto exact = naive_rotate_by_angles(x, angles, r, b, t, h, i, sign);
          const int64_t at[2] = {r.head_offset + (halves ? i : 2 * i),
                                 r.head_offset + (halves ? i + pairs : 2 * i + 1)};
          const double size =
              std::fabs(as_double(x(b, t, h, at[0]))) + std::fabs(as_double(x(b, t, h, at[1])));
          const double sum = (std::is_same_v<T, double> ? 0x1p-50 : 4 * 0x1p-24) * size;
          for (int one = 0; one < 2; ++one) {
            turned[std::size_t(at[one])] = true;
            const auto value = static_cast<double>(exact[std::size_t(one)]);
            const double rounding =
                sizeof(T) == 2 ? half_ulp<T> * (std::fabs(value) + sum) + 0x1p-25 : 0.0;
            ASSERT_NEAR(as_double(got(b, t, h, at[one])), value, sum + rounding)
                << b << " " << t << " " << h << " " << i;
          }
        }
        for (int64_t d = 0; d < x.extent(3); ++d)
          if (!turned[std::size_t(d)]) {
            ASSERT_EQ(as_double(got(b, t, h, d)), as_double(x(b, t, h, d)));
          }
      }
}

template <typename T, typename Angle>
void check_rotation(const TokenRotation& r, int64_t angle_rows, int64_t angle_heads,
                    bool by_head) {
  constexpr int64_t batch = 2, tokens = 5, heads = 4;
  const int64_t size = r.head_offset + r.rotary_dim + 3;
  const std::array<std::ptrdiff_t, 4> shape{batch, tokens, heads, size};
  const std::array<std::ptrdiff_t, 4> strides{
      tokens * heads * size, by_head ? size : heads * size, by_head ? tokens * size : size, 1};
  auto x = testing::random_tensor<T, 4>(shape);
  auto angles =
      testing::random_tensor<Angle, 4>({angle_rows, tokens, angle_heads, r.rotary_dim / 2}, 2);
  for (std::size_t i = 0; i < angles.values.size(); ++i)
    angles.values[i] *= static_cast<Angle>(i % 3 == 0 ? 4 : i % 7 == 0 ? 1e6 : 1000);
  const View<const T, 4> from(x.values.data(), shape, strides);
  testing::Tensor<T, 4> out(shape);
  const View<T, 4> to(out.values.data(), shape, strides);
  rotate_by_angles(from, angles.view(), r, Direction::forward, to);
  expect_rotated<T, Angle>(from, angles.view(), r, to, 1);
  auto in_place = x;
  const View<T, 4> same(in_place.values.data(), shape, strides);
  rotate_by_angles(same, angles.view(), r, Direction::inverse);
  expect_rotated<T, Angle>(from, angles.view(), r, same, -1);
}

TEST(TokenAngles, EveryTypeLayoutAndSharingOfAnglesIsRotated) {
  int turn = 0;  // each setting with float and one of the other types
  for (const Isa isa : available_isas()) {
    SCOPED_TRACE(name(isa));
    const ScopedIsa scoped(isa);
    for (const Pairing pairing : {Pairing::halves, Pairing::adjacent})
      for (const int64_t rotary_dim : {2, 38})
        for (const int64_t angle_heads : {1, 2, 4})
          for (const bool by_head : {false, true}) {
            const TokenRotation r{rotary_dim, pairing, by_head ? 2 : 0};
            const int64_t rows = angle_heads == 2 ? 1 : 2;
            check_rotation<float, float>(r, rows, angle_heads, by_head);
            switch (turn++ % 5) {
              case 0:
                check_rotation<double, float>(r, rows, angle_heads, by_head);
                break;
              case 1:
                check_rotation<double, double>(r, rows, angle_heads, by_head);
                break;
              case 2:
                check_rotation<float, double>(r, rows, angle_heads, by_head);
                break;
              case 3:
                check_rotation<Half, float>(r, rows, angle_heads, by_head);
                break;
              default:
                check_rotation<BFloat16, float>(r, rows, angle_heads, by_head);
            }
          }
    // More pairs than are computed at a time.
    check_rotation<float, float>({2 * 1030, Pairing::halves}, 2, 4, false);
    check_rotation<double, float>({2 * 1030, Pairing::adjacent}, 2, 1, false);
  }
}

// cos and sin of every magnitude, next to multiples of pi/2, and beyond the bound.
template <typename Angle, typename T>
void check_magnitudes() {
  std::vector<Angle> angles;
  for (int exponent = -30; exponent < 46; ++exponent)
    for (const double factor : {1.0, 1.3, 1.9999999})
      angles.push_back(
          static_cast<Angle>((exponent % 2 ? -1 : 1) * std::ldexp(factor, exponent)));
  for (int k = 1; k < 200000; k = 3 * k + 1)
    for (const int64_t step : {-1, 0, 1}) {
      const auto near = static_cast<Angle>(k * 1.5707963267948966);
      angles.push_back(std::nextafter(near, static_cast<Angle>(step) * near * 2));
    }
  const auto pairs = std::ssize(angles);
  testing::Tensor<T, 4> x({1, 1, 1, 2 * pairs}, T(1));
  auto got = x;
  const TokenRotation r{2 * pairs, Pairing::halves};
  const View<const Angle, 4> table(angles.data(), {1, 1, 1, pairs});
  rotate_by_angles(got.view(), table, r);
  expect_rotated<T, Angle>(std::as_const(x).view(), table, r, std::as_const(got).view(), 1);
  angles = {0x1p46,
            -0x1p46,
            std::numeric_limits<Angle>::max(),
            std::numeric_limits<Angle>::infinity(),
            std::numeric_limits<Angle>::quiet_NaN(),
            0};
  testing::Tensor<T, 4> beyond({1, 1, 1, 12}, T(1));
  rotate_by_angles(beyond.view(), View<const Angle, 4>(angles.data(), {1, 1, 1, 6}),
                   {12, Pairing::halves});
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(std::isnan(beyond.values[i]), i % 6 < 5) << i;
}

TEST(TokenAngles, AnglesUpTo2To46AreExactAndLargerOnesAreNaN) {
  for (const Isa isa : available_isas()) {
    SCOPED_TRACE(name(isa));
    const ScopedIsa scoped(isa);
    check_magnitudes<float, float>();
    check_magnitudes<double, float>();
    check_magnitudes<float, double>();
    check_magnitudes<double, double>();
  }
}

// The gradient of sum w . rotate(x), by central differences in double.
void check_gradient(Pairing pairing, int64_t angle_rows, int64_t angle_heads, bool by_head) {
  constexpr int64_t batch = 2, tokens = 3, heads = 4, pairs = 5, size = 13;
  const TokenRotation r{2 * pairs, pairing, 1};
  const std::array<std::ptrdiff_t, 4> shape{batch, tokens, heads, size};
  const std::array<std::ptrdiff_t, 4> strides{
      tokens * heads * size, by_head ? size : heads * size, by_head ? tokens * size : size, 1};
  auto x = testing::random_tensor<double, 4>(shape);
  auto angles = testing::random_tensor<double, 4>({angle_rows, tokens, angle_heads, pairs}, 2);
  const auto weights = testing::random_tensor<double, 4>(shape, 3);
  const auto view = [&](auto& of) { return View(of.values.data(), shape, strides); };
  testing::Tensor<double, 4> out(shape);
  const auto loss = [&] {
    rotate_by_angles(view(x), angles.view(), r, Direction::forward, view(out));
    double sum = 0;
    for (std::size_t i = 0; i < out.values.size(); ++i)
      sum += out.values[i] * weights.values[i];
    return sum;
  };
  loss();
  const auto rotated = out;
  auto grad = weights;
  testing::Tensor<double, 4> grad_angles(angles.extents, 7.0);  // is added to
  rotate_by_angles_backward(View<const double, 4>(rotated.values.data(), shape, strides),
                            angles.view(), r, view(grad), grad_angles.view());
  constexpr double h = 1e-5;
  const auto check = [&](double& value, double got) {
    const double before = value;
    value = before + h;
    const double above = loss();
    value = before - h;
    const double below = loss();
    value = before;
    ASSERT_NEAR(got, (above - below) / (2 * h), 1e-8);
  };
  for (std::size_t i = 0; i < x.values.size(); i += 7) check(x.values[i], grad.values[i]);
  for (std::size_t i = 0; i < angles.values.size(); i += 3)
    check(angles.values[i], grad_angles.values[i] - 7);
}

TEST(TokenAngles, GradientsAreThoseOfFiniteDifferences) {
  for (const Pairing pairing : {Pairing::halves, Pairing::adjacent})
    for (const int64_t rows : {1, 2})
      for (const int64_t heads : {1, 2, 4})
        for (const bool by_head : {false, true}) check_gradient(pairing, rows, heads, by_head);
}

// The gradients of narrow types are those of double within the rounding of the operands, and
// one thread gives the bits of four.
template <typename T>
void check_narrow_gradient(Pairing pairing) {
  const std::array<std::ptrdiff_t, 4> shape{2, 150, 4, 40};
  const auto rotated = testing::random_tensor<T, 4>(shape);
  const auto angles = testing::random_tensor<float, 4>({1, 150, 4, 20}, 2);
  const auto before = testing::random_tensor<T, 4>(shape, 3);
  testing::Tensor<double, 4> wide(shape), wide_grad(shape), wide_sums(angles.extents);
  testing::Tensor<double, 4> wide_angles(angles.extents);
  for (std::size_t i = 0; i < wide.values.size(); ++i) {
    wide.values[i] = as_double(rotated.values[i]);
    wide_grad.values[i] = as_double(before.values[i]);
  }
  for (std::size_t i = 0; i < angles.values.size(); ++i)
    wide_angles.values[i] = angles.values[i];
  const TokenRotation r{40, pairing};
  rotate_by_angles_backward(std::as_const(wide).view(), wide_angles.view(), r, wide_grad.view(),
                            wide_sums.view());
  std::vector<T> first_grad;
  std::vector<float> first_sums;
  const int all = threads();
  for (const int count : {1, 4}) {
    set_threads(count);
    auto grad = before;
    testing::Tensor<float, 4> sums(angles.extents);
    rotate_by_angles_backward(rotated.view(), angles.view(), r, grad.view(), sums.view());
    set_threads(all);
    for (std::size_t i = 0; i < grad.values.size(); ++i)
      ASSERT_NEAR(as_double(grad.values[i]), wide_grad.values[i], 4 * half_ulp<T> * 8);
    for (std::size_t i = 0; i < sums.values.size(); ++i)
      ASSERT_NEAR(sums.values[i], wide_sums.values[i], 2e-5);
    if (first_sums.empty()) {
      first_sums = sums.values;
      first_grad = grad.values;
    }
    EXPECT_EQ(first_sums, sums.values);
    for (std::size_t i = 0; i < grad.values.size(); ++i)
      ASSERT_EQ(as_double(first_grad[i]), as_double(grad.values[i]));
  }
}

TEST(TokenAngles, GradientsOfNarrowTypesOnEveryIsaAndNumberOfThreads) {
  for (const Isa isa : available_isas()) {
    SCOPED_TRACE(name(isa));
    const ScopedIsa scoped(isa);
    for (const Pairing pairing : {Pairing::halves, Pairing::adjacent}) {
      check_narrow_gradient<float>(pairing);
      check_narrow_gradient<Half>(pairing);
      check_narrow_gradient<BFloat16>(pairing);
    }
  }
}

// The sums of one row in long double, without reduction; 0 for padding.
std::vector<long double> naive_cumulative_angles(const std::vector<double>& increments,
                                                 const std::vector<std::int32_t>& sequences,
                                                 double scale, double start) {
  std::vector<long double> sums;
  long double sum = start;
  std::int32_t last = Positions::padding;
  for (std::size_t t = 0; t < increments.size(); ++t) {
    if (sequences[t] == Positions::padding) {
      sums.push_back(0);
      continue;
    }
    if (last != Positions::padding && last != sequences[t]) sum = 0;
    last = sequences[t];
    sum += static_cast<long double>(scale) * increments[t];
    sums.push_back(sum);
  }
  return sums;
}

// Left padding in row 0, packed sequences in row 1.
Positions padded_and_packed() {
  return {.batch = 2,
          .tokens = 7,
          .ids = {0, 0, 0, 1, 2, 3, 4, 0, 1, 0, 1, 2, 0, 0},
          .sequences = {-1, -1, 0, 0, 0, 0, 0, 5, 5, 2, 2, 2, 9, -1}};
}

template <typename T>
void check_sums(std::array<std::ptrdiff_t, 4> strides) {
  const Positions positions = padded_and_packed();
  const std::array<std::ptrdiff_t, 4> shape{2, 7, 3, 5};
  auto increments = testing::random_tensor<T, 4>(shape);
  for (T& one : increments.values) one *= T(3);
  const View<T, 4> x(increments.values.data(), shape, strides);
  const std::vector<double> scale{1, 0.5, -2, 1e3, 0.01};
  auto state = testing::random_tensor<double, 3>({2, 3, 5}, 4);
  const auto before = state;
  const double bad = std::numeric_limits<double>::quiet_NaN();
  for (int64_t h = 0; h < 3; ++h) x(0, 1, h, 2) = x(1, 6, h, 2) = static_cast<T>(bad);
  const auto copy = increments;
  const View<const T, 4> from(copy.values.data(), shape, strides);
  cumulative_angles(from, positions, scale, state.view(), x);  // x: the same strides
  constexpr long double turn = 6.283185307179586476925286766559005768L;
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t h = 0; h < 3; ++h)
      for (int64_t i = 0; i < 5; ++i) {
        std::vector<double> row;
        for (int64_t t = 0; t < 7; ++t) row.push_back(static_cast<double>(from(b, t, h, i)));
        const std::vector<std::int32_t> sequences(positions.sequences.begin() + 7 * b,
                                                  positions.sequences.begin() + 7 * b + 7);
        const auto sums = naive_cumulative_angles(row, sequences, scale[std::size_t(i)],
                                                  before.view()(b, h, i));
        const double bound = 7 * 0x1p-52 * 1e4;
        for (int64_t t = 0; t < 7; ++t) {
          const double got = x(b, t, h, i);
          ASSERT_LE(std::fabs(got), 3.1415927410125737);  // pi rounded to float
          ASSERT_NEAR(static_cast<double>(std::remainder(got - sums[std::size_t(t)], turn)), 0,
                      bound + 4 * half_ulp<T>);
          if (sequences[std::size_t(t)] == Positions::padding) {
            ASSERT_EQ(got, 0);
          }
        }
        const std::size_t last = b == 0 ? 6 : 5;
        ASSERT_NEAR(
            static_cast<double>(std::remainder(state.view()(b, h, i) - sums[last], turn)), 0,
            bound);
      }
}

TEST(CumulativeAngles, SumsRestartAtEachSequenceAndSkipPadding) {
  for (const Isa isa : available_isas()) {
    SCOPED_TRACE(name(isa));
    const ScopedIsa scoped(isa);
    check_sums<float>({105, 15, 5, 1});
    check_sums<float>({105, 5, 35, 1});
    check_sums<double>({105, 15, 5, 1});
  }
}

// Token by token with a state gives the bits of one call, for any number of threads.
TEST(CumulativeAngles, DecodingGivesTheBitsOfTheWholePass) {
  constexpr int64_t tokens = 40, heads = 7, pairs = 33;
  const auto increments = testing::random_tensor<float, 4>({2, tokens, heads, pairs});
  testing::Tensor<float, 4> whole(increments.extents), steps(increments.extents);
  cumulative_angles(increments.view(), consecutive(tokens), {}, {}, whole.view());
  testing::Tensor<double, 3> state({2, heads, pairs});
  const int all = threads();
  for (int64_t t = 0; t < tokens; ++t) {
    set_threads(t % 2 ? 1 : 4);
    cumulative_angles(increments.view().slice(1, t, 1), consecutive(1, t), {}, state.view(),
                      steps.view().slice(1, t, 1));
  }
  set_threads(all);
  EXPECT_EQ(whole.values, steps.values);
}

TEST(CumulativeAngles, FloatIncrementsHaveDoubleSums) {
  const auto increments = testing::random_tensor<float, 4>({2, 9, 3, 5});
  testing::Tensor<double, 4> wide(increments.extents), from_float(increments.extents),
      sums(increments.extents);
  for (std::size_t i = 0; i < wide.values.size(); ++i)
    wide.values[i] = double{increments.values[i]};
  cumulative_angles(wide.view(), consecutive(9), {}, {}, sums.view());
  cumulative_angles(increments.view(), consecutive(9), {}, {}, from_float.view());
  EXPECT_EQ(from_float.values, sums.values);
  testing::Tensor<double, 4> exact(increments.extents);
  testing::Tensor<float, 4> grad(increments.extents);
  cumulative_angles_backward(std::as_const(wide).view(), consecutive(9), {}, exact.view());
  cumulative_angles_backward(std::as_const(wide).view(), consecutive(9), {}, grad.view());
  for (std::size_t i = 0; i < grad.values.size(); ++i)
    EXPECT_EQ(grad.values[i], static_cast<float>(exact.values[i]));
}

// The sum is linear up to whole turns, so <w, sums(d)> = <backward(w), d>.
TEST(CumulativeAngles, TheGradientIsTheTransposedSum) {
  const Positions positions = padded_and_packed();
  const std::array<std::ptrdiff_t, 4> shape{2, 7, 3, 5};
  const auto weights = testing::random_tensor<double, 4>(shape, 5);
  const std::vector<double> scale{1, 0.5, -2, 0.3, 0.01};
  testing::Tensor<double, 4> grad(shape, 9.0);
  cumulative_angles_backward(weights.view(), positions, scale, grad.view());
  for (std::size_t at = 0; at < grad.values.size(); ++at) {
    testing::Tensor<double, 4> one(shape), sums(shape);
    one.values[at] = 0.5;
    cumulative_angles(one.view(), positions, scale, {}, sums.view());
    double product = 0;
    for (std::size_t i = 0; i < sums.values.size(); ++i)
      product += sums.values[i] * weights.values[i];
    ASSERT_NEAR(grad.values[at], product / 0.5, 1e-13) << at;
  }
}

TEST(TokenAngles, WrongCallsNameTheRule) {
  testing::Tensor<float, 4> x({2, 3, 4, 8}), angles({2, 3, 4, 3});
  const TokenRotation r{6, Pairing::halves, 1};
  const auto error = [&](const auto& of, const TokenRotation& rotation) {
    return message_of([&] { rotate_by_angles(x.view(), of, rotation); });
  };
  const auto table = [&](std::array<std::ptrdiff_t, 4> shape) {
    return View<const float, 4>(angles.values.data(), shape);
  };
  EXPECT_EQ(error(table({2, 3, 4, 3}), {5, Pairing::halves}),
            "[token_angles] rotary_dim must be even and at least 2, got 5");
  EXPECT_EQ(error(table({2, 3, 4, 3}), {6, Pairing::halves, -1}),
            "[token_angles] head_offset must not be negative, got -1");
  EXPECT_EQ(error(table({2, 3, 4, 3}), {6, Pairing::halves, 3}),
            "[token_angles] x must have at least head_offset + rotary_dim = 3 + 6 elements per "
            "head, got 8");
  EXPECT_EQ(error(table({3, 3, 2, 3}), r),
            "[token_angles] angles must have 1 row or those of x, 2, got 3");
  EXPECT_EQ(error(table({2, 2, 4, 3}), r),
            "[token_angles] angles must have the tokens of x, 3, got 2");
  EXPECT_EQ(error(table({2, 3, 3, 3}), r),
            "[token_angles] the heads of angles must divide those of x, 4, got 3");
  EXPECT_EQ(error(table({2, 3, 4, 2}), r),
            "[token_angles] angles must have rotary_dim / 2 pairs, 3, got 2");
  EXPECT_EQ(error(View<const float, 4>(x.values.data(), {2, 3, 4, 3}), r),
            "[token_angles] x must not overlap angles, got arrays with elements in common");
  EXPECT_EQ(
      message_of([&] {
        cumulative_angles(angles.view(),
                          {.batch = 1, .tokens = 3, .ids = {0, 0, 0}, .sequences = {4, 7, 4}},
                          {}, {}, angles.view());
      }),
      "[cumulative_angles] the tokens of a sequence must be consecutive; sequence, got 4");
  const std::vector<double> scale{1, 2};
  EXPECT_EQ(message_of([&] {
              cumulative_angles(angles.view(), consecutive(3), scale, {}, angles.view());
            }),
            "[cumulative_angles] scale must have a factor for each pair, 3, got 2");
  testing::Tensor<double, 3> state({2, 4, 2});
  EXPECT_EQ(message_of([&] {
              cumulative_angles(angles.view(), consecutive(3), {}, state.view(), angles.view());
            }),
            "[cumulative_angles] state must be [2, 4, 3], got [2, 4, 2]");
}

}  // namespace token_angles_test
}  // namespace gnomon
