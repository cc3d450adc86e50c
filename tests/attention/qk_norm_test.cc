// Compares norms of queries and keys with their formulas in long double.
#include "gnomon/attention/qk_norm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "gnomon/parallel.h"
#include "testing.h"

namespace gnomon {
namespace qk_norm_test {

using testing::as_double;
using testing::half_ulp;
using testing::message_of;
using testing::random_tensor;
using testing::Tensor;
using Real = long double;

constexpr std::array<std::ptrdiff_t, 4> shape = {2, 5, 3, 19};

template <typename T>
class QkNorm : public ::testing::Test {};
using Types = ::testing::Types<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(QkNorm, Types);

// The formula for one row of heads, term by term.
std::vector<Real> normalised(const HeadNorm& norm, const std::vector<Real>& x) {
  Real mean = 0, sum = 0;
  const auto count = static_cast<Real>(x.size());
  if (norm.kind == NormKind::layer)
    for (const Real one : x) mean += one / count;
  for (const Real one : x) sum += (one - mean) * (one - mean);
  const Real scale = norm.kind == NormKind::l2 ? std::max(std::sqrt(sum), Real{norm.epsilon})
                                               : std::sqrt(sum / count + Real{norm.epsilon});
  std::vector<Real> y;
  for (const Real one : x) y.push_back((one - mean) / scale);
  return y;
}

// Inkling 2: weights come before the limit, and short vectors are only weighted.
TEST(QkNormOfFloat, ClipsLongVectors) {
  const auto weight = random_tensor<float, 2>({shape[2], shape[3]}, 3);
  const auto before = random_tensor<float, 4>(shape, 5);
  auto x = before;
  const HeadNorm norm{.kind = NormKind::clip, .epsilon = 1e-6, .limit = 4};
  normalise_heads(x.view(), norm, weight.view(), View<const float, 2>());
  int clipped = 0;
  for (std::ptrdiff_t i = 0; i < shape[0] * shape[1] * shape[2]; ++i) {
    std::vector<Real> scaled;
    Real squares = 0;
    for (std::ptrdiff_t d = 0; d < shape[3]; ++d) {
      scaled.push_back(Real{before.values[static_cast<std::size_t>(i * shape[3] + d)]} *
                       Real{weight.view()(i % shape[2], d)});
      squares += scaled.back() * scaled.back();
    }
    const Real factor = std::min(Real{1}, 4 / (std::sqrt(squares) + Real{1e-6}));
    clipped += factor < 1;
    for (std::ptrdiff_t d = 0; d < shape[3]; ++d)
      EXPECT_NEAR(double{x.values[static_cast<std::size_t>(i * shape[3] + d)]},
                  static_cast<double>(factor * scaled[static_cast<std::size_t>(d)]), 1e-6);
  }
  EXPECT_GT(clipped, 0);
  EXPECT_LT(clipped, shape[0] * shape[1] * shape[2]);
  EXPECT_EQ(message_of([&] { normalise_heads(x.view(), {.kind = NormKind::clip}, {}, {}); }),
            "[qk_norm] limit must be finite and positive for clip, and 0 for others, got 0");
}

TYPED_TEST(QkNorm, IsItsFormula) {
  using T = TypeParam;
  const auto weights = random_tensor<float, 2>({shape[2], shape[3]}, 3);
  const auto biases = random_tensor<float, 2>({shape[2], shape[3]}, 4);
  for (const NormKind kind : {NormKind::rms, NormKind::layer, NormKind::l2})
    for (const NormScope scope : {NormScope::head, NormScope::all_heads})
      for (const std::ptrdiff_t rows : {std::ptrdiff_t{1}, shape[2]}) {
        const HeadNorm norm{.kind = kind, .scope = scope, .epsilon = 0.01, .weight_offset = 1};
        const View<const float, 2> w(weights.values.data(), {rows, shape[3]});
        const View<const float, 2> b(biases.values.data(), {rows, shape[3]});
        const auto before = random_tensor<T, 4>(shape, 5);
        auto x = before;
        normalise_heads(x.view(), norm, w, b);
        const std::ptrdiff_t together = scope == NormScope::head ? 1 : shape[2];
        for (std::ptrdiff_t i = 0; i < shape[0] * shape[1]; ++i)
          for (std::ptrdiff_t first = 0; first < shape[2]; first += together) {
            std::vector<Real> row;
            for (std::ptrdiff_t h = first; h < first + together; ++h)
              for (std::ptrdiff_t d = 0; d < shape[3]; ++d)
                row.push_back(as_double(before.view()(i / shape[1], i % shape[1], h, d)));
            const std::vector<Real> y = normalised(norm, row);
            for (std::size_t n = 0; n < y.size(); ++n) {
              const auto d = static_cast<std::ptrdiff_t>(n) % shape[3];
              const auto h = first + static_cast<std::ptrdiff_t>(n) / shape[3];
              const std::ptrdiff_t at = rows == 1 ? 0 : h;
              const Real wanted = (Real{w(at, d)} + 1) * y[n] + Real{b(at, d)};
              const double got = as_double(x.view()(i / shape[1], i % shape[1], h, d));
              ASSERT_NEAR(got, static_cast<double>(wanted),
                          std::abs(static_cast<double>(wanted)) * half_ulp<T> +
                              0x1p-24 * half_ulp<T> +
                              0x1p-48 * (1 + std::abs(static_cast<double>(wanted))));
            }
          }
      }
}

TEST(QkNorm, WithoutWeightsScalesAlone) {
  auto x = random_tensor<double, 4>(shape, 6);
  normalise_heads(x.view(), {.kind = NormKind::rms, .weight_offset = 1}, {}, {});
  double squares = 0;
  for (std::ptrdiff_t d = 0; d < shape[3]; ++d)
    squares += x.view()(1, 2, 1, d) * x.view()(1, 2, 1, d);
  EXPECT_NEAR(squares, static_cast<double>(shape[3]), 1e-12);
}

TEST(QkNorm, HasTheSameBitsForAnyNumberOfThreads) {
  const int before = threads();
  auto one = random_tensor<float, 4>({2, 700, 3, 8}, 7);
  auto two = one;
  set_threads(1);
  normalise_heads(one.view(), {.kind = NormKind::layer, .epsilon = 1e-5}, {}, {});
  set_threads(2);
  normalise_heads(two.view(), {.kind = NormKind::layer, .epsilon = 1e-5}, {}, {});
  set_threads(before);
  EXPECT_EQ(one.values, two.values);
}

TEST(QkNorm, RefusesWhatBreaksItsBounds) {
  auto x = random_tensor<float, 4>(shape, 8);
  const auto weights = random_tensor<float, 2>({2, shape[3]}, 3);
  EXPECT_EQ(message_of([&] { normalise_heads(x.view(), {}, {}, {}); }),
            "[qk_norm] kind must be rms, layer, l2 or clip, got 0");
  EXPECT_EQ(message_of([&] {
              normalise_heads(x.view(), {.kind = NormKind::rms, .epsilon = -1}, {}, {});
            }),
            "[qk_norm] epsilon must be finite and not negative, got -1");
  EXPECT_EQ(message_of([&] {
              normalise_heads(x.view(), {.kind = NormKind::rms}, weights.view(), {});
            }),
            "[qk_norm] weight must be [1 or 3, 19], got [2, 19]");
}

}  // namespace qk_norm_test
}  // namespace gnomon
