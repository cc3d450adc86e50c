// Gnomon's loops have the same bits on LibTorch's threads.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>

#include "gnomon/attention/attention.h"
#include "gnomon/bias/alibi.h"
#include "gnomon/parallel.h"

namespace gnomon::libtorch {
namespace torch_executor_test {

std::atomic<int> loops{0};

Executor torch_executor() {
  return {.run =
              [](void*, std::int64_t count, void (*task)(void*, std::int64_t), void* data) {
                ++loops;
                at::parallel_for(0, count, 1, [&](std::int64_t begin, std::int64_t end) {
                  for (std::int64_t i = begin; i < end; ++i) task(data, i);
                });
              },
          .threads = at::get_num_threads()};
}

at::Tensor attended() {
  constexpr std::int64_t tokens = 257, heads = 4, size = 32;
  torch::manual_seed(1);
  at::Tensor q = torch::randn({2, tokens, heads, size}), k = torch::randn_like(q);
  const at::Tensor v = torch::randn_like(q), out = torch::empty_like(q);
  const auto view = [](const at::Tensor& x) {
    return View<float, 4>(x.data_ptr<float>(), {x.size(0), x.size(1), x.size(2), x.size(3)});
  };
  const RotaryTable table({.rotary_dim = size, .pairing = Pairing::halves},
                          consecutive(tokens));
  rotate(view(q), view(k), table);
  attention({view(q), view(k), view(v)},
            {.mask = {.visibility = Visibility::causal}, .bias = lower(Alibi{.heads = heads})},
            view(out));
  return torch::cat({q, k, out});
}

TEST(TorchExecutor, GivesTheSameBits) {
  const at::Tensor expected = attended();
  const int of_torch = at::get_num_threads(), ours = threads();
  at::set_num_threads(3);
  set_executor(torch_executor());
  set_threads(3);  // another test may have set a limit
  const at::Tensor got = attended();
  set_executor({});
  set_threads(ours);
  at::set_num_threads(of_torch);
  EXPECT_GT(loops, 0);
  EXPECT_TRUE(torch::equal(got, expected));
}

}  // namespace torch_executor_test
}  // namespace gnomon::libtorch
