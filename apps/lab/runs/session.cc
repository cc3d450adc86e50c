#include "apps/lab/runs/session.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "apps/lab/data/task.h"
#include "apps/lab/model/candidate.h"
#include "apps/lab/runs/budget.h"
#include "apps/lab/runs/cost.h"
#include "apps/lab/runs/extend.h"
#include "apps/lab/runs/folder.h"
#include "apps/lab/runs/progress.h"
#include "apps/lab/runs/run.h"
#include "apps/lab/runs/threads.h"
#include "apps/lab/runs/train_and_test.h"
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
  on_threads(options.jobs, s.encodings.size(), [&](std::size_t i) {
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

// Sets the number of seeds and steps of both settings, with the speed of this machine.
void fix_budget(Settings& usable, Settings& asked, const Options& options, const Corpus& corpus,
                std::FILE* stream) {
  const Budget budget = choose_budget(usable, options, measured_speed(usable, options, corpus));
  if (!budget.reason.empty()) fmt::print(stream, "{}\n", budget.reason);
  asked.seeds = usable.seeds = budget.seeds;
  asked.steps = usable.steps = budget.steps;
}

// Trains the runs on the threads of this process.
void train(SessionResult& result, const Options& options, const StoredSettings& stored,
           const std::vector<Job>& jobs, const Corpus& corpus, const fs::path& out,
           std::FILE* stream) {
  const Settings& settings = result.settings;
  std::vector<std::optional<RunResult>> found(jobs.size());
  {
    Progress progress(settings, stream);
    on_threads(options.jobs, jobs.size(), [&](std::size_t i) {
      if (!fs::exists(jobs[i].result(out))) return;
      found[i] = read_run(jobs[i].result(out), settings, jobs[i].encoding, jobs[i].seed);
      progress.finished(jobs[i].encoding, jobs[i].seed, outcome(*found[i]));
    });
    RunTeam team(options, settings, stored.fingerprint);
    on_threads(options.jobs, jobs.size(), [&](std::size_t i) {
      if (!found[i] && !stop_asked)
        found[i] = train_and_test(jobs[i], settings, corpus, out, options.checkpoint_seconds,
                                  team, progress);
    });
    if (stop_asked) progress.note("Stopped. Continue with --resume.");
  }
  for (std::optional<RunResult>& one : found)
    if (one) (one->unfinished ? result.unfinished : result.runs).push_back(std::move(*one));
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

StoredSettings stored_settings(const Options& options, const Corpus& corpus) {
  StoredSettings stored{options.settings, fingerprint(corpus), options.command, GNOMON_VERSION};
  if (!options.plan) return stored;
  if (const std::string& texts = options.plan->fingerprint;
      !texts.empty() && texts != stored.fingerprint)
    refuse("lab", "--protocol requires the texts of the plan", "different texts");
  stored.protocol = Protocol{options.plan->sha256};
  return stored;
}

Plan plan_session(const Options& options, const Corpus& corpus, std::FILE* stream) {
  const StopOnSignal signals;
  at::set_num_threads(1);
  Plan plan{.settings = options.settings};
  plan.fingerprint = stored_settings(options, corpus).fingerprint;
  if (options.settings.tokens != "bytes") plan.tokenizer = corpus.tokenizer->serialized();
  SessionResult usable;
  usable.settings = options.settings;
  remove_unusable_encodings(usable, corpus, stream);
  if (options.minutes) fix_budget(usable.settings, plan.settings, options, corpus, stream);
  plan.runs = runs_of(options.plan.value_or(Plan{}), usable.settings);
  return plan;
}

SessionResult run_session(const Options& options, const Corpus& corpus, const fs::path& out,
                          std::FILE* stream) {
  const auto start = Clock::now();
  SessionResult result;
  result.settings = options.settings;
  const StopOnSignal signals;

  const bool stored = has_run(out);
  StoredSettings asked = stored_settings(options, corpus);
  if (stored) {
    const StoredSettings earlier = read_settings(out / "settings.json");
    refuse_old_checkpoints(out, earlier.gnomon);
    if (earlier.fingerprint != asked.fingerprint)
      refuse("lab", "--resume requires the same texts", "different texts");
    if (options.plan && earlier.protocol != asked.protocol)
      refuse("lab", "--resume requires the protocol of the folder", "another protocol");
    asked.protocol = earlier.protocol;
    asked.command = earlier.command;
  }
  result.command = asked.command;
  result.protocol = asked.protocol;
  for (const char* part : {"checkpoints", "runs", "models"}) fs::create_directories(out / part);
  at::set_num_threads(1);
  remove_unusable_encodings(result, corpus, stream);
  if (options.cost) result.cost = cost(result.settings, corpus, out, stream);
  if (!stored && options.minutes)
    fix_budget(result.settings, asked.settings, options, corpus, stream);
  if (options.plan) runs_of(*options.plan, result.settings);  // checks them
  const std::vector<Job> jobs = jobs_of(result.settings);
  if (!stored) io::write_atomically(out / "settings.json", to_json(asked).dump(1));
  if (!result.cost.empty())
    io::write_atomically(out / "cost.json", to_json(result.cost).dump(1));

  train(result, options, asked, jobs, corpus, out, stream);
  result.stopped = stop_asked;
  std::error_code not_empty;
  fs::remove(out / "checkpoints", not_empty);  // has files if a run was stopped
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

}  // namespace gnomon::lab
