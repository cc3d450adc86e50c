// A gated bias through the list of encodings.
#include <gtest/gtest.h>

#include <cmath>

#include "gnomon/model/encoding.h"
#include "testing.h"

namespace gnomon::model {
namespace gates_test {

using testing::random_tensor;
using testing::Tensor;

constexpr Shape shape{24, 3, 16};

// The learned table comes first and has one matrix.
Mixture mixture() {
  return {find_encoding("learned").usual(shape), find_encoding("wavlm").usual(shape)};
}

struct Matrices {
  std::vector<Tensor<float, 2>> tensors;
  explicit Matrices(unsigned seed) {
    for (const Parameter& one : parameters(mixture())) {
      tensors.emplace_back(std::array<std::ptrdiff_t, 2>{one.rows, one.columns});
      if (seed) tensors.back() = random_tensor<float, 2>({one.rows, one.columns}, seed++);
    }
  }
  std::vector<View<const float, 2>> read() const {
    std::vector<View<const float, 2>> all;
    for (const auto& one : tensors) all.push_back(one.view());
    return all;
  }
  std::vector<View<float, 2>> views() {
    std::vector<View<float, 2>> all;
    for (auto& one : tensors) all.push_back(one.view());
    return all;
  }
};

TEST(Gates, OfAMixtureAndTheirGradients) {
  EXPECT_TRUE(gated(mixture()));
  EXPECT_FALSE(gated({find_encoding("t5").usual(shape)}));
  Matrices values(3), grads(0);
  auto x = random_tensor<float, 3>({2, 5, 24}, 9);
  const auto weights = random_tensor<float, 3>({2, 3, 5}, 10);
  const auto loss = [&] {
    Tensor<float, 3> out({2, 3, 5});
    gates(mixture(), values.read(), x.view(), out.view());
    double sum = 0;
    for (std::size_t n = 0; n < out.values.size(); ++n)
      sum += double{out.values[n]} * double{weights.values[n]};
    return sum;
  };
  Tensor<float, 3> x_grad(x.extents);
  gates_backward(mixture(), values.read(), x.view(), weights.view(), x_grad.view(),
                 grads.views());
  const auto compare = [&](std::vector<float>& part, const std::vector<float>& computed) {
    for (std::size_t i = 0; i < part.size(); i += part.size() > 60 ? 7 : 1) {
      const float kept = part[i], upper = kept + 0x1p-7f, lower = kept - 0x1p-7f;
      part[i] = upper;
      const double above = loss();
      part[i] = lower;
      const double slope = (above - loss()) / (double{upper} - double{lower});
      part[i] = kept;
      EXPECT_NEAR(computed[i], slope, 1e-3 * (1 + std::fabs(slope))) << i;
    }
  };
  for (std::size_t p = 0; p < values.tensors.size(); ++p)
    compare(values.tensors[p].values, grads.tensors[p].values);
  compare(x.values, x_grad.values);
  double size = 0;
  for (const float one : grads.tensors.back().values) size += std::fabs(one);
  EXPECT_GT(size, 0.1);
  // Gradient of x only.
  Tensor<float, 3> alone(x.extents);
  gates_backward(mixture(), values.read(), x.view(), weights.view(), alone.view(), {});
  EXPECT_EQ(alone.values, x_grad.values);
}

}  // namespace gates_test
}  // namespace gnomon::model
