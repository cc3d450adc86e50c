// All executors give the same bits: OpenMP or the build's default, the pool of std::threads,
// the calling thread, a pool of the caller.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "gnomon/attention/attention.h"
#include "gnomon/bias/alibi.h"
#include "gnomon/embedding/sinusoidal.h"
#include "gnomon/parallel.h"
#include "sanitizers.h"

namespace gnomon {
namespace attention_executor_test {

constexpr std::int64_t batch = 2, tokens = 300, heads = 6, key_heads = 2, size = 32;

struct Array {
  std::vector<float> values;
  View<float, 4> view;

  explicit Array(std::int64_t count, unsigned seed = 0)
      : values(static_cast<std::size_t>(batch * tokens * count * size)),
        view(values.data(), {batch, tokens, count, size}) {
    for (float& value : values) {
      seed = seed * 1664525 + 1013904223;
      value = static_cast<float>(seed >> 8) / (1 << 23) - 1;
    }
  }
};

// All results of the calls below.
std::vector<float> everything() {
  Array q(heads, 1), k(key_heads, 2), v(key_heads, 3), out(heads), out_grad(heads, 4);
  Array q_grad(heads), k_grad(key_heads), v_grad(key_heads);
  std::vector<float> lse(batch * heads * tokens);
  const View<float, 3> lse_view(lse.data(), {batch, heads, tokens});
  const RotaryTable table({.rotary_dim = size, .pairing = Pairing::halves},
                          consecutive(tokens));
  rotate(q.view, k.view, table);
  const AttentionPlan plan{.mask = {.visibility = Visibility::causal},
                           .bias = lower(Alibi{.heads = heads}, 1 - tokens, tokens)};
  attention({q.view, k.view, v.view}, plan, out.view, lse_view);
  BiasGradient bias;
  attention_backward({q.view, k.view, v.view}, plan, out.view, lse_view, out_grad.view,
                     {.q = q_grad.view, .k = k_grad.view, .v = v_grad.view, .bias = &bias});
  std::vector<float> positions(4096 * 128);
  fill(Sinusoidal{.width = 128, .recipe = SinusoidalRecipe::interleaved}, consecutive(4096).ids,
       View<float, 2>(positions.data(), {4096, 128}));
  std::vector<float> all;
  for (const auto* part : {&q.values, &k.values, &out.values, &q_grad.values, &k_grad.values,
                           &v_grad.values, &lse, &positions})
    all.insert(all.end(), part->begin(), part->end());
  for (const double one : bias.values) all.push_back(static_cast<float>(one));
  return all;
}

// A pool like that of an engine: one thread for each task, last task first.
Executor engine_executor() {
  return {.run =
              [](void*, std::int64_t count, void (*task)(void*, std::int64_t), void* data) {
                std::vector<std::thread> all;
                for (std::int64_t i = count; i-- > 0;) all.emplace_back(task, data, i);
                for (std::thread& one : all) one.join();
              },
          .threads = 3};
}

TEST(Executors, GiveTheSameBits) {
  const int before = threads();
  set_threads(1);
  const std::vector<float> expected = everything();
  const auto expect_same = [&](const char* who) {
    const std::vector<float> got = everything();
    ASSERT_EQ(got.size(), expected.size());
    EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)), 0) << who;
  };
  set_threads(7);
  expect_same("the default of the build, 7 threads");
  set_executor(serial_executor());
  expect_same("the calling thread");
  set_executor(thread_pool_executor(5));
  expect_same("the pool of std::threads");
  set_executor(engine_executor());
  expect_same("an engine's pool");
  set_executor({});
  set_threads(before);
}

// One step of decoding, which takes its working memory from the blocks that all threads share.
void decode() {
  std::vector<float> q(8), k(8 * 4), out(8);
  const View<const float, 4> keys(k.data(), {1, 4, 1, 8});
  attention({View<const float, 4>(q.data(), {1, 1, 1, 8}), keys, keys},
            {.mask = {.visibility = Visibility::bidirectional}},
            View<float, 4>(out.data(), {1, 1, 1, 8}));
}

TEST(Executors, AForkedChildComputesThoughThreadsOfItsParentDid) {
  if (*GNOMON_EMULATOR) GTEST_SKIP() << "qemu-user 7.2 cannot start threads in a forked child";
  if (testing::sanitized()) GTEST_SKIP() << "fork keeps locks of the allocator of a sanitizer";
  std::atomic<bool> done{false};
  std::vector<std::thread> others;
  for (int i = 0; i < 3; ++i)
    others.emplace_back([&] {
      while (!done) decode();
    });
  int failed = 0;
  for (int i = 0; i < 200 && !failed; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      decode();
      _exit(0);
    }
    if (child < 0 || waitpid(child, &failed, 0) != child) failed = 1;
  }
  done = true;
  for (std::thread& other : others) other.join();
  EXPECT_EQ(failed, 0);
}

}  // namespace attention_executor_test
}  // namespace gnomon
