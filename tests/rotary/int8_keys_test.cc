#include "gnomon/rotary/int8_keys.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "gnomon/parallel.h"
#include "testing.h"

namespace gnomon {
namespace int8_keys_test {

using testing::as_double;
using testing::message_of;
using testing::Tensor;

template <typename T>
class Int8Keys : public ::testing::Test {};
using Types = ::testing::Types<float, Half, BFloat16>;
TYPED_TEST_SUITE(Int8Keys, Types);

// The rotated head in long double, from the layout in rotary.h.
template <typename T>
std::vector<double> rotated(const Rotary& r, View<const T, 4> k, std::int64_t b, std::int64_t t,
                            std::int64_t h, std::int64_t position) {
  std::vector<double> head;
  for (std::int64_t d = 0; d < k.extent(3); ++d) head.push_back(as_double(k(b, t, h, d)));
  for (std::int64_t i = 0; i < r.rotary_dim / 2; ++i) {
    const bool halves = r.pairing == Pairing::halves;
    const auto x = static_cast<std::size_t>(r.head_offset + (halves ? i : 2 * i));
    const auto y =
        static_cast<std::size_t>(r.head_offset + (halves ? i + r.rotary_dim / 2 : 2 * i + 1));
    const long double angle = static_cast<long double>(position) *
                              std::pow(10000.0L, -2.0L * static_cast<long double>(i) /
                                                     static_cast<long double>(r.rotary_dim));
    const long double a = head[x], c = head[y];
    head[x] = static_cast<double>(a * std::cos(angle) - c * std::sin(angle));
    head[y] = static_cast<double>(a * std::sin(angle) + c * std::cos(angle));
  }
  return head;
}

TYPED_TEST(Int8Keys, AreWithinTheBoundOfTheRotatedHead) {
  using T = TypeParam;
  for (const Isa isa : available_isas()) {
    const ScopedIsa scoped(isa);
    for (const Pairing pairing : {Pairing::halves, Pairing::adjacent})
      for (const auto& [dim, first, size] : {std::array<std::int64_t, 3>{128, 0, 128},
                                             {80, 0, 80},
                                             {6, 3, 11},
                                             {64, 8, 96},
                                             {600, 1, 1300}}) {
        const Rotary rotary{.rotary_dim = dim, .pairing = pairing, .head_offset = first};
        const RotaryTable table(rotary, std::vector<std::int64_t>{7, 100'000, 3});
        const auto k = testing::random_tensor<T, 4>({2, 3, 5, size});
        Tensor<std::int8_t, 4> slot({2, 3, 5, size + 3});
        std::fill(slot.values.begin(), slot.values.end(), std::int8_t{99});
        Tensor<float, 3> scales({2, 3, 5});
        rotate_append(
            k.view(), table,
            View<std::int8_t, 4>(slot.values.data(), {2, 3, 5, size}, slot.view().strides()),
            scales.view());
        const std::int64_t positions[] = {7, 100'000, 3};
        for (std::int64_t b = 0; b < 2; ++b)
          for (std::int64_t t = 0; t < 3; ++t)
            for (std::int64_t h = 0; h < 5; ++h) {
              const auto head = rotated<T>(rotary, k.view(), b, t, h, positions[t]);
              double most = 0;
              for (const double x : head) most = std::max(most, std::fabs(x));
              const double scale = scales.view()(b, t, h);
              EXPECT_NEAR(scale, most / 127, most * 0x1p-20);
              const double bound = most * (1.0 / 254 + 0x1p-22) + 6 * 0x1p-24 * 1.5 * most;
              for (std::int64_t d = 0; d < size; ++d) {
                ASSERT_NEAR(scale * slot.view()(b, t, h, d), head[static_cast<std::size_t>(d)],
                            bound)
                    << name(isa) << " " << dim << " " << d;
              }
              for (std::int64_t d = size; d < size + 3; ++d)
                ASSERT_EQ(slot.view()(b, t, h, d), 99);
            }
      }
  }
}

template <typename T>
void check_copy(std::int64_t size) {
  auto x = testing::random_tensor<T, 3>({4, 2, size});
  for (std::int64_t d = 0; d < size; ++d) x.view()(1, 0, d) = T(0.0f);
  x.view()(2, 1, size - 1) = T(std::numeric_limits<float>::quiet_NaN());
  x.view()(3, 0, 0) = T(-std::numeric_limits<float>::infinity());
  for (const Isa isa : available_isas()) {
    const ScopedIsa scoped(isa);
    Tensor<std::int8_t, 3> slot({4, 2, size});
    Tensor<float, 2> scales({4, 2});
    copy_append(x.view(), slot.view(), scales.view());
    for (std::int64_t t = 0; t < 4; ++t)
      for (std::int64_t h = 0; h < 2; ++h) {
        double most = 0;
        bool finite = true;
        for (std::int64_t d = 0; d < size; ++d) {
          const double value = as_double(x.view()(t, h, d));
          finite = finite && std::isfinite(value);
          most = std::max(most, std::fabs(value));
        }
        const float scale = scales.view()(t, h);
        if (!finite) {
          EXPECT_TRUE(std::isnan(scale)) << name(isa);
        }
        for (std::int64_t d = 0; d < size; ++d) {
          if (finite)
            EXPECT_NEAR(double{scale} * slot.view()(t, h, d), as_double(x.view()(t, h, d)),
                        most * (1.0 / 254 + 0x1p-22));
          else
            EXPECT_EQ(slot.view()(t, h, d), 0);
        }
      }
    EXPECT_EQ(scales.view()(1, 0), 0.0f);
  }
}

TYPED_TEST(Int8Keys, ValuesAreCopiedWithTheirScale) {
  for (const std::int64_t size : {1, 5, 15, 16, 17, 31, 32, 33, 37, 47, 48, 49, 100, 128})
    check_copy<TypeParam>(size);
}

TYPED_TEST(Int8Keys, AreTheSameForAnyNumberOfThreads) {
  using T = TypeParam;
  const auto k = testing::random_tensor<T, 3>({700, 8, 64});
  const RotaryTable table({.rotary_dim = 64, .pairing = Pairing::halves},
                          testing::iota(0, 700));
  const int before = threads();
  std::vector<std::int8_t> expected;
  for (const int count : {1, 2, 7}) {
    set_threads(count);
    Tensor<std::int8_t, 3> slot({700, 8, 64});
    Tensor<float, 2> scales({700, 8});
    rotate_append(k.view(), table, slot.view(), scales.view());
    if (expected.empty()) expected = slot.values;
    EXPECT_EQ(slot.values, expected) << count;
  }
  set_threads(before);
}

TEST(Int8KeysErrors, NameTheRule) {
  const RotaryTable table({.rotary_dim = 4, .pairing = Pairing::halves},
                          std::vector<std::int64_t>{1});
  Tensor<float, 3> k({1, 2, 4});
  Tensor<std::int8_t, 3> slot({1, 2, 4}), other({1, 2, 5});
  Tensor<float, 2> scales({1, 2}), few({1, 1});
  EXPECT_EQ(message_of([&] { rotate_append(k.view(), table, other.view(), scales.view()); }),
            "[rotary] slot must have the shape of the input, [1, 1, 2, 4], "
            "got [1, 1, 2, 5]");
  EXPECT_EQ(message_of([&] { rotate_append(k.view(), table, slot.view(), few.view()); }),
            "[rotary] scales must be [B, T, H] = [1, 1, 2], got [1, 1, 1]");
  Tensor<float, 3> wide({1, 1, 4097});
  Tensor<std::int8_t, 3> wide_slot({1, 1, 4097});
  EXPECT_EQ(message_of([&] { copy_append(wide.view(), wide_slot.view(), few.view()); }),
            "[rotary] head_dim of 8-bit keys must be at most 4096 elements, got 4097");
}

}  // namespace int8_keys_test
}  // namespace gnomon
