// The processes that train each run together (run_team.h), from the variables of a launcher:
//
//   torchrun     RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT
//   Slurm        srun: SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_STEP_NODELIST, SLURM_JOB_ID
//
// A task of a Slurm array and a pod of a Kubernetes job are processes of their own.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace gnomon::lab {

struct World {
  std::int64_t rank = 0;
  std::int64_t size = 1;  // 1, 2, 4 or 8
  // Where rank 0 listens for the others: host and port. Empty for one process.
  std::string host = {};
  std::uint16_t port = 0;
  // A secret of all processes. Empty for one process.
  std::string token = {};
};

// A variable of the environment. Empty if it is not set.
using Variables = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> environment(const char* name);

// The world of a launcher; one process if there is none. Throws std::invalid_argument if
// variables are missing or contradict each other, if the number of processes is not 1, 2, 4 or
// 8, or if there are several without the variable GNOMON_LAB_TOKEN.
World find_world(const Variables& variables);

// Throws std::invalid_argument unless it is 1, 2, 4 or 8. `rule`: "--workers-per-run".
int team_size(const std::string& rule, std::int64_t size);

// The first host of a list of Slurm: "a3" of "a[3-5,9],b".
std::string first_host(const std::string& list);

}  // namespace gnomon::lab
