#include "gnomon/analysis/similarity.h"

#include <gtest/gtest.h>

#include <cmath>

#include "gnomon/parallel.h"
#include "testing.h"

namespace gnomon::analysis {
namespace similarity_test {

using testing::message_of;
using testing::Tensor;

TEST(SimilarityMatrix, IsDotOrCosineOfEveryTwoRows) {
  const auto table = testing::random_tensor<float, 2>({9, 7});
  const View<const float, 2> view = table.view();
  Tensor<double, 2> dots({9, 9}), cosines({9, 9});
  similarity_matrix(view, Similarity::dot, dots.view());
  similarity_matrix(view, Similarity::cosine, cosines.view());
  for (int i = 0; i < 9; ++i)
    for (int j = 0; j < 9; ++j) {
      long double dot = 0, a = 0, b = 0, magnitude = 0;
      for (int c = 0; c < 7; ++c) {
        const long double x = view(i, c), y = view(j, c);
        dot += x * y, a += x * x, b += y * y, magnitude += std::fabs(x * y);
      }
      const auto bound = static_cast<double>(7 * 0x1p-53L * magnitude);
      EXPECT_NEAR(dots.view()(i, j), static_cast<double>(dot), bound);
      EXPECT_NEAR(cosines.view()(i, j), static_cast<double>(dot / std::sqrt(a * b)),
                  2 * bound / static_cast<double>(std::sqrt(a * b)) + 0x1p-52);
      EXPECT_EQ(dots.view()(i, j), dots.view()(j, i));
    }
}

TEST(SimilarityMatrix, ARowOfZerosIsLikeNothing) {
  Tensor<double, 2> table({2, 3}), out({2, 2}, 9.0);
  table.view()(1, 2) = 5;
  similarity_matrix(View<const double, 2>(table.view()), Similarity::cosine, out.view());
  EXPECT_EQ(out.values, (std::vector<double>{0, 0, 0, 1}));
}

TEST(SimilarityMatrix, NaNIsNotTakenForZeros) {
  Tensor<double, 2> table({2, 2}, 1.0), out({2, 2});
  table.view()(0, 1) = NAN;
  similarity_matrix(View<const double, 2>(table.view()), Similarity::cosine, out.view());
  EXPECT_TRUE(std::isnan(out.view()(0, 0)) && std::isnan(out.view()(0, 1)));
  EXPECT_DOUBLE_EQ(out.view()(1, 1), 1);
}

TEST(SimilarityTo, IsARowOfTheMatrix) {
  const auto table = testing::random_tensor<double, 2>({11, 5});
  Tensor<double, 2> matrix({11, 11});
  for (Similarity similarity : {Similarity::dot, Similarity::cosine}) {
    similarity_matrix(View<const double, 2>(table.view()), similarity, matrix.view());
    const auto row = similarity_to(View<const double, 2>(table.view()), 4, similarity);
    for (int j = 0; j < 11; ++j) EXPECT_EQ(row[std::size_t(j)], matrix.view()(4, j));
  }
}

TEST(SimilarityMatrix, TheSameBitsForAnyNumberOfThreads) {
  const int before = threads();
  const auto table = testing::random_tensor<float, 2>({50, 33});
  Tensor<double, 2> one({50, 50}), many({50, 50});
  set_threads(1);
  similarity_matrix(View<const float, 2>(table.view()), Similarity::cosine, one.view());
  for (int count : {2, 7}) {
    set_threads(count);
    similarity_matrix(View<const float, 2>(table.view()), Similarity::cosine, many.view());
    EXPECT_EQ(one.values, many.values);
  }
  set_threads(before);
}

TEST(SimilarityMatrix, RefusesWhatDoesNotFit) {
  const Tensor<float, 2> table({3, 2});
  const View<const float, 2> view = table.view();
  Tensor<double, 2> out({3, 2});
  EXPECT_EQ(message_of([&] { similarity_matrix(view, Similarity::dot, out.view()); }),
            "[similarity] out must be [3, 3], got [3, 2]");
  EXPECT_EQ(message_of([&] { similarity_to(view, 3, Similarity::dot); }),
            "[similarity] row must be from 0 to 2, got 3");
  EXPECT_EQ(message_of([&] { similarity_to(view, 0, Similarity{}); }),
            "[similarity] similarity must be dot or cosine, got 0");
}

}  // namespace similarity_test
}  // namespace gnomon::analysis
