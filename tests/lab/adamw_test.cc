#include "apps/lab/adamw.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <sstream>

namespace gnomon::lab {
namespace adamw_test {

std::vector<at::Tensor> parameters(at::ScalarType type) {
  torch::manual_seed(1);
  std::vector<at::Tensor> all{at::randn({37, 19}), at::randn({5}), at::randn({300, 70})};
  for (at::Tensor& one : all) one = one.to(type).requires_grad_(true);
  return all;
}

void set_gradients(std::vector<at::Tensor>& all, int step, double size) {
  torch::manual_seed(static_cast<std::uint64_t>(100 + step));
  for (at::Tensor& one : all)
    one.mutable_grad() = (size * at::randn(one.sizes(), at::kDouble)).to(one.scalar_type());
}

std::vector<AdamW::Decayed> decayed(const std::vector<at::Tensor>& all) {
  return {{all[0], 0.1}, {all[1], 0}, {all[2], 0.1}};
}

// LibTorch's optimizer and clipping, in double. Gradients of size 0.001 are not clipped. Our
// AdamW in double uses the implementation for tensors on other devices.
class LabAdamWOf : public ::testing::TestWithParam<at::ScalarType> {};
INSTANTIATE_TEST_SUITE_P(, LabAdamWOf, ::testing::Values(at::kFloat, at::kDouble),
                         [](const auto& info) { return at::toString(info.param); });

TEST_P(LabAdamWOf, StepsLikeLibTorchs) {
  for (const double size : {1.0, 1e-3}) {
    auto ours = parameters(GetParam()), theirs = parameters(at::kDouble);
    AdamW adamw(decayed(ours), {});
    using Group = torch::optim::OptimizerParamGroup;
    const auto options = torch::optim::AdamWOptions(0).betas({0.9, 0.95});
    std::vector<Group> groups;
    for (std::size_t i = 0; i < 3; ++i)
      groups.emplace_back(
          std::vector<at::Tensor>{theirs[i]},
          std::make_unique<torch::optim::AdamWOptions>(
              torch::optim::AdamWOptions(options).weight_decay(i == 1 ? 0 : 0.1)));
    torch::optim::AdamW reference(groups, options);
    for (int step = 0; step < 8; ++step) {
      const double rate = 1e-2 / (1 + step);
      set_gradients(ours, step, size);
      set_gradients(theirs, step, size);
      torch::nn::utils::clip_grad_norm_(theirs, 1.0);
      for (auto& group : reference.param_groups())
        static_cast<torch::optim::AdamWOptions&>(group.options()).lr(rate);
      reference.step();
      adamw.step(rate);
    }
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_LE((ours[i].to(at::kDouble) - theirs[i]).abs().max().item<double>(), 2e-6) << i;
      EXPECT_FALSE(ours[i].grad().defined());
    }
  }
}

TEST(LabAdamW, LeavesWhatHasNoGradient) {
  auto all = parameters(at::kFloat);
  const at::Tensor before = all[1].detach().clone();
  AdamW adamw(decayed(all), {});
  set_gradients(all, 0, 1);
  all[1].mutable_grad().reset();
  adamw.step(0.1);
  EXPECT_TRUE(all[1].equal(before));
}

TEST(LabAdamW, GoesOnFromWhatItSaved) {
  auto whole = parameters(at::kFloat), halves = parameters(at::kFloat);
  AdamW one(decayed(whole), {}), first(decayed(halves), {});
  const auto step = [](std::vector<at::Tensor>& all, AdamW& adamw, int at) {
    set_gradients(all, at, 1);
    adamw.step(1e-2);
  };
  for (int at = 0; at < 4; ++at) step(whole, one, at);
  for (int at = 0; at < 2; ++at) step(halves, first, at);
  std::stringstream stream;
  torch::serialize::OutputArchive out;
  first.save(out);
  out.save_to(stream);
  torch::serialize::InputArchive in;
  in.load_from(stream);
  AdamW second(decayed(halves), {});
  second.load(in);
  for (int at = 2; at < 4; ++at) step(halves, second, at);
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_TRUE(whole[i].equal(halves[i])) << i;
}

}  // namespace adamw_test
}  // namespace gnomon::lab
