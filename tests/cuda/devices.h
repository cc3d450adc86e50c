// Helpers of the tests of CUDA kernels. The tests run in the emulator (`make test`), in each
// order of the lanes, and on a GPU (`make gpu`).
#pragma once

#include <cstring>
#include <functional>
#include <vector>

#include "gnomon/cuda/device.h"
#include "gtest/gtest.h"
#include "testing.h"

#include "src/cuda/emulator.h"

namespace gnomon::cuda::emulator {
// Null in the program that is linked to the component cuda itself.
[[gnu::weak]] void set_order(Order order);
}  // namespace gnomon::cuda::emulator

namespace gnomon::testing {

inline bool emulated() { return cuda::emulator::set_order != nullptr; }

template <typename T>
std::vector<T> elements(const std::vector<double>& numbers) {
  std::vector<T> all(numbers.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<T>(numbers[i]);
  return all;
}

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// Returns the result of a computation, and checks that it has the same bits in each order of
// the lanes; on a GPU: twice.
template <typename T>
std::vector<T> in_all_orders(const std::function<std::vector<T>()>& compute) {
  const std::vector<T> result = compute();
  if (!emulated()) {
    EXPECT_TRUE(same_bits(result, compute())) << "the second run differs";
    return result;
  }
  using cuda::emulator::Order;
  for (const Order order : {Order::reversed, Order::shuffled}) {
    cuda::emulator::set_order(order);
    EXPECT_TRUE(same_bits(result, compute()))
        << "the result depends on the order of lanes: " << static_cast<int>(order);
  }
  cuda::emulator::set_order(Order::forward);
  return result;
}

}  // namespace gnomon::testing
