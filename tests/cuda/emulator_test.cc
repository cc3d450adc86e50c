// The emulator finds races, divergence and accesses outside of memory. Not linked to the
// component cuda, which has no emulator.
#include "src/cuda/emulator.h"

#include <gtest/gtest.h>

#include <vector>

#include "cuda/devices.h"
#include "src/cuda/launch.h"

namespace gnomon {
namespace emulator_test {

using cuda::HostContext;
using cuda::emulator::Order;

// Each block writes the sum of its thread indices, by shared memory.
template <bool waits>
struct Sum {
  static constexpr bool synchronizes = true;
  static constexpr int max_threads = 64;
  int* out;
  void operator()(HostContext& context) const {
    int* const all = context.shared<int>();
    all[context.thread()] = context.thread();
    if constexpr (waits) context.barrier();
    if (context.thread() != 0) return;
    int sum = 0;
    for (int i = 0; i < context.threads(); ++i) sum += all[i];
    out[context.block()] = sum;
  }
};

template <class Kernel>
std::vector<int> run(Order order) {
  cuda::emulator::set_order(order);
  std::vector<int> out(3);
  cuda::launch(Kernel{out.data()}, {3, 64, 64 * sizeof(int)}, nullptr);
  cuda::emulator::set_order(Order::forward);
  return out;
}

TEST(Emulator, SeesAMissingBarrier) {
  EXPECT_EQ(run<Sum<true>>(Order::forward), std::vector<int>(3, 2016));
  EXPECT_EQ(run<Sum<true>>(Order::reversed), std::vector<int>(3, 2016));
  EXPECT_EQ(run<Sum<true>>(Order::shuffled), std::vector<int>(3, 2016));
  EXPECT_NE(run<Sum<false>>(Order::forward), run<Sum<false>>(Order::reversed));
}

struct Exchange {
  static constexpr bool synchronizes = true;
  static constexpr int max_threads = 64;
  int* out;
  void operator()(HostContext& context) const {
    int value = context.thread();
    for (const int mask : {16, 8, 4, 2, 1}) value += context.shuffle_xor(value, mask);
    const auto odd = context.ballot(context.thread() % 2);
    const int first = context.shuffle(context.thread(), 0);
    if (context.thread() % 32 == 5)
      out[context.thread() / 32] = value + (odd == 0xaaaaaaaau ? 10'000 : 0) + 100'000 * first;
  }
};

TEST(Emulator, ExchangesValuesInAWarp) {
  for (const Order order : {Order::forward, Order::reversed, Order::shuffled}) {
    cuda::emulator::set_order(order);
    std::vector<int> out(2);
    cuda::launch(Exchange{out.data()}, {1, 64}, nullptr);
    EXPECT_EQ(out, (std::vector<int>{496 + 10'000, 1520 + 10'000 + 3'200'000}));
  }
  cuda::emulator::set_order(Order::forward);
}

struct Divergent {
  static constexpr bool synchronizes = true;
  static constexpr int max_threads = 64;
  void operator()(HostContext& context) const {
    if (context.thread() < 32) context.barrier();
  }
};

TEST(EmulatorDeathTest, EndsIfLanesDiverge) {
  EXPECT_DEATH(cuda::launch(Divergent{}, {1, 64}, nullptr), "lanes diverge");
  EXPECT_DEATH(cuda::launch(Divergent{}, {1, 65}, nullptr), "exceeds the limits");
}

}  // namespace emulator_test
}  // namespace gnomon
