#include "gnomon/cuda/bias_gradient.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "cuda/bias_gradient_example.h"
#include "cuda/bias_gradient_oracle.h"
#include "cuda/devices.h"
#include "gnomon/bias/t5.h"

namespace gnomon {
namespace cuda_bias_gradient_test {

using std::int64_t;
using testing::Case;
using testing::Exact;
using testing::exact_gradient;
using testing::Layout;
using testing::message_of;
using testing::random_numbers;
using testing::same_bits;
using testing::Tensors;

AttentionMask causal(int64_t offset = 0) { return {Visibility::causal, offset, {}, {}}; }
AttentionMask window(int64_t left, int64_t right, int64_t offset = 0) {
  return {Visibility::bidirectional, offset, left, right};
}
AttentionMask all(int64_t offset = 0) { return {Visibility::bidirectional, offset, {}, {}}; }

// Floats, so that the device has the same values.
std::vector<double> floats(std::size_t count, unsigned seed) {
  std::vector<double> numbers = random_numbers(count, seed);
  for (double& number : numbers) number = static_cast<float>(number);
  return numbers;
}

SlopeBias slope(int64_t heads) {
  std::vector<double> slopes(static_cast<std::size_t>(heads));
  for (std::size_t h = 0; h < slopes.size(); ++h) slopes[h] = 0.25 / static_cast<double>(h + 1);
  return {slopes};
}
StripBias strip(int64_t heads, int64_t min_distance, int64_t count) {
  return {heads, min_distance, floats(static_cast<std::size_t>(heads * count), 7)};
}
GridBias grid(int64_t heads, int64_t height, int64_t width, int64_t leading) {
  GridBias form{heads, height, width, leading, {}};
  form.values = floats(static_cast<std::size_t>(heads * form.offsets()), 8);
  return form;
}
PiecewiseLogBias pieces(int64_t heads, double threshold) {
  PiecewiseLogBias form{heads, 0.125, threshold, 0, {0, 0.1875, 0.34375, 0.609375, 0.875},
                        {},    {}};
  const auto count = static_cast<std::size_t>(heads * form.pieces());
  form.offsets = floats(count, 9);
  form.slopes = floats(count, 10);
  return form;
}

cuda::BiasGradientOptions options_of(const Case& one) {
  return {.mask = one.mask, .softmax_scale = one.scale, .cap = one.cap};
}

// Runs bias_gradient. Out: float or double.
template <typename Out, typename T>
std::vector<Out> run(const Case& one, const Tensors<T>& tensors, const BiasForm& form) {
  const cuda::DeviceBias bias(form);
  const typename Tensors<T>::OnDevice there(tensors);
  const cuda::BiasGradientInput input = there.input();
  const int64_t size = bias.gradient_size();
  const cuda::Array<Out> values(static_cast<std::size_t>(one.heads * size));
  const std::size_t bytes = cuda::bias_gradient_workspace(input, bias.view(), options_of(one));
  const cuda::Array<std::uint8_t> workspace(bytes);
  cuda::bias_gradient(input, bias.view(), options_of(one),
                      cuda::on_device(View<Out, 2>(values.data(), {one.heads, size})),
                      cuda::on_device(View<std::uint8_t, 1>(
                          workspace.data(), {static_cast<std::ptrdiff_t>(bytes)})));
  cuda::synchronize();
  return values.to_host();
}

// The bound of the header.
template <typename T>
void expect_close(const std::vector<double>& got, const Exact& exact, const BiasForm& form) {
  ASSERT_EQ(got.size(), exact.values.size());
  const bool log = std::holds_alternative<PiecewiseLogBias>(form);
  const double of_out = std::is_same_v<T, float> ? 0 : 2 * testing::half_ulp<T>;
  const double e = (log ? 0x1p-14 : 0x1p-16) + of_out;
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], exact.values[i], e * exact.lengths * exact.weights[i] + 1e-30)
        << "entry " << i;
}

template <typename T>
void check(const Case& one, const BiasForm& form) {
  const Tensors<T> tensors(one, form);
  expect_close<T>(run<double>(one, tensors, form), exact_gradient(one, tensors, form), form);
}

template <typename T>
class CudaBiasGradient : public ::testing::Test {};
using Types = ::testing::Types<float, Half, BFloat16>;
TYPED_TEST_SUITE(CudaBiasGradient, Types);

// Several tiles, several heads for each key head, sizes that are not those of tiles.
TYPED_TEST(CudaBiasGradient, OfAStripEqualsTheOracle) {
  const int64_t b = 1;
  for (const Case& one : {
           Case{b, 140, 140, 4, 2, 40, 24, causal(), Layout::tokens_first},
           Case{b, 131, 70, 1, 1, 64, 64, all(), Layout::heads_first},
           Case{b, 30, 290, 2, 1, 8, 8, all(5), Layout::heads_first},
           Case{b, 60, 140, 2, 2, 16, 136, causal(77), Layout::tokens_first},
           Case{2, 150, 20, 1, 1, 8, 16, window(10, 0), Layout::tokens_first},
           Case{b, 180, 180, 1, 1, 8, 8, window(9, 4), Layout::heads_first},
       })
    check<TypeParam>(one, strip(one.heads, -300, 601));
}

TYPED_TEST(CudaBiasGradient, OfASlopeEqualsTheOracle) {
  check<TypeParam>({1, 150, 150, 2, 1, 16, 16, causal(), Layout::tokens_first}, slope(2));
  check<TypeParam>({2, 40, 70, 1, 1, 24, 8, window(20, 5, 10), Layout::tokens_first}, slope(1));
}

TYPED_TEST(CudaBiasGradient, OfAGridEqualsTheOracle) {
  check<TypeParam>({3, 49, 49, 2, 2, 32, 32, all(), Layout::tokens_first}, grid(2, 7, 7, 0));
  check<TypeParam>({1, 145, 145, 1, 1, 16, 16, all(), Layout::heads_first}, grid(1, 9, 16, 1));
  check<TypeParam>({1, 20, 30, 1, 1, 8, 8, causal(3), Layout::heads_first}, grid(1, 10, 3, 1));
}

TYPED_TEST(CudaBiasGradient, OfPiecesEqualsTheOracle) {
  check<TypeParam>({1, 150, 150, 2, 1, 16, 16, causal(), Layout::tokens_first},
                   pieces(2, 60.5));
  check<TypeParam>({2, 40, 61, 1, 1, 8, 8, all(3), Layout::tokens_first}, pieces(1, 20));
  // The pieces of a key differ between the rows of a warp.
  check<TypeParam>({1, 128, 128, 1, 1, 8, 8, all(), Layout::tokens_first}, pieces(1, 20));
}

// More tiles in a band than a segment has.
TYPED_TEST(CudaBiasGradient, OfManyRowsOfTheBatchEqualsTheOracle) {
  check<TypeParam>({9, 20, 20, 2, 1, 8, 8, causal(), Layout::tokens_first}, strip(2, -19, 20));
  check<TypeParam>({9, 13, 13, 1, 1, 8, 8, all(), Layout::tokens_first}, grid(1, 3, 4, 1));
  check<TypeParam>({9, 20, 20, 1, 1, 8, 8, all(), Layout::tokens_first}, pieces(1, 8));
}

TYPED_TEST(CudaBiasGradient, HasScaleAndCap) {
  Case one{1, 40, 40, 1, 1, 32, 32, causal(), Layout::tokens_first};
  one.scale = 1.0 / 3;
  one.cap = 2;
  check<TypeParam>(one, strip(1, -39, 40));
  check<TypeParam>(one, pieces(1, 8));
}

TYPED_TEST(CudaBiasGradient, HasTheSameBitsInEachOrder) {
  using T = TypeParam;
  const Case one{2, 135, 135, 1, 1, 72, 16, causal(), Layout::tokens_first};
  const Tensors<T> tensors(one, slope(1));
  for (const BiasForm& form : {BiasForm(slope(1)), BiasForm(strip(1, -134, 200)),
                               BiasForm(grid(1, 15, 9, 0)), BiasForm(pieces(1, 60))})
    testing::in_all_orders<double>([&] { return run<double>(one, tensors, form); });
}

TEST(CudaBiasGradientOutput, IsFloatOrDouble) {
  const Case one{1, 20, 20, 2, 1, 8, 8, causal(), Layout::tokens_first};
  const BiasForm form = strip(2, -19, 20);
  const Tensors<float> tensors(one, form);
  const auto wide = run<double>(one, tensors, form);
  const auto narrow = run<float>(one, tensors, form);
  for (std::size_t i = 0; i < wide.size(); ++i)
    EXPECT_EQ(narrow[i], static_cast<float>(wide[i]));
}

// The gradient of T5's table is that of its strip, added by bucket.
TEST(CudaStripToTable, EqualsLowerBackward) {
  const T5Bias t5{.heads = 3, .direction = T5Direction::bidirectional, .buckets = 32};
  constexpr int64_t heads = 3, count = 701, min_distance = -350, buckets = 32;
  const std::vector<double> strip_grad = random_numbers(heads * count, 3);
  std::vector<std::int32_t> rows(count);
  for (int64_t n = 0; n < count; ++n)
    rows[static_cast<std::size_t>(n)] = static_cast<std::int32_t>(bucket(t5, min_distance + n));
  rows[5] = -1;
  rows[6] = 32;  // ignored
  std::vector<double> counted = strip_grad;
  for (int64_t h = 0; h < heads; ++h)
    for (const int64_t n : {5, 6}) counted[static_cast<std::size_t>(h * count + n)] = 0;
  std::vector<float> want(buckets * heads);
  lower_backward(t5, counted, min_distance, count,
                 View<float, 2>(want.data(), {buckets, heads}));
  const cuda::Array<double> strip_there{std::span<const double>(strip_grad)};
  const cuda::Array<std::int32_t> rows_there{std::span<const std::int32_t>(rows)};
  const View<const double, 2> from(strip_there.data(), {heads, count});
  const View<const std::int32_t, 1> by(rows_there.data(), {count});
  const auto got = testing::in_all_orders<float>([&] {
    const cuda::Array<float> table(buckets * heads);
    cuda::strip_to_table(cuda::on_device(from), cuda::on_device(by),
                         cuda::on_device(View<float, 2>(table.data(), {buckets, heads})));
    cuda::synchronize();
    return table.to_host();
  });
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], want[i], 1e-6 * (1 + std::fabs(want[i]))) << i;
}

// No query sees a key, or there are no keys or no rows of the batch.
TEST(CudaBiasGradientOutput, IsZeroWithoutVisiblePairs) {
  for (const Case& one : {Case{1, 4, 0, 2, 1, 8, 8, causal(), Layout::tokens_first},
                          Case{0, 4, 4, 2, 1, 8, 8, causal(), Layout::tokens_first},
                          Case{1, 4, 3, 2, 1, 8, 8, window(2, 0, 9), Layout::tokens_first}})
    for (const BiasForm& form : {BiasForm(slope(2)), BiasForm(strip(2, -3, 4)),
                                 BiasForm(grid(2, 4, 4, 1)), BiasForm(pieces(2, 9))}) {
      const Tensors<float> tensors(one, slope(2));
      for (const double value : run<double>(one, tensors, form)) EXPECT_EQ(value, 0);
    }
}

TEST(CudaBiasGradientExample, EqualsTheOracle) {
  constexpr int64_t heads = 2, tokens = 20, size = 16;
  const Case one{1, tokens, tokens, heads, heads, size, size, causal(), Layout::heads_first};
  const StripBias form = strip(heads, 1 - tokens, tokens);
  const Tensors<BFloat16> tensors(one, form);
  const Tensors<BFloat16>::OnDevice there(tensors);
  const cuda::DeviceBias bias(form);
  const cuda::Array<double> values(heads * tokens);
  const cuda::Array<std::uint8_t> workspace(
      cuda::bias_gradient_workspace(there.input(), bias.view(), options_of(one)));
  engine::causal_strip_gradient(
      {1, heads, tokens, size, there.q.data(), there.k.data(), there.v.data(), there.out.data(),
       there.out_grad.data(), there.lse.data()},
      std::get<cuda::StripView>(bias.view()), values.data(), workspace.data(),
      static_cast<std::ptrdiff_t>(workspace.size()), nullptr);
  cuda::synchronize();
  expect_close<BFloat16>(values.to_host(), exact_gradient(one, tensors, form), form);
}

class CudaBiasGradientErrors : public ::testing::Test {
 protected:
  Case one{1, 6, 7, 2, 1, 8, 8, causal(), Layout::tokens_first};
  BiasForm form = slope(2);
  int64_t width = 1, bytes = 1 << 20;

  template <typename Change>
  std::string says(const Change& change) {
    const Tensors<float> tensors(one, slope(2));
    const Tensors<float>::OnDevice there(tensors);
    const cuda::DeviceBias bias(form);
    const cuda::Array<double> values(1000);
    const cuda::Array<std::uint8_t> workspace(1 << 20);
    cuda::BiasGradientInput input = there.input();
    cuda::BiasGradientOptions options = options_of(one);
    change(input, options);
    return message_of([&] {
      cuda::bias_gradient(input, bias.view(), options,
                          cuda::on_device(View<double, 2>(values.data(), {2, width})),
                          cuda::on_device(View<std::uint8_t, 1>(workspace.data(), {bytes})));
    });
  }
  std::string says() {
    return says([](auto&, auto&) {});
  }
};

TEST_F(CudaBiasGradientErrors, NameTheRule) {
  EXPECT_EQ(says(), "");
  EXPECT_EQ(says([](auto& input, auto&) { input.q.device.type = DeviceType::cpu; }),
            "[bias_gradient] q must be on a CUDA device, got cpu");
  EXPECT_EQ(
      says([](auto& input, auto&) { input.v.data = static_cast<char*>(input.v.data) + 4; }),
      "[bias_gradient] the data of v must be aligned to 16 bytes, got a remainder of 4");
  EXPECT_EQ(says([](auto&, auto& options) { options.mask.visibility = {}; }),
            "[bias_gradient] visibility must be causal or bidirectional, got 0");
  EXPECT_EQ(says([](auto&, auto& options) { options.mask.left = -1; }),
            "[bias_gradient] left must not be negative, got -1");
  EXPECT_EQ(says([](auto&, auto& options) { options.cap = 0.0; }),
            "[bias_gradient] cap must be positive, got 0");
  EXPECT_EQ(says([](auto& input, auto&) { input.out = input.k; }),
            "[bias_gradient] out must be [B, T, Hq, Dv] = [1, 6, 2, 8], got [1, 7, 1, 8]");
  bytes = 100;
  EXPECT_EQ(says(),
            "[bias_gradient] workspace must have at least 2304 contiguous bytes, got 100");
}

TEST_F(CudaBiasGradientErrors, NameTheRuleOfTheForm) {
  form = slope(3);
  EXPECT_EQ(says(), "[bias_gradient] the bias must have 2 heads, got 3");
  form = strip(2, -4, 9);
  EXPECT_EQ(says(),
            "[bias_gradient] the strip must contain the distances -5 to 0, got -4 to 4");
  form = grid(2, 3, 2, 0);
  EXPECT_EQ(says(), "[bias_gradient] positions on the grid must be fewer than 6, got 6");
  form = strip(2, -5, 6);
  width = 5;
  EXPECT_EQ(says(),
            "[bias_gradient] values_grad must be [Hq, gradient_size] = [2, 6], got [2, 5]");
  form = slope(2);
  width = 1;
  one.size = one.value_size = 12;
  EXPECT_EQ(says(), "[bias_gradient] the head dimension of q must be a multiple of 8, got 12");
}

TEST(CudaStripToTableErrors, NameTheRule) {
  const cuda::Array<double> memory(100);
  const cuda::Array<std::int32_t> rows(10);
  const View<double, 2> strip_grad(memory.data(), {2, 10}), table(memory.data(), {4, 3});
  const View<std::int32_t, 1> nine(rows.data(), {9}), ten(rows.data(), {10});
  const auto says = [&](const View<std::int32_t, 1>& buckets) {
    return message_of([&] {
      cuda::strip_to_table(cuda::on_device(strip_grad), cuda::on_device(buckets),
                           cuda::on_device(table));
    });
  };
  EXPECT_EQ(says(nine), "[strip_to_table] buckets must be [N] = [10], got [9]");
  EXPECT_EQ(says(ten), "[strip_to_table] table_grad must be [rows, H] = [4, 2], got [4, 3]");
}

}  // namespace cuda_bias_gradient_test
}  // namespace gnomon
