#include "gnomon/parallel.h"

#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

namespace gnomon {
namespace {

std::multiset<std::pair<std::int64_t, std::int64_t>> pieces_of(std::int64_t count,
                                                               std::int64_t grain,
                                                               int thread_count) {
  const int before = threads();
  set_threads(thread_count);
  std::multiset<std::pair<std::int64_t, std::int64_t>> pieces;
  std::mutex mutex;
  parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
    const std::lock_guard lock(mutex);
    pieces.emplace(begin, end);
  });
  set_threads(before);
  return pieces;
}

TEST(ParallelFor, CutsTheSamePiecesForAnyNumberOfThreads) {
  const auto one = pieces_of(103, 10, 1);
  EXPECT_EQ(one.size(), 11u);
  EXPECT_EQ(one.count({100, 103}), 1u);
  EXPECT_EQ(pieces_of(103, 10, 2), one);
  EXPECT_EQ(pieces_of(103, 10, 7), one);
}

TEST(ParallelFor, RunsNothingForAnEmptyRange) { EXPECT_TRUE(pieces_of(0, 4, 2).empty()); }

TEST(ParallelFor, NestedLoopsRunSerially) {
  std::vector<int> seen(64, 0);
  parallel_for(8, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      parallel_for(8, 1, [&](std::int64_t b, std::int64_t e) {
        for (std::int64_t j = b; j < e; ++j) ++seen[static_cast<std::size_t>(8 * i + j)];
      });
  });
  EXPECT_EQ(seen, std::vector<int>(64, 1));
}

TEST(SetThreads, RefusesZero) { EXPECT_THROW(set_threads(0), std::invalid_argument); }

}  // namespace
}  // namespace gnomon
