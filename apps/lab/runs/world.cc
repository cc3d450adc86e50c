#include "apps/lab/runs/world.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdlib>

#include "gnomon/error.h"

namespace gnomon::lab {
namespace {

std::optional<std::int64_t> integer(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

// The variables of one launcher.
class Launcher {
 public:
  Launcher(const Variables& variables, std::string name)
      : variables_(variables), name_(std::move(name)) {}

  std::string text(const char* variable) const {
    const auto value = variables_(variable);
    if (!value)
      refuse("lab",
             name_ + " requires the variable " + variable + " (to train alone, unset " +
                 "its variables)",
             "none");
    return *value;
  }
  std::int64_t number(const char* variable, std::int64_t least, std::int64_t most) const {
    const auto value = integer(text(variable));
    if (!value || *value < least || *value > most)
      refuse("lab",
             std::string(variable) + " must be an integer from " + std::to_string(least) +
                 " to " + std::to_string(most),
             text(variable));
    return *value;
  }
  World world(const char* rank, const char* size) const {
    constexpr std::int64_t most = 1'000'000;
    World world;
    world.size = number(size, 1, most);
    world.rank = number(rank, 0, most);
    if (world.rank >= world.size)
      refuse("lab", std::string(rank) + " must be below " + size,
             std::to_string(world.rank) + " of " + std::to_string(world.size));
    return world;
  }

 private:
  const Variables& variables_;
  const std::string name_;
};

// An address for all ranks. Rank 0 listens on all interfaces unless all ranks are on its
// machine: its name may stand for another address on its own machine, as behind a Kubernetes
// service.
void set_address(World& world, std::string host, std::int64_t port) {
  world.address.host = world.rank == 0 && !is_loopback(host) ? std::string() : std::move(host);
  world.address.port = static_cast<std::uint16_t>(port);
}

World torchrun_world(const Variables& variables) {
  const Launcher launcher(variables, "torchrun (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT)");
  World world = launcher.world("RANK", "WORLD_SIZE");
  const std::string host = launcher.text("MASTER_ADDR");
  std::int64_t port = launcher.number("MASTER_PORT", 1, 65534);
  // The agent of torchrun already listens on this port.
  if (variables("TORCHELASTIC_USE_AGENT_STORE") == "True") ++port;
  set_address(world, host, port);
  world.token = variables("TORCHELASTIC_RUN_ID").value_or("none");
  if (world.token == "none") world.token.clear();  // torchrun without --rdzv-id
  return world;
}

World slurm_world(const Variables& variables) {
  const Launcher launcher(variables, "srun");
  World world = launcher.world("SLURM_PROCID", "SLURM_STEP_NUM_TASKS");
  if (world.size == 1) return world;
  const std::int64_t job = launcher.number("SLURM_JOB_ID", 0, INT64_MAX);
  const std::int64_t step = integer(variables("SLURM_STEP_ID").value_or("")).value_or(0);
  // Steps of one job at the same time have different ports.
  const std::int64_t port = variables("MASTER_PORT") ? launcher.number("MASTER_PORT", 1, 65535)
                                                     : 20000 + (job % 10000 + step) % 10000;
  const auto host = variables("MASTER_ADDR");
  set_address(world, host ? *host : first_host(launcher.text("SLURM_STEP_NODELIST")), port);
  world.token = std::to_string(job) + "." + std::to_string(step);
  return world;
}

World kubernetes_world(const Variables& variables) {
  const Launcher launcher(variables,
                          "a Kubernetes job (JOB_COMPLETION_INDEX, MASTER_ADDR, MASTER_PORT)");
  World world;
  world.size = 0;
  if (variables("WORLD_SIZE"))
    world = launcher.world("JOB_COMPLETION_INDEX", "WORLD_SIZE");
  else
    world.rank = launcher.number("JOB_COMPLETION_INDEX", 0, 1'000'000);
  set_address(world, launcher.text("MASTER_ADDR"), launcher.number("MASTER_PORT", 1, 65535));
  return world;
}

World launched_world(const Variables& variables) {
  // torchrun within srun sets both; its ranks are those of the processes.
  if (variables("RANK")) return torchrun_world(variables);
  // Not SLURM_NTASKS, which a batch script has without srun.
  if (variables("SLURM_STEP_NUM_TASKS")) return slurm_world(variables);
  const bool has_address = variables("MASTER_ADDR") || variables("MASTER_PORT");
  if (variables("JOB_COMPLETION_INDEX") && has_address) return kubernetes_world(variables);
  if (has_address || variables("WORLD_SIZE")) return torchrun_world(variables);  // refuses
  return {};
}

}  // namespace

bool is_loopback(const std::string& host) {
  in_addr address{};
  in6_addr address6{};
  if (inet_pton(AF_INET, host.c_str(), &address) == 1)
    return ntohl(address.s_addr) >> 24 == IN_LOOPBACKNET;
  if (inet_pton(AF_INET6, host.c_str(), &address6) == 1)
    return IN6_IS_ADDR_LOOPBACK(&address6) != 0;
  return host == "localhost";
}

void require_token(const World& world) {
  if (world.size == 1 || !world.token.empty() || is_loopback(world.address.host)) return;
  refuse("lab",
         "a session of several machines requires the variable GNOMON_LAB_TOKEN, a secret with "
         "the same value in all processes",
         "none");
}

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? std::optional<std::string>(value) : std::nullopt;
}

World find_world(const Variables& variables) {
  World world = launched_world(variables);
  if (const auto token = variables("GNOMON_LAB_TOKEN")) world.token = *token;
  return world;
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

Shard parse_shard(const std::string& text) {
  const std::size_t slash = text.find('/');
  const auto index = integer(std::string_view(text).substr(0, slash));
  const auto count = slash == std::string::npos
                         ? std::nullopt
                         : integer(std::string_view(text).substr(slash + 1));
  if (!index || !count || *index < 0 || *index >= *count)
    refuse("lab", "--shard must be I/N with 0 <= I < N", text);
  return {*index, *count};
}

}  // namespace gnomon::lab
