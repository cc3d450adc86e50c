// The memory of attention with any encoding grows linearly with the tokens, not quadratically.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <string>

#include "gnomon/attention/attention.h"
#include "gnomon/model/encoding.h"
#include "gnomon/parallel.h"
#include "testing.h"

namespace gnomon::model {
namespace encoding_memory_test {

using testing::random_tensor;
using testing::Tensor;

constexpr std::int64_t heads = 2, size = 16, tokens = 6144;

double most_memory() {  // peak memory of the process, in MiB
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

class EncodingMemory : public ::testing::TestWithParam<std::string> {};

// Lowers the encoding, then runs a forward and a backward pass. A matrix [H, T, T] of floats
// takes 288 MiB, and its gradient as much.
TEST_P(EncodingMemory, HoldsNoMatrix) {
  set_threads(1);
  const Encoding encoding =
      find_encoding(GetParam())
          .usual({.width = heads * size, .heads = heads, .length = tokens});
  std::vector<Tensor<float, 2>> matrices;
  std::vector<View<const float, 2>> values;
  for (const Parameter& one : parameters(encoding)) {
    matrices.push_back(random_tensor<float, 2>({one.rows, one.columns}));
    for (float& value : matrices.back().values)
      value = static_cast<float>(one.initial_mean + one.initial_deviation * double{value});
  }
  for (const auto& matrix : matrices) values.push_back(matrix.view());
  const auto x = random_tensor<float, 4>({1, tokens, heads, size}, 1);
  Tensor<float, 4> out(x.extents, 1), q_grad(x.extents, 1), k_grad = q_grad, v_grad = q_grad;
  Tensor<float, 3> lse({1, heads, tokens}, 1);
  const double before = most_memory();
  LayerPlan plan = lower(encoding, {.queries = tokens, .keys = tokens}, values);
  BiasGradient bias;
  RelativeGradient relative;
  plan.mask = {.visibility = Visibility::causal, .left = 512};
  plan.softmax.scale = 0.25;
  TermArrays terms = term_arrays({encoding}, 1, tokens), term_grads = terms;
  const View<const float, 4> all = x.view();  // borrowed by the input
  const AttentionInput input{.q = all, .k = all, .v = all, .terms = terms.terms<ConstTensor>()};
  attention(input, plan, out.view(), lse.view());
  attention_backward(input, plan, out.view(), lse.view(), x.view(),
                     {.q = q_grad.view(),
                      .k = k_grad.view(),
                      .v = v_grad.view(),
                      .bias = &bias,
                      .relative = &relative,
                      .terms = term_grads.terms<gnomon::Tensor>()});
  EXPECT_LE(most_memory() - before, 128);  // usually 40; sanitizers keep freed memory
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const EncodingInfo& one : encodings()) all.emplace_back(one.name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, EncodingMemory, ::testing::ValuesIn(names()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace encoding_memory_test
}  // namespace gnomon::model
