#include "apps/lab/functions.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <vector>

#include "apps/lab/products.h"
#include "gnomon/parallel.h"

namespace gnomon::lab {
namespace functions_test {

using Tensors = std::vector<at::Tensor>;
using Function = std::function<Tensors(const Tensors&)>;

constexpr std::int64_t rows = 101, width = 37;  // not multiples of a vector, a tile or a piece

at::Tensor random(at::IntArrayRef sizes, std::uint64_t seed, double deviation = 1) {
  return at::empty(sizes, at::kDouble)
      .normal_(0, deviation, at::make_generator<at::CPUGeneratorImpl>(seed))
      .to(at::kFloat)  // exact in both types
      .requires_grad_(true);
}

// Returns the outputs, and the gradients of the inputs for random gradients of the outputs.
Tensors all_of(const Function& function, const Tensors& inputs, at::ScalarType type) {
  Tensors here;
  for (const at::Tensor& one : inputs)
    here.push_back(one.detach().to(type).requires_grad_(true));
  const Tensors outputs = function(here);
  at::Tensor sum;
  std::uint64_t seed = 100;
  for (const at::Tensor& one : outputs) {
    const at::Tensor weighed = (one * random(one.sizes(), seed++).detach().to(type)).sum();
    sum = sum.defined() ? sum + weighed : weighed;
  }
  Tensors all = outputs;
  for (const at::Tensor& grad : torch::autograd::grad({sum}, here)) all.push_back(grad);
  return all;
}

// Compares the kernels in float with LibTorch's operators and gradients in double.
void expect_close(const Function& function, const Function& oracle, const Tensors& inputs,
                  double tolerance) {
  const Tensors found = all_of(function, inputs, at::kFloat);
  const Tensors wanted = all_of(oracle, inputs, at::kDouble);
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].sizes(), wanted[i].sizes()) << i;
    const double size = std::max(1.0, wanted[i].abs().max().item<double>());
    EXPECT_LE((found[i].to(at::kDouble) - wanted[i]).abs().max().item<double>(),
              tolerance * size)
        << i;
  }
  const int before = threads();
  for (int count : {2, 7}) {
    set_threads(count);
    const Tensors again = all_of(function, inputs, at::kFloat);
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(again[i].equal(found[i])) << i;
  }
  set_threads(before);
}

class LabFunctions : public ::testing::TestWithParam<Products> {
 protected:
  LabFunctions() { set_products(GetParam()); }
  ~LabFunctions() override { set_products(Products::fastest); }
};
INSTANTIATE_TEST_SUITE_P(, LabFunctions, ::testing::Values(Products::fastest, Products::blas),
                         [](const auto& info) {
                           return info.param == Products::blas ? "blas" : "fastest";
                         });

TEST_P(LabFunctions, Project) {
  expect_close([](const Tensors& x) { return Tensors{project(x[0], x[1])}; },
               [](const Tensors& x) { return Tensors{at::linear(x[0], x[1])}; },
               {random({rows, width}, 1), random({23, width}, 2)}, 2e-5);
}

TEST_P(LabFunctions, FeedForward) {
  expect_close([](const Tensors& x) { return Tensors{feed_forward(x[0], x[1], x[2])}; },
               [](const Tensors& x) {
                 return Tensors{at::linear(at::gelu(at::linear(x[0], x[1])), x[2])};
               },
               {random({rows, width}, 1), random({4 * width, width}, 2, 0.3),
                random({width, 4 * width}, 3, 0.3)},
               2e-5);
}

// With both matrices equal to the identity, only GELU remains.
TEST(LabFunction, GeluOfEverySizeOfNumber) {
  const at::Tensor one = at::eye(1), x = at::cat({at::linspace(-20, 20, 4001), at::zeros({1})});
  set_products(Products::blas);
  expect_close([&](const Tensors& x) { return Tensors{feed_forward(x[0], one, one)}; },
               [](const Tensors& x) { return Tensors{at::gelu(x[0])}; },
               {x.unsqueeze(1).requires_grad_(true)}, 4e-7);
  set_products(Products::fastest);
}

TEST(LabFunction, RowsOf) {
  const at::Tensor ids = at::arange(rows).mul(7).remainder(11);  // each row several times
  expect_close([&](const Tensors& x) { return Tensors{rows_of(x[0], ids)}; },
               [&](const Tensors& x) { return Tensors{at::embedding(x[0], ids)}; },
               {random({13, width}, 1)}, 1e-6);
}

TEST(LabFunction, AddAndNorm) {
  const Tensors inputs{random({rows, width}, 1), random({rows, width}, 2), random({width}, 3),
                       random({width}, 4)};
  const auto norm = [](const at::Tensor& sum, const Tensors& x) {
    return at::layer_norm(sum, {width}, x[2], x[3]);
  };
  expect_close(
      [](const Tensors& x) {
        const NormedSum both = add_and_norm(x[0], x[1], x[2], x[3]);
        return Tensors{both.sum, both.normed};
      },
      [&](const Tensors& x) {
        const at::Tensor sum = x[0] + x[1];
        return Tensors{sum, norm(sum, x)};
      },
      inputs, 1e-5);
  // The sum of the last norm is not used. The first norm has nothing to add.
  const Tensors three{inputs[0], inputs[2], inputs[3]};
  expect_close(
      [](const Tensors& x) { return Tensors{add_and_norm(x[0], {}, x[1], x[2]).normed}; },
      [&](const Tensors& x) { return Tensors{norm(x[0], {{}, {}, x[1], x[2]})}; }, three, 1e-5);
  expect_close(
      [](const Tensors& x) {
        const NormedSum both = add_and_norm(x[0], {}, x[1], x[2]);
        return Tensors{both.sum, both.normed};
      },
      [&](const Tensors& x) { return Tensors{x[0] * 1, norm(x[0], {{}, {}, x[1], x[2]})}; },
      three, 1e-5);
}

TEST(LabFunction, MeanCrossEntropy) {
  const at::Tensor targets = at::arange(rows).remainder(width);
  // The last row of logits is large, to test for overflow.
  const at::Tensor logits =
      at::cat({random({rows - 1, width}, 1, 5), 1e4 * random({1, width}, 2)})
          .detach()
          .requires_grad_(true);
  expect_close([&](const Tensors& x) { return Tensors{mean_cross_entropy(x[0], targets)}; },
               [&](const Tensors& x) { return Tensors{at::cross_entropy_loss(x[0], targets)}; },
               {logits}, 1e-6);
  const at::NoGradGuard no_grad;
  EXPECT_NEAR(mean_cross_entropy(logits, targets).item<double>(),
              at::cross_entropy_loss(logits.to(at::kDouble), targets).item<double>(), 1e-4);
}

}  // namespace functions_test
}  // namespace gnomon::lab
