#include "apps/lab/runs/run_team.h"
#include "apps/lab/tasks/load_corpus.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "apps/lab/runs/process_team.h"
#include "apps/lab/runs/run.h"
#include "apps/lab/runs/threads.h"
#include "apps/lab/tasks/stored.h"
#include "gnomon/error.h"
#include "src/core/json.h"
#include "src/core/text.h"

namespace gnomon::lab {
namespace {

using Store = c10::intrusive_ptr<c10d::Store>;

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Rank 0 measures the cost of the encodings and chooses the number of steps in this time.
constexpr milliseconds preparation_time{7'200'000};
constexpr milliseconds most_between_beats{2'000}, between_checks{50}, farewell_time{2'000};
constexpr const char* settings_key = "settings";
constexpr const char* beats_key = "beats";  // a number that the leader increases
constexpr const char* ended_key = "ended";  // the number of processes that need no store

void send(const Store& store, const std::string& key, const Json& value) {
  const std::string text = value.dump();
  store->set(key, std::vector<std::uint8_t>(text.begin(), text.end()));
}
// Waits for a value of the leader. Throws TeamError if the leader is silent for `patience`, or
// if rank 0 ends.
Json receive(const Store& store, const std::string& key, milliseconds patience) {
  try {
    std::int64_t beats = -1;
    auto heard = Clock::now();
    while (!store->check({key})) {
      if (const std::int64_t now = store->add(beats_key, 0); now != beats) {
        beats = now;
        heard = Clock::now();
      }
      if (Clock::now() - heard > patience) throw std::runtime_error("no answer in time");
      std::this_thread::sleep_for(between_checks);
    }
    const std::vector<std::uint8_t> text = store->get(key);
    return internal::parse_json<Json>({reinterpret_cast<const char*>(text.data()), text.size()},
                                      "lab", "the answer");
  } catch (const std::exception& error) {
    const std::string what = error.what();  // LibTorch appends a stack trace
    throw TeamError("[lab] the first rank of the team must answer, got: " +
                    what.substr(0, what.find('\n')));
  }
}

milliseconds lease_of(const Options& options) {
  return milliseconds(static_cast<std::int64_t>(1000 * options.lease_seconds));
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
    // The names of all keys have the token. LibTorch cannot list them, so that a client without
    // the token can neither read nor write one.
    whole = c10::make_intrusive<c10d::PrefixStore>(world.token + "/", connect(world, host));
    const auto rank = static_cast<int>(world.rank % size);
    own = c10::make_intrusive<c10d::PrefixStore>(fmt::format("team{}/", world.rank / size),
                                                 whole);
    team = process_team(c10::make_intrusive<c10d::PrefixStore>("gloo/", own), rank, size,
                        address_towards(host));
  }
  ~Processes() {
    {
      const std::lock_guard lock(mutex);
      closing = true;
    }
    wake.notify_all();
    if (thread.joinable()) thread.join();
    try {
      std::int64_t ended = whole->add(ended_key, 1);
      // The store is in rank 0.
      const auto end = Clock::now() + farewell_time;
      while (world.rank == 0 && ended < world.size && Clock::now() < end) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        ended = whole->add(ended_key, 0);
      }
    } catch (const std::exception&) {  // rank 0 has ended
    }
  }
  std::string key() { return fmt::format("run{}", runs++); }

  // The leader tells the others that it lives, also while it waits for a run or tests one.
  void lead(milliseconds lease) {
    thread = std::thread([this, pause = std::min(lease / 4, most_between_beats)] {
      std::unique_lock lock(mutex);
      while (!wake.wait_for(lock, pause, [&] { return closing; })) try {
          own->add(beats_key, 1);
        } catch (const std::exception&) {  // rank 0 has ended
          return;
        }
    });
  }

  World world;
  Store whole, own;
  std::unique_ptr<Team> team;
  std::int64_t runs = 0;

 private:
  std::thread thread;
  std::mutex mutex;
  std::condition_variable wake;
  bool closing = false;
};

RunTeam::RunTeam(const Options& options, const Settings& settings, const std::string& texts)
    : threads_(options.workers_per_run) {
  if (options.processes_per_run == 1) return;
  processes_ = std::make_unique<Processes>(options, options.processes_per_run);
  send(processes_->own, settings_key,
       to_json(StoredSettings{settings, texts, options.command}));
  processes_->lead(lease_of(options));
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
  const StoredSettings session =
      read_settings(receive(member.own, settings_key, preparation_time));
  const Settings& settings = session.settings;
  Settings local = settings;
  if (!options.settings.texts.empty()) local.texts = options.settings.texts;
  const Corpus corpus = load_corpus(local);
  if (fingerprint(corpus) != session.fingerprint)
    refuse("lab", "all processes of a team require the same texts", "different texts");
  for (;;) {
    const Json job = receive(member.own, member.key(), lease_of(options));
    if (job.is_null()) return 0;
    fmt::print(stream, "Rank {} trains {}, seed {}.\n", options.world.rank,
               internal::printable(job.at("encoding").get<std::string>()),
               job.at("seed").get<std::int64_t>());
    std::fflush(stream);
    Team& team = *member.team;
    TrainingRun run(settings, corpus, job.at("encoding"), job.at("seed"), team);
    if (team.decide(false)) run.load({});
    while (!run.trained() && !team.decide(false)) run.train_step();
  }
}

}  // namespace gnomon::lab
