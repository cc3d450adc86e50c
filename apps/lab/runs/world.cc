#include "apps/lab/runs/options.h"

#include <fmt/format.h>

#include <cstdlib>

#include "apps/lab/data/numbers.h"
#include "gnomon/error.h"

namespace gnomon::lab {
namespace {

// The variables of one launcher.
class Launcher {
 public:
  Launcher(const Variables& variables, std::string name)
      : variables_(variables), name_(std::move(name)) {}

  std::string text(const char* variable) const {
    const auto value = variables_(variable);
    if (!value)
      refuse("lab",
             fmt::format("{} requires the variable {} (to train alone, unset its variables)",
                         name_, variable),
             "none");
    return *value;
  }
  std::int64_t number(const char* variable, std::int64_t least, std::int64_t most) const {
    const auto value = parse_integer(text(variable));
    if (!value || *value < least || *value > most)
      refuse("lab", fmt::format("{} must be an integer from {} to {}", variable, least, most),
             text(variable));
    return *value;
  }
  World world(const char* rank, const char* size) const {
    constexpr std::int64_t most = 1'000'000;
    World world;
    world.size = number(size, 1, most);
    world.rank = number(rank, 0, most);
    if (world.rank >= world.size)
      refuse("lab", fmt::format("{} must be below {}", rank, size),
             fmt::format("{} of {}", world.rank, world.size));
    return world;
  }

 private:
  const Variables& variables_;
  const std::string name_;
};

World torchrun_world(const Variables& variables) {
  const Launcher launcher(variables, "torchrun (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT)");
  World world = launcher.world("RANK", "WORLD_SIZE");
  if (world.size == 1) return world;
  world.host = launcher.text("MASTER_ADDR");
  world.port = static_cast<std::uint16_t>(launcher.number("MASTER_PORT", 1, 65534));
  // The agent of torchrun already listens on this port.
  if (variables("TORCHELASTIC_USE_AGENT_STORE") == "True") ++world.port;
  return world;
}

World slurm_world(const Variables& variables) {
  const Launcher launcher(variables, "srun");
  World world = launcher.world("SLURM_PROCID", "SLURM_STEP_NUM_TASKS");
  if (world.size == 1) return world;
  const std::int64_t job = launcher.number("SLURM_JOB_ID", 0, INT64_MAX);
  const std::int64_t step = parse_integer(variables("SLURM_STEP_ID").value_or("")).value_or(0);
  // Steps of one job at the same time have different ports.
  const std::int64_t port = variables("MASTER_PORT") ? launcher.number("MASTER_PORT", 1, 65535)
                                                     : 20000 + (job % 10000 + step) % 10000;
  const auto host = variables("MASTER_ADDR");
  world.host = host ? *host : first_host(launcher.text("SLURM_STEP_NODELIST"));
  world.port = static_cast<std::uint16_t>(port);
  return world;
}

World launched_world(const Variables& variables) {
  // torchrun within srun sets both; its ranks are those of the processes.
  if (variables("RANK")) return torchrun_world(variables);
  // Not SLURM_NTASKS, which a batch script has without srun.
  if (variables("SLURM_STEP_NUM_TASKS")) return slurm_world(variables);
  if (variables("WORLD_SIZE")) return torchrun_world(variables);  // refuses
  return {};
}

}  // namespace

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? std::optional<std::string>(value) : std::nullopt;
}

World find_world(const Variables& variables) {
  World world = launched_world(variables);
  if (world.size == 1) return {};
  team_size("the number of processes that train a run together", world.size);
  const auto token = variables("GNOMON_LAB_TOKEN");
  if (!token)
    refuse("lab",
           "several processes require the variable GNOMON_LAB_TOKEN, because they meet on a "
           "port of all interfaces",
           "none");
  world.token = *token;
  return world;
}

int team_size(const std::string& rule, std::int64_t size) {
  if (size != 1 && size != 2 && size != 4 && size != 8)
    refuse("lab", rule + " must be 1, 2, 4 or 8", size);
  return static_cast<int>(size);
}

std::string first_host(const std::string& list) {
  const std::size_t bracket = list.find('['), comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket) return list.substr(0, comma);
  const std::size_t end = list.find_first_of("-,]", bracket);
  const std::size_t close = list.find(']', bracket);
  if (close == std::string::npos)
    refuse("lab", "SLURM_STEP_NODELIST must be a list of hosts", list);
  // "rack[1-2]n[3-4]" has several brackets.
  const std::size_t next = std::min(list.find(',', close), list.size());
  const std::string rest = list.substr(close + 1, next - close - 1);
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1) +
         (rest.empty() ? "" : first_host(rest));
}

}  // namespace gnomon::lab
