#include "src/cuda/emulator.h"

#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace gnomon::cuda {
namespace emulator {
namespace {

Order order_of_lanes = Order::forward;

[[noreturn]] void fail(const char* message) {
  std::fprintf(stderr, "[emulator] %s\n", message);
  std::abort();
}

enum class State { ready, in_warp, in_block, done };

constexpr std::size_t stack_bytes = 256 << 10;

struct Fiber {
  ucontext_t context = {};
  std::unique_ptr<char[]> stack{new char[stack_bytes]};  // written where it is used
  State state = State::done;
  void* fake_stack = nullptr;
};

void reorder(std::vector<std::int64_t>& indices, std::mt19937_64& random) {
  std::iota(indices.begin(), indices.end(), 0);
  if (order_of_lanes == Order::reversed) std::reverse(indices.begin(), indices.end());
  if (order_of_lanes == Order::shuffled)
    for (std::size_t i = indices.size(); i > 1; --i)
      std::swap(indices[i - 1], indices[random() % i]);
}

}  // namespace

struct Block {
  Grid grid = {};
  std::int64_t index = 0;
  Lane lane = nullptr;
  const void* kernel = nullptr;
  std::vector<unsigned char> shared;
  std::vector<std::uint64_t> slots;  // [2, threads]: collective calls alternate
  std::vector<Fiber> fibers;
  ucontext_t caller = {};
  int current = 0;
  const void* caller_stack = nullptr;
  std::size_t caller_bytes = 0;

  Fiber& fiber(int thread) { return fibers[static_cast<std::size_t>(thread)]; }

  // Runs a lane until it waits or ends.
  void resume(int thread) {
    current = thread;
    Fiber& to = fiber(thread);
#if defined(__SANITIZE_ADDRESS__)
    void* fake_stack = nullptr;
    __sanitizer_start_switch_fiber(&fake_stack, to.stack.get(), stack_bytes);
#endif
    swapcontext(&caller, &to.context);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
  }

  // Returns from the current lane to `resume`.
  void suspend(State state) {
    Fiber& from = fiber(current);
    from.state = state;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(state == State::done ? nullptr : &from.fake_stack,
                                   caller_stack, caller_bytes);
#endif
    swapcontext(&from.context, &caller);
    entered();
  }
  void entered() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fiber(current).fake_stack, &caller_stack, &caller_bytes);
#endif
  }

  static void begin(unsigned high, unsigned low) {
    auto* const self = reinterpret_cast<Block*>(static_cast<std::uintptr_t>(high) << 32 | low);
    self->fiber(self->current).fake_stack = nullptr;
    self->entered();
    {
      HostContext context(*self, self->current);
      self->lane(self->kernel, context);
    }
    self->suspend(State::done);
  }

  void prepare_fibers() {
    if (fibers.size() < static_cast<std::size_t>(grid.threads))
      fibers.resize(static_cast<std::size_t>(grid.threads));
    const auto self = reinterpret_cast<std::uintptr_t>(this);
    for (int thread = 0; thread < grid.threads; ++thread) {
      Fiber& one = fiber(thread);
      getcontext(&one.context);
      one.context.uc_stack.ss_sp = one.stack.get();
      one.context.uc_stack.ss_size = stack_bytes;
      one.context.uc_link = nullptr;
      one.state = State::ready;
      makecontext(&one.context, reinterpret_cast<void (*)()>(&Block::begin), 2,
                  static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
    }
  }

  // Whether threads [begin, end) all wait in `state`.
  bool all_in(State state, int begin, int end) const {
    return std::all_of(fibers.begin() + begin, fibers.begin() + end,
                       [&](const Fiber& one) { return one.state == state; });
  }
  bool release(State state, int begin, int end) {
    if (!all_in(state, begin, end)) return false;
    for (int thread = begin; thread < end; ++thread) fiber(thread).state = State::ready;
    return true;
  }

  void run_fibers(std::mt19937_64& random) {
    prepare_fibers();
    std::vector<std::int64_t> lanes(static_cast<std::size_t>(grid.threads));
    while (true) {
      reorder(lanes, random);
      bool moved = false;
      for (const std::int64_t thread : lanes)
        if (fiber(static_cast<int>(thread)).state == State::ready) {
          resume(static_cast<int>(thread));
          moved = true;
        }
      if (all_in(State::done, 0, grid.threads)) return;
      moved |= release(State::in_block, 0, grid.threads);
      for (int warp = 0; warp < grid.threads; warp += 32)
        moved |= release(State::in_warp, warp, std::min(warp + 32, grid.threads));
      if (!moved) fail("lanes diverge: some wait at a barrier that others do not reach");
    }
  }
};

void set_order(Order order) { order_of_lanes = order; }

void run(const Grid& grid, Lane lane, const void* kernel) {
  if (grid.blocks < 0 || grid.blocks > 0x7fffffff || grid.threads < 1 ||
      grid.threads > grid.max_threads || grid.shared_bytes > 227 << 10)
    fail("a launch exceeds the limits of the kernel or of the device");
  thread_local std::unique_ptr<Block> block = std::make_unique<Block>();
  block->grid = grid;
  block->lane = lane;
  block->kernel = kernel;
  block->slots.assign(2 * static_cast<std::size_t>(grid.threads), 0);
  std::mt19937_64 random(1);
  std::vector<std::int64_t> blocks(static_cast<std::size_t>(grid.blocks)),
      lanes(static_cast<std::size_t>(grid.threads));
  reorder(blocks, random);
  for (const std::int64_t index : blocks) {
    block->index = index;
    // Not initialized on a device: NaN here. Exact bytes, so that the sanitizer sees the end.
    block->shared = std::vector<unsigned char>(grid.shared_bytes, 0xff);
    if (grid.synchronizes) {
      block->run_fibers(random);
      continue;
    }
    reorder(lanes, random);
    for (const std::int64_t thread : lanes) {
      HostContext context(*block, static_cast<int>(thread));
      lane(kernel, context);
    }
  }
}

}  // namespace emulator

int HostContext::threads() const { return block_.grid.threads; }
std::int64_t HostContext::block() const { return block_.index; }
std::int64_t HostContext::blocks() const { return block_.grid.blocks; }
void* HostContext::shared_bytes() const { return block_.shared.data(); }

void HostContext::barrier() {
  if (!block_.grid.synchronizes)
    emulator::fail("barrier in a kernel that does not synchronize");
  block_.suspend(emulator::State::in_block);
}

const std::uint64_t* HostContext::gather(std::uint64_t bits) {
  if (!block_.grid.synchronizes || block_.grid.threads % 32 != 0)
    emulator::fail("collective call in a kernel without whole warps or synchronization");
  // Two sets of slots: a lane can write for the next call while others still read.
  const auto threads = static_cast<std::size_t>(block_.grid.threads);
  std::uint64_t* const slots = block_.slots.data() + (exchanges_++ % 2 ? threads : 0);
  slots[thread_] = bits;
  block_.suspend(emulator::State::in_warp);
  return slots + thread_ / 32 * 32;
}

std::uint64_t HostContext::exchange(std::uint64_t bits, int lane) {
  return gather(bits)[lane % 32];
}

std::uint32_t HostContext::ballot(bool condition) {
  const std::uint64_t* const all = gather(condition);
  std::uint32_t set = 0;
  for (int lane = 0; lane < 32; ++lane)
    set |= static_cast<std::uint32_t>(all[lane] & 1) << lane;
  return set;
}

}  // namespace gnomon::cuda
