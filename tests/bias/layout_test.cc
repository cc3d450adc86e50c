#include "gnomon/bias/layout.h"

#include <gtest/gtest.h>

#include <cmath>

#include "testing.h"

namespace gnomon {
namespace layout_test {

using testing::message_of;
using testing::Tensor;

// `relative_position_bucket` of the released models, with its float arithmetic.
int bucket_of(std::int64_t relative, int buckets, int max_distance) {
  int result = 0;
  buckets /= 2;
  if (relative > 0) result += buckets;
  const auto n = static_cast<double>(std::llabs(relative));
  const int exact = buckets / 2;
  if (n < exact) return result + static_cast<int>(n);
  const float large = std::log(static_cast<float>(n) / static_cast<float>(exact)) /
                      static_cast<float>(std::log(static_cast<double>(max_distance) / exact)) *
                      static_cast<float>(buckets - exact);
  return result + std::min(exact + static_cast<int>(large), buckets - 1);
}

struct Parts {
  Tensor<float, 2> text, x, y;  // released: [H, buckets]

  explicit Parts(std::int64_t heads, unsigned seed = 0)
      : text({heads, 32}), x({heads, 64}), y({heads, 64}) {
    if (!seed) return;
    text = testing::random_tensor<float, 2>({heads, 32}, seed);
    x = testing::random_tensor<float, 2>({heads, 64}, seed + 1);
    y = testing::random_tensor<float, 2>({heads, 64}, seed + 2);
  }
  template <typename T>
  static View<T, 2> turned(View<T, 2> of) {
    return {of.data(), {of.extent(1), of.extent(0)}, {of.stride(1), of.stride(0)}};
  }
  LayoutParameters<const float> read() const {
    return {turned(text.view()), turned(x.view()), turned(y.view())};
  }
  LayoutParameters<float> views() {
    return {turned(text.view()), turned(x.view()), turned(y.view())};
  }
};

// Words on a page of 1000 x 1000, with the class token at (0, 0).
WordBoxes page() {
  WordBoxes page;
  for (std::int64_t p = 0; p < 40; ++p) {
    page.x.push_back(p ? (p * 137) % 1000 : 0);
    page.y.push_back(p ? 30 + p / 6 * 25 : 0);
  }
  return page;
}

TEST(Layout, IsTheSumOfThreeTables) {
  constexpr std::int64_t heads = 2, count = 40;
  const WordBoxes on = page();
  const Parts parts(heads, 5);
  for (const LayoutBias& layout : {bias::layoutlm_v2(heads), bias::layoutlm_v3(heads, 64)}) {
    Tensor<double, 3> out({heads, count, count});
    dense(lower(layout, parts.read(), on), 0, out.view());
    const double scale = layout.scale;
    EXPECT_EQ(scale, layout == bias::layoutlm_v2(heads) ? 1.0 : 0.125);
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t i = 0; i < count; ++i)
        for (std::int64_t j = 0; j < count; ++j) {
          const auto at = [](const std::vector<std::int64_t>& of, std::int64_t p) {
            return of[static_cast<std::size_t>(p)];
          };
          const double expected =
              double{parts.text.view()(h, bucket_of(j - i, 32, 128))} +
              double{parts.x.view()(h, bucket_of(at(on.x, j) - at(on.x, i), 64, 256))} +
              double{parts.y.view()(h, bucket_of(at(on.y, j) - at(on.y, i), 64, 256))};
          ASSERT_NEAR(out.view()(h, i, j), scale * expected, 1e-15);
        }
  }
}

// The bias is linear in its values, so the gradient is the transposed sum.
TEST(Layout, GradientsByDifferences) {
  constexpr std::int64_t heads = 2, count = 40;
  const LayoutBias layout = bias::layoutlm_v3(heads, 16);
  const WordBoxes on = page();
  Parts parts(heads, 3), grads(heads);
  const auto grad = testing::random_tensor<float, 3>({heads, count, count}, 8);
  const AxesBias form = lower(layout, parts.read(), on);
  const BiasGradient of_form = add_bias_backward(grad.view(), form, 0);
  lower_backward(layout, on, of_form.values, grads.views());
  const auto loss = [&] {
    Tensor<double, 3> out({heads, count, count});
    dense(lower(layout, parts.read(), on), 0, out.view());
    double sum = 0;
    for (std::size_t n = 0; n < out.values.size(); ++n)
      sum += out.values[n] * double{grad.values[n]};
    return sum;
  };
  const auto compare = [&](Tensor<float, 2>& part, const Tensor<float, 2>& computed) {
    for (std::size_t n = 0; n < part.values.size(); n += 5) {
      const float kept = part.values[n];
      part.values[n] = kept + 0.5f;
      const double above = loss();
      part.values[n] = kept - 0.5f;
      const double expected = (above - loss()) / (double{kept + 0.5f} - double{kept - 0.5f});
      part.values[n] = kept;
      EXPECT_NEAR(computed.values[n], expected, 1e-5 * (1 + std::fabs(expected))) << n;
    }
  };
  compare(parts.text, grads.text);
  compare(parts.x, grads.x);
  compare(parts.y, grads.y);
}

TEST(Layout, TextIsReadAsLines) {
  const WordBoxes page = boxes_of_text(7, 3);
  EXPECT_EQ(page.x, (std::vector<std::int64_t>{0, 1, 2, 0, 1, 2, 0}));
  EXPECT_EQ(page.y, (std::vector<std::int64_t>{0, 0, 0, 1, 1, 1, 2}));
}

TEST(Layout, RefusesWhatBreaksItsBounds) {
  const Parts parts(2);
  const auto says = [&](const LayoutBias& layout, const WordBoxes& on) {
    return message_of([&] { lower(layout, parts.read(), on); });
  };
  EXPECT_EQ(says({}, page()), "[layout] heads must be at least 1, got 0");
  EXPECT_EQ(says({.heads = 2, .scale = NAN}, page()), "[layout] scale must be finite, got nan");
  EXPECT_EQ(says(bias::layoutlm_v2(2), {}),
            "[layout] a page must have at least 1 position, got 0");
  EXPECT_EQ(says(bias::layoutlm_v2(2), {{1, 2}, {1}}),
            "[layout] a page must have as many y as x, 2, got 1");
  EXPECT_EQ(says(bias::layoutlm_v2(2), {{1}, {std::int64_t{1} << 40}}),
            "[layout] coordinates must be at most 2^31 in magnitude, got 1099511627776");
  EXPECT_EQ(says(bias::layoutlm_v2(2), {{-5, 1 << 20}, {0, 0}}),
            "[layout] a page must be at most 2^20 wide and high, got 1048581");
  EXPECT_EQ(says({.heads = 2, .page_buckets = 32}, page()),
            "[t5] the table must have a row for each bucket, 32, got 64");
  EXPECT_EQ(message_of([] { boxes_of_text(3, 0); }),
            "[layout] columns must be at least 1, got 0");
  EXPECT_EQ(message_of([] { bias::layoutlm_v3(2, 0); }),
            "[layout] head_dim must be at least 1, got 0");
  Parts grads(2);
  EXPECT_EQ(
      message_of([&] {
        lower_backward(bias::layoutlm_v2(2), boxes_of_text(3, 2), std::vector<double>(7),
                       grads.views());
      }),
      "[layout] the gradient of the bias must have heads x distances of all axes, 22, got 7");
  // Three distances: their product with the heads is 2 in 64 bits.
  EXPECT_EQ(message_of([&] {
              lower_backward(bias::layoutlm_v2(0x5555555555555556), {{0}, {0}},
                             std::vector<double>(2), grads.views());
            }),
            "[layout] heads x distances must fit in memory, got 6148914691236517206 x 3");
}

}  // namespace layout_test
}  // namespace gnomon
