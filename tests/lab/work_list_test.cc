#include "apps/lab/runs/work_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <thread>

#include "lab/tiny.h"

namespace gnomon::lab {
namespace work_list_test {

Settings settings() {
  Settings all = testing::tiny();
  all.encodings = {"none", "rotary", "alibi"};
  all.seeds = {1, 2};
  return all;
}

TEST(Jobs, AreOrderedBySeedAndDividedIntoShards) {
  const std::vector<Job> all = jobs_of(settings(), {});
  ASSERT_EQ(all.size(), 6u);
  EXPECT_EQ(all[1].name(), "rotary-seed1");
  EXPECT_EQ(all[3].name(), "none-seed2");
  std::multiset<std::string> names;
  for (std::int64_t i = 0; i < 4; ++i)
    for (const Job& one : jobs_of(settings(), Shard{i, 4})) names.insert(one.name());
  EXPECT_EQ(names.size(), 6u);
  for (const Job& one : all) EXPECT_EQ(names.count(one.name()), 1u);
  EXPECT_EQ(jobs_of(settings(), Shard{1, 4})[1].name(), "alibi-seed2");
}

TEST(RunTable, GivesEachRunToOneOwner) {
  RunTable table(3);
  table.set_done(1);
  EXPECT_EQ(table.claim(1), (Claim{0, 1}));
  EXPECT_EQ(table.claim(2), (Claim{2, 1}));
  EXPECT_EQ(table.claim(3), std::nullopt);
  EXPECT_TRUE(table.finish({0, 1}));
  EXPECT_FALSE(table.all_done());
  EXPECT_TRUE(table.any_remote());
  EXPECT_TRUE(table.finish({2, 1}));
  EXPECT_TRUE(table.all_done());
  EXPECT_FALSE(table.any_remote());
}

// Two workers that both consider one run theirs.
TEST(RunTable, OnlyTheLatestClaimCountsAndOnlyOnce) {
  RunTable table(1);
  const Claim lost = *table.claim(1);
  EXPECT_EQ(table.release_all(1), std::vector<Claim>{lost});  // its lease ended
  EXPECT_FALSE(table.while_held(lost));
  const Claim now = *table.claim(2);
  EXPECT_GT(now.generation, lost.generation);
  int stored = 0;
  const auto store = [&] { ++stored; };
  EXPECT_FALSE(table.while_held(lost, store));
  EXPECT_FALSE(table.finish(lost, store));
  table.release(lost);
  EXPECT_TRUE(table.while_held(now));
  EXPECT_EQ(stored, 0);
  EXPECT_TRUE(table.finish(now, store));
  EXPECT_FALSE(table.finish(now, store));
  EXPECT_FALSE(table.finish(lost, store));
  EXPECT_EQ(stored, 1);
  EXPECT_EQ(table.claim(3), std::nullopt);
  // A claim from the network.
  EXPECT_FALSE(table.while_held({7, 1}));
}

TEST(RunTable, ResultsAreCountedOnceWithManyOwnersThatFail) {
  constexpr std::size_t runs = 200;
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  RunTable table(runs);
  std::vector<int> counts(runs);  // changed by finish() only, which excludes others
  std::vector<std::thread> threads;
  for (std::int64_t owner = 1; owner <= 8; ++owner)
    threads.emplace_back([&, owner] {
      std::mt19937 random(seed + static_cast<unsigned>(owner));
      std::vector<Claim> old;
      while (!table.all_done()) {
        const auto claim = table.claim(owner);
        if (!old.empty()) table.finish(old[random() % old.size()], [] { std::abort(); });
        if (!claim) continue;
        if (random() % 3 == 0) {
          table.release_all(owner);
          old.push_back(*claim);
        } else {
          table.finish(*claim, [&] { ++counts[claim->run]; });
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::count(counts.begin(), counts.end(), 1), static_cast<std::ptrdiff_t>(runs));
}

}  // namespace work_list_test
}  // namespace gnomon::lab
