#include "apps/lab/run_team.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <chrono>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "apps/lab/process_team.h"
#include "apps/lab/results_json.h"
#include "apps/lab/run.h"
#include "apps/lab/threads.h"
#include "gnomon/error.h"

namespace gnomon::lab {
namespace {

using Store = c10::intrusive_ptr<c10d::Store>;

constexpr auto longest_run = std::chrono::hours(24 * 30);
constexpr auto farewell_time = std::chrono::seconds(2);
constexpr const char* ended_key = "ended";  // the number of processes that need no store

void send(const Store& store, const std::string& key, const Json& value) {
  const std::string text = value.dump();
  store->set(key, std::vector<std::uint8_t>(text.begin(), text.end()));
}
Json receive(const Store& store, const std::string& key) {
  store->wait({key}, longest_run);
  const std::vector<std::uint8_t> text = store->get(key);
  return Json::parse(text.begin(), text.end());
}

// Throws TeamError if rank 0 does not answer.
Store connect(const World& world, std::string& host) {
  host =
      world.rank == 0 ? environment("MASTER_ADDR").value_or(host_name()) : world.address.host;
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(world.address.port + 1);
  options.isServer = world.rank == 0;
  options.waitWorkers = false;
  options.timeout = Team::default_timeout;
  try {
    return c10::make_intrusive<c10d::TCPStore>(world.rank == 0 ? "localhost" : host, options);
  } catch (const std::exception& error) {
    const std::string what = error.what();
    throw TeamError(fmt::format("[lab] rank 0 must answer at {}:{}, got: {}", host,
                                options.port, what.substr(0, what.find('\n'))));
  }
}

}  // namespace

struct RunTeam::Processes {
  Processes(const Options& options, int size) : world(options.world) {
    std::string host;
    whole = connect(world, host);
    const auto rank = static_cast<int>(world.rank % size);
    own = c10::make_intrusive<c10d::PrefixStore>(fmt::format("team{}/", world.rank / size),
                                                 whole);
    team = process_team(c10::make_intrusive<c10d::PrefixStore>("gloo/", own), rank, size,
                        address_towards(host));
  }
  ~Processes() {
    try {
      std::int64_t ended = whole->add(ended_key, 1);
      // The store is in rank 0.
      const auto end = std::chrono::steady_clock::now() + farewell_time;
      while (world.rank == 0 && ended < world.size && std::chrono::steady_clock::now() < end) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        ended = whole->add(ended_key, 0);
      }
    } catch (const std::exception&) {  // rank 0 has ended
    }
  }
  std::string key() { return fmt::format("run{}", runs++); }

  World world;
  Store whole, own;
  std::unique_ptr<Team> team;
  std::int64_t runs = 0;
};

RunTeam::RunTeam(const Options& options, const Settings& settings, const std::string& texts)
    : threads_(options.workers_per_run) {
  if (options.processes_per_run == 1) return;
  processes_ = std::make_unique<Processes>(options, options.processes_per_run);
  send(processes_->own, "settings", to_json(StoredSettings{settings, texts, options.command}));
}

RunTeam::~RunTeam() {
  if (!processes_) return;
  try {
    send(processes_->own, processes_->key(), nullptr);
  } catch (const std::exception&) {  // rank 0 has ended
  }
}

void RunTeam::train(const Job& job, const std::function<void(Team&)>& work) {
  if (!processes_) return on_team(threads_, work);
  send(processes_->own, processes_->key(), {{"encoding", job.encoding}, {"seed", job.seed}});
  work(*processes_->team);
}

bool follows(const Options& options) {
  return options.world.rank % options.processes_per_run != 0;
}

int follow_team(const Options& options, std::FILE* stream) {
  at::set_num_threads(1);
  at::globalContext().setFlushDenormal(true);
  const StopOnSignal signals;  // the leader decides when a run stops
  RunTeam::Processes member(options, options.processes_per_run);
  const StoredSettings session = read_settings(receive(member.own, "settings"));
  const Settings& settings = session.settings;
  Settings own = settings;
  if (!options.settings.texts.empty()) own.texts = options.settings.texts;
  const Corpus corpus = load_corpus(own);
  if (fingerprint(corpus) != session.fingerprint)
    refuse("lab", "all processes of a team require the same texts", "different texts");
  for (;;) {
    const Json job = receive(member.own, member.key());
    if (job.is_null()) return 0;
    fmt::print(stream, "Rank {} trains {}, seed {}.\n", options.world.rank,
               job.at("encoding").get<std::string>(), job.at("seed").get<std::int64_t>());
    std::fflush(stream);
    Team& team = *member.team;
    TrainingRun run(settings, corpus, job.at("encoding"), job.at("seed"), team);
    if (team.decide(false)) run.load({});
    while (!run.trained() && !team.decide(false)) run.train_step();
  }
}

}  // namespace gnomon::lab
