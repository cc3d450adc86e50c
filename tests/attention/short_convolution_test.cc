// Compares short convolutions with their formula, and decoding with the whole text.
#include "gnomon/attention/short_convolution.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "gnomon/parallel.h"
#include "testing.h"

namespace gnomon {
namespace short_convolution_test {

using testing::as_double;
using testing::half_ulp;
using testing::message_of;
using testing::random_tensor;
using testing::Tensor;

constexpr std::ptrdiff_t batch = 2, tokens = 9, channels = 6, heads = 3, taps = 4;

// One channel: y[t] = scale (x[t] + sum over n of w[n] x[t - n]), with zeros before x.
std::vector<long double> naive_convolve(const std::vector<double>& x,
                                        const std::vector<std::vector<double>>& w,
                                        double scale) {
  std::vector<long double> y;
  for (std::size_t t = 0; t < x.size(); ++t) {
    long double sum = x[t];
    for (std::size_t n = 0; n <= t && n < w[t].size(); ++n)
      sum += static_cast<long double>(w[t][n]) * x[t - n];
    y.push_back(scale * sum);
  }
  return y;
}

template <typename T>
void expect_formula(TapOrder order, bool is_dynamic) {
  const ShortConvolution convolution{.taps = taps, .order = order, .scale = 0.7};
  const auto x = random_tensor<T, 3>({batch, tokens, channels}, 1);
  const auto weight = random_tensor<float, 2>({channels, taps}, 2);
  const auto dynamic = random_tensor<float, 4>({batch, tokens, heads, taps}, 3);
  Tensor<T, 3> out({batch, tokens, channels});
  const View<const float, 4> given =
      is_dynamic ? View<const float, 4>(dynamic.view()) : View<const float, 4>();
  convolve(convolution, x.view(), weight.view(), given, {}, out.view());
  for (std::ptrdiff_t b = 0; b < batch; ++b)
    for (std::ptrdiff_t c = 0; c < channels; ++c) {
      std::vector<double> own;
      std::vector<std::vector<double>> w;
      for (std::ptrdiff_t t = 0; t < tokens; ++t) {
        own.push_back(as_double(x.view()(b, t, c)));
        w.emplace_back();
        for (std::ptrdiff_t n = 0; n < taps; ++n)
          w.back().push_back(
              double{weight.view()(c, order == TapOrder::oldest_first ? taps - 1 - n : n)} +
              (is_dynamic ? double{dynamic.view()(b, t, c / 2, n)} : 0));
      }
      const auto exact = naive_convolve(own, w, convolution.scale);
      for (std::ptrdiff_t t = 0; t < tokens; ++t) {
        const auto y = static_cast<double>(exact[static_cast<std::size_t>(t)]);
        ASSERT_NEAR(as_double(out.view()(b, t, c)), y,
                    half_ulp<T> * std::abs(y) * 1.001 + 1e-15);
      }
    }
}

TEST(ShortConvolution, IsItsFormula) {
  for (const TapOrder order : {TapOrder::oldest_first, TapOrder::newest_first})
    for (const bool is_dynamic : {false, true}) {
      expect_formula<float>(order, is_dynamic), expect_formula<double>(order, is_dynamic);
      expect_formula<Half>(order, is_dynamic), expect_formula<BFloat16>(order, is_dynamic);
    }
}

// Any division of a text gives the bits of the whole text.
TEST(ShortConvolution, ContinuesFromItsState) {
  const ShortConvolution convolution = inkling2_convolution(taps);
  const auto x = random_tensor<float, 3>({batch, tokens, channels}, 1);
  const auto weight = random_tensor<float, 2>({channels, taps}, 2);
  Tensor<float, 3> whole({batch, tokens, channels}), parts = whole;
  convolve(convolution, x.view(), weight.view(), {}, {}, whole.view());
  for (const std::vector<std::ptrdiff_t>& pieces :
       {std::vector<std::ptrdiff_t>{5, 4}, {1, 1, 1, 1, 1, 1, 1, 1, 1}, {2, 0, 1, 6}}) {
    Tensor<float, 3> state({batch, taps - 1, channels});
    std::ptrdiff_t first = 0;
    for (const std::ptrdiff_t count : pieces) {
      convolve(convolution, x.view().slice(1, first, count), weight.view(), {}, state.view(),
               parts.view().slice(1, first, count));
      first += count;
    }
    EXPECT_EQ(parts.values, whole.values);
    for (std::ptrdiff_t n = 0; n < taps - 1; ++n)
      EXPECT_EQ(state.view()(1, n, 2), x.view()(1, tokens - taps + 1 + n, 2));
  }
}

// Packed texts and left padding give the values of each text alone.
TEST(ShortConvolution, KeepsSequencesApart) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  const ShortConvolution convolution = inkling_convolution(taps);
  auto x = random_tensor<float, 3>({1, tokens, channels}, 1);
  const auto weight = random_tensor<float, 2>({channels, taps}, 2);
  Positions of{.batch = 1,
               .tokens = tokens,
               .ids = testing::iota(0, tokens),
               .sequences = {-1, -1, 0, 0, 0, 0, 1, 1, 1}};
  for (std::ptrdiff_t n = 0; n < 2 * channels; ++n) x.values[static_cast<std::size_t>(n)] = nan;
  Tensor<float, 3> out({1, tokens, channels}), state({1, taps - 1, channels});
  convolve(convolution, x.view(), weight.view(), {}, state.view(), out.view(), &of);
  for (const auto& [first, count] : {std::pair{2, 4}, {6, 3}}) {
    Tensor<float, 3> alone({1, count, channels});
    convolve(convolution, x.view().slice(1, first, count), weight.view(), {}, {}, alone.view());
    for (std::size_t n = 0; n < alone.values.size(); ++n)
      EXPECT_EQ(out.values[static_cast<std::size_t>(first * channels) + n], alone.values[n]);
  }
  for (const float number : state.values) EXPECT_FALSE(std::isnan(number));
}

TEST(ShortConvolution, RefusesWhatDoesNotFit) {
  const Tensor<float, 3> x({1, 3, 6});
  const Tensor<float, 2> weight({6, 4});
  const Tensor<float, 4> dynamic({1, 3, 4, 4});
  Tensor<float, 3> out({1, 3, 6}), state({1, 2, 6});
  const auto says = [&](const ShortConvolution& convolution, const ConstTensor& given = {},
                        const gnomon::Tensor& kept = {}) {
    return message_of(
        [&] { convolve(convolution, x.view(), weight.view(), given, kept, out.view()); });
  };
  const auto of_dynamic = dynamic.view();
  const auto of_state = state.view();
  EXPECT_EQ(says(inkling_convolution()), "");
  EXPECT_EQ(says({.taps = 4}),
            "[short_convolution] order must be oldest_first or newest_first, got 0");
  EXPECT_EQ(says(inkling_convolution(65)), "[short_convolution] taps must be 1 to 64, got 65");
  EXPECT_EQ(says(inkling_convolution(3)),
            "[short_convolution] weight must be [6, 3], got [6, 4]");
  EXPECT_EQ(says(inkling_convolution(), of_dynamic),
            "[short_convolution] the heads of dynamic must divide the channels 6, got 4");
  EXPECT_EQ(says(inkling_convolution(), {}, of_state),
            "[short_convolution] state must be [1, 3, 6], got [1, 2, 6]");
}

}  // namespace short_convolution_test
}  // namespace gnomon
