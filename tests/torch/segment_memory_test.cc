// Training with memory: LibTorch's autograd with detached memory, compared with a SegmentMemory
// and the segment's own rows of Gnomon's gradients.
#include "gnomon/attention/segment_memory.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "gnomon/attention/attention.h"
#include "gnomon/torch/position.h"

namespace gnomon::libtorch {
namespace torch_segment_memory_test {

constexpr std::int64_t batch = 2, length = 17, heads = 4, key_heads = 2, head_dim = 8,
                       memory = 5;
constexpr std::int64_t pieces[] = {4, 6, 1, 6};

at::Tensor random(at::IntArrayRef sizes, std::uint64_t seed) {
  return at::empty(sizes, at::kDouble)
      .normal_(0, 1, at::make_generator<at::CPUGeneratorImpl>(seed))
      .requires_grad_(true);
}

View<double, 4> view(const at::Tensor& x) {
  return {x.data_ptr<double>(),
          {x.size(0), x.size(1), x.size(2), x.size(3)},
          {x.stride(0), x.stride(1), x.stride(2), x.stride(3)}};
}

TEST(SegmentMemory, TrainsAsWithDetachedMemory) {
  for (const char* name : {"none", "rotary", "alibi"}) {
    SCOPED_TRACE(name);
    const model::Encoding encoding = model::find_encoding(name).usual(
        {.width = heads * head_dim, .heads = heads, .length = length});
    const auto q = random({batch, length, heads, head_dim}, 1);
    const auto k = random({batch, length, key_heads, head_dim}, 2);
    const auto v = random({batch, length, key_heads, head_dim}, 3);
    const auto weight = random({batch, length, heads, head_dim}, 4).detach();
    const auto of_q = at::zeros_like(q.detach()), of_k = at::zeros_like(k.detach()),
               of_v = at::zeros_like(v.detach());

    SegmentMemory<double> past({.batch = batch,
                                .memory = memory,
                                .segment = 6,
                                .heads = key_heads,
                                .head_dim = head_dim,
                                .value_dim = head_dim});
    at::Tensor loss = at::zeros({}, at::kDouble);
    std::int64_t begin = 0;
    for (const std::int64_t count : pieces) {
      const auto part = [&](const at::Tensor& x) { return x.narrow(1, begin, count); };
      const std::int64_t back = std::min(begin, memory);
      const auto with_memory = [&](const at::Tensor& x) {
        return at::cat({x.detach().narrow(1, begin - back, back), part(x)}, 1);
      };
      loss = loss + (attend_composed(model::Mixture{encoding}, {}, part(q), with_memory(k),
                                     with_memory(v),
                                     {.visibility = Visibility::causal,
                                      .left = memory,
                                      .layout = Layout::tokens_heads}) *
                     part(weight))
                        .sum();

      const at::NoGradGuard no_grad;
      const auto s = past.append(view(part(k)), view(part(v)));
      const std::int64_t rows = s.keys.extent(1);
      ASSERT_EQ(s.offset, back);
      LayerPlan plan = model::lower(encoding, {count, rows}, {});
      plan.mask = {
          .visibility = Visibility::causal, .offset = s.offset, .left = memory, .right = {}};
      const auto out = at::empty({batch, count, heads, head_dim}, at::kDouble);
      const auto lse = at::empty({batch, heads, count}, at::kDouble);
      const View<double, 3> lse_view(lse.data_ptr<double>(), {batch, heads, count});
      attention({view(part(q)), s.keys, s.values}, plan, view(out), lse_view);
      const auto k_grad = at::empty({batch, rows, key_heads, head_dim}, at::kDouble);
      const auto v_grad = at::empty_like(k_grad);
      attention_backward({view(part(q)), s.keys, s.values}, plan, view(out), lse_view,
                         view(part(weight)),
                         {.q = view(part(of_q)), .k = view(k_grad), .v = view(v_grad)});
      const auto own = [&](const at::Tensor& grad) { return grad.narrow(1, back, count); };
      EXPECT_EQ(s.own(view(k_grad)).data(), own(k_grad).data_ptr<double>());
      part(of_k).copy_(own(k_grad));
      part(of_v).copy_(own(v_grad));
      begin += count;
    }
    ASSERT_EQ(begin, length);
    const auto wanted = torch::autograd::grad({loss}, {q, k, v});
    const at::Tensor found[] = {of_q, of_k, of_v};
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_LE((found[i] - wanted[i]).abs().max().item<double>(), 1e-12) << i;
  }
}

}  // namespace torch_segment_memory_test
}  // namespace gnomon::libtorch
