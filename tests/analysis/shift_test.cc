#include "gnomon/analysis/shift.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "testing.h"

namespace gnomon::analysis {
namespace shift_test {

using testing::message_of;
using testing::Tensor;

std::vector<Sinusoidal> recipes() {
  return {{.width = 16, .recipe = SinusoidalRecipe::interleaved},
          {.width = 16, .recipe = SinusoidalRecipe::half_split, .base = 500},
          {.width = 17, .recipe = SinusoidalRecipe::tensor2tensor},
          {.width = 16, .recipe = SinusoidalRecipe::timestep},
          {.width = 15,
           .recipe = SinusoidalRecipe::timestep,
           .order = SinusoidalOrder::cosine_first,
           .shift = 0}};
}

TEST(ShiftMatrix, MovesEveryPositionOnByTheSameMatrix) {
  for (const Sinusoidal& spec : recipes()) {
    Tensor<double, 2> table({300, spec.width}), matrix({spec.width, spec.width});
    const auto positions = testing::iota(0, 300);
    fill(spec, std::span<const std::int64_t>(positions), table.view());
    for (std::int64_t delta : {0, 1, 7, -40, 299}) {
      shift_matrix(spec, static_cast<double>(delta), matrix.view());
      EXPECT_LE(shift_residual(View<const double, 2>(table.view()),
                               View<const double, 2>(matrix.view()), delta),
                1e-12)
          << static_cast<int>(spec.recipe) << " " << delta;
    }
    // The matrix of another step does not match.
    shift_matrix(spec, 2, matrix.view());
    EXPECT_GT(shift_residual(View<const double, 2>(table.view()),
                             View<const double, 2>(matrix.view()), 1),
              0.1);
  }
}

TEST(ShiftMatrix, IsOrthogonalAndTakesAnyDelta) {
  for (const Sinusoidal& spec : recipes()) {
    Tensor<double, 2> m({spec.width, spec.width});
    shift_matrix(spec, -2.75, m.view());
    for (std::int64_t i = 0; i < spec.width; ++i)
      for (std::int64_t j = 0; j < spec.width; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < spec.width; ++k) sum += m.view()(i, k) * m.view()(j, k);
        EXPECT_NEAR(sum, i == j ? 1 : 0, 1e-15);
      }
  }
}

TEST(ShiftResidual, IsNaNWhereNoRowHasAPartner) {
  const Tensor<float, 2> table({3, 2});
  const Tensor<double, 2> matrix({2, 2});
  EXPECT_TRUE(std::isnan(shift_residual(View<const float, 2>(table.view()),
                                        View<const double, 2>(matrix.view()), 3)));
  for (std::int64_t delta : {std::numeric_limits<std::int64_t>::max(),
                             std::numeric_limits<std::int64_t>::min(), std::int64_t{-3}})
    EXPECT_TRUE(std::isnan(shift_residual(View<const float, 2>(table.view()),
                                          View<const double, 2>(matrix.view()), delta)));
}

TEST(ShiftResidual, DoesNotPassOverNaN) {
  Tensor<float, 2> table({3, 2});
  Tensor<double, 2> matrix({2, 2});
  matrix.view()(0, 0) = matrix.view()(1, 1) = 1;
  table.view()(1, 0) = NAN;
  EXPECT_TRUE(std::isnan(shift_residual(View<const float, 2>(table.view()),
                                        View<const double, 2>(matrix.view()), 1)));
}

TEST(ShiftMatrix, RefusesALastSineWithoutItsCosine) {
  Tensor<double, 2> out({5, 5}), wide({5, 6});
  EXPECT_EQ(message_of([&] {
              shift_matrix({.width = 5, .recipe = SinusoidalRecipe::interleaved}, 1,
                           out.view());
            }),
            "[shift] width must be even, so that each sine has its cosine, got 5");
  EXPECT_EQ(message_of([&] {
              shift_matrix({.width = 5, .recipe = SinusoidalRecipe::tensor2tensor}, 1,
                           wide.view());
            }),
            "[shift] out must be [5, 5], got [5, 6]");
  EXPECT_EQ(message_of([&] {
              shift_matrix({.width = 5, .recipe = SinusoidalRecipe::tensor2tensor}, NAN,
                           out.view());
            }),
            "[shift] delta must be finite, got nan");
}

}  // namespace shift_test
}  // namespace gnomon::analysis
