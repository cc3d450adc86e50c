// The processes of a session on several machines: rank 0 holds the list of runs, the others
// join it. Rank and address come from --serve or --join, or from the variables of a launcher:
//
//   torchrun     RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT
//   Slurm        srun: SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_STEP_NODELIST, SLURM_JOB_ID
//   Kubernetes   an indexed job: JOB_COMPLETION_INDEX, with MASTER_ADDR and MASTER_PORT
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace gnomon::lab {

struct Address {
  std::string host;  // empty: all interfaces
  std::uint16_t port = 0;
};

// The runs index, index + count, ... of the list: --shard index/count.
struct Shard {
  std::int64_t index = 0, count = 1;

  std::string text() const { return std::to_string(index) + "/" + std::to_string(count); }
};
// Throws std::invalid_argument.
Shard parse_shard(const std::string& text);

struct World {
  std::int64_t rank = 0;
  // The number of processes that the launcher starts. 0: unknown. 1: this process only.
  std::int64_t size = 1;
  // The address of rank 0: where it listens (rank 0) or is expected (other ranks).
  Address address = {};
  // The same in all processes of a job: rank 0 refuses workers with another one. Without a
  // token, rank 0 only listens for this machine.
  std::string token = {};

  bool serves() const { return rank == 0 && size != 1; }
  bool joins() const { return rank > 0; }
};

// Whether a host is an address of this machine for itself: localhost, 127.0.0.0/8 or ::1. Names
// are not looked up.
bool is_loopback(const std::string& host);

// Throws std::invalid_argument if rank 0 would listen for other machines without a token.
void require_token(const World& world);

// The name of this machine.
std::string host_name();

// A variable of the environment. Empty if it is not set.
using Variables = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> environment(const char* name);

// The world of a launcher; one process if there is none. Throws std::invalid_argument if
// variables are missing or contradict each other.
World find_world(const Variables& variables);

// The first host of a list of Slurm: "a3" of "a[3-5,9],b".
std::string first_host(const std::string& list);

}  // namespace gnomon::lab
