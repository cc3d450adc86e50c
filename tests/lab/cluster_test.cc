// gnomon-lab in several processes on this machine: workers that come and go, and connections
// that are not workers.
//
// GNOMON_LONG_TESTS=1: more rounds of kills (tools/test_long.sh).
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <torch/version.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "apps/lab/runs/wire.h"
#include "apps/lab/runs/work_client.h"
#include "gnomon/version.h"
#include "lab/cluster.h"
#include "lab/finetune_models.h"

namespace gnomon::lab {
namespace cluster_test {

using std::chrono::milliseconds;

// A connection to rank 0.
int dial(const std::string& port) {
  const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(port)));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(file, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return file;
}

TEST_F(Cluster, AnyNumberOfWorkersGivesTheResultsOfOneMachine) {
  for (const int workers : {2, 4}) {  // one: ConnectionsThatAreNotWorkersHaveNoEffect
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
  for (const int most = is_long() ? 20 : 2; kills < most; ++kills) {
    Watched worker(joining());
    if (!worker.prints("Joined.")) break;  // all runs are done
    std::this_thread::sleep_for(milliseconds(random() % 150));
    worker.signal(SIGKILL);
    worker.end();
  }
  EXPECT_GE(kills, is_long() ? 20 : 1);
  Watched last(joining());
  EXPECT_EQ(rank_0->end(), 0) << rank_0->output();
  last.end();
  expect_same(out(), rank_0->output());
}

// One run of this many steps, a millisecond each.
Words one_run(const std::string& steps) {
  return {"--layers",    "1",
          "--width",     "16",
          "--heads",     "2",
          "--encodings", "none",
          "--steps",     steps,
          "--no-cost",   "--checkpoint",
          "0.02",        "--batch",
          "4",           "--train-length",
          "16",          "--eval-lengths",
          "32"};
}

TEST_F(Cluster, AnotherWorkerContinuesFromTheLastCheckpoint) {
  const auto rank_0 = serve({"--jobs", "0"}, one_run("1000000"));
  const std::string checkpoint = out() + "/checkpoints/none-seed1.safetensors";
  Watched first(joining());
  ASSERT_TRUE(rank_0->writes(checkpoint)) << first.output();
  first.signal(SIGKILL);
  first.end();
  EXPECT_TRUE(rank_0->prints("Free again: none-seed1")) << rank_0->output();
  const auto step_of = [](Watched& worker) {
    const std::string step = worker.line_after("none-seed1 continues at step ");
    EXPECT_GT(std::atoi(step.c_str()), 0) << worker.output();
    return std::atoi(step.c_str());
  };
  // A worker that is stopped hands its run over.
  Watched second(joining());
  const int begun = step_of(second);
  second.signal(SIGTERM);
  EXPECT_EQ(second.end(), 130) << second.output();
  EXPECT_NE(second.output().find("Stopped. Others continue the runs."), std::string::npos);
  Watched third(joining());
  const int continued = step_of(third);
  EXPECT_GE(continued, begun);
  // Ctrl-C on rank 0: the worker hands its run over and ends.
  rank_0->signal(SIGINT);
  EXPECT_EQ(rank_0->end(), 130) << rank_0->output();
  EXPECT_EQ(third.end(), 0) << third.output();
  EXPECT_EQ(rank_0->output().find("lost", rank_0->output().find("Free again")),
            std::string::npos)
      << rank_0->output();
  const Json unfinished = json(out() + "/results.json").at("unfinished");
  ASSERT_EQ(unfinished.size(), 1u);
  EXPECT_GE(unfinished[0].at("steps"), continued);
}

TEST_F(Cluster, KilledRank0ResumesAndItsWorkersEnd) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  std::string output;
  port_ = std::to_string(free_ports());  // the same for each rank 0
  for (int kills = 0; kills < (is_long() ? 5 : 1);) {
    Words more{"--jobs", kills % 2 ? "1" : "0"};  // with and without runs of its own
    if (kills > 0) more.emplace_back("--resume");
    const auto rank_0 = serve(more);
    Watched worker(joining());
    ASSERT_TRUE(worker.prints("Joined.")) << worker.output();
    std::this_thread::sleep_for(milliseconds(random() % 200));
    rank_0->signal(SIGKILL);
    rank_0->end();
    output += rank_0->output();
    const int code = worker.end();
    if (code == 0) {  // all runs were done before the kill
      fs::remove_all(out());
      kills = 0;
      continue;
    }
    ++kills;
    EXPECT_EQ(code, 2) << worker.output();
    EXPECT_NE(worker.output().find("gnomon: [lab] the connection to rank 0 must stay open"),
              std::string::npos)
        << worker.output();
  }
  const auto rank_0 = serve({"--jobs", "1", "--resume"});
  EXPECT_EQ(rank_0->end(), 0) << rank_0->output();
  expect_same(out(), output + rank_0->output());
}

// The stopped worker considers its run its own when it goes on, but another one has trained it.
TEST_F(Cluster, AWorkerThatStopsAnsweringLosesItsRun) {
  const auto rank_0 = serve({"--jobs", "0", "--lease", "2"}, one_run("3000"));
  Watched stopped(joining());
  ASSERT_TRUE(rank_0->writes(out() + "/checkpoints/none-seed1.safetensors"));
  stopped.signal(SIGSTOP);
  Watched other(joining());
  EXPECT_TRUE(rank_0->prints("lost (no answer in time)")) << rank_0->output();
  stopped.signal(SIGCONT);
  EXPECT_EQ(stopped.end(), 2) << stopped.output();
  EXPECT_EQ(rank_0->end(), 0) << rank_0->output();
  EXPECT_EQ(other.end(), 0) << other.output();
  const Json results = json(out() + "/results.json");
  ASSERT_EQ(results.at("runs").size(), 1u);
  EXPECT_EQ(results.at("runs")[0].at("steps"), 3000);
  EXPECT_FALSE(fs::exists(out() + "/incoming"));
}

TEST_F(Cluster, ASlowWorkerKeepsItsRun) {
  const auto rank_0 = serve({"--jobs", "0"});
  Watched slow(joining());
  ASSERT_TRUE(slow.prints("Joined."));
  for (int i = 0; i < 5; ++i) {
    slow.signal(SIGSTOP);
    std::this_thread::sleep_for(milliseconds(100));
    slow.signal(SIGCONT);
    std::this_thread::sleep_for(milliseconds(10));
  }
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
    open.push_back(dial(port_));
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
  const int other = dial(port_);
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

// What a worker in this process throws.
std::string refusal(const Words& arguments) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> nothing(std::fopen("/dev/null", "w"),
                                                                std::fclose);
  try {
    join_session(parsed(arguments), nothing.get());
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

TEST_F(Cluster, RefusesWorkersWithOtherSettingsOrTokens) {
  const auto rank_0 = serve({"--jobs", "0"});
  EXPECT_EQ(refusal(joining({"--width", "32"})),
            "[lab] a worker requires the settings of rank 0, width 16, got 32");
  {
    Connection worker(connect_to(parse_address("--join", "127.0.0.1:" + port_, true),
                                 milliseconds(10'000), [] {}));
    worker.send({.head = {{"op", "hello"}, {"token", ""}, {"gnomon", "other\x1b[2J"}}},
                milliseconds(10'000));
    EXPECT_TRUE(worker.receive(message_limits, milliseconds(10'000)).head.contains("rule"));
  }
  setenv("GNOMON_LAB_TOKEN", "other", 1);
  EXPECT_EQ(
      refusal(joining()),
      "[lab] a worker must have the GNOMON_LAB_TOKEN or the job of rank 0, got another one");
  unsetenv("GNOMON_LAB_TOKEN");
  rank_0->signal(SIGINT);
  EXPECT_EQ(rank_0->end(), 130) << rank_0->output();
  // The terminal of rank 0 gets no control characters of others.
  EXPECT_NE(rank_0->output().find("got other\\x1b[2J)"), std::string::npos) << rank_0->output();
}

// Without a token, only this machine can join.
TEST_F(Cluster, ServesOtherMachinesOnlyWithAToken) {
  const auto listens_at = [](const Words& words) { return parsed(words).world.address.host; };
  const auto refused = [](const Words& words) -> std::string {
    try {
      parsed(words);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "accepted";
  };
  const std::string rule =
      "[lab] a session of several machines requires the variable GNOMON_LAB_TOKEN, a secret "
      "with the same value in all processes, got none";
  EXPECT_EQ(listens_at({"--serve", "0"}), "127.0.0.1");
  EXPECT_EQ(listens_at({"--serve", "localhost:0"}), "localhost");
  for (const char* host : {"0.0.0.0", "[::]", "192.0.2.1", "node1", "127.node1"})
    EXPECT_EQ(refused({"--serve", std::string(host) + ":0"}), rule) << host;
  setenv("GNOMON_LAB_TOKEN", "secret", 1);
  EXPECT_EQ(listens_at({"--serve", "0"}), "");
  EXPECT_EQ(listens_at({"--serve", "0.0.0.0:0"}), "0.0.0.0");
  {
    const auto rank_0 = serve({"--jobs", "0"});
    Watched worker(joining());
    EXPECT_EQ(rank_0->end(), 0) << rank_0->output();
    EXPECT_EQ(worker.end(), 0) << worker.output();
    fs::remove_all(out());
  }
  unsetenv("GNOMON_LAB_TOKEN");
  // The variables of a launcher's rank 0.
  for (const auto& [name, value] : std::map<std::string, std::string>{
           {"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "node1"}, {"MASTER_PORT", "9"}})
    setenv(name.c_str(), value.c_str(), 1);
  EXPECT_EQ(refused({}), rule);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  EXPECT_EQ(listens_at({}), "127.0.0.1");
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) unsetenv(name);

  port_ = "0";
  Watched rank_0(joined(one_run("1000000"), {"--out", out(), "--serve", "0"}));
  EXPECT_TRUE(
      rank_0.prints("Only this machine can join: "
                    "other machines require GNOMON_LAB_TOKEN.\n"))
      << rank_0.output();
  EXPECT_NE(rank_0.line_after("gnomon lab --join 127.0.0.1:"), "") << rank_0.output();
  rank_0.signal(SIGINT);
  EXPECT_EQ(rank_0.end(), 130) << rank_0.output();
}

// The loss of a run that diverges is NaN, which is null in JSON.
TEST_F(Cluster, ADivergedRunKeepsItsWorker) {
  const auto rank_0 = serve({"--jobs", "0"});
  {
    Connection worker(connect_to(parse_address("--join", "127.0.0.1:" + port_, true),
                                 milliseconds(10'000), [] {}));
    const auto ask = [&](const Json& head) {
      worker.send({.head = head}, milliseconds(10'000));
      return worker.receive(message_limits, milliseconds(10'000)).head;
    };
    const Json invitation = ask({{"op", "hello"},
                                 {"token", ""},
                                 {"gnomon", GNOMON_VERSION},
                                 {"libtorch", TORCH_VERSION},
                                 {"isa", ""},
                                 {"host", "test"}});
    ask({{"op", "ready"}, {"fingerprint", invitation.at("settings").at("fingerprint")}});
    const Json claim = ask({{"op", "claim"}});
    const auto beat = [&](std::int64_t generation) {
      return ask({{"op", "beat"},
                  {"runs", Json::array({{{"run", claim.at("run")},
                                         {"generation", generation},
                                         {"step", 1},
                                         {"bits", std::nan("")},
                                         {"rate", 1}}})}});
    };
    const auto generation = claim.at("generation").get<std::int64_t>();
    EXPECT_EQ(beat(generation), (Json{{"end", false}}));
    EXPECT_EQ(beat(generation + 1), (Json{{"end", false}}));  // not its run
    EXPECT_EQ(ask({{"op", "release"}, {"run", claim.at("run")}, {"generation", generation}}),
              Json::object());
  }
  rank_0->signal(SIGINT);
  EXPECT_EQ(rank_0->end(), 130) << rank_0->output();
  EXPECT_EQ(rank_0->output().find("lost"), std::string::npos) << rank_0->output();
}

// A rank of a launcher. All have the same command.
std::unique_ptr<Watched> launched(int rank, const std::string& port, const Words& arguments) {
  const std::map<std::string, std::string> variables{{"RANK", std::to_string(rank)},
                                                     {"WORLD_SIZE", "3"},
                                                     {"MASTER_ADDR", "127.0.0.1"},
                                                     {"MASTER_PORT", port}};
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  auto started = std::make_unique<Watched>(arguments);
  for (const auto& [name, value] : variables) unsetenv(name.c_str());
  return started;
}

// Rank 0 waits for the workers of the launcher, so one that starts when the list is finished
// ends with status 0, too.
TEST_F(Cluster, LaunchersSetRankAndAddress) {
  const Words command = tiny({"--jobs", "1", "--out", out()});
  const std::string port = std::to_string(free_ports());
  const auto early = launched(1, port, command), rank_0 = launched(0, port, command);
  EXPECT_TRUE(rank_0->writes(out() + "/runs/t5-seed2.json"));
  const auto late = launched(2, port, command);
  EXPECT_EQ(rank_0->end(), 0) << rank_0->output();
  EXPECT_EQ(early->end(), 0) << early->output();
  EXPECT_EQ(late->end(), 0) << late->output();
  expect_same(out(), rank_0->output());
}

// Settings that change the examples or the model of a run. A released model that is not tuned
// has no training steps and no files.
TEST_F(Cluster, WorkersTrainOtherTokensTasksAndReleasedModels) {
  const testing::ReleasedFolder released("llama");
  std::string text;
  for (int word = 0; word < 4000; ++word) {
    for (int letter = 0, rest = word * word; letter < 4; ++letter, rest /= 5)
      text += static_cast<char>('a' + rest % 5);
    text += ' ';
  }
  released.write_text("text", text);
  const std::string file = released.path() / "text";
  const Words small{"--layers", "1", "--width", "16", "--heads", "2"};
  for (const Words& task : {joined(small, {file, "--train-length", "16", "--eval-lengths", "32",
                                           "--encodings", "none", "--tokens", "bpe:512"}),
                            joined(small, {"--encodings", "laplacian", "--train-length", "8",
                                           "--eval-lengths", "16", "--task", "graph"}),
                            Words{file, "--finetune", released.path()}}) {
    SCOPED_TRACE(task.back());
    const Words settings = joined({"--steps", "4", "--no-cost"}, task);
    Watched alone(joined(settings, {"--out", out("alone")}));
    port_ = "0";
    const auto rank_0 = serve({"--jobs", "0"}, settings);
    Watched worker(joining());
    EXPECT_EQ(rank_0->end(), 0) << rank_0->output();
    EXPECT_EQ(worker.end(), 0) << worker.output();
    ASSERT_EQ(alone.end(), 0) << alone.output();
    EXPECT_EQ(timeless(json(out() + "/results.json")),
              timeless(json(out("alone") + "/results.json")));
    for (const char* name : {"alone", "out"}) fs::remove_all(out(name));
  }
}

// The file of a task is compared, but not its path.
TEST_F(Cluster, WorkersHaveTheFilesOfATask) {
  const auto table = [&](const std::string& name, const std::string& last) {
    std::ofstream stream(folder_ / name);
    stream << "text,label\n";
    for (int i = 0; i < 400; ++i)
      stream << "in the street number " << i << " stands this " << (i % 2 ? "old" : "new")
             << " house," << (i % 2 ? "old" : "new") << "\n";
    stream << last << ",new\n";
    return (folder_ / name).string();
  };
  const std::string file = table("a.csv", "a new end");
  const auto rank_0 =
      serve({"--jobs", "0"}, {file, "--task", "classify", "--layers", "1", "--width", "16",
                              "--heads", "2", "--steps", "4", "--no-cost", "--encodings",
                              "learned", "--train-length", "20", "--eval-lengths", "40"});
  EXPECT_EQ(refusal(joining({table("b.csv", "another new end")}))
                .rfind("[lab] a worker must have the texts of rank 0, got ", 0),
            0u);
  Watched worker(joining({table("c.csv", "a new end")}));
  EXPECT_EQ(rank_0->end(), 0) << rank_0->output();
  EXPECT_EQ(worker.end(), 0) << worker.output();
}

}  // namespace cluster_test
}  // namespace gnomon::lab
