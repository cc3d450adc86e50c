// Tests the memory that attention uses beyond its arguments.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "attention/sample.h"
#include "gnomon/attention/attention.h"

namespace gnomon {
namespace attention_memory_test {

using namespace gnomon::testing;
using testing::Tensor;

constexpr std::int64_t heads = 2, size = 16;

// The peak memory of the process, in MiB.
double most_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

// The growth of the peak by a forward and a backward pass.
double growth(std::int64_t tokens, const BiasForm& bias) {
  const ScopedThreads one(1);
  const auto x = random_tensor<float, 4>({1, tokens, heads, size}, 1);
  Tensor<float, 4> out(x.extents, 1), q_grad(x.extents, 1), k_grad = q_grad, v_grad = q_grad;
  Tensor<float, 3> lse({1, heads, tokens}, 1);
  const AttentionPlan plan{.mask = {.visibility = Visibility::causal}, .bias = bias};
  BiasGradient bias_grad;
  const double before = most_memory();
  attention({x.view(), x.view(), x.view()}, plan, out.view(), lse.view());
  attention_backward(
      {x.view(), x.view(), x.view()}, plan, out.view(), lse.view(), x.view(),
      {.q = q_grad.view(), .k = k_grad.view(), .v = v_grad.view(), .bias = &bias_grad});
  return most_memory() - before;
}

// A matrix of 6144 x 6144 floats would take 144 MiB, one of 1536 x 1536 a sixteenth of that.
// (Measured: 3 and 12 MiB, for sums of keys and values in parts. If other tests ran before in
// the same process, the growth is smaller.)
void expect_linear(const BiasForm& bias) {
  const double small = growth(1536, bias), large = growth(6144, bias);
  EXPECT_LE(small, 8);
  EXPECT_LE(large, 24);
}

TEST(AttentionMemory, HoldsNoMatrixOfASlope) { expect_linear(SlopeBias{{0.01, 0}}); }

TEST(AttentionMemory, HoldsNoMatrixOfAStrip) {
  expect_linear(StripBias{heads, -6144, std::vector<double>(heads * 6145, 0.5)});
}

}  // namespace attention_memory_test
}  // namespace gnomon
