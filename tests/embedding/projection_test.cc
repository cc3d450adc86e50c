#include "gnomon/embedding/projection.h"

#include <gtest/gtest.h>

#include "gnomon/parallel.h"
#include "testing.h"

namespace gnomon {
namespace projection_test {

using testing::message_of;
using testing::random_tensor;
using testing::Tensor;

template <typename T>
class ProjectionOf : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(ProjectionOf, Types);

TYPED_TEST(ProjectionOf, IsTheProduct) {
  using T = TypeParam;
  for (const std::array<std::ptrdiff_t, 3> sizes : {std::array<std::ptrdiff_t, 3>{7, 5, 3},
                                                    {1, 1, 1},
                                                    {0, 4, 2},
                                                    {3, 0, 2},
                                                    {65, 33, 17}}) {
    const auto [tokens, count, channels] = sizes;
    const auto features = random_tensor<double, 2>({tokens, count}, 1);
    const auto weights = random_tensor<T, 2>({count, channels}, 2);
    Tensor<T, 2> out({tokens, channels}, T(9));
    project(features.view(), weights.view(), out.view());
    for (std::ptrdiff_t t = 0; t < tokens; ++t)
      for (std::ptrdiff_t c = 0; c < channels; ++c) {
        long double sum = 0, magnitude = 0;
        for (std::ptrdiff_t f = 0; f < count; ++f) {
          const long double product =
              static_cast<long double>(features.view()(t, f)) * weights.view()(f, c);
          sum += product, magnitude += std::fabs(product);
        }
        const long double bound = testing::half_ulp<T> * std::fabs(sum) +
                                  static_cast<long double>(count) * 0x1p-53L * magnitude;
        EXPECT_LE(std::fabs(out.view()(t, c) - sum), bound) << t << ' ' << c;
      }
  }
}

// The loss sum(out * grad) is linear in the weights, so its gradient is the change of the loss
// when one weight goes from 0 to 1.
TEST(Projection, GradientIsTheChangeOfTheLoss) {
  const auto features = random_tensor<double, 2>({9, 11}, 1);
  const auto grad = random_tensor<double, 2>({9, 4}, 2);
  const auto before = random_tensor<double, 2>({11, 4}, 3);
  Tensor<double, 2> got = before, weights({11, 4}), out({9, 4});
  project_backward<double>(features.view(), grad.view(), got.view());
  for (std::size_t i = 0; i < weights.values.size(); ++i) {
    weights.values[i] = 1;
    project<double>(features.view(), weights.view(), out.view());
    double loss = before.values[i];
    for (std::size_t j = 0; j < out.values.size(); ++j) loss += out.values[j] * grad.values[j];
    EXPECT_NEAR(got.values[i], loss, 1e-13);
    weights.values[i] = 0;
  }
}

TEST(Projection, StridesAndThreadsChangeNoBit) {
  const auto features = random_tensor<double, 2>({301, 30}, 1);
  const auto weights = random_tensor<float, 2>({30, 20}, 2);
  const auto grad = random_tensor<float, 2>({301, 20}, 3);
  const EmbeddingTable table = projected(features.view(), weights.view());
  EXPECT_EQ(table.tokens, 301);
  EXPECT_EQ(table.width, 20);
  Tensor<float, 2> weights_grad({30, 20}, 1.0f);
  project_backward<float>(features.view(), grad.view(), weights_grad.view());
  Tensor<double, 2> wide({30, 301});  // the features by columns
  for (std::ptrdiff_t t = 0; t < 301; ++t)
    for (std::ptrdiff_t f = 0; f < 30; ++f) wide.view()(f, t) = features.view()(t, f);
  const View<const double, 2> columns(wide.values.data(), {301, 30}, {1, 301});
  const int before = threads();
  for (const int count : {1, 2, 7}) {
    set_threads(count);
    EXPECT_EQ(projected(columns, weights.view()), table);
    Tensor<float, 2> again({30, 20}, 1.0f);
    project_backward<float>(columns, grad.view(), again.view());
    EXPECT_EQ(again.values, weights_grad.values);
  }
  set_threads(before);
}

TEST(Projection, RefusesOtherShapes) {
  const Tensor<double, 2> features({5, 3});
  Tensor<float, 2> weights({2, 4}), out({5, 4});
  EXPECT_EQ(message_of([&] { project<float>(features.view(), weights.view(), out.view()); }),
            "[projection] weights must be [F, C] = [3, 4], got [2, 4]");
  EXPECT_EQ(message_of([&] {
              project<float>(features.view(), Tensor<float, 2>({3, 2}).view(), out.view());
            }),
            "[projection] out must be [T, C] = [5, 2], got [5, 4]");
  EXPECT_EQ(message_of([&] {
              project_backward<float>(features.view(), weights.view(), weights.view());
            }),
            "[projection] grad must be [T, C] = [5, 4], got [2, 4]");
  EXPECT_EQ(
      message_of([&] { project_backward<float>(features.view(), out.view(), weights.view()); }),
      "[projection] weights_grad must be [F, C] = [3, 4], got [2, 4]");
}

}  // namespace projection_test
}  // namespace gnomon
