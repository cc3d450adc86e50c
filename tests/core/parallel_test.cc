#include "gnomon/parallel.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace gnomon {
namespace parallel_test {

class Restored {
 public:
  ~Restored() {
    set_executor({});
    set_threads(before_);
  }

 private:
  int before_ = threads();
};

// A pool like that of an engine: one thread for each task, last task first.
Executor engine_executor(int threads) {
  return {.run =
              [](void*, std::int64_t count, void (*task)(void*, std::int64_t), void* data) {
                std::vector<std::thread> all;
                for (std::int64_t i = count; i-- > 0;) all.emplace_back(task, data, i);
                for (std::thread& one : all) one.join();
              },
          .threads = threads};
}

using Pieces = std::multiset<std::pair<std::int64_t, std::int64_t>>;

Pieces pieces_of(std::int64_t count, std::int64_t grain, Share share = Share::dynamic) {
  Pieces pieces;
  std::mutex mutex;
  parallel_for(
      count, grain,
      [&](std::int64_t begin, std::int64_t end) {
        const std::lock_guard lock(mutex);
        pieces.emplace(begin, end);
      },
      share);
  return pieces;
}

TEST(ParallelFor, CutsTheSamePiecesForAnyNumberOfThreads) {
  const Restored restored;
  set_threads(1);
  const Pieces one = pieces_of(103, 10);
  EXPECT_EQ(one.size(), 11u);
  EXPECT_EQ(one.count({100, 103}), 1u);
  for (const int count : {2, 7}) {
    set_threads(count);
    EXPECT_EQ(pieces_of(103, 10), one);
    EXPECT_EQ(pieces_of(103, 10, Share::contiguous), one);
  }
}

TEST(ParallelFor, CutsTheSamePiecesOnEveryExecutor) {
  const Restored restored;
  const Pieces one = pieces_of(103, 10);
  set_threads(100);  // above the limits of the executors
  for (const Executor& executor :
       {serial_executor(), thread_pool_executor(), engine_executor(3), thread_pool_executor(7),
        thread_pool_executor(2)}) {
    set_executor(executor);
    EXPECT_EQ(threads(), executor.threads);
    for (int repeat = 0; repeat < 200; ++repeat) {
      EXPECT_EQ(pieces_of(103, 10), one);
      EXPECT_EQ(pieces_of(103, 10, Share::contiguous), one);
    }
  }
}

TEST(ParallelFor, RunsNothingForAnEmptyRange) { EXPECT_TRUE(pieces_of(0, 4).empty()); }

TEST(ParallelFor, NestedLoopsRunSerially) {
  const Restored restored;
  for (const Executor& executor : {Executor{}, thread_pool_executor(4), engine_executor(4)}) {
    set_executor(executor);
    std::vector<int> seen(64, 0);
    parallel_for(8, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        parallel_for(8, 1, [&](std::int64_t b, std::int64_t e) {
          for (std::int64_t j = b; j < e; ++j) ++seen[static_cast<std::size_t>(8 * i + j)];
        });
    });
    EXPECT_EQ(seen, std::vector<int>(64, 1));
  }
}

TEST(Executor, RunsAtMostItsThreadsAtTheSameTime) {
  const Restored restored;
  for (const Executor& executor : {thread_pool_executor(3), engine_executor(3)}) {
    set_executor(executor);
    std::atomic<int> now{0}, most{0};
    parallel_for(500, 1, [&](std::int64_t, std::int64_t) {
      const int running = ++now;
      for (int seen = most; running > seen && !most.compare_exchange_weak(seen, running);) {
      }
      --now;
    });
    EXPECT_LE(most, 3);
  }
}

TEST(Executor, LimitsTheThreadsOfTheCaller) {
  const Restored restored;
  set_executor(thread_pool_executor(4));
  set_threads(2);
  EXPECT_EQ(threads(), 2);
  set_threads(9);
  EXPECT_EQ(threads(), 4);
  EXPECT_EQ(executor(), thread_pool_executor(4));
  set_executor({});
  EXPECT_EQ(executor(), Executor{});
}

TEST(Executor, RefusesNumbersOfThreadsOutOfBounds) {
  EXPECT_THROW(set_executor({.run = serial_executor().run, .threads = 0}),
               std::invalid_argument);
  EXPECT_THROW(thread_pool_executor(-1), std::invalid_argument);
  EXPECT_THROW(thread_pool_executor(4097), std::invalid_argument);
}

// Loops of several threads of the caller at the same time: only one uses the pool.
TEST(ThreadPool, ServesSeveralCallersAtTheSameTime) {
  const Restored restored;
  set_executor(thread_pool_executor(4));
  std::atomic<std::int64_t> sum{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller)
    callers.emplace_back([&] {
      for (int repeat = 0; repeat < 300; ++repeat)
        parallel_for(64, 1, [&](std::int64_t begin, std::int64_t end) { sum += end - begin; });
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum, 4 * 300 * 64);
}

// Python's multiprocessing forks, too. The threads of the parent do not exist in the child.
TEST(ParallelFor, WorksInAForkedChild) {
  if (*GNOMON_EMULATOR) GTEST_SKIP() << "qemu-user 7.2 cannot start threads in a forked child";
  const Restored restored;
  set_threads(4);
  for (const Executor& executor : {Executor{}, thread_pool_executor(4)}) {
    set_executor(executor);
    const Pieces expected = pieces_of(64, 1);
    EXPECT_EQ(expected.size(), 64u);
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      _exit(pieces_of(64, 1) == expected ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

struct Failure {
  std::int64_t piece;
};

TEST(ParallelFor, PassesAnExceptionToItsCaller) {
  const Restored restored;
  set_threads(4);
  for (const Executor& executor :
       {Executor{}, serial_executor(), thread_pool_executor(4), engine_executor(4)})
    for (const Share share : {Share::dynamic, Share::contiguous})
      for (const std::int64_t failing : {0, 20, 63}) {
        set_executor(executor);
        std::atomic<int> running{0};
        const auto body = [&](std::int64_t begin, std::int64_t) {
          ++running;
          if (begin == failing) {
            --running;
            throw Failure{begin};
          }
          --running;
        };
        try {
          parallel_for(64, 1, body, share);
          ADD_FAILURE() << "no exception";
        } catch (const Failure& failure) {
          EXPECT_EQ(failure.piece, failing);
        }
        EXPECT_EQ(running, 0);
        EXPECT_THROW(parallel_for(1, 1, [](auto, auto) { throw Failure{0}; }), Failure);
        EXPECT_THROW(  // each piece, and each piece of a nested loop
            parallel_for(
                8, 1,
                [](auto, auto) { parallel_for(8, 1, [](auto, auto) { throw Failure{0}; }); }),
            Failure);
        // The next loop is parallel and complete.
        EXPECT_EQ(pieces_of(103, 10, share).size(), 11u);
      }
}

TEST(SetThreads, RefusesNumbersOutOfBounds) {
  for (const int count : {0, -1, 4097, 2147483647})
    EXPECT_THROW(set_threads(count), std::invalid_argument);
}

}  // namespace parallel_test
}  // namespace gnomon
