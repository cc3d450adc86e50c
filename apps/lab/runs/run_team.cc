#include "apps/lab/runs/run_team.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "apps/lab/data/lists.h"
#include "apps/lab/data/model_size.h"
#include "apps/lab/data/task.h"
#include "apps/lab/data/words.h"
#include "apps/lab/runs/process.h"
#include "apps/lab/runs/process_team.h"
#include "apps/lab/runs/run.h"
#include "apps/lab/tasks/make_model.h"
#include "apps/lab/tasks/stored.h"
#include "gnomon/error.h"
#include "gnomon/io/file.h"
#include "src/core/json.h"
#include "src/core/text.h"

namespace gnomon::lab {
namespace {

using Store = c10::intrusive_ptr<c10d::Store>;

using std::chrono::milliseconds;

constexpr milliseconds between_checks{50}, farewell_time{2'000};
constexpr std::chrono::hours preparation_time{1};  // of rank 0: it measures the cost first
constexpr const char* settings_key = "settings";
constexpr const char* ended_key = "ended";  // the number of processes that need no store

void send(const Store& store, const std::string& key, const Json& value) {
  const std::string text = value.dump();
  store->set(key, std::vector<std::uint8_t>(text.begin(), text.end()));
}
// Waits for a value of rank 0, which may take hours: it measures the cost and tests. Throws
// TeamError if rank 0 ends.
Json receive(const Store& store, const std::string& key) {
  try {
    while (!store->check({key})) std::this_thread::sleep_for(between_checks);
    const std::vector<std::uint8_t> text = store->get(key);
    return internal::parse_json<Json>({reinterpret_cast<const char*>(text.data()), text.size()},
                                      "lab", "the answer");
  } catch (const std::exception& error) {
    throw TeamError("[lab] rank 0 of the team must answer, got: " + first_line(error.what()));
  }
}

// Throws TeamError if rank 0 does not answer.
Store connect(const World& world) {
  c10d::TCPStoreOptions options;
  options.port = world.port;
  options.isServer = world.rank == 0;
  options.waitWorkers = false;
  options.timeout = preparation_time;
  try {
    auto store = c10::make_intrusive<c10d::TCPStore>(world.rank == 0 ? "localhost" : world.host,
                                                     options);
    store->setTimeout(Team::default_timeout);
    return store;
  } catch (const std::exception& error) {
    throw TeamError(fmt::format("[lab] rank 0 must answer at {}:{}, got: {}", world.host,
                                world.port, first_line(error.what())));
  }
}

// The work of one member of a team. Rank 0 writes the files and tests. The others only train.
std::optional<RunResult> work_on(const Job& job, const Settings& settings, const Corpus& corpus,
                                 const std::filesystem::path& out, double checkpoint_seconds,
                                 Progress& progress, Team& team) {
  const std::filesystem::path checkpoint = job.checkpoint(out);
  TrainingRun run(settings, corpus, job.encoding, job.seed, team);
  if (team.decide(std::filesystem::exists(checkpoint))) {
    run.load(checkpoint);
    progress.note(fmt::format("{} continues at step {}.", job.name(), run.step()));
  }
  const std::int64_t tokens = run.model().window();
  auto saved = Clock::now();
  double rate = 0;
  while (!run.trained() && !team.decide(stop_asked.load())) {
    const auto start = Clock::now();
    const double bits = run.train_step();
    if (!team.leads()) continue;
    const double now = static_cast<double>(settings.batch * tokens) / seconds_since(start);
    rate = rate > 0 ? 0.9 * rate + 0.1 * now : now;
    progress.training(job, run.step(), bits, rate);
    if (seconds_since(saved) > checkpoint_seconds) {
      const auto begin = Clock::now();
      run.save(checkpoint);
      checkpoint_seconds = std::max(checkpoint_seconds, 20 * seconds_since(begin));
      saved = Clock::now();
    }
  }
  if (!team.leads()) return {};
  if (run.step() > 0) run.save(checkpoint);  // not of a released model, which may be large
  RunResult found = run.summary();
  if (!run.trained() || stop_asked) return found;
  progress.testing(job);
  const auto start = Clock::now();
  const auto tested = run.model().evaluate(stop_is_asked);
  if (tested && !settings.extend.empty() && extends(job.encoding))
    found.extension = extend(run.transformer(), sized(settings, job.encoding), corpus, job.seed,
                             stop_is_asked);
  if (!tested || stop_asked) return found;
  found.unfinished = false;
  found.test_seconds = seconds_since(start);
  found.tests = *tested;
  run.model().describe(found);
  // Files and pages are UTF-8. The prompts, texts and answers of tasks are any bytes.
  for (Sample& sample : found.samples)
    for (std::string* text : {&sample.prompt, &sample.text, &sample.expected})
      *text = internal::printable_lines(*text);
  run.model().save(out / "models" / job.name(), found);
  io::write_atomically(job.result(out), to_json(found).dump(1));
  std::filesystem::remove(checkpoint);
  progress.finished(job, outcome(found));
  return found;
}

}  // namespace

struct RunTeam::Processes {
  explicit Processes(const World& whole) : world(whole) {
    // The names of all keys have the token. LibTorch cannot list them, so that a client without
    // the token can neither read nor write one.
    store = c10::make_intrusive<c10d::PrefixStore>(world.token + "/", connect(world));
    team = process_team(c10::make_intrusive<c10d::PrefixStore>("gloo/", store),
                        static_cast<int>(world.rank), static_cast<int>(world.size),
                        address_towards(world.host));
  }
  ~Processes() {
    try {
      std::int64_t ended = store->add(ended_key, 1);
      // The store is in rank 0.
      const auto end = Clock::now() + farewell_time;
      while (world.rank == 0 && ended < world.size && Clock::now() < end) {
        std::this_thread::sleep_for(milliseconds(5));
        ended = store->add(ended_key, 0);
      }
    } catch (const std::exception&) {  // rank 0 has ended
    }
  }
  std::string key() { return fmt::format("run{}", runs++); }

  const World world;
  Store store;
  std::unique_ptr<Team> team;
  std::int64_t runs = 0;
};

RunTeam::RunTeam(const Options& options, const Settings& settings, const std::string& texts)
    : threads_(options.workers_per_run) {
  if (options.world.size == 1) return;
  processes_ = std::make_unique<Processes>(options.world);
  send(processes_->store, settings_key,
       to_json(StoredSettings{settings, texts, options.command}));
}

RunTeam::~RunTeam() {
  if (!processes_) return;
  try {
    send(processes_->store, processes_->key(), nullptr);
  } catch (const std::exception&) {  // rank 0 has ended
  }
}

RunResult RunTeam::train_and_test(const Job& job, const Settings& settings,
                                  const Corpus& corpus, const std::filesystem::path& out,
                                  double checkpoint_seconds, Progress& progress) {
  RunResult result;
  const auto work = [&](Team& member) {
    auto found = work_on(job, settings, corpus, out, checkpoint_seconds, progress, member);
    if (found) result = std::move(*found);
  };
  if (processes_) {
    send(processes_->store, processes_->key(),
         {{"encoding", job.encoding}, {"seed", job.seed}});
    work(*processes_->team);
  } else {
    on_team(threads_, work);
  }
  return result;
}

std::string outcome(const RunResult& run) {
  const auto of_range = [](const Stretch& one) {
    return fmt::format("{} at {}",
                       !one.applicable ? "n/a"
                       : std::isfinite(one.score + one.second + one.bits)
                           ? percent_text(one.score)
                           : "diverged",
                       range_text(one.from, one.to));
  };
  const auto of_length = [](const LengthLoss& one) {
    return fmt::format("{} at {}",
                       one.applicable ? number_or_diverged("{:.3f}", one.tail_bits) : "n/a",
                       one.length);
  };
  const bool examples = !run.tests.stretches.empty();
  return fmt::format("{}{}, trained in {}",
                     fmt::join(examples ? mapped(ranges_of(run.tests.stretches), of_range)
                                        : mapped(run.tests.lengths, of_length),
                               ", "),
                     examples ? "" : " (bits per byte)", duration(run.train_seconds));
}

int follow_team(const Options& options, std::FILE* stream) {
  at::set_num_threads(1);
  at::globalContext().setFlushDenormal(true);
  const StopOnSignal signals;  // the leader decides when a run stops
  RunTeam::Processes member(options.world);
  const StoredSettings session = read_settings(receive(member.store, settings_key));
  const Settings& settings = session.settings;
  Settings local = settings;
  if (!options.texts.empty()) local.texts = options.texts;
  const Corpus corpus =
      load_corpus(local, options.plan ? options.plan->tokenizer : std::string());
  if (fingerprint(corpus) != session.fingerprint)
    refuse("lab", "all processes of a team require the same texts", "different texts");
  for (;;) {
    const Json job = receive(member.store, member.key());
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
