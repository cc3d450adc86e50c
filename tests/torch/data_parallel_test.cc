// A user's own model with the modules of the adapter, under data parallelism: 2 processes with
// c10d, and replicas in one process.
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <torch/version.h>

#include <string>
#include <vector>

#include "gnomon/torch/scheme.h"
#include "members.h"
#include "torch/testing.h"

#if TORCH_VERSION_MAJOR == 1
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#endif

namespace gnomon::libtorch {
namespace data_parallel_test {

using namespace gnomon::libtorch::testing;
using gnomon::testing::Member;
using gnomon::testing::Members;

constexpr std::int64_t layers = 2, rows = 4, symbols = 11;
constexpr const char* encodings[] = {"t5", "kerple", "fire", "learned", "shaw", "swin"};

// Two layers of attention that predict the next of 11 symbols.
struct ModelImpl : torch::nn::Cloneable<ModelImpl> {
  explicit ModelImpl(std::string name) : encoding(std::move(name)) { reset(); }
  void reset() override {
    symbol = register_module("symbol", torch::nn::Embedding(symbols, shape.width));
    position = register_module(
        "position",
        PositionScheme(model::every_layer({usual(encoding)}, layers), generator(1)));
    const torch::NoGradGuard no_grad;
    symbol->weight.normal_(0, 1, generator(2));
    projections.clear();
    for (std::int64_t l = 0; l < layers; ++l) {
      projections.push_back(register_module("qkv" + std::to_string(l),
                                            torch::nn::Linear(shape.width, 3 * shape.width)));
      projections.back()->weight.normal_(0, 0.3, generator(3 + static_cast<std::uint64_t>(l)));
      projections.back()->bias.zero_();
    }
  }
  // ids: [B, T + 1]. Returns the sum of the losses.
  at::Tensor loss(const at::Tensor& ids) {
    const at::Tensor inputs = ids.narrow(1, 0, length), targets = ids.narrow(1, 1, length);
    at::Tensor x = position->embed(symbol(inputs));
    for (std::int64_t l = 0; l < layers; ++l) {
      const at::Tensor qkv = projections[static_cast<std::size_t>(l)](x).view(
          {ids.size(0), length, 3 * heads, head_dim});
      x = x + position->attend_packed(l, qkv, heads, causal)
                  .reshape({ids.size(0), length, shape.width});
    }
    return at::cross_entropy_loss(at::matmul(x, symbol->weight.t()).view({-1, symbols}),
                                  targets.reshape(-1), {}, at::Reduction::Sum);
  }

  std::string encoding;
  torch::nn::Embedding symbol{nullptr};
  PositionScheme position{nullptr};
  std::vector<torch::nn::Linear> projections;
};
TORCH_MODULE(Model);

at::Tensor ids() { return at::randint(symbols, {rows, length + 1}, generator(9), at::kLong); }
double targets() { return static_cast<double>(rows * length); }

std::vector<at::Tensor> gradients(const Model& model) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& one : model->parameters()) all.push_back(one.grad().clone());
  return all;
}
// Gradients of the mean loss of the whole batch.
std::vector<at::Tensor> whole_gradients(const std::string& encoding) {
  Model model(encoding);
  (model->loss(ids()) / targets()).backward();
  return gradients(model);
}
void expect_close_to_whole(const std::vector<at::Tensor>& found, const std::string& encoding) {
  const auto wanted = whole_gradients(encoding);
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_GT(wanted[i].abs().max().item<double>(), 0) << encoding << ", " << i;
    expect_close(found[i], wanted[i], 2e-6);
  }
}

TEST(Replicas, HaveTheGradientsOfTheWholeBatch) {
  for (const std::string encoding : encodings) {
    Model model(encoding);
    const auto replica = std::dynamic_pointer_cast<ModelImpl>(model->clone());
    const at::Tensor all = ids();
    (model->loss(all.narrow(0, 0, rows / 2)) / targets()).backward();
    (replica->loss(all.narrow(0, rows / 2, rows / 2)) / targets()).backward();
    std::vector<at::Tensor> sums = gradients(model);
    const auto others = replica->parameters();
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += others[i].grad();
    expect_close_to_whole(sums, encoding);
  }
}

#if TORCH_VERSION_MAJOR == 1

c10::intrusive_ptr<c10d::ProcessGroupGloo> group_of(const Member& member) {
  const auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices = {c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")};
  return c10::make_intrusive<c10d::ProcessGroupGloo>(member.store, member.rank, member.size,
                                                     options);
}
bool same_in_all(c10d::ProcessGroupGloo& group, const at::Tensor& tensor) {
  std::vector<at::Tensor> first{tensor.detach().clone()};
  group.broadcast(first)->wait();
  return first[0].equal(tensor);
}

TEST(Processes, HaveTheGradientsOfTheWholeBatchAndEqualParameters) {
  if (!Member::here()) return Members(2).expect_success();
  at::set_num_threads(1);
  const Member member = Member::get();
  const auto group = group_of(member);
  const std::int64_t own = rows / member.size;
  for (const std::string encoding : encodings) {
    Model model(encoding);
    const auto backward = [&] {
      model->zero_grad();
      (model->loss(ids().narrow(0, own * member.rank, own)) / targets()).backward();
      for (at::Tensor& one : model->parameters()) {
        std::vector<at::Tensor> gradient{one.mutable_grad()};
        group->allreduce(gradient)->wait();
      }
      return gradients(model);
    };
    const auto first = backward(), second = backward();
    expect_close_to_whole(first, encoding);
    for (std::size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(first[i].equal(second[i]));
    torch::optim::AdamW optimizer(model->parameters(), 0.01);
    for (int step = 0; step < 3; ++step) {
      backward();
      optimizer.step();
    }
    for (const at::Tensor& one : model->parameters())
      EXPECT_TRUE(same_in_all(*group, one)) << encoding;
  }
  Members::done();
}

#endif

}  // namespace data_parallel_test
}  // namespace gnomon::libtorch
