// The module as a LibTorch module: `to`, saving and loading.
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

TEST(SavedModule, IsNotLoadedIntoAnother) {
  const PositionEncoding four(T5Bias{.heads = 4, .direction = T5Direction::causal});
  PositionEncoding eight(T5Bias{.heads = 8, .direction = T5Direction::causal});
  const at::Tensor kept = eight->parameters()[0].clone();
  const auto refused = [&](auto& module, const std::string& file,
                           const std::vector<std::string>& parts) {
    expect_refusal([&] { load(module, file); }, parts);
  };
  refused(eight, saved(four), {"PositionEncoding", "\"heads\":8", "\"heads\":4"});
  EXPECT_TRUE(eight->parameters()[0].equal(kept));
  // The same sizes, but another encoding.
  PositionEncoding encoder(T5Bias{.heads = 4, .direction = T5Direction::bidirectional});
  refused(encoder, saved(four), {"bidirectional", "\"causal\""});
  PositionEncoding rotary(Rotary{.rotary_dim = 8, .pairing = Pairing::halves});
  PositionEncoding other(Rotary{.rotary_dim = 8, .pairing = Pairing::adjacent});
  refused(other, saved(rotary), {"adjacent", "halves"});
  refused(rotary, saved(four), {"rotary", "t5"});
  PositionEncoding both(model::Mixture{usual("rotary"), usual("t5")});
  refused(both, saved(four), {"rotary", "t5"});
  EXPECT_NO_THROW(load(rotary, saved(PositionEncoding(rotary->mixture()))));
  // The module as a submodule of a model.
  torch::nn::ModuleList model, wrong;
  model->push_back(eight);
  wrong->push_back(four);
  refused(model, saved(wrong), {"\"heads\":8", "\"heads\":4"});
}

// A file without a specification, and a file with a parameter of another size.
TEST(SavedModule, SaysWhatItIs) {
  PositionEncoding position(T5Bias{.heads = 4, .direction = T5Direction::causal});
  const auto file = [&](std::int64_t columns, bool specification) {
    torch::serialize::OutputArchive archive;
    archive.write("buckets", at::zeros({32, columns}));
    if (specification)
      archive.write("specification",
                    c10::IValue("[" + model::to_json(position->mixture()[0]) + "]"));
    std::stringstream stream;
    archive.save_to(stream);
    return stream.str();
  };
  expect_refusal([&] { load(position, file(4, false)); }, {"without a specification"});
  expect_refusal([&] { load(position, file(8, true)); }, {"buckets", "[32, 4]", "[32, 8]"});
  EXPECT_EQ(position->parameters()[0].sizes(), (at::IntArrayRef{32, 4}));
  EXPECT_NO_THROW(load(position, file(4, true)));
}

}  // namespace module_test
}  // namespace gnomon::libtorch
