#include "gnomon/embedding/laplacian.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "testing.h"

namespace gnomon {
namespace laplacian_test {

using testing::message_of;
using Real = long double;

constexpr LaplacianKind kinds[] = {LaplacianKind::combinatorial, LaplacianKind::symmetric};

Laplacian spec_of(std::int64_t vectors, LaplacianKind kind,
                  LaplacianSigns signs = LaplacianSigns::fixed) {
  return {.vectors = vectors, .kind = kind, .zeros = LaplacianZeros::skip_one, .signs = signs};
}

// The eigenvectors of a path of at least 2 nodes, by the formula, of norm 1: [K][N].
std::vector<std::vector<Real>> waves(std::int64_t nodes, std::int64_t count,
                                     LaplacianKind kind) {
  const auto n = static_cast<Real>(nodes);
  std::vector<std::vector<Real>> all;
  for (std::int64_t k = 1; k <= count; ++k) {
    const Real turn = std::numbers::pi_v<Real> * static_cast<Real>(k);
    std::vector<Real> wave;
    Real squares = 0;
    for (std::int64_t i = 0; i < nodes; ++i) {
      const auto at = static_cast<Real>(i);
      const Real degree = i == 0 || i == nodes - 1 ? 1 : 2;
      wave.push_back(kind == LaplacianKind::symmetric
                         ? std::cos(turn * at / (n - 1)) * std::sqrt(degree)
                         : std::cos(turn * (at + 0.5L) / n));
      squares += wave.back() * wave.back();
    }
    for (Real& entry : wave) entry /= std::sqrt(squares);
    all.push_back(wave);
  }
  return all;
}

TEST(PathLaplacianVectors, AreTheCosinesOfTheirClosedForm) {
  for (const std::int64_t nodes : {2, 3, 8, 57, 700})
    for (const LaplacianKind kind : kinds) {
      const LaplacianVectors got = path_laplacian_vectors(spec_of(6, kind), nodes);
      ASSERT_EQ(got.found, std::min<std::int64_t>(6, nodes - 1));
      const auto expected = waves(nodes, got.found, kind);
      for (std::int64_t k = 0; k < got.found; ++k) {
        const auto j = static_cast<Real>(k + 1), n = static_cast<Real>(nodes);
        const Real pi = std::numbers::pi_v<Real>;
        const Real value = kind == LaplacianKind::symmetric ? 1 - std::cos(pi * j / (n - 1))
                                                            : 2 - 2 * std::cos(pi * j / n);
        EXPECT_NEAR(got.eigenvalues[static_cast<std::size_t>(k)], static_cast<double>(value),
                    1e-13);
        const Real sign = got.view()(0, k) < 0 ? -1 : 1;
        for (std::int64_t i = 0; i < nodes; ++i)
          EXPECT_NEAR(
              got.view()(i, k),
              static_cast<double>(
                  sign * expected[static_cast<std::size_t>(k)][static_cast<std::size_t>(i)]),
              1e-15)
              << nodes << " nodes, pair " << k << ", node " << i;
      }
    }
}

TEST(PathLaplacianVectors, HaveTheSignsOfSpecAndSeed) {
  const auto with = [](LaplacianSigns signs) {
    return spec_of(24, LaplacianKind::combinatorial, signs);
  };
  const LaplacianVectors fixed = path_laplacian_vectors(with(LaplacianSigns::fixed), 50);
  EXPECT_EQ(path_laplacian_vectors(with(LaplacianSigns::fixed), 50, 7), fixed);
  const LaplacianVectors sizes = path_laplacian_vectors(with(LaplacianSigns::absolute), 50);
  const LaplacianVectors random = path_laplacian_vectors(with(LaplacianSigns::random), 50, 1);
  EXPECT_EQ(with_signs(with(LaplacianSigns::random), fixed, 1), random);
  EXPECT_EQ(with_signs(with(LaplacianSigns::fixed), random), fixed);
  int turned = 0;
  for (std::int64_t k = 0; k < fixed.found; ++k) {
    const bool flipped = random.view()(0, k) != fixed.view()(0, k);
    turned += flipped;
    for (std::int64_t i = 0; i < 50; ++i) {
      EXPECT_EQ(random.view()(i, k), (flipped ? -1 : 1) * fixed.view()(i, k));
      EXPECT_EQ(sizes.view()(i, k), std::fabs(fixed.view()(i, k)));
    }
  }
  EXPECT_GT(turned, 5);  // out of 24 coins
  EXPECT_LT(turned, 19);
}

TEST(PathLaplacianVectors, RefuseWhatBreaksTheirBounds) {
  const LaplacianKind kind = LaplacianKind::symmetric;
  EXPECT_EQ(message_of([&] { path_laplacian_vectors(spec_of(0, kind), 4); }),
            "[laplacian] vectors must be at least 1, got 0");
  EXPECT_EQ(message_of([&] { path_laplacian_vectors(spec_of(1, kind), -1); }),
            "[laplacian] nodes must not be negative, got -1");
  LaplacianVectors broken = path_laplacian_vectors(spec_of(2, kind), 5);
  broken.values.pop_back();
  EXPECT_EQ(message_of([&] { with_signs(spec_of(2, kind), broken); }),
            "[laplacian] the vectors must be [nodes, vectors], got 9");
}

}  // namespace laplacian_test
}  // namespace gnomon
