// Runs kernels on the host, so that tests need no GPU. The lanes of a block are fibers. Between
// two barriers each lane runs alone, one after another, in an order that tests choose: a result
// that depends on the order is a race. Under the address sanitizer, accesses outside of global
// and shared memory are errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace gnomon::cuda {

class HostContext;

namespace emulator {

constexpr int most_threads = 1024;

enum class Order { forward = 1, reversed, shuffled };
// Sets the order of blocks and lanes of the following launches.
void set_order(Order order);

struct Grid {
  std::int64_t blocks;
  int threads;
  std::size_t shared_bytes;
  int max_threads;
  bool synchronizes;  // false: lanes are function calls, and barriers are errors
};
using Lane = void (*)(const void* kernel, HostContext& context);
// Runs all lanes of all blocks. Ends the program with a message if lanes diverge: if some wait
// at a barrier that others never reach, or if a launch is invalid.
void run(const Grid& grid, Lane lane, const void* kernel);

struct Block;

}  // namespace emulator

class HostContext {
 public:
  HostContext(emulator::Block& block, int thread) : block_(block), thread_(thread) {}

  int thread() const { return thread_; }
  int threads() const;
  std::int64_t block() const;
  std::int64_t blocks() const;

  void barrier();
  template <typename T>
  T* shared() const {
    return static_cast<T*>(shared_bytes());
  }

  template <typename T>
  T shuffle(T value, int lane) {
    static_assert(sizeof(T) <= sizeof(std::uint64_t));
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    bits = exchange(bits, lane);
    std::memcpy(&value, &bits, sizeof(T));
    return value;
  }
  template <typename T>
  T shuffle_xor(T value, int mask) {
    return shuffle(value, (thread_ % 32) ^ mask);
  }
  std::uint32_t ballot(bool condition);

  // The value of each lane of the warp: [32]. Valid until the next collective call.
  const std::uint64_t* gather(std::uint64_t bits);

 private:
  void* shared_bytes() const;
  std::uint64_t exchange(std::uint64_t bits, int lane);

  emulator::Block& block_;
  int thread_;
  int exchanges_ = 0;
};

}  // namespace gnomon::cuda
