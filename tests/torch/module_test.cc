// The module as a LibTorch module: types, archives.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <sstream>
#include <vector>

#include "torch/testing.h"

namespace gnomon::libtorch {
namespace module_test {

using namespace testing;  // NOLINT

// Types of the module: forward and backward, with gradients in the type of the parameters.
TEST(Module, WorksInEveryType) {
  for (const std::string& name : names()) {
    SCOPED_TRACE(name);
    PositionEncoding exact = make({usual(name)});
    for (const auto type : {at::kDouble, at::kBFloat16, at::kHalf}) {
      PositionEncoding position = make({usual(name)});
      {
        const at::NoGradGuard no_grad;
        for (std::size_t i = 0; i < exact->parameters().size(); ++i)
          exact->parameters()[i].copy_(position->parameters()[i].to(type));
      }
      position->to(type);
      const auto pass = [&](PositionEncoding& module, at::ScalarType of_inputs) {
        module->zero_grad();
        const at::Tensor x = random({batch, length, shape.width}, 1, at::kFloat)
                                 .detach()
                                 .to(of_inputs)
                                 .requires_grad_(true);
        const at::Tensor q = module->embed(x).view({batch, length, heads, head_dim});
        AttendOptions options = causal;
        options.hidden = x;
        const at::Tensor out = module->attend(q, q, q, options);
        out.to(at::kFloat).square().sum().backward();
        return out;
      };
      const at::Tensor out = pass(position, type), wanted = pass(exact, at::kFloat);
      EXPECT_EQ(out.scalar_type(), type);
      const double low = type == at::kDouble ? 1e-5 : type == at::kHalf ? 2e-2 : 1.5e-1;
      expect_close(out.to(at::kFloat), wanted, low);
      for (std::size_t i = 0; i < exact->parameters().size(); ++i) {
        const at::Tensor parameter = position->parameters()[i];
        ASSERT_EQ(parameter.scalar_type(), type);
        ASSERT_TRUE(parameter.grad().defined());
        EXPECT_EQ(parameter.grad().scalar_type(), type);
        const at::Tensor wanted = exact->parameters()[i].grad();
        EXPECT_TRUE(parameter.grad().isfinite().all().item<bool>());
        if (type == at::kDouble)
          expect_close(parameter.grad().to(at::kFloat), wanted,
                       1e-4 * (1 + wanted.abs().max().item<double>()));
      }
    }
  }
}

// An archive could contain code: neither the module nor a model that contains it is in one.
TEST(Module, IsNotInAnArchive) {
  PositionEncoding position(T5Bias{.heads = 4, .direction = T5Direction::causal});
  PositionScheme scheme(model::parse_scheme("t5", shape, 2));
  torch::nn::ModuleList model;
  model->push_back(torch::nn::Linear(2, 2));
  model->push_back(position);
  const at::Tensor kept = position->parameters()[0].clone();
  std::stringstream stream;
  expect_refusal([&] { torch::save(position, stream); }, {"save_state", "a PositionEncoding"});
  expect_refusal([&] { torch::save(scheme, stream); }, {"save_state", "a PositionScheme"});
  expect_refusal([&] { torch::save(model, stream); }, {"save_state", "a PositionEncoding"});
  torch::save(torch::nn::Linear(2, 2), stream);
  const std::string archive = stream.str();
  const auto loaded = [&](auto& module) {
    std::stringstream file(archive);
    torch::load(module, file);
  };
  expect_refusal([&] { loaded(position); }, {"load_state", "can contain code"});
  expect_refusal([&] { loaded(scheme); }, {"load_state", "can contain code"});
  EXPECT_TRUE(position->parameters()[0].equal(kept));
}

}  // namespace module_test
}  // namespace gnomon::libtorch
