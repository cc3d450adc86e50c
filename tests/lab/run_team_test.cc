// gnomon-lab with several workers for each run, from the command line.
#include <gtest/gtest.h>
#include <signal.h>
#include <torch/version.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lab/processes.h"
#include "process.h"

namespace gnomon::lab {
namespace run_team_test {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using testing::Child;
using testing::Streams;

class RunTeam : public ::testing::Test {
 protected:
  ~RunTeam() override { fs::remove_all(folder_); }

  // Starts gnomon-lab, as a rank of a launcher if `size` is not 0.
  Child start(std::vector<std::string> more, const std::string& out, int rank = 0,
              int size = 0) const {
    std::vector<std::string> all{"--layers",       "1",  "--width",        "16",
                                 "--heads",        "2",  "--train-length", "16",
                                 "--eval-lengths", "32", "--no-cost"};
    if (std::find(more.begin(), more.end(), "--encodings") == more.end())
      all.insert(all.end(), {"--encodings", "none,t5"});
    all.insert(all.end(), more.begin(), more.end());
    if (rank == 0) all.insert(all.end(), {"--out", folder_ / out});
    if (size > 0) {
      setenv("RANK", std::to_string(rank).c_str(), 1);
      setenv("WORLD_SIZE", std::to_string(size).c_str(), 1);
      setenv("MASTER_ADDR", "127.0.0.1", 1);
      setenv("MASTER_PORT", std::to_string(port_).c_str(), 1);
      setenv("GNOMON_LAB_TOKEN", "secret", 1);
    }
    const Child child = testing::start(GNOMON_LAB_PROGRAM, all, Streams::joined);
    for (const char* name :
         {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "GNOMON_LAB_TOKEN"})
      unsetenv(name);
    return child;
  }
  static void expect_code(const Child& child, int code) {
    const std::string output = child.read_all();
    EXPECT_EQ(child.wait(), code) << output;
  }
  // The results without times.
  Json results(const std::string& out) const {
    std::ifstream stream(folder_ / out / "results.json");
    Json all = Json::parse(stream, nullptr, /*allow_exceptions=*/false);
    if (all.is_discarded()) return "no results";
    for (const char* key : {"encodings", "runs"})
      for (Json& one : all.at(key))
        for (const char* time : {"tokens_per_second", "train_seconds", "test_seconds"})
          one.erase(time);
    return {{"settings", all.at("settings")},
            {"encodings", all.at("encodings")},
            {"runs", all.at("runs")}};
  }

  const fs::path folder_ = testing::new_folder();
  int port_ = processes::free_port();
};

TEST_F(RunTeam, OfThreadsAndOfProcessesGivesTheSameResults) {
  expect_code(start({"--steps", "6", "--workers-per-run", "1"}, "one"), 0);
  const Json one = results("one");
  ASSERT_EQ(one.at("runs").size(), 6u);
  EXPECT_EQ(one.at("settings").at("micro_batches"), 8);
  expect_code(start({"--steps", "6", "--workers-per-run", "2"}, "two"), 0);
  EXPECT_EQ(results("two"), one);
#if TORCH_VERSION_MAJOR == 1
  std::vector<Child> ranks;
  for (const int rank : {1, 2, 3, 0}) ranks.push_back(start({"--steps", "6"}, "four", rank, 4));
  for (const Child& rank : ranks) expect_code(rank, 0);
  EXPECT_EQ(results("four"), one);
#endif
}

TEST(RunTeamOptions, NeedARunThatHasMicroBatches) {
  const auto refusal = [](const std::function<void()>& work) -> std::string {
    try {
      work();
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "accepted";
  };
  const auto of = [&](const processes::Words& words) {
    return refusal([&] { processes::parsed(words); });
  };
  EXPECT_EQ(of({"--workers-per-run", "3"}),
            "[lab] --workers-per-run must be 1, 2, 4 or 8, got 3");
  EXPECT_EQ(of({"--workers-per-run", "2", "--batch", "12"}),
            "[lab] --workers-per-run requires a --batch that is a multiple of 8, got 12");
  const Options plain = processes::parsed({}),
                divided = processes::parsed({"--workers-per-run", "2"});
  EXPECT_EQ(refusal([&] { resumed_settings(divided, plain.settings); }),
            "[lab] --resume requires no --workers-per-run, got 2");
}

#if TORCH_VERSION_MAJOR == 1

// A member that dies ends its team with one clear line. --resume goes on with another team.
TEST_F(RunTeam, EndsIfAMemberDiesAndCanBeResumed) {
  // Tries more steps if the runs end before the member does.
  for (int count = 60;; count *= 2) {
    const std::vector<std::string> steps{"--steps", std::to_string(count)};
    std::vector<std::string> arguments = steps;
    arguments.insert(arguments.end(), {"--checkpoint", "0.05"});
    port_ = processes::free_port();
    const Child member = start(arguments, "ended", 1, 2),
                leader = start(arguments, "ended", 0, 2);
    const fs::path folder = folder_ / "ended";
    testing::wait_for(leader, [&] {
      return fs::exists(folder / "checkpoints/none-seed1.safetensors") ||
             fs::exists(folder / "results.json");
    });
    kill(member.pid, SIGKILL);
    const std::string output = leader.read_all();
    close(member.output);
    member.wait();
    const int code = leader.wait();
    if (code == 0) {
      fs::remove_all(folder);
      continue;
    }
    EXPECT_EQ(code, 2) << output;
    EXPECT_NE(output.find("gnomon: [lab] the team of workers failed (rank 0 of 2), got: "),
              std::string::npos)
        << output;
    std::vector<std::string> alone = steps;
    alone.insert(alone.end(), {"--workers-per-run", "1"});
    expect_code(start(alone, "whole"), 0);
    expect_code(start({"--resume", "--workers-per-run", "2"}, "ended"), 0);
    EXPECT_EQ(results("ended"), results("whole"));
    return;
  }
}

// A member waits for the next run, and rank 0 dies.
TEST_F(RunTeam, EndsIfRank0Dies) {
  const std::vector<std::string> arguments{"--encodings", "none", "--steps", "1000000"};
  const Child member = start(arguments, "out", 1, 2), leader = start(arguments, "out", 0, 2);
  std::string output;
  for (char c; output.find("Rank 1 trains none") == std::string::npos; output += c)
    ASSERT_EQ(read(member.output, &c, 1), 1) << output;
  kill(leader.pid, SIGKILL);
  close(leader.output);
  leader.wait();
  output += member.read_all();
  EXPECT_EQ(member.wait(), 2) << output;
  EXPECT_NE(output.find("gnomon: [lab] the team of workers failed (rank 1 of 2), got: "),
            std::string::npos)
      << output;
}

#endif

}  // namespace run_team_test
}  // namespace gnomon::lab
