#include "gnomon/rotary/complex.h"

#include <gtest/gtest.h>

#include <cmath>

#include "testing.h"

namespace gnomon {
namespace complex_test {

using testing::message_of;

// Compares both forms with the product in long double: x' = x e^(it).
template <typename T>
void check_product() {
  constexpr std::int64_t tokens = 7, heads = 3, dim = 12;
  const RotaryTable table(Rotary{.rotary_dim = dim, .pairing = Pairing::adjacent, .base = 5e5},
                          testing::iota(1000, tokens));
  const std::vector<std::complex<float>> cis = cis_of(table);
  ASSERT_EQ(std::ssize(cis), tokens * dim / 2);
  const auto before = testing::random_tensor<T, 3>({tokens, heads, dim});
  auto rotated = before, multiplied = before;
  rotate(rotated.view(), table);
  const View<std::complex<T>, 3> numbers = as_complex(multiplied.view());
  EXPECT_EQ(numbers.extents(), (std::array<std::ptrdiff_t, 3>{tokens, heads, dim / 2}));
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t i = 0; i < dim / 2; ++i) {
        numbers(t, h, i) *= std::complex<T>(cis[std::size_t(t * dim / 2 + i)]);
        const std::complex<long double> x(before.view()(t, h, 2 * i),
                                          before.view()(t, h, 2 * i + 1));
        const long double angle = static_cast<long double>(1000 + t) *
                                  std::pow(5e5L, -2.0L * static_cast<long double>(i) / dim);
        const auto exact = x * std::polar(1.0L, angle);
        const auto within =
            static_cast<double>(std::abs(x.real()) + std::abs(x.imag())) * 3 * 0x1p-24;
        for (const auto& result : {rotated.view(), multiplied.view()}) {
          ASSERT_NEAR(result(t, h, 2 * i), static_cast<double>(exact.real()), within);
          ASSERT_NEAR(result(t, h, 2 * i + 1), static_cast<double>(exact.imag()), within);
        }
      }
}

TEST(Complex, ProductsAreAdjacentRotations) {
  check_product<float>();
  check_product<double>();
}

TEST(Complex, StridedViewsOfTheSameMemory) {
  auto x = testing::random_tensor<double, 3>({4, 2, 10});
  // The last six elements of every other token.
  const View<double, 3> part(x.values.data() + 4, {2, 2, 6}, {40, 10, 1});
  const auto numbers = as_complex(part);
  EXPECT_EQ(numbers.strides(), (std::array<std::ptrdiff_t, 3>{20, 5, 1}));
  EXPECT_EQ(numbers(1, 1, 2).imag(), x.view()(2, 1, 9));
  numbers(1, 1, 2) = {3, 5};
  EXPECT_EQ(x.view()(2, 1, 8), 3);
  EXPECT_EQ(x.view()(2, 1, 9), 5);
  const View<const double, 3> constant = part;
  static_assert(
      std::is_same_v<decltype(as_complex(constant)), View<const std::complex<double>, 3>>);
  EXPECT_EQ(as_complex(constant)(0, 0, 0), numbers(0, 0, 0));
  testing::Tensor<float, 2> none({0, 4});
  EXPECT_EQ(as_complex(none.view()).size(), 0);
}

// The conjugate inverts a complex rotation.
TEST(Complex, TheConjugateRotatesBack) {
  const RotaryTable table(Rotary{.rotary_dim = 8, .pairing = Pairing::adjacent},
                          testing::iota(3, 2));
  const auto cis = cis_of(table);
  auto grad = testing::random_tensor<double, 3>({2, 1, 8});
  auto rotated = grad;
  rotate(rotated.view(), table, Direction::inverse);
  const auto numbers = as_complex(grad.view());
  for (std::int64_t t = 0; t < 2; ++t)
    for (std::int64_t i = 0; i < 4; ++i)
      numbers(t, 0, i) *= std::conj(std::complex<double>(cis[std::size_t(4 * t + i)]));
  for (std::size_t i = 0; i < grad.values.size(); ++i)
    EXPECT_NEAR(grad.values[i], rotated.values[i], 1e-15);
}

TEST(Complex, RefusesWhatIsNotPairs) {
  testing::Tensor<float, 2> odd({3, 5});
  EXPECT_EQ(message_of([&] { as_complex(odd.view()); }),
            "[complex] the last extent must be even, got 5");
  EXPECT_EQ(message_of([&] { as_complex(odd.view().slice(1, 0, 4)); }),
            "[complex] strides of other axes must be even, got 5");
  const View<float, 2> apart(odd.values.data(), {2, 2}, {6, 2});
  EXPECT_EQ(message_of([&] { as_complex(apart); }),
            "[complex] the last axis must be contiguous: stride 1, got 2");
}

}  // namespace complex_test
}  // namespace gnomon
