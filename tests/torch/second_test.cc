// Second derivatives: exact, or an error.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "torch/testing.h"

namespace gnomon::libtorch {
namespace second_test {

using namespace testing;  // NOLINT

class EachSecond : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(, EachSecond, ::testing::ValuesIn(names()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

bool is_nonlinear(const std::string& name) {
  return model::properties(usual(name)).linearity == model::Linearity::nonlinear;
}

// The derivative of f at 0, within O(step^4).
double slope_of(const std::function<double(double)>& f, double step) {
  return (8 * (f(step) - f(-step)) - (f(2 * step) - f(-2 * step))) / (12 * step);
}

using Compute = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

// Compares the gradient of the sum over all inputs of |gradient|^2 / 2, which is a second
// derivative, with differences of plain gradients along a direction of each input.
void expect_second(const Compute& compute, const std::vector<at::Tensor>& inputs,
                   double tolerance) {
  const auto weight = random(compute(inputs).sizes(), 9, at::kDouble).detach();
  const auto gradients = [&](const std::vector<at::Tensor>& at_inputs, bool create_graph) {
    const at::Tensor loss = (compute(at_inputs).to(at::kDouble).square() * weight).sum();
    return torch::autograd::grad({loss}, at_inputs, {}, create_graph, create_graph);
  };
  const auto first = gradients(inputs, true), plain = gradients(inputs, false);
  at::Tensor sum = at::zeros({}, at::kDouble);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    expect_close(first[i].to(at::kDouble), plain[i].to(at::kDouble),
                 1e-5 * (1 + plain[i].abs().max().item<double>()));
    sum = sum + first[i].to(at::kDouble).square().sum() / 2;
  }
  const auto found = torch::autograd::grad({sum}, inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor direction =
        random(inputs[i].sizes(), 10 + i, inputs[i].scalar_type()).detach();
    const auto sum_at = [&](double t) {
      std::vector<at::Tensor> moved = inputs;
      moved[i] = (inputs[i].detach() + t * direction).requires_grad_(true);
      double all = 0;
      for (const at::Tensor& one : gradients(moved, false))
        all += one.to(at::kDouble).square().sum().item<double>() / 2;
      return all;
    };
    const double slope = slope_of(sum_at, 1e-3);
    const double product = (found[i] * direction).to(at::kDouble).sum().item<double>();
    EXPECT_NEAR(product, slope, tolerance * (1 + std::abs(slope))) << "input " << i;
  }
}

TEST_P(EachSecond, DerivativeIsExactOrRefused) {
  PositionEncoding position = make({usual(GetParam())});
  AttendOptions options = causal;
  const std::int64_t key_heads = key_heads_of(position->mixture());
  options.hidden =
      random({batch, hidden_rows(position->mixture(), 4, 5), shape.width}, 8, at::kFloat)
          .detach();
  options.positions =
      positions_of(at::tensor({0, 1, 2, 3, 5, 0, 1, 4, 5, 9}).view({batch, 5}),
                   at::tensor({0, 0, 0, 0, 0, -1, 0, 0, 0, 0}).view({batch, 5}));
  const std::vector<at::Tensor> inputs{random({batch, 4, heads, head_dim}, 1, at::kDouble),
                                       random({batch, 5, key_heads, head_dim}, 2, at::kDouble),
                                       random({batch, 5, key_heads, head_dim}, 3, at::kDouble)};
  const Compute attend = [&](const std::vector<at::Tensor>& x) {
    return position->attend(x[0], x[1], x[2], options);
  };
  const bool trained = !Composed(position).parameters.empty();
  if (!trained) return expect_second(attend, inputs, 1e-6);
  const at::Tensor out = attend(inputs);
  std::vector<at::Tensor> all = inputs;
  for (const at::Tensor& one : Composed(position).parameters) all.push_back(one);
  const auto first = torch::autograd::grad({out.square().sum()}, all, {}, true, true);
  at::Tensor sum = at::zeros({}, at::kDouble);
  for (const at::Tensor& one : first) sum = sum + one.to(at::kDouble).square().sum();
  if (is_nonlinear(GetParam())) {
    expect_refusal([&] { sum.backward(); }, {"second derivatives"});
    return;
  }
  sum.backward();
  // Differences along a direction of each input and parameter.
  std::uint64_t seed = 30;
  for (at::Tensor& one : all) {
    const at::Tensor direction = random(one.sizes(), ++seed, one.scalar_type()).detach();
    const double step = one.scalar_type() == at::kDouble ? 1e-3 : 1e-2;
    const auto sum_at = [&](double t) {
      const at::Tensor kept = one.detach().clone();
      {
        const at::NoGradGuard no_grad;
        one.add_(direction, t);
      }
      double total = 0;
      for (const at::Tensor& grad : torch::autograd::grad({attend(inputs).square().sum()}, all))
        total += grad.to(at::kDouble).square().sum().item<double>();
      const at::NoGradGuard no_grad;
      one.copy_(kept);
      return total;
    };
    const double slope = slope_of(sum_at, step);
    const double product = (one.grad() * direction).to(at::kDouble).sum().item<double>();
    EXPECT_NEAR(product, slope, 2e-3 * (1 + std::abs(slope)));
  }
}

// A usual gradient penalty: the gradient of a loss by the embeddings, through embed and attend.
TEST_P(EachSecond, DerivativePassesThroughTheEmbeddings) {
  PositionEncoding position = make({usual(GetParam())});
  if (!model::includes(model::enters(position->mixture()), model::Place::embeddings)) return;
  const at::Tensor x = random({batch, 4, shape.width}, 1, at::kDouble);
  const Compute embed = [&](const std::vector<at::Tensor>& in) {
    return position
        ->embed(in[0], positions_of(at::tensor({3, 1, 0, 2, 0, 1, 2, 3}).view({2, 4})))
        .sin();
  };
  expect_second(embed, {x}, 1e-6);
  // The same for the table: its gradient depends on x.
  if (position->parameters().empty()) return;
  const at::Tensor loss = embed({x}).sum();
  const auto of_table = torch::autograd::grad({loss}, position->parameters(), {}, true, true);
  at::Tensor sum = at::zeros({}, at::kDouble);
  for (const at::Tensor& one : of_table) sum = sum + one.to(at::kDouble).square().sum();
  if (is_nonlinear(GetParam())) {
    expect_refusal([&] { sum.backward(); }, {"second derivatives"});
    return;
  }
  sum.backward();
  const at::Tensor direction = random(x.sizes(), 5, at::kDouble).detach();
  const auto sum_at = [&](double t) {
    const at::Tensor moved = (x.detach() + t * direction).requires_grad_(true);
    double total = 0;
    for (const at::Tensor& one :
         torch::autograd::grad({embed({moved}).sum()}, position->parameters()))
      total += one.to(at::kDouble).square().sum().item<double>();
    return total;
  };
  const double slope = slope_of(sum_at, 1e-2);
  EXPECT_NEAR((x.grad() * direction).sum().item<double>(), slope, 1e-3 * (1 + std::abs(slope)));
}

// One tensor as query, key and value counts once.
TEST(SecondDerivative, OfSelfAttentionCountsItsInputOnce) {
  PositionEncoding position = make({usual("rotary")});
  const at::Tensor x = random({batch, 4, heads, head_dim}, 1, at::kDouble);
  expect_second(
      [&](const std::vector<at::Tensor>& in) {
        return position->attend(in[0], in[0].cos(), in[0], causal);
      },
      {x}, 1e-6);
  expect_second(
      [&](const std::vector<at::Tensor>& in) {
        return position->attend_packed(in[0], 1, causal);
      },
      {x}, 1e-6);
}

TEST(SecondDerivative, OfAMixedTypeAndHalfIsThatOfFloat) {
  PositionEncoding position = make({usual("rotary")});
  const at::Tensor x = random({batch, 4, heads, head_dim}, 1, at::kFloat);
  const auto penalty = [&](at::ScalarType query, at::ScalarType key) {
    const at::Tensor q = (1 * x).to(query), k = (1 * x).to(key);  // two tensors in each type
    const auto grads = torch::autograd::grad(
        {position->attend(q, k, k, causal).to(at::kFloat).square().sum()}, {q}, {}, true, true);
    return torch::autograd::grad({grads[0].to(at::kFloat).square().sum()}, {x})[0];
  };
  const at::Tensor exact = penalty(at::kFloat, at::kFloat);
  const double most = exact.abs().max().item<double>();
  expect_close(penalty(at::kFloat, at::kBFloat16), exact, 5e-2 * most);
  expect_close(penalty(at::kHalf, at::kHalf), exact, 5e-2 * most);
}

}  // namespace second_test
}  // namespace gnomon::libtorch
