#include "src/core/products.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "gnomon/isa.h"
#include "gnomon/parallel.h"
#include "testing.h"

namespace gnomon {
namespace core_products_test {

using internal::multiply;
using internal::multiply_add;
using internal::RightFactor;
using std::int64_t;
using testing::random_tensor;
using testing::Tensor;

using Matrix = Tensor<double, 2>;

// The sum of an element, and the sum of magnitudes.
struct Sums {
  long double sum, size;
};
template <typename T>
Sums naive(View<const double, 2> a, View<const T, 2> b, int64_t i, int64_t j) {
  Sums sums{0, 0};
  for (int64_t l = 0; l < b.extent(0); ++l) {
    const long double product = static_cast<long double>(a(i, l)) * b(l, j);
    sums.sum += product, sums.size += std::fabs(product);
  }
  return sums;
}

template <typename T>
void expect_product(View<const double, 2> a, View<const T, 2> b, const std::string& what) {
  const int64_t m = a.extent(0), n = b.extent(1), k = b.extent(0);
  constexpr int64_t beside = 3;  // columns of c that are not written
  constexpr double untouched = 7;
  const int64_t roundings = std::min<int64_t>(k, 128) + (k + 127) / 128;
  const auto bound = [&](int64_t more, long double size) {
    return 0x1p-53L * static_cast<long double>(roundings + more) * size;
  };
  Matrix set({m, n + beside}, untouched), added({m, n + beside}, untouched);
  const RightFactor factor(b);
  multiply(a, factor, set.view().slice(1, 0, n));
  multiply_add(a, factor, added.view().slice(1, 0, n));
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      const Sums sums = naive(a, b, i, j);
      EXPECT_LE(std::fabs(set.view()(i, j) - sums.sum), bound(0, sums.size))
          << what << " " << i << " " << j;
      EXPECT_LE(std::fabs(added.view()(i, j) - (untouched + sums.sum)),
                bound(1, untouched + sums.size))
          << what << " added " << i << " " << j;
    }
    for (int64_t j = n; j < n + beside; ++j) {
      EXPECT_EQ(set.view()(i, j), untouched) << what;
      EXPECT_EQ(added.view()(i, j), untouched) << what;
    }
  }
}

template <typename T>
View<const T, 2> exchanged(const Tensor<T, 2>& matrix) {
  return {matrix.values.data(), {matrix.extents[1], matrix.extents[0]}, {1, matrix.extents[1]}};
}

TEST(Products, AreWithinTheirBoundOnEveryInstructionSet) {
  const std::vector<std::tuple<int64_t, int64_t, int64_t>> shapes = {
      {1, 1, 1},  {6, 32, 128},  {7, 33, 129}, {13, 8, 5},    {5, 9, 300},
      {50, 3, 2}, {97, 65, 131}, {49, 259, 3}, {2, 31, 1000}, {64, 40, 17}};
  for (const Isa isa : available_isas()) {
    const ScopedIsa scope(isa);
    for (const auto& [m, n, k] : shapes) {
      const std::string what = std::string(name(isa)) + " " + std::to_string(m) + " " +
                               std::to_string(n) + " " + std::to_string(k);
      const Matrix a = random_tensor<double, 2>({m, k}, 1),
                   b = random_tensor<double, 2>({k, n}, 2);
      const Matrix a_turned = random_tensor<double, 2>({k, m}, 3);
      const Matrix b_turned = random_tensor<double, 2>({n, k}, 4);
      const auto narrow = random_tensor<float, 2>({k, n}, 5);
      const auto narrow_turned = random_tensor<float, 2>({n, k}, 6);
      expect_product(a.view(), b.view(), what);
      expect_product(exchanged(a_turned), b.view(), what + " a^T");
      expect_product(a.view(), exchanged(b_turned), what + " b^T");
      expect_product(exchanged(a_turned), narrow.view(), what + " float");
      expect_product(a.view(), exchanged(narrow_turned), what + " float b^T");
    }
  }
}

TEST(Products, TakeAnyStrides) {
  const int64_t m = 11, n = 37, k = 140;
  const Matrix a = random_tensor<double, 2>({2 * m, 3 * k}),
               b = random_tensor<double, 2>({k, 2 * n});
  const View<const double, 2> odd(a.values.data() + 1, {m, k}, {6 * k, 3});
  const View<const double, 2> back(b.values.data() + 2 * n * k - 1, {k, n}, {-2 * n, -2});
  const View<const double, 2> same(a.values.data(), {m, k}, {0, 1});
  expect_product(odd, back, "odd, back");
  expect_product(same, back, "same, back");
}

TEST(Products, OfNothingAreZero) {
  for (const auto& [m, n, k] :
       {std::array<int64_t, 3>{0, 5, 4}, {5, 0, 4}, {5, 4, 0}, {0, 0, 0}}) {
    const Matrix a({m, k}), b({k, n});
    expect_product(a.view(), b.view(), "empty");
  }
}

TEST(Products, AreTheSameBitsForAnyThreadsAndNeighbours) {
  const int64_t m = 200, n = 300, k = 150;
  const Matrix a = random_tensor<double, 2>({m, k}, 1), b = random_tensor<double, 2>({k, n}, 2);
  const auto with = [&](int count) {
    const int before = threads();
    set_threads(count);
    Matrix c({m, n});
    multiply(a.view(), RightFactor(b.view()), c.view());
    set_threads(before);
    return c.values;
  };
  const std::vector<double> one = with(1);
  EXPECT_EQ(one, with(2));
  EXPECT_EQ(one, with(7));
  // A part of the rows and columns, with another start.
  const int64_t i = 5, j = 35, rows = 9, columns = 18;
  Matrix part({rows, columns});
  multiply(a.view().slice(0, i, rows), RightFactor(b.view().slice(1, j, columns)), part.view());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      EXPECT_EQ(part.view()(r, c), one[static_cast<std::size_t>((i + r) * n + j + c)]);
  // The transpose of `a` has another layout and is the same matrix.
  Matrix turned({k, m}), again({m, n});
  for (int64_t r = 0; r < m; ++r)
    for (int64_t c = 0; c < k; ++c) turned.view()(c, r) = a.view()(r, c);
  multiply(exchanged(turned), RightFactor(b.view()), again.view());
  EXPECT_EQ(again.values, one);
}

}  // namespace core_products_test
}  // namespace gnomon
