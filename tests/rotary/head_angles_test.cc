#include "gnomon/rotary/head_angles.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "testing.h"

namespace gnomon {
namespace head_angles_test {

using std::int64_t;
using testing::message_of;
using testing::random_tensor;

constexpr int64_t heads = 2, axes = 2, pairs = 3, tokens = 5, batch = 2;

// x [B, T, Hx, D] rotated in long double, head by head.
template <typename T>
std::vector<long double> naive_rotate(const testing::Tensor<T, 4>& x, const HeadFrequencies& f,
                                      const std::vector<Positions>& at) {
  const auto view = x.view();
  std::vector<long double> out;
  for (int64_t b = 0; b < view.extent(0); ++b)
    for (int64_t t = 0; t < view.extent(1); ++t)
      for (int64_t h = 0; h < view.extent(2); ++h) {
        std::vector<long double> head;
        for (int64_t d = 0; d < view.extent(3); ++d)
          head.push_back(static_cast<long double>(testing::as_double(view(b, t, h, d))));
        const int64_t own = h / (view.extent(2) / f.heads), half = f.rotary_dim() / 2;
        for (int64_t i = 0; i < half; ++i) {
          long double u = f.phases.empty() ? 0 : f.phases[std::size_t(own)];
          for (int64_t a = 0; a < f.axes; ++a) {
            const Positions& axis = at[std::size_t(a)];
            const auto row = std::size_t((axis.batch == 1 ? 0 : b * axis.tokens) + t);
            u += static_cast<long double>(axis.ids[row]) *
                 f.inv_freq[std::size_t((own * f.axes + a) * half + i)];
          }
          const bool halves = f.pairing == Pairing::halves;
          const auto p = std::size_t(f.head_offset + (halves ? i : 2 * i));
          const auto q = std::size_t(f.head_offset + (halves ? i + half : 2 * i + 1));
          const long double left = head[p], right = head[q];
          head[p] = left * std::cos(u) - right * std::sin(u);
          head[q] = left * std::sin(u) + right * std::cos(u);
        }
        out.insert(out.end(), head.begin(), head.end());
      }
  return out;
}

HeadFrequencies frequencies_of(Pairing pairing) {
  HeadFrequencies f{
      .pairing = pairing, .head_offset = 1, .heads = heads, .axes = axes, .inv_freq = {}};
  f.inv_freq = testing::random_numbers(heads * axes * pairs, 7);
  f.phases = {0.25, -1.5};
  return f;
}

// The second axis has positions of each row.
std::vector<Positions> positions_of(int64_t rows) {
  Positions first = consecutive(tokens, 3, rows), second = first;
  for (std::size_t i = 0; i < second.ids.size(); ++i)
    second.ids[i] = static_cast<int64_t>(i * i % 11) - 4;
  return {first, second};
}

template <typename T>
void expect_rotated(double bound) {
  for (const Pairing pairing : {Pairing::halves, Pairing::adjacent})
    for (const int64_t rows : {int64_t{1}, batch})
      for (const int64_t of_x : {heads, 3 * heads}) {
        const HeadFrequencies f = frequencies_of(pairing);
        const auto at = positions_of(rows);
        const auto x = random_tensor<T, 4>({batch, tokens, of_x, 2 * pairs + 3});
        const auto want = naive_rotate(x, f, at);
        auto got = x;
        rotate(got.view(), HeadAngles(f, at));
        for (std::size_t i = 0; i < want.size(); ++i)
          ASSERT_NEAR(testing::as_double(got.values[i]), static_cast<double>(want[i]), bound);
        rotate(got.view(), HeadAngles(f, at), Direction::inverse);
        for (std::size_t i = 0; i < want.size(); ++i)
          ASSERT_NEAR(testing::as_double(got.values[i]), testing::as_double(x.values[i]),
                      2 * bound);
      }
}

TEST(HeadAngles, RotateAsTheNaiveVersion) {
  expect_rotated<double>(1e-13);
  expect_rotated<float>(3e-6);
  expect_rotated<BFloat16>(4e-2);
}

// More tokens than one block of angles.
TEST(HeadAngles, RotateManyTokensAsFew) {
  HeadFrequencies f{.pairing = Pairing::halves, .heads = 64, .inv_freq = {}};
  f.inv_freq = testing::random_numbers(64 * 128, 3);
  const int64_t many = 300;
  auto x = random_tensor<float, 4>({1, many, 64, 256}), last = x;
  const std::vector<Positions> all{consecutive(many)};
  rotate(x.view(), HeadAngles(f, all));
  const std::vector<Positions> one{consecutive(1, many - 1)};
  rotate(last.view().slice(1, many - 1, 1), HeadAngles(f, one));
  for (int64_t d = 0; d < 256; ++d)
    ASSERT_EQ(x.view()(0, many - 1, 63, d), last.view()(0, many - 1, 63, d));
}

// The loss sum w . rotate(x), by central differences.
TEST(HeadAngles, GradientOfFrequenciesIsThatOfFiniteDifferences) {
  for (const Pairing pairing : {Pairing::halves, Pairing::adjacent}) {
    HeadFrequencies f = frequencies_of(pairing);
    auto at = positions_of(batch);
    const std::array<std::ptrdiff_t, 4> shape{batch, tokens, 2 * heads, 2 * pairs + 2};
    const auto x = random_tensor<double, 4>(shape), w = random_tensor<double, 4>(shape, 3);
    const auto rotated = [&] {
      auto out = x;
      rotate(out.view(), HeadAngles(f, at));
      return out;
    };
    const auto loss = [&] {
      const auto out = rotated();
      double sum = 0;
      for (std::size_t i = 0; i < out.values.size(); ++i) sum += out.values[i] * w.values[i];
      return sum;
    };
    std::vector<double> grad(f.inv_freq.size(), 1.0);
    const auto out = rotated();
    frequencies_backward(out.view(), w.view(), HeadAngles(f, at), grad);
    for (std::size_t i = 0; i < grad.size(); ++i) {
      const double before = f.inv_freq[i];
      f.inv_freq[i] = before + 1e-6;
      const double above = loss();
      f.inv_freq[i] = before - 1e-6;
      ASSERT_NEAR(grad[i] - 1, (above - loss()) / 2e-6, 1e-6) << i;
      f.inv_freq[i] = before;
    }
  }
}

TEST(HeadAngles, ErrorsNameTheRuleAndTheValue) {
  const auto at = positions_of(1);
  const auto message = [&](auto change) {
    HeadFrequencies f = frequencies_of(Pairing::halves);
    change(f);
    return message_of([&] { HeadAngles(f, at); });
  };
  EXPECT_EQ(message([](auto& f) { f.heads = 0; }),
            "[head_angles] heads must be at least 1, got 0");
  EXPECT_EQ(message([](auto& f) { f.axes = 0; }),
            "[head_angles] axes must be at least 1, got 0");
  EXPECT_EQ(message([](auto& f) { f.head_offset = -1; }),
            "[head_angles] head_offset must not be negative, got -1");
  EXPECT_EQ(message([](auto& f) { f.inv_freq.pop_back(); }),
            "[head_angles] inv_freq must have R/2 elements for each of 2 heads and 2 axes, got "
            "11");
  EXPECT_EQ(message([](auto& f) { f.inv_freq[3] = INFINITY; }),
            "[head_angles] inv_freq must be finite, got inf");
  EXPECT_EQ(message([](auto& f) { f.phases = {1}; }),
            "[head_angles] phases must be empty or one for each of the heads, got 1");
  EXPECT_EQ(message([](auto& f) { f.phases = {1, -INFINITY}; }),
            "[head_angles] phases must be finite, got -inf");
  EXPECT_EQ(message([](auto& f) { f.axes = 1; }),
            "[head_angles] there must be positions on 1 axes, got 2");
  const HeadFrequencies fine = frequencies_of(Pairing::halves);
  EXPECT_EQ(message_of([&] {
              HeadAngles(fine, std::vector<Positions>{consecutive(4), consecutive(5)});
            }),
            "[head_angles] the positions of all axes must have the same shape, got 5");
  const HeadAngles angles(fine, positions_of(batch));
  const auto turned = [&](std::array<std::ptrdiff_t, 4> shape) {
    return message_of([&] {
      auto x = random_tensor<float, 4>(shape);
      rotate(x.view(), angles);
    });
  };
  EXPECT_EQ(turned({batch, tokens + 1, heads, 8}),
            "[head_angles] x must have the tokens of the positions, 5, got 6");
  EXPECT_EQ(turned({batch + 1, tokens, heads, 8}),
            "[head_angles] x must have the rows of the positions, 2, got 3");
  EXPECT_EQ(turned({batch, tokens, heads + 1, 8}),
            "[head_angles] the heads of x must be a multiple of 2, which have angles of their "
            "own, got 3");
  EXPECT_EQ(turned({batch, tokens, heads, 6}),
            "[token_angles] x must have at least head_offset + rotary_dim = 1 + 6 elements per "
            "head, got 6");
  const auto x = random_tensor<float, 4>({batch, tokens, heads, 8});
  std::vector<double> few(3);
  EXPECT_EQ(message_of([&] { frequencies_backward(x.view(), x.view(), angles, few); }),
            "[head_angles] grad must have 12 elements, got 3");
}

}  // namespace head_angles_test
}  // namespace gnomon
