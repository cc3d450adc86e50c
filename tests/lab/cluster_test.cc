// gnomon-lab in several processes on this machine: workers that come and go, shards, and
// connections that are not workers.
//
// GNOMON_LONG_TESTS=1: more and longer rounds of kills (tools/test_long.sh).
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "process.h"

namespace gnomon::lab {
namespace cluster_test {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Words = std::vector<std::string>;
using std::chrono::milliseconds;
using testing::Child;
using testing::Outcome;

bool is_long() { return std::getenv("GNOMON_LONG_TESTS") != nullptr; }

Words joined(Words first, const Words& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// Six runs of a quarter of a second.
Words tiny(const Words& more) {
  return joined({"--layers",
                 "1",
                 "--width",
                 "16",
                 "--heads",
                 "2",
                 "--batch",
                 "4",
                 "--seeds",
                 "2",
                 "--encodings",
                 "rotary,learned,t5",
                 "--train-length",
                 "16",
                 "--steps",
                 "150",
                 "--no-cost",
                 "--eval-lengths",
                 "32",
                 "--checkpoint",
                 "0.02"},
                more);
}

Json json(const fs::path& path) {
  std::ifstream stream(path);
  return Json::parse(stream);
}
std::string bytes(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// Without the keys that hold times, date, machine and command.
Json timeless(Json value) {
  if (value.is_object())
    for (const char* key : {"date", "command", "machine", "seconds", "train_seconds",
                            "test_seconds", "tokens_per_second"})
      value.erase(key);
  if (value.is_structured())
    for (Json& one : value) one = timeless(std::move(one));
  return value;
}

// Reads the output of a process until it has printed a text.
class Watched {
 public:
  explicit Watched(const Words& arguments)
      : child_(testing::start(GNOMON_LAB_PROGRAM, arguments, testing::Streams::joined)) {}
  ~Watched() {
    if (!waited_) {
      signal(SIGKILL);
      end();
    }
  }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

  // False if the process ends before.
  bool prints(const std::string& text) {
    for (char c; output_.find(text) == std::string::npos;) {
      if (read(child_.output, &c, 1) != 1) return false;
      output_ += c;
    }
    return true;
  }
  // The rest of the line after a text. Empty if the process ends before.
  std::string line_after(const std::string& text) {
    if (!prints(text)) return {};
    std::string line;
    for (char c; read(child_.output, &c, 1) == 1; line += c) {
      output_ += c;
      if (c == '\n') break;
    }
    return line;
  }
  void signal(int number) const { kill(child_.pid, number); }
  // The exit status.
  int end() {
    output_ += child_.read_all();
    waited_ = true;
    return child_.wait();
  }
  const std::string& output() const { return output_; }

 private:
  Child child_;
  std::string output_;
  bool waited_ = false;
};

class Cluster : public ::testing::Test {
 protected:
  Cluster() { fs::create_directories(folder_); }
  ~Cluster() override { fs::remove_all(folder_); }

  std::string out(const std::string& name = "out") const { return folder_ / name; }

  // The results of one process, trained once for all tests.
  static const Json& expected() {
    static const Json results = [] {
      const fs::path folder =
          fs::temp_directory_path() / ("gnomon-alone-" + std::to_string(getpid()));
      const Outcome alone =
          testing::run(GNOMON_LAB_PROGRAM, tiny({"--out", folder}), testing::Streams::joined);
      EXPECT_EQ(alone.code, 0) << alone.output;
      Json all = timeless(json(folder / "results.json"));
      model() = bytes(folder / "models/t5-seed2/model.safetensors");
      fs::remove_all(folder);
      return all;
    }();
    return results;
  }
  static std::string& model() {
    static std::string weights;
    return weights;
  }
  void expect_same(const std::string& folder, const std::string& output) const {
    const Json& same = expected();
    ASSERT_TRUE(fs::exists(folder + "/results.json")) << output;
    EXPECT_EQ(timeless(json(folder + "/results.json")), same) << output;
    EXPECT_TRUE(bytes(folder + "/models/t5-seed2/model.safetensors") == model());
    for (const char* rest : {"/incoming", "/checkpoints"})
      EXPECT_FALSE(fs::exists(folder + rest)) << rest;
  }

  // Rank 0; sets port_.
  std::unique_ptr<Watched> serve(const Words& more) {
    auto rank_0 = std::make_unique<Watched>(
        tiny(joined({"--out", out(), "--serve", "127.0.0.1:" + port_}, more)));
    const std::string address = rank_0->line_after("gnomon lab --join ");
    port_ = address.substr(address.rfind(':') + 1);
    EXPECT_FALSE(port_.empty()) << rank_0->output();
    return rank_0;
  }
  Words joining(const Words& more = {}) const {
    return joined({"--join", "127.0.0.1:" + port_, "--jobs", "1"}, more);
  }
  int dial() const {
    const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(port_)));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(file, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    return file;
  }

  fs::path folder_ = fs::temp_directory_path() / ("gnomon-cluster-" + std::to_string(getpid()));
  std::string port_ = "0";
};

TEST_F(Cluster, AnyNumberOfWorkersGivesTheResultsOfOneMachine) {
  for (const int workers : {1, 2, 4}) {
    SCOPED_TRACE(std::to_string(workers) + " workers");
    port_ = "0";
    const auto rank_0 = serve({"--jobs", "0"});
    std::vector<std::unique_ptr<Watched>> all;
    for (int i = 0; i < workers; ++i) all.push_back(std::make_unique<Watched>(joining()));
    EXPECT_EQ(rank_0->end(), 0) << rank_0->output();
    for (const auto& one : all) EXPECT_EQ(one->end(), 0) << one->output();
    EXPECT_EQ(rank_0->output().find("lost"), std::string::npos) << rank_0->output();
    expect_same(out(), rank_0->output());
    fs::remove_all(out());
  }
}

TEST_F(Cluster, KilledWorkersLoseNothing) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto rank_0 = serve({"--jobs", "0"});
  int kills = 0;
  for (const int most = is_long() ? 20 : 3; kills < most; ++kills) {
    Watched worker(joining());
    if (!worker.prints("Joined.")) break;  // all runs are done
    std::this_thread::sleep_for(milliseconds(random() % 150));
    worker.signal(SIGKILL);
    worker.end();
  }
  EXPECT_GT(kills, 0);
  Watched last(joining());
  EXPECT_EQ(rank_0->end(), 0) << rank_0->output();
  last.end();
  EXPECT_NE(rank_0->output().find("Free again: "), std::string::npos) << rank_0->output();
  expect_same(out(), rank_0->output());
}

TEST_F(Cluster, KilledRank0ResumesAndItsWorkersEnd) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  std::string output;
  for (int kills = 0; kills < (is_long() ? 5 : 1); ++kills) {
    const auto rank_0 = serve(kills ? Words{"--jobs", "1", "--resume"} : Words{"--jobs", "1"});
    Watched worker(joining());
    if (!worker.prints("Joined.")) break;
    std::this_thread::sleep_for(milliseconds(random() % 200));
    rank_0->signal(SIGKILL);
    rank_0->end();
    output += rank_0->output();
    EXPECT_EQ(worker.end(), 2) << worker.output();
    EXPECT_NE(worker.output().find("gnomon: [lab] the connection to rank 0 must stay open"),
              std::string::npos)
        << worker.output();
  }
  const auto rank_0 = serve({"--jobs", "1", "--resume"});
  Watched worker(joining());
  EXPECT_EQ(rank_0->end(), 0) << rank_0->output();
  worker.end();
  expect_same(out(), output + rank_0->output());
}

// The stopped worker considers its run its own when it goes on, but another one has trained it.
TEST_F(Cluster, AWorkerThatStopsAnsweringLosesItsRun) {
  const auto rank_0 = serve({"--jobs", "0", "--lease", "1"});
  Watched stopped(joining());
  ASSERT_TRUE(stopped.prints("Joined.")) << stopped.output();
  std::this_thread::sleep_for(milliseconds(50));
  stopped.signal(SIGSTOP);
  Watched other(joining());
  EXPECT_TRUE(rank_0->prints("lost (no answer in time)")) << rank_0->output();
  stopped.signal(SIGCONT);
  EXPECT_EQ(stopped.end(), 2) << stopped.output();
  EXPECT_EQ(rank_0->end(), 0) << rank_0->output();
  EXPECT_EQ(other.end(), 0) << other.output();
  expect_same(out(), rank_0->output());
}

TEST_F(Cluster, ASlowWorkerKeepsItsRunAndAStoppedOneHandsItOver) {
  const auto rank_0 = serve({"--jobs", "0"});
  Watched slow(joining());
  ASSERT_TRUE(slow.prints("Joined."));
  for (int i = 0; i < 5; ++i) {
    slow.signal(SIGSTOP);
    std::this_thread::sleep_for(milliseconds(100));
    slow.signal(SIGCONT);
    std::this_thread::sleep_for(milliseconds(10));
  }
  Watched leaving(joining());
  ASSERT_TRUE(leaving.prints("Joined."));
  std::this_thread::sleep_for(milliseconds(30));
  leaving.signal(SIGTERM);
  EXPECT_EQ(leaving.end(), 130) << leaving.output();
  EXPECT_EQ(rank_0->end(), 0) << rank_0->output();
  EXPECT_EQ(slow.end(), 0) << slow.output();
  EXPECT_EQ(rank_0->output().find("lost"), std::string::npos) << rank_0->output();
  expect_same(out(), rank_0->output());
}

TEST_F(Cluster, ConnectionsThatAreNotWorkersHaveNoEffect) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto rank_0 = serve({"--jobs", "0"});
  std::vector<int> open;
  const auto send = [&](const std::string& data) {
    open.push_back(dial());
    ::send(open.back(), data.data(), data.size(), MSG_NOSIGNAL);
  };
  const std::string huge("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12);
  const std::string prefix = std::string("GLB\x01", 4);
  send("GET / HTTP/1.1\r\nHost: rank0\r\n\r\n");
  send(prefix + huge);                                               // sizes
  send(prefix + std::string("\x04\0\0\0\0\0\0\0\0\0\0\0[[[[", 16));  // not JSON
  send(prefix + std::string("\x02\0\0\0\0\0\0\0\0\0\0\0{}", 14));    // no greeting
  send(prefix + std::string("\x0b\0\0\0\0\0\0\0\0\0\0\0{\"op\":true}", 23));
  send(prefix + std::string("\x05\0\0\0\0", 5));  // half a message, the connection stays open
  send("");
  for (int i = 0; i < 20; ++i) {
    std::string garbage(random() % 300, '\0');
    for (char& c : garbage) c = static_cast<char>(random());
    send(i % 2 ? garbage : prefix + garbage);
    if (i % 3 == 0) close(open.back()), open.pop_back();
  }
  // Another protocol version: the answer has that of rank 0.
  const int other = dial();
  const std::string hello("GLB\x07\x02\0\0\0\0\0\0\0\0\0\0\0{}", 18);
  ASSERT_EQ(::send(other, hello.data(), hello.size(), 0), 18);
  char answer[4] = {};
  ASSERT_EQ(recv(other, answer, 4, MSG_WAITALL), 4);
  EXPECT_EQ(std::string(answer, 4), prefix);
  Watched worker(joining());
  EXPECT_EQ(rank_0->end(), 0) << rank_0->output();
  EXPECT_EQ(worker.end(), 0) << worker.output();
  expect_same(out(), rank_0->output());
  for (const int file : open) close(file);
  close(other);
}

TEST_F(Cluster, RefusesWorkersWithOtherSettingsTextsOrTokens) {
  std::ofstream(folder_ / "text.txt") << std::string(4000, 'x') << std::string(4000, 'y');
  const auto rank_0 = serve({"--jobs", "0"});
  const auto refusal = [&](const Words& more) {
    const Outcome outcome =
        testing::run(GNOMON_LAB_PROGRAM, joining(more), testing::Streams::joined);
    EXPECT_EQ(outcome.code, 2) << outcome.output;
    const std::size_t line = outcome.output.find("gnomon: [lab] ");
    return line == std::string::npos ? outcome.output : outcome.output.substr(line);
  };
  EXPECT_EQ(refusal({"--steps", "151"}),
            "gnomon: [lab] a worker requires the settings of rank 0, steps 150, got 151\n");
  EXPECT_EQ(refusal({folder_ / "text.txt"})
                .rfind("gnomon: [lab] a worker must have the texts of "
                       "rank 0, got ",
                       0),
            0u);
  setenv("GNOMON_LAB_TOKEN", "other", 1);
  EXPECT_EQ(refusal({}),
            "gnomon: [lab] a worker must have the GNOMON_LAB_TOKEN or the job of rank 0, got "
            "other\n");
  unsetenv("GNOMON_LAB_TOKEN");
  Watched worker(joining({"--steps", "150"}));
  EXPECT_EQ(rank_0->end(), 0) << rank_0->output();
  EXPECT_EQ(worker.end(), 0) << worker.output();
  expect_same(out(), rank_0->output());
}

TEST_F(Cluster, LaunchersSetRankAndAddress) {
  for (const auto& [name, value] : std::map<std::string, std::string>{
           {"WORLD_SIZE", "2"},
           {"MASTER_ADDR", "127.0.0.1"},
           {"MASTER_PORT", std::to_string(20000 + getpid() % 9000)}})
    setenv(name.c_str(), value.c_str(), 1);
  setenv("RANK", "1", 1);
  Watched worker(tiny({"--jobs", "1", "--out", out()}));  // the same command for all ranks
  setenv("RANK", "0", 1);
  Watched rank_0(tiny({"--jobs", "1", "--out", out()}));
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) unsetenv(name);
  EXPECT_EQ(rank_0.end(), 0) << rank_0.output();
  EXPECT_EQ(worker.end(), 0) << worker.output();
  expect_same(out(), rank_0.output());
}

TEST_F(Cluster, MergedShardsAreTheWhole) {
  const auto shard = [&](const std::string& part, const std::string& name) {
    return testing::run(GNOMON_LAB_PROGRAM,
                        tiny({"--shard", part, "--jobs", "1", "--out", out(name)}),
                        testing::Streams::joined);
  };
  const auto merge = [&](const Words& names) {
    Words words{"--merge", "--out", out()};
    for (const std::string& one : names) words.push_back(out(one));
    return testing::run(GNOMON_LAB_PROGRAM, words, testing::Streams::joined);
  };
  const Outcome first = shard("0/2", "a");
  ASSERT_EQ(first.code, 0) << first.output;
  ASSERT_EQ(shard("1/2", "b").code, 0);
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

  Json settings = json(out("b") + "/settings.json");
  settings["settings"]["width"] = 32;
  std::ofstream(out("b") + "/settings.json") << settings;
  const Outcome other = merge({"a", "b"});
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.output.find("/b must have the width of"), std::string::npos) << other.output;
}

TEST_F(Cluster, RefusesOptionsThatContradict) {
  for (const auto& [words, message] : std::map<Words, std::string>{
           {{"--shard", "0/2"}, "--shard requires --steps, got none"},
           {{"--shard", "2/2", "--steps", "5"}, "--shard must be I/N with 0 <= I < N, got 2/2"},
           {{"--shard", "0/2", "--steps", "5", "--serve", "0"}, "--shard"},
           {{"--jobs", "0"}, "--jobs must be positive, except on rank 0 with workers, got 0"},
           {{"--join", "x"}, "--join must be HOST:PORT, got x"},
           {{"--serve", "70000"}, "--serve must be [HOST:]PORT, got 70000"},
           {{"--merge"}, "--merge requires folders and no settings, got none"},
           {{"--merge", out(), "--steps", "4"}, "--merge requires folders"}}) {
    const Outcome outcome = testing::run(GNOMON_LAB_PROGRAM, words, testing::Streams::joined);
    EXPECT_EQ(outcome.code, 2) << message;
    EXPECT_NE(outcome.output.find(message), std::string::npos) << outcome.output;
  }
}

}  // namespace cluster_test
}  // namespace gnomon::lab
