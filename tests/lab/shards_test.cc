// gnomon-lab --shard and --merge, and options of several machines that contradict each other.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "apps/lab/merge.h"
#include "gnomon/version.h"
#include "lab/cluster.h"
#include "lab/tiny.h"

namespace gnomon::lab {
namespace cluster_test {

using ShardsOfALab = Cluster;

TEST_F(ShardsOfALab, MergedShardsAreTheWhole) {
  const auto shard = [&](const std::string& part, const std::string& name) {
    return Watched(tiny({"--shard", part, "--jobs", "1", "--out", out(name)}));
  };
  const auto merge = [&](const Words& names) {
    Words words{"--merge", "--out", out()};
    for (const std::string& one : names) words.push_back(out(one));
    return testing::run(GNOMON_LAB_PROGRAM, words, testing::Streams::joined);
  };
  Watched first = shard("0/2", "a"), second = shard("1/2", "b");
  ASSERT_EQ(first.end(), 0) << first.output();
  ASSERT_EQ(second.end(), 0) << second.output();
  const Json part = json(out("a") + "/results.json");
  EXPECT_EQ(part.at("shard"), "0/2");
  EXPECT_EQ(part.at("runs").size(), 3u);
  EXPECT_EQ(part.at("answer")[0].get<std::string>().rfind("This is part 0/2", 0), 0u);

  const Outcome missing = merge({"a"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_NE(missing.output.find("--merge requires the results of every run, got none of "
                                "learned-seed1, rotary-seed2 and t5-seed2"),
            std::string::npos)
      << missing.output;
  EXPECT_FALSE(fs::exists(out()));

  // A run in two folders counts once if the results are equal.
  fs::copy(out("b") + "/runs/rotary-seed2.json", out("a") + "/runs");
  fs::copy(out("b") + "/models/rotary-seed2", out("a") + "/models/rotary-seed2");
  const Outcome merged = merge({"a", "b"});
  EXPECT_EQ(merged.code, 0) << merged.output;
  expect_same(out(), merged.output);
  fs::remove_all(out());

  Json changed = json(out("a") + "/runs/rotary-seed2.json");
  changed["parameters"] = 1;
  std::ofstream(out("a") + "/runs/rotary-seed2.json") << changed;
  const Outcome different = merge({"a", "b"});
  EXPECT_EQ(different.code, 2);
  EXPECT_NE(different.output.find("rotary-seed2 must have one result, got different ones in"),
            std::string::npos)
      << different.output;
}

// Settings that only some folders have in settings.json are compared, too, but not the paths of the
// texts.
TEST_F(ShardsOfALab, MustHaveEqualSettings) {
  const auto store = [&](const std::string& name, const Settings& settings) {
    fs::create_directories(folder_ / name);
    std::ofstream(folder_ / name / "settings.json")
        << to_json(StoredSettings{settings, "1", "", GNOMON_VERSION});
    return (folder_ / name).string();
  };
  Settings plain = testing::tiny();
  plain.encodings = {"none"};
  plain.batch = 8;
  Settings divided = plain, moved = plain;
  divided.micro_batches = micro_batch_count;
  moved.texts = {"moved.txt"};
  const std::string a = store("a", plain), b = store("b", divided), c = store("c", moved);
  EXPECT_EQ(read_shards({a, c}).folders.size(), 2u);
  for (const std::vector<std::string>& folders : {std::vector{a, b}, {b, a}}) try {
      read_shards(folders);
      ADD_FAILURE();
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find("must have the micro_batches of"),
                std::string::npos)
          << error.what();
    }
}

TEST(ClusterOptions, AreRefusedIfTheyContradict) {
  for (const auto& [words, message] : std::map<Words, std::string>{
           {{"--shard", "0/2"}, "--shard requires --steps, got none"},
           {{"--shard", "2/2", "--steps", "5"}, "--shard must be I/N with 0 <= I < N, got 2/2"},
           {{"--shard", "0/2", "--steps", "5", "--serve", "0"}, "--shard"},
           {{"--jobs", "0"}, "--jobs must be positive, except on rank 0 with workers, got 0"},
           {{"--join", "x"}, "--join must be HOST:PORT, got x"},
           {{"--serve", "70000"}, "--serve must be [HOST:]PORT, got 70000"},
           {{"--merge"}, "--merge requires folders and no settings, got none"},
           {{"--merge", "part", "--steps", "4"}, "--merge requires folders"}}) {
    try {
      parsed(words);
      ADD_FAILURE() << message;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
    }
  }
}

}  // namespace cluster_test
}  // namespace gnomon::lab
