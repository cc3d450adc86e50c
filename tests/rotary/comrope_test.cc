// ComRoPE compared with matrix exponentials of the released code's generators.
#include "gnomon/rotary/comrope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "testing.h"

namespace gnomon {
namespace comrope_test {

using std::int64_t;
using testing::message_of;

constexpr int64_t heads = 2, pairs = 4;
ComRope spec(ComRopeForm form) {
  return {.heads = heads, .rotary_dim = 2 * pairs, .form = form, .grid = {3, 5}};
}
using Matrix = std::array<double, 4>;  // 2 x 2, row by row

Matrix product(const Matrix& a, const Matrix& b) {
  return {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3], a[2] * b[0] + a[3] * b[2],
          a[2] * b[1] + a[3] * b[3]};
}
// exp(m) by its series.
Matrix exponential(const Matrix& m) {
  Matrix sum{1, 0, 0, 1}, term = sum;
  for (int n = 1; n < 60; ++n) {
    term = product(term, m);
    for (std::size_t i = 0; i < 4; ++i) sum[i] += (term[i] /= n);
  }
  return sum;
}

// The scores of the released code: positions (cell + 0.5) / extent, exp(sum x_a B_aj), both
// queries and keys.
TEST(ComRope, ScoresAreThoseOfMatrixExponentials) {
  for (const ComRopeForm form :
       {ComRopeForm::axial_partition, ComRopeForm::linearly_dependent}) {
    const auto p = testing::random_tensor<float, 2>({heads, 4 * pairs}, 1);
    const auto m = testing::random_tensor<float, 2>({2, pairs}, 2);
    ComRopeMatrices<const float> values{p.view(), {}};
    if (form == ComRopeForm::linearly_dependent) values.multiplier = m.view();
    const int64_t tokens = 4;
    const auto q = testing::random_tensor<double, 4>({1, tokens, heads, 2 * pairs}, 3);
    const auto k = testing::random_tensor<double, 4>({1, tokens, heads, 2 * pairs}, 4);
    std::vector<Positions> at{consecutive(tokens), consecutive(tokens)};
    at[0].ids = {0, 1, 2, 1}, at[1].ids = {4, 0, 2, 3};
    auto q_turned = q, k_turned = k;
    const HeadAngles angles(lower(spec(form), values), at);
    rotate(q_turned.view(), angles);
    rotate(k_turned.view(), angles);
    const auto released = [&](const testing::Tensor<double, 4>& x, int64_t t, int64_t h) {
      std::vector<double> out;
      for (int64_t j = 0; j < pairs; ++j) {
        const auto element = [&](int64_t n) { return double{p.view()(h, 4 * j + n)}; };
        Matrix sum{};
        for (int64_t a = 0; a < 2; ++a) {
          const double factor = form == ComRopeForm::linearly_dependent ? double{m.view()(a, j)}
                                                                        : double(j % 2 == a);
          const double position =
              (double(at[std::size_t(a)].ids[std::size_t(t)]) + 0.5) / (a == 0 ? 3 : 5);
          for (int64_t n = 0; n < 4; ++n)  // P - P^T
            sum[std::size_t(n)] += factor * position *
                                   (element(n) - element(n == 1   ? 2
                                                         : n == 2 ? 1
                                                                  : n));
        }
        const Matrix r = exponential(sum);
        const double a = x.view()(0, t, h, 2 * j), b = x.view()(0, t, h, 2 * j + 1);
        out.push_back(r[0] * a + r[1] * b);
        out.push_back(r[2] * a + r[3] * b);
      }
      return out;
    };
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t s = 0; s < tokens; ++s)
        for (int64_t t = 0; t < tokens; ++t) {
          const auto left = released(q, s, h), right = released(k, t, h);
          double want = 0, got = 0;
          for (int64_t d = 0; d < 2 * pairs; ++d) {
            want += left[std::size_t(d)] * right[std::size_t(d)];
            got += q_turned.view()(0, s, h, d) * k_turned.view()(0, t, h, d);
          }
          ASSERT_NEAR(got, want, 1e-12) << int(form) << ' ' << h << ' ' << s << ' ' << t;
        }
  }
}

// sum w . inv_freq is bilinear in P and m, so central differences have no error but rounding.
TEST(ComRope, GradientsAreThoseOfDifferences) {
  for (const ComRopeForm form :
       {ComRopeForm::axial_partition, ComRopeForm::linearly_dependent}) {
    auto p = testing::random_tensor<float, 2>({heads, 4 * pairs}, 1);
    auto m = testing::random_tensor<float, 2>({2, pairs}, 2);
    testing::Tensor<float, 2> p_grad(p.extents, 1.0f), m_grad(m.extents, 1.0f);
    const bool dependent = form == ComRopeForm::linearly_dependent;
    const auto values = [&] {
      return ComRopeMatrices<const float>{
          std::as_const(p).view(),
          dependent ? std::as_const(m).view() : View<const float, 2>()};
    };
    const auto w = testing::random_numbers(heads * 2 * pairs, 6);
    lower_backward(spec(form), values(), w,
                   {p_grad.view(), dependent ? m_grad.view() : View<float, 2>()});
    const auto loss = [&] {
      const HeadFrequencies f = lower(spec(form), values());
      double sum = 0;
      for (std::size_t i = 0; i < w.size(); ++i) sum += w[i] * f.inv_freq[i];
      return sum;
    };
    for (auto [of, grad] : {std::pair(&p, &p_grad), std::pair(&m, &m_grad)})
      for (std::size_t i = 0; i < of->values.size(); ++i) {
        const float before = of->values[i];
        of->values[i] = before + 0.5f;
        const double high = of->values[i], above = loss();
        of->values[i] = before - 0.5f;
        const double low = of->values[i], below = loss();
        of->values[i] = before;
        ASSERT_NEAR(grad->values[i] - 1, (above - below) / (high - low), 2e-6) << i;
      }
  }
}

TEST(ComRope, ErrorsNameTheFieldAndItsValue) {
  const auto p = testing::random_tensor<float, 2>({heads, 4 * pairs});
  const auto m = testing::random_tensor<float, 2>({2, pairs});
  const auto message = [&](auto change, bool both = false) {
    ComRope one = spec(ComRopeForm::axial_partition);
    change(one);
    return message_of(
        [&] { lower(one, {p.view(), both ? m.view() : View<const float, 2>()}); });
  };
  EXPECT_EQ(message([](auto& s) { s.heads = 0; }), "[comrope] heads must be at least 1, got 0");
  EXPECT_EQ(message([](auto& s) { s.grid = {}; }),
            "[comrope] grid must have at least 1 axis, got 0");
  EXPECT_EQ(message([](auto& s) { s.grid = {4, 0}; }),
            "[comrope] extents of the grid must be at least 1, got 0");
  EXPECT_EQ(message([](auto& s) { s.rotary_dim = 6; }),
            "[comrope] rotary_dim must be a multiple of 2 for each axis, 4, got 6");
  EXPECT_EQ(message([](auto& s) { s.form = {}; }),
            "[comrope] form must be axial_partition (1) or linearly_dependent (2), got 0");
  EXPECT_EQ(message([](auto& s) { s.heads = 3; }),
            "[comrope] freqs must be [3, 16], got [2, 16]");
  EXPECT_EQ(message([](auto& s) { s.form = ComRopeForm::linearly_dependent; }),
            "[comrope] multiplier must be [2, 4], got [0, 0]");
  EXPECT_EQ(message(
                [](auto& s) {
                  s.form = ComRopeForm::linearly_dependent;
                  s.rotary_dim = 5;
                },
                true),
            "[comrope] rotary_dim must be even and at least 2, got 5");
}

}  // namespace comrope_test
}  // namespace gnomon
