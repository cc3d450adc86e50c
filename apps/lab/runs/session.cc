#include "apps/lab/runs/session.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "apps/lab/data/lists.h"
#include "apps/lab/data/numbers.h"
#include "apps/lab/model/candidate.h"
#include "apps/lab/runs/calibration.h"
#include "apps/lab/runs/folder.h"
#include "apps/lab/runs/process.h"
#include "apps/lab/runs/progress.h"
#include "apps/lab/runs/run_team.h"
#include "apps/lab/tasks/stored.h"
#include "gnomon/error.h"
#include "gnomon/io/file.h"
#include "gnomon/version.h"
#include "src/core/text.h"

namespace gnomon::lab {
namespace {

namespace fs = std::filesystem;

// The share of the time limit for measurements of cost.
constexpr double cost_share = 0.08;

// Reads cost.json or measures the cost. Called before the first training step of this process:
// the measurement forks, and LibTorch refuses a backward pass in a child if the parent had one.
std::vector<MeasuredCost> cost(const Settings& settings, const Corpus& corpus, double seconds,
                               const fs::path& out, std::FILE* stream) {
  if (fs::exists(out / "cost.json")) return read_costs(out / "cost.json");
  fmt::print(stream, "Measuring the cost of each encoding.\n");
  std::fflush(stream);
  return measure_cost(settings, corpus, seconds, stop_is_asked);
}

// Whether the runs of another seed fit into the time limit, from the time of the runs before
// them. Runs begin in the order of their seeds, so seeds are complete or absent.
class SeedLimit {
 public:
  SeedLimit(const Options& options, std::size_t entries)
      : options_(options), entries_(entries) {}

  // Called before each run, with its index in the list. False from the first run of a seed on
  // that does not fit.
  bool admits(std::size_t run) {
    const std::lock_guard lock(mutex_);
    if (!options_.minutes || run < entries_ || done_ == 0) return true;
    if (run / entries_ > latest_ && !closed_) {
      latest_ = run / entries_;
      const auto jobs = static_cast<double>(std::max(1, options_.jobs));
      const double rounds = std::ceil(static_cast<double>(entries_) / jobs);
      closed_ = seconds_since(options_.begin) + rounds * seconds_ / done_ >
                (1 + tolerance) * 60 * *options_.minutes;
    }
    return !closed_ || run / entries_ < latest_;
  }
  void finished(double seconds) {
    const std::lock_guard lock(mutex_);
    seconds_ += seconds, ++done_;
  }
  bool closed() const { return closed_; }

 private:
  static constexpr double tolerance = 0.1;
  const Options& options_;
  const std::size_t entries_;
  std::mutex mutex_;
  std::size_t latest_ = 0;  // the last seed that was judged
  double seconds_ = 0, done_ = 0;
  bool closed_ = false;
};

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
      fs::remove(jobs[i].checkpoint(out));  // the process ended before it could do that
      progress.finished(jobs[i], outcome(*found[i]));
    });
    RunTeam team(options, settings, stored.fingerprint);
    SeedLimit limit(options, settings.encodings.size());
    on_threads(options.jobs, jobs.size(), [&](std::size_t i) {
      if (found[i] || stop_asked || !limit.admits(i)) return;
      const auto start = Clock::now();
      found[i] = team.train_and_test(jobs[i], settings, corpus, out, options.checkpoint_seconds,
                                     progress);
      limit.finished(seconds_since(start));
    });
    if (limit.closed())
      progress.note("The last seeds do not fit into the time limit. Go on with --resume.");
    if (stop_asked) progress.note("Stopped. Continue with --resume.");
  }
  for (std::optional<RunResult>& one : found)
    if (one) (one->unfinished ? result.unfinished : result.runs).push_back(std::move(*one));
}

// The run of that name, or of that number from 0.
Job find_run(const std::vector<Job>& jobs, const std::string& wanted) {
  const std::int64_t number = parse_integer(wanted).value_or(-1);
  if (number >= 0 && number < std::ssize(jobs)) return jobs[static_cast<std::size_t>(number)];
  if (const Job* found = find_by(jobs, &Job::name, wanted)) return *found;
  refuse("lab",
         fmt::format("--run must be the name of a run, as {}, or a number from 0 to {}",
                     jobs[0].name(), jobs.size() - 1),
         wanted);
}

// The contents of settings.json for a new session. Throws std::invalid_argument if the texts
// are not those of options.plan.
StoredSettings stored_settings(const Options& options, const Corpus& corpus) {
  StoredSettings stored{options.settings, fingerprint(corpus), options.command, GNOMON_VERSION};
  if (!options.plan) return stored;
  if (const std::string& texts = options.plan->fingerprint;
      !texts.empty() && texts != stored.fingerprint)
    refuse("lab", "--protocol requires the texts of the plan", "different texts");
  stored.protocol = Protocol{options.plan->sha256};
  return stored;
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

Plan plan_session(const Options& options, const Corpus& corpus, std::FILE* stream) {
  const StopOnSignal signals;
  at::set_num_threads(1);
  Plan plan{.settings = options.settings};
  plan.fingerprint = stored_settings(options, corpus).fingerprint;
  if (options.settings.tokens != "bytes") plan.tokenizer = corpus.tokenizer->serialized();
  SessionResult usable;
  usable.settings = options.settings;
  remove_unusable_encodings(usable, corpus, stream);
  // The speed and the rates of encodings that another program trains are unknown.
  const std::vector<std::string> entries = usable.settings.encodings;
  std::erase_if(usable.settings.encodings, is_own);
  if (usable.settings.encodings.empty() && (options.minutes || !options.sweep.empty()))
    refuse("lab", "--minutes and --sweep require an encoding that the lab trains", entries[0]);
  calibrate(usable.settings, plan.settings, options, corpus, stream);
  usable.settings.encodings = entries;
  plan.runs = runs_of(options.plan.value_or(Plan{}), usable.settings);
  return plan;
}

SessionResult run_session(const Options& options, const Corpus& corpus, const fs::path& out,
                          std::FILE* stream) {
  const double limit = options.minutes ? 60 * *options.minutes : 3600;  // seconds
  SessionResult result;
  result.settings = options.settings;
  for (const Job& job : jobs_of(result.settings))
    if (!fs::exists(job.result(out))) require_trainable(job.encoding);
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
  if (options.cost)
    result.measured_cost = cost(result.settings, corpus, cost_share * limit, out, stream);
  if (!stored) {
    result.sweep = calibrate(result.settings, asked.settings, options, corpus, stream);
    if (!result.sweep.empty())
      io::write_atomically(out / "sweep.json", to_json(result.sweep).dump(1));
  } else if (fs::exists(out / "sweep.json")) {
    result.sweep = read_sweep(out / "sweep.json");
  }
  if (options.plan) runs_of(*options.plan, result.settings);  // checks them
  const std::vector<Job> jobs = jobs_of(result.settings);
  if (!stored) io::write_atomically(out / "settings.json", to_json(asked).dump(1));
  if (!result.measured_cost.empty())
    io::write_atomically(out / "cost.json", to_json(result.measured_cost).dump(1));

  train(result, options, asked, jobs, corpus, out, stream);
  result.stopped = stop_asked;
  std::error_code not_empty;
  fs::remove(out / "checkpoints", not_empty);  // has files if a run was stopped
  result.seconds = seconds_since(options.begin);
  return result;
}

int train_one_run(const Options& options, const Corpus& corpus, std::FILE* stream) {
  const StopOnSignal signals;
  at::set_num_threads(1);
  SessionResult session;
  session.settings = options.settings;
  remove_unusable_encodings(session, corpus, stream);
  const Job job =
      find_run(runs_of(options.plan.value_or(Plan{}), session.settings), options.run);

  const RunFolder folder(options.out, job, stored_settings(options, corpus));
  Settings settings = session.settings;
  settings.encodings = {job.encoding};
  settings.seeds = {job.seed};
  Progress progress(settings, stream, options.json ? stdout : nullptr);
  const fs::path result = job.result(options.out);
  if (fs::exists(result)) {
    const RunResult run = read_run(result, session.settings, job.encoding, job.seed);
    fs::remove(job.checkpoint(options.out));
    progress.finished(job, outcome(run));
    return 0;
  }
  RunTeam team(options, session.settings, fingerprint(corpus));
  const RunResult run = team.train_and_test(job, session.settings, corpus, options.out,
                                            options.checkpoint_seconds, progress);
  if (!run.unfinished) return 0;
  progress.note("Stopped. The same command continues.");
  return 130;
}

}  // namespace gnomon::lab
