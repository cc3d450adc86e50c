#include "gnomon/context.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include "src/core/blocks.h"

namespace gnomon {
namespace context_test {

using Threads = std::set<std::thread::id>;

// Without a limit on the threads that the calling thread uses.
class Unlimited {
 public:
  Unlimited() { set_threads(100); }
  ~Unlimited() { set_threads(before_); }

 private:
  int before_ = threads();
};

// The threads that run the pieces of a loop, each of which waits for another thread.
Threads threads_of_loop(int expected) {
  Threads all;
  std::mutex mutex;
  std::atomic<int> arrived{0};
  parallel_for(expected, 1, [&](std::int64_t, std::int64_t) {
    {
      const std::lock_guard lock(mutex);
      all.insert(std::this_thread::get_id());
    }
    ++arrived;
    while (arrived < expected) std::this_thread::yield();
  });
  return all;
}

Executor counting(std::atomic<int>& loops, int threads) {
  return {
      .run =
          [](void* count, std::int64_t tasks, void (*task)(void*, std::int64_t), void* data) {
            ++*static_cast<std::atomic<int>*>(count);
            for (std::int64_t i = 0; i < tasks; ++i) task(data, i);
          },
      .context = &loops,
      .threads = threads};
}

void run_loop() {
  parallel_for(100, 1, [](std::int64_t, std::int64_t) {});
}

TEST(Context, RunsTheLoopsOfItsScopesOnItsExecutor) {
  const Unlimited unlimited;
  std::atomic<int> outer{0}, inner{0};
  Context one(counting(outer, 5)), other(counting(inner, 7));
  const int before = threads();
  {
    const ContextScope scope(one);
    EXPECT_EQ(threads(), 5);
    run_loop();
    {
      const ContextScope nested(other);
      EXPECT_EQ(threads(), 7);
      run_loop();
    }
    run_loop();
    std::thread([&] { EXPECT_NE(threads(), 5); }).join();  // a scope is of its thread
  }
  EXPECT_EQ(outer, 2);
  EXPECT_EQ(inner, 1);
  EXPECT_EQ(threads(), before);
}

TEST(Context, WithoutAnExecutorRunsOnThatOfTheProcess) {
  const Unlimited unlimited;
  std::atomic<int> loops{0};
  set_executor(counting(loops, 3));
  Context context;
  {
    const ContextScope scope(context);
    EXPECT_EQ(threads(), 3);
    run_loop();
  }
  set_executor({});
  EXPECT_EQ(loops, 1);
}

// Each of two engines has threads of its own, also at the same time.
TEST(Context, WithThreadsSharesNoThread) {
  const Unlimited unlimited;
  Context one = Context::with_threads(3), other = Context::with_threads(2);
  Threads of_one, of_other;
  const auto run = [](Context& context, int count, Threads& all) {
    const ContextScope scope(context);
    set_threads(100);  // of this thread
    EXPECT_EQ(threads(), count);
    for (int repeat = 0; repeat < 20; ++repeat) all.merge(threads_of_loop(count));
  };
  std::thread engine([&] { run(one, 3, of_one); });
  run(other, 2, of_other);
  engine.join();
  EXPECT_EQ(of_one.size(), 3u);
  EXPECT_EQ(of_other.size(), 2u);
  for (const auto& id : of_one) EXPECT_FALSE(of_other.contains(id));
}

// The threads of a child do not exist; the loops run on the calling thread.
TEST(Context, WorksInAForkedChild) {
  const Unlimited unlimited;
  Context context = Context::with_threads(2);
  const ContextScope scope(context);
  EXPECT_EQ(threads_of_loop(2).size(), 2u);
  const pid_t child = fork();
  if (child == 0) {
    {
      Context inherited = Context::with_threads(2);
      run_loop();
    }
    _exit(0);
  }
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Memory that a piece borrows on another thread is that of the context, too.
TEST(Context, KeepsTheMemoryOfItsCallsUntilItIsReleased) {
  Context context = Context::with_threads(2), other;
  const auto call = [] {
    parallel_for(
        8, 1, [](std::int64_t, std::int64_t) { internal::give_back(internal::borrow(1000)); });
    internal::Block big = internal::borrow(std::size_t{64} << 20);
    internal::Block small = internal::borrow(10);  // not the big one
    internal::give_back(std::move(big));
    internal::give_back(std::move(small));
  };
  {
    const ContextScope scope(context);
    call();
    const std::size_t kept = context.kept_bytes();
    EXPECT_GE(kept, (std::size_t{64} << 20) + 1000);
    EXPECT_LE(kept, (std::size_t{64} << 20) + 4096);
    call();
    EXPECT_LE(context.kept_bytes(), (std::size_t{64} << 20) + 4096);
    EXPECT_EQ(other.kept_bytes(), 0u);
    context.release();
    EXPECT_EQ(context.kept_bytes(), 0u);
  }
}

TEST(Context, RefusesExecutorsWithoutThreads) {
  std::atomic<int> loops{0};
  EXPECT_THROW(Context(counting(loops, 0)), std::invalid_argument);
  EXPECT_THROW(Context::with_threads(-1), std::invalid_argument);
  EXPECT_THROW(Context::with_threads(4097), std::invalid_argument);
  EXPECT_GE((Context::with_threads(0), 1), 1);
}

}  // namespace context_test
}  // namespace gnomon
