#include "apps/lab/runs/world.h"

#include <gtest/gtest.h>

#include <map>
#include <stdexcept>
#include <string>

#include "apps/lab/runs/wire.h"

namespace gnomon::lab {
namespace world_test {

using Given = std::map<std::string, std::string>;

World found(const Given& given) {
  return find_world([&](const char* name) -> std::optional<std::string> {
    const auto one = given.find(name);
    return one == given.end() ? std::nullopt : std::optional(one->second);
  });
}

std::string refusal(const Given& given) {
  try {
    found(given);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

const Given torchrun{{"RANK", "2"},
                     {"WORLD_SIZE", "4"},
                     {"MASTER_ADDR", "node1"},
                     {"MASTER_PORT", "29500"},
                     {"TORCHELASTIC_RUN_ID", "job7"}};
const Given srun{{"SLURM_PROCID", "1"},
                 {"SLURM_STEP_NUM_TASKS", "3"},
                 {"SLURM_STEP_NODELIST", "rack[07-09,12]"},
                 {"SLURM_JOB_ID", "4711"},
                 {"SLURM_STEP_ID", "0"}};
const Given kubernetes{
    {"JOB_COMPLETION_INDEX", "3"}, {"MASTER_ADDR", "lab-0.lab"}, {"MASTER_PORT", "29500"}};

Given with(Given given, const std::string& name, const std::string& value) {
  given[name] = value;
  return given;
}
Given without(Given given, const std::string& name) {
  given.erase(name);
  return given;
}

TEST(World, IsOneProcessWithoutALauncher) {
  for (const Given& given : {Given{}, Given{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}},
                             Given{{"JOB_COMPLETION_INDEX", "3"}}}) {
    const World world = found(given);
    EXPECT_FALSE(world.serves());
    EXPECT_FALSE(world.joins());
  }
}

TEST(World, ReadsTorchrun) {
  const World worker = found(torchrun);
  EXPECT_TRUE(worker.joins());
  EXPECT_EQ(worker.rank, 2);
  EXPECT_EQ(worker.size, 4);
  EXPECT_EQ(worker.address.host, "node1");
  EXPECT_EQ(worker.address.port, 29500);
  EXPECT_EQ(worker.token, "job7");
  const World first = found(with(torchrun, "RANK", "0"));
  EXPECT_TRUE(first.serves());
  EXPECT_EQ(first.address.host, "");
  // All ranks are on this machine.
  EXPECT_EQ(found(with(with(torchrun, "RANK", "0"), "MASTER_ADDR", "127.0.0.1")).address.host,
            "127.0.0.1");
  EXPECT_EQ(found(with(torchrun, "TORCHELASTIC_RUN_ID", "none")).token, "");
  // The agent of torchrun has the port itself.
  EXPECT_EQ(found(with(torchrun, "TORCHELASTIC_USE_AGENT_STORE", "True")).address.port, 29501);
  const World alone = found(with(with(torchrun, "RANK", "0"), "WORLD_SIZE", "1"));
  EXPECT_FALSE(alone.serves());
}

TEST(World, ReadsSlurmAndKubernetes) {
  const World task = found(srun);
  EXPECT_TRUE(task.joins());
  EXPECT_EQ(task.address.host, "rack07");
  EXPECT_EQ(task.address.port, 24711);
  EXPECT_EQ(task.token, "4711.0");
  EXPECT_TRUE(found(with(srun, "SLURM_PROCID", "0")).serves());
  EXPECT_EQ(found(with(srun, "MASTER_ADDR", "head")).address.host, "head");
  // torchrun within srun: one agent a node, other ranks than Slurm's.
  Given both = torchrun;
  both.insert(srun.begin(), srun.end());
  EXPECT_EQ(found(both).rank, 2);

  const World pod = found(kubernetes);
  EXPECT_EQ(pod.rank, 3);
  EXPECT_EQ(pod.address.host, "lab-0.lab");
  EXPECT_TRUE(found(with(kubernetes, "JOB_COMPLETION_INDEX", "0")).serves());
  EXPECT_EQ(found(with(kubernetes, "GNOMON_LAB_TOKEN", "secret")).token, "secret");
}

TEST(World, RefusesVariablesThatAreMissingOrContradictory) {
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    const std::string message = refusal(without(torchrun, name));
    EXPECT_NE(message.find(std::string("requires the variable ") + name), std::string::npos)
        << message;
  }
  EXPECT_EQ(refusal(with(torchrun, "RANK", "4")),
            "[lab] RANK must be below WORLD_SIZE, got 4 of 4");
  EXPECT_EQ(refusal(with(torchrun, "RANK", "x")),
            "[lab] RANK must be an integer from 0 to 1000000, got x");
  EXPECT_EQ(refusal(with(torchrun, "MASTER_PORT", "70000")),
            "[lab] MASTER_PORT must be an integer from 1 to 65534, got 70000");
  EXPECT_NE(refusal(without(srun, "SLURM_PROCID")).find("SLURM_PROCID"), std::string::npos);
  EXPECT_NE(refusal(without(kubernetes, "MASTER_PORT")).find("MASTER_PORT"), std::string::npos);
  EXPECT_NE(refusal(with(kubernetes, "WORLD_SIZE", "2")).find("must be below WORLD_SIZE"),
            std::string::npos);
}

TEST(World, RequiresATokenForOtherMachines) {
  for (const char* host : {"localhost", "127.0.0.1", "127.9.8.7", "::1"})
    EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host : {"", "0.0.0.0", "::", "128.0.0.1", "127.0.0.1.example.org", "127.1",
                           "localhost.example.org", "::ffff:127.0.0.1", "node1"})
    EXPECT_FALSE(is_loopback(host)) << host;
  EXPECT_NO_THROW(require_token(World{}));
  World all{.size = 0, .address = {"", 1}};
  EXPECT_THROW(require_token(all), std::invalid_argument);
  all.address.host = "::1";
  EXPECT_NO_THROW(require_token(all));
  all = {.rank = 1, .size = 2, .address = {"node1", 1}, .token = "secret"};
  EXPECT_NO_THROW(require_token(all));
}

TEST(World, FindsTheFirstHostOfAList) {
  for (const auto& [list, host] :
       std::map<std::string, std::string>{{"a", "a"},
                                          {"a,b[1-2]", "a"},
                                          {"n[3,5-9]", "n3"},
                                          {"n[003-010],m1", "n003"},
                                          {"n7-ib,m1", "n7-ib"},
                                          {"r[1-2]n[3-4]-x,z", "r1n3-x"}})
    EXPECT_EQ(first_host(list), host);
  EXPECT_THROW(first_host("n[1-2"), std::invalid_argument);
}

TEST(World, ReadsShardsAndAddresses) {
  EXPECT_EQ(parse_shard("3/8").index, 3);
  EXPECT_EQ(parse_shard("3/8").count, 8);
  for (const char* bad : {"", "3", "8/8", "-1/8", "1/", "/2", "1/2/3", "a/b", "0/0"})
    EXPECT_THROW(parse_shard(bad), std::invalid_argument) << bad;

  EXPECT_EQ(parse_address("--join", "node:7", true).host, "node");
  EXPECT_EQ(parse_address("--join", "[::1]:7", true).host, "::1");
  EXPECT_EQ(parse_address("--serve", "0", false).port, 0);
  for (const char* bad : {"node", "node:", ":7", "node:0", "node:65536", "node:7x"})
    EXPECT_THROW(parse_address("--join", bad, true), std::invalid_argument) << bad;
}

}  // namespace world_test
}  // namespace gnomon::lab
