#include "apps/lab/runs/session.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <mutex>

#include "apps/lab/data/task.h"
#include "apps/lab/model/candidate.h"
#include "apps/lab/runs/budget.h"
#include "apps/lab/runs/claimed_run.h"
#include "apps/lab/runs/cost.h"
#include "apps/lab/runs/extend.h"
#include "apps/lab/runs/folder.h"
#include "apps/lab/runs/progress.h"
#include "apps/lab/runs/run.h"
#include "apps/lab/runs/threads.h"
#include "apps/lab/runs/wire.h"
#include "apps/lab/runs/work_list.h"
#include "apps/lab/runs/work_server.h"
#include "apps/lab/tasks/stored.h"
#include "gnomon/error.h"
#include "gnomon/io/file.h"
#include "gnomon/version.h"
#include "src/core/text.h"

namespace gnomon::lab {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// The speed of a few steps of every encoding, with as many runs at the same time as in
// training: the fastest if all batches have the same size, because other processes only slow a
// step down, else the median.
Speed measured_speed(const Settings& s, const Options& options, const Corpus& corpus) {
  std::vector<double> step_seconds(s.encodings.size()), test_seconds(s.encodings.size());
  Settings probe = s;
  probe.eval_segments = 1;
  const int jobs = std::max(options.jobs, 1);
  const auto probe_with = [&](Team& team, std::size_t i) {
    TrainingRun run(probe, corpus, s.encodings[i], 1, team);
    const auto timed = [](auto&& work) {
      const auto start = Clock::now();
      work();
      return std::chrono::duration<double>(Clock::now() - start).count();
    };
    std::array<double, 7> seconds{};  // 0 for a trained model
    if (!run.trained()) {
      for (int warm = 0; warm < 2; ++warm) run.train_step();
      for (double& one : seconds) one = timed([&] { run.train_step(); });
      std::sort(seconds.begin(), seconds.end());
    }
    if (!team.leads()) return;
    step_seconds[i] = seconds[s.task->has_examples() ? seconds.size() / 2 : 0];
    test_seconds[i] = timed([&] { run.model().evaluate([] { return stop_asked.load(); }); });
  };
  on_threads(jobs, s.encodings.size(), [&](std::size_t i) {
    on_team(options.workers_per_run, [&](Team& team) { probe_with(team, i); });
  });
  double steps = 0, tests = 0;
  for (std::size_t i = 0; i < s.encodings.size(); ++i) {
    steps += step_seconds[i];
    tests += test_seconds[i] * static_cast<double>(s.eval_segments);
  }
  const auto encodings = static_cast<double>(s.encodings.size());
  return {steps / encodings, tests / encodings};
}

// Reads cost.json or measures the cost. Called before the first training step of this process:
// the measurement forks, and LibTorch refuses a backward pass in a child if the parent had one.
std::vector<MeasuredCost> cost(const Settings& settings, const Corpus& corpus,
                               const fs::path& out, std::FILE* stream) {
  if (fs::exists(out / "cost.json")) return read_costs(out / "cost.json");
  fmt::print(stream, "Measuring the cost of each encoding.\n");
  std::fflush(stream);
  return measure_cost(settings, corpus, [] { return stop_asked.load(); });
}

// Trains the runs on the threads of this process, and with `listener` on those of workers.
void train(SessionResult& result, const Options& options, const StoredSettings& stored,
           const std::vector<Job>& jobs, const Corpus& corpus, const fs::path& out,
           Listener* listener, std::FILE* stream) {
  const Settings& settings = result.settings;
  std::vector<std::optional<RunResult>> found(jobs.size());
  std::mutex mutex;  // guards `found`
  const auto finished = [&](std::size_t run, RunResult one) {
    const std::lock_guard lock(mutex);
    found[run] = std::move(one);
  };
  RunTable table(jobs.size());
  {
    Progress progress(settings, stream);
    on_threads(std::max(options.jobs, 1), jobs.size(), [&](std::size_t i) {
      const fs::path done = out / "runs" / (jobs[i].name() + ".json");
      if (!fs::exists(done)) return;
      RunResult one = read_run(done, settings, jobs[i].encoding, jobs[i].seed);
      progress.finished(jobs[i].encoding, jobs[i].seed, outcome(one));
      finished(i, std::move(one));
      table.set_done(i);
    });
    std::optional<WorkServer> server;
    if (listener)
      server.emplace(*listener,
                     Invitation{stored, settings.encodings, options.world.token,
                                options.lease_seconds, options.checkpoint_seconds},
                     settings, jobs, table, out, progress, finished);
    LocalWorkList work(table, jobs, out);
    RunTeam team(options, settings, stored.fingerprint);
    const auto threads = static_cast<std::size_t>(options.jobs);
    on_threads(options.jobs, std::min(threads, jobs.size()), [&](std::size_t) {
      while (const auto claim = work.claim())
        if (auto one = work_on(*claim, jobs[claim->run], work, settings, corpus,
                               options.checkpoint_seconds, team, progress))
          finished(claim->run, std::move(*one));
    });
    // Without threads of its own, rank 0 waits for the workers.
    while (!stop_asked && !table.all_done()) table.wait(std::chrono::milliseconds(100));
    if (server) server->end(options.world.size / options.processes_per_run - 1);
    if (stop_asked) progress.note("Stopped. Continue with --resume.");
  }
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const fs::path checkpoint = jobs[i].checkpoint(out);
    if (!found[i] && fs::exists(checkpoint)) {  // stopped on a worker
      TrainingRun run(settings, corpus, jobs[i].encoding, jobs[i].seed);
      run.load(checkpoint);
      found[i] = run.summary();
    }
    if (found[i])
      (found[i]->unfinished ? result.unfinished : result.runs).push_back(std::move(*found[i]));
  }
}

}  // namespace

void remove_unusable_encodings(SessionResult& result, const Corpus& corpus, std::FILE* stream) {
  std::vector<std::string> usable;
  for (const std::string& name : result.settings.encodings)
    if (const auto reason = unusable(name, result.settings, corpus)) {
      result.left_out.push_back({name, *reason});
      fmt::print(stream, "Left out: {}. Reason: {}\n", internal::printable(name),
                 internal::printable(*reason));
    } else {
      usable.push_back(name);
    }
  std::fflush(stream);
  if (usable.empty())
    refuse("lab", "at least one of --encodings must be usable", result.left_out[0].reason);
  result.settings.encodings = usable;
}

SessionResult run_session(const Options& options, const Corpus& corpus, const fs::path& out,
                          std::FILE* stream) {
  const auto start = Clock::now();
  SessionResult result;
  result.settings = options.settings;
  for (const Job& job : jobs_of(result.settings, options.shard))
    if (!fs::exists(out / "runs" / (job.name() + ".json"))) require_trainable(job.encoding);
  const StopOnSignal signals;

  // Workers may connect from now on, and wait until the list is ready.
  std::optional<Listener> listener;
  if (options.world.serves()) {
    listener.emplace(options.world.address);
    const bool is_local = is_loopback(options.world.address.host);
    if (is_local)
      fmt::print(stream,
                 "Only this machine can join: other machines require GNOMON_LAB_TOKEN.\n");
    fmt::print(stream, "Workers join with: gnomon lab --join {}:{}\n",
               is_local ? options.world.address.host : host_name(), listener->port());
    std::fflush(stream);
  }

  const bool stored = has_run(out);
  StoredSettings asked{options.settings, fingerprint(corpus), options.command, GNOMON_VERSION};
  if (options.shard) asked.shard = options.shard->text();
  if (stored) {
    const StoredSettings earlier = read_settings(out / "settings.json");
    refuse_old_checkpoints(out, earlier.gnomon);
    if (earlier.fingerprint != asked.fingerprint)
      refuse("lab", "--resume requires the same texts", "different texts");
    if (earlier.shard != asked.shard)
      refuse("lab", "--resume requires --shard " + earlier.shard.value_or("(none)"),
             asked.shard.value_or("none"));
    asked.command = earlier.command;
  }
  result.command = asked.command;
  result.shard = asked.shard;
  for (const char* part : {"checkpoints", "runs", "models"}) fs::create_directories(out / part);
  at::set_num_threads(1);
  remove_unusable_encodings(result, corpus, stream);
  // Only the first shard measures the cost.
  if (options.cost && (!options.shard || options.shard->index == 0))
    result.cost = cost(result.settings, corpus, out, stream);
  if (!stored && options.minutes) {
    const Budget budget = choose_budget(result.settings, options,
                                        measured_speed(result.settings, options, corpus));
    if (!budget.reason.empty()) fmt::print(stream, "{}\n", budget.reason);
    asked.settings.seeds = result.settings.seeds = budget.seeds;
    asked.settings.steps = result.settings.steps = budget.steps;
  }
  const std::vector<Job> jobs = jobs_of(result.settings, options.shard);
  if (jobs.empty())
    refuse("lab",
           fmt::format("--shard I/N must have I below the number of runs, {}",
                       std::ssize(result.settings.encodings) * result.settings.seeds),
           options.shard->text());
  if (!stored) io::write_atomically(out / "settings.json", to_json(asked).dump(1));
  if (!result.cost.empty())
    io::write_atomically(out / "cost.json", to_json(result.cost).dump(1));

  train(result, options, asked, jobs, corpus, out, listener ? &*listener : nullptr, stream);
  result.stopped = stop_asked;
  std::error_code not_empty;
  fs::remove(out / "checkpoints", not_empty);  // has files if a run was stopped
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

}  // namespace gnomon::lab
