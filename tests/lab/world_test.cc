#include "apps/lab/runs/options.h"

#include <gtest/gtest.h>

#include <map>
#include <stdexcept>
#include <string>

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
                     {"GNOMON_LAB_TOKEN", "secret"}};
const Given srun{{"SLURM_PROCID", "1"},
                 {"SLURM_STEP_NUM_TASKS", "2"},
                 {"SLURM_STEP_NODELIST", "rack[07-09,12]"},
                 {"SLURM_JOB_ID", "4711"},
                 {"SLURM_STEP_ID", "0"},
                 {"GNOMON_LAB_TOKEN", "secret"}};

Given with(Given given, const std::string& name, const std::string& value) {
  given[name] = value;
  return given;
}
Given without(Given given, const std::string& name) {
  given.erase(name);
  return given;
}

// A batch script of Slurm without srun, a task of a Slurm array, and pods of Kubernetes jobs.
TEST(World, IsOneProcessWithoutALauncher) {
  for (const Given& given :
       {Given{}, Given{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}},
        Given{{"SLURM_ARRAY_TASK_ID", "3"}, {"SLURM_PROCID", "0"}, {"SLURM_JOB_ID", "4711"}},
        with(with(srun, "SLURM_PROCID", "0"), "SLURM_STEP_NUM_TASKS", "1"),
        with(with(torchrun, "RANK", "0"), "WORLD_SIZE", "1"),
        Given{{"JOB_COMPLETION_INDEX", "3"}},
        Given{{"JOB_COMPLETION_INDEX", "3"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "29500"}}}) {
    const World world = found(given);
    EXPECT_EQ(world.rank, 0);
    EXPECT_EQ(world.size, 1);
  }
}

TEST(World, ReadsTorchrun) {
  const World member = found(torchrun);
  EXPECT_EQ(member.rank, 2);
  EXPECT_EQ(member.size, 4);
  EXPECT_EQ(member.host, "node1");
  EXPECT_EQ(member.port, 29500);
  EXPECT_EQ(member.token, "secret");
  // The agent of torchrun has the port itself.
  EXPECT_EQ(found(with(torchrun, "TORCHELASTIC_USE_AGENT_STORE", "True")).port, 29501);
}

TEST(World, ReadsSlurm) {
  const World task = found(srun);
  EXPECT_EQ(task.rank, 1);
  EXPECT_EQ(task.size, 2);
  EXPECT_EQ(task.host, "rack07");
  EXPECT_EQ(task.port, 24711);
  EXPECT_EQ(found(with(srun, "SLURM_STEP_ID", "3")).port, 24714);
  EXPECT_EQ(found(with(srun, "MASTER_ADDR", "head")).host, "head");
  EXPECT_EQ(found(with(srun, "MASTER_PORT", "7")).port, 7);
  // torchrun within srun: one agent a node, other ranks than Slurm's.
  Given both = torchrun;
  both.insert(srun.begin(), srun.end());
  EXPECT_EQ(found(both).rank, 2);
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
  EXPECT_EQ(refusal(with(torchrun, "WORLD_SIZE", "6")),
            "[lab] the number of processes that train a run together must be 1, 2, 4 or 8, "
            "got 6");
  EXPECT_NE(refusal(without(srun, "SLURM_PROCID")).find("SLURM_PROCID"), std::string::npos);
  for (const Given& given : {torchrun, srun})
    EXPECT_EQ(
        refusal(without(given, "GNOMON_LAB_TOKEN")),
        "[lab] several processes require the variable GNOMON_LAB_TOKEN, because they meet "
        "on a port of all interfaces, got none");
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

}  // namespace world_test
}  // namespace gnomon::lab
