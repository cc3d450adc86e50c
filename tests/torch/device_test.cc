// Modules and tensors on another device than the CPU run on LibTorch's operators.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <array>
#include <string>
#include <utility>

#include "torch/other_device.h"
#include "torch/testing.h"

namespace gnomon::libtorch {
namespace device_test {

using namespace testing;  // NOLINT
using gnomon::testing::other_device;

at::Tensor moved(const at::Tensor& one) {
  return one.detach().to(other_device()).requires_grad_(one.requires_grad());
}
at::Tensor back(const at::Tensor& one) { return one.to(at::kCPU); }

class OnAnotherDevice : public ::testing::TestWithParam<std::string> {
 protected:
  OnAnotherDevice() { gnomon::testing::take_operators_of_other_device(); }
  ~OnAnotherDevice() override {
    for (const std::string& one :
         gnomon::testing::unfit_for_cuda(gnomon::testing::take_operators_of_other_device()))
      ADD_FAILURE() << one;
  }
};
INSTANTIATE_TEST_SUITE_P(, OnAnotherDevice, ::testing::ValuesIn(names()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// The outputs and the gradients of all inputs and parameters. Undefined: unused.
struct Results {
  std::vector<at::Tensor> outputs, grads;
};
template <typename Call>
Results results_of(PositionEncoding& position, std::vector<at::Tensor> inputs, Call&& call) {
  Results results;
  results.outputs = call(inputs);
  at::Tensor sum;
  for (const at::Tensor& one : results.outputs) {
    const at::Tensor part = (one * one.detach().sin()).sum();
    sum = sum.defined() ? sum + part : part;
  }
  for (const at::Tensor& one : position->parameters()) inputs.push_back(one);
  results.grads = torch::autograd::grad({sum}, inputs, {}, false, false, /*allow_unused=*/true);
  return results;
}

// The same numbers as on the CPU, on the device of the inputs.
template <typename Call>
void expect_as_on_the_cpu(const model::Encoding& encoding,
                          const std::vector<at::Tensor>& inputs, Call&& call) {
  PositionEncoding on_cpu = make({encoding}), on_other = make({encoding});
  on_other->to(other_device());
  std::vector<at::Tensor> others;
  for (const at::Tensor& one : inputs) others.push_back(moved(one));
  const auto bound = [&](PositionEncoding& position) {
    return [&](const std::vector<at::Tensor>& given) { return call(position, given); };
  };
  const Results wanted = results_of(on_cpu, inputs, bound(on_cpu)),
                found = results_of(on_other, others, bound(on_other));
  for (const auto member : {&Results::outputs, &Results::grads}) {
    const std::vector<at::Tensor>&a = wanted.*member, &b = found.*member;
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      // A gradient that is zero may be undefined.
      if (!a[i].defined() || !b[i].defined()) {
        for (const at::Tensor& one : {a[i], b[i]})
          if (one.defined()) {
            EXPECT_EQ(back(one).abs().max().item<double>(), 0) << i;
          }
        continue;
      }
      EXPECT_EQ(b[i].device(), other_device()) << i;
      const double most = a[i].detach().abs().max().item<double>();
      expect_close(a[i].detach(), back(b[i].detach()), 2e-5 * (1 + most));
    }
  }
}

TEST_P(OnAnotherDevice, AttendsAsOnTheCpu) {
  const model::Mixture mixture{usual(GetParam())};
  const std::int64_t key_heads = key_heads_of(mixture);
  for (AttendOptions options : each_visibility(mixture[0], causal, both_ways)) {
    const std::vector<at::Tensor> inputs{
        random({batch, 5, heads, head_dim}, 1, at::kFloat),
        random({batch, length, key_heads, head_dim}, 2, at::kFloat),
        random({batch, length, key_heads, head_dim}, 3, at::kFloat),
        layer_input(hidden_rows(mixture, 5, length)).detach().requires_grad_(true)};
    expect_as_on_the_cpu(
        usual(GetParam(), options.visibility), inputs,
        [&](PositionEncoding& position, const std::vector<at::Tensor>& in) {
          options.hidden = in[3];
          return std::vector<at::Tensor>{position->attend(in[0], in[1], in[2], options)};
        });
  }
}

// Packed q, k and v, a table that is added to the embeddings, and padding.
TEST_P(OnAnotherDevice, AttendsPackedAndEmbedsAsOnTheCpu) {
  const at::Tensor mask = at::ones({batch, length}, at::kBool);
  mask[0].slice(0, 0, 3).fill_(false);
  const std::int64_t key_heads = key_heads_of({usual(GetParam())});
  const std::vector<at::Tensor> inputs{
      random({batch, length, heads + 2 * key_heads, head_dim}, 1, at::kFloat),
      layer_input(length).detach().requires_grad_(true)};
  for (const bool padded : {false, true})
    expect_as_on_the_cpu(
        usual(GetParam()), inputs,
        [&](PositionEncoding& position, const std::vector<at::Tensor>& in) {
          AttendOptions options = causal;
          options.hidden = in[1];
          if (!padded)
            return std::vector<at::Tensor>{position->embed(in[1], 0),
                                           position->attend_packed(in[0], key_heads, options)};
          // The mask is on the device of the inputs.
          options.positions = positions_of_mask(mask.to(in[0].device()));
          return std::vector<at::Tensor>{position->embed(in[1], *options.positions),
                                         position->attend_packed(in[0], key_heads, options)};
        });
}

// The module moves back with the weights that it had.
TEST_P(OnAnotherDevice, ModulesMoveThereAndBack) {
  PositionEncoding position = make({usual(GetParam())});
  std::vector<at::Tensor> before;
  for (const at::Tensor& one : position->parameters()) before.push_back(one.detach().clone());
  position->to(other_device());
  for (const at::Tensor& one : position->parameters()) EXPECT_EQ(one.device(), other_device());
  position->to(at::kCPU);
  const std::vector<at::Tensor> after = position->parameters();
  for (std::size_t i = 0; i < after.size(); ++i) EXPECT_TRUE(after[i].equal(before[i])) << i;
}

// The device of the tests itself: it refuses a mixture of devices, as CUDA does.
TEST(OtherDevice, RefusesTensorsOfTheCpu) {
  const at::Tensor there = at::ones({3}).to(other_device()), here = at::ones({3});
  EXPECT_THROW(there + here, c10::Error);
  EXPECT_TRUE(back(there + at::scalar_tensor(2.0)).equal(at::full({3}, 3.0)));
  EXPECT_FALSE(at::from_blob(there.data_ptr(), {3}, at::kFloat).equal(here));
}

}  // namespace device_test
}  // namespace gnomon::libtorch
