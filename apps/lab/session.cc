#include "apps/lab/session.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "apps/lab/candidate.h"
#include "apps/lab/cost.h"
#include "apps/lab/extend.h"
#include "apps/lab/folder.h"
#include "apps/lab/progress.h"
#include "apps/lab/results_json.h"
#include "apps/lab/run.h"
#include "apps/lab/task_results.h"
#include "apps/lab/tasks.h"
#include "gnomon/error.h"
#include "gnomon/io/file.h"

namespace gnomon::lab {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr double checkpoint_seconds = 20;

std::atomic<bool> stop_asked{false};

// Catches the first SIGINT or SIGTERM. The second one has its default effect.
class StopOnSignal {
 public:
  StopOnSignal() {
    stop_asked = false;
    struct sigaction action{};
    action.sa_handler = [](int) { stop_asked = true; };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(SIGINT, &action, &before_interrupt_);
    sigaction(SIGTERM, &action, &before_terminate_);
  }
  ~StopOnSignal() {
    sigaction(SIGINT, &before_interrupt_, nullptr);
    sigaction(SIGTERM, &before_terminate_, nullptr);
  }
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

 private:
  struct sigaction before_interrupt_{}, before_terminate_{};
};

// FNV-1a over the names and bytes of the texts, to check that a resumed run has the same texts.
std::string fingerprint(const Corpus& corpus) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const auto* part : {&corpus.train, &corpus.validation, &corpus.test})
    for (const Text& text : *part)
      for (const char c : text.name + '\0' + text.bytes)
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  for (const char c : corpus.digest)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return fmt::format("{:016x}", hash);
}

// Runs `work(i)` for i in [0, count) on `jobs` threads of one core each. The first exception
// stops the others and is rethrown.
template <typename Work>
void on_threads(int jobs, std::size_t count, Work&& work) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int j = 0; j < std::min(jobs, static_cast<int>(count)); ++j)
    threads.emplace_back([&] {
      at::set_num_threads(1);  // LibTorch and the kernels both read OpenMP's setting
      at::globalContext().setFlushDenormal(true);
      try {
        for (std::size_t i; (i = next++) < count;) work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next = count;
        stop_asked = true;
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

// The number of steps that fits --minutes, from the fastest of a few steps of every encoding,
// with as many runs at the same time as in training.
std::int64_t fitting_steps(const Settings& s, const Options& options, const Corpus& corpus) {
  std::vector<double> step_seconds(s.encodings.size()), test_seconds(s.encodings.size());
  Settings probe = s;
  probe.eval_segments = 1;
  on_threads(options.jobs, s.encodings.size(), [&](std::size_t i) {
    TrainingRun run(probe, corpus, s.encodings[i], 1);
    const auto timed = [](auto&& work) {
      const auto start = Clock::now();
      work();
      return std::chrono::duration<double>(Clock::now() - start).count();
    };
    if (!run.trained()) {
      for (int warm = 0; warm < 2; ++warm) run.train_step();
      step_seconds[i] = 1e9;  // other processes only slow a step down
      for (int n = 0; n < 6; ++n)
        step_seconds[i] = std::min(step_seconds[i], timed([&] { run.train_step(); }));
    }
    test_seconds[i] = timed([&] { run.model().evaluate([] { return stop_asked.load(); }); });
  });
  double steps = 0, tests = 0;
  for (std::size_t i = 0; i < s.encodings.size(); ++i) {
    steps += step_seconds[i];
    tests += test_seconds[i] * static_cast<double>(s.eval_segments);
  }
  const auto runs = static_cast<int>(s.encodings.size()) * static_cast<int>(s.seeds);
  const double cores = std::min(options.jobs, runs), seeds = static_cast<double>(s.seeds);
  constexpr double validation_share = 1.04;
  const double budget = *options.minutes * 60 * cores - seeds * tests;
  return std::max<std::int64_t>(
      1, static_cast<std::int64_t>(budget / (seeds * steps * validation_share)));
}

// Reads cost.json or measures the cost. Called before the first training step of this process:
// the measurement forks, and LibTorch refuses a backward pass in a child of a process that had one.
std::vector<MeasuredCost> cost(const Settings& settings, const Corpus& corpus,
                               const fs::path& out, std::FILE* stream) {
  if (fs::exists(out / "cost.json")) return read_costs(out / "cost.json");
  fmt::print(stream, "Measuring the cost of each encoding.\n");
  std::fflush(stream);
  return measure_cost(settings, corpus, [] { return stop_asked.load(); });
}

// Removes encodings that cannot take part from the settings. Throws if none is left.
void leave_out_unusable(SessionResult& result, const Corpus& corpus, std::FILE* stream) {
  std::vector<std::string> usable;
  for (const std::string& name : result.settings.encodings)
    if (const auto reason = unusable(name, result.settings, corpus)) {
      result.left_out.push_back({name, *reason});
      fmt::print(stream, "Left out: {}. Reason: {}\n", name, *reason);
    } else {
      usable.push_back(name);
    }
  std::fflush(stream);
  if (usable.empty())
    refuse("lab", "at least one of --encodings must be usable", result.left_out[0].reason);
  result.settings.encodings = usable;
}

std::string outcome(const RunResult& run) {
  const std::string time = ", trained in " + duration(run.train_seconds);
  if (!run.tests.stretches.empty()) return outcome_of_examples(run) + time;
  std::string text;
  for (const LengthLoss& one : run.tests.lengths)
    text += one.applicable ? fmt::format("{}{:.3f} at {}", text.empty() ? "" : ", ",
                                         one.tail_bits, one.length)
                           : fmt::format(", n/a at {}", one.length);
  return text + " (bits per byte)" + time;
}

struct Job {
  std::string encoding;
  std::int64_t seed;
  std::string name() const { return file_name(encoding) + "-seed" + std::to_string(seed); }
};

// Trains and tests one run, from its checkpoint if there is one. Returns its results, or, if it
// was stopped, its summary.
RunResult work_on(const Job& job, const Settings& settings, const Corpus& corpus,
                  const fs::path& out, Progress& progress) {
  const fs::path checkpoint = out / "checkpoints" / (job.name() + ".pt");
  TrainingRun run(settings, corpus, job.encoding, job.seed);
  if (fs::exists(checkpoint)) run.load(checkpoint);
  const std::int64_t tokens = run.model().window();
  auto saved = Clock::now();
  double rate = 0;
  while (!run.trained() && !stop_asked) {
    const auto start = Clock::now();
    const double bits = run.train_step();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    const double now = static_cast<double>(settings.batch * tokens) / seconds;
    rate = rate > 0 ? 0.9 * rate + 0.1 * now : now;
    progress.training(job.encoding, job.seed, run.step(), bits, rate);
    if (std::chrono::duration<double>(Clock::now() - saved).count() > checkpoint_seconds) {
      run.save(checkpoint);
      saved = Clock::now();
    }
  }
  run.save(checkpoint);
  RunResult found = run.summary();
  if (!run.trained() || stop_asked) return found;
  const auto stop = [] { return stop_asked.load(); };
  progress.testing(job.encoding, job.seed);
  const auto start = Clock::now();
  const auto tested = run.model().evaluate(stop);
  if (tested && !settings.extend.empty() && extends(job.encoding))
    found.extension = extend(run.transformer(), settings, corpus, job.seed, stop);
  if (!tested || stop_asked) return found;
  found.unfinished = false;
  found.test_seconds = std::chrono::duration<double>(Clock::now() - start).count();
  found.tests = *tested;
  run.model().describe(found);
  run.model().save(out / "models" / job.name(), found);
  io::write_aside(out / "runs" / (job.name() + ".json"), to_json(found).dump(1));
  fs::remove(checkpoint);
  progress.finished(job.encoding, job.seed, outcome(found));
  return found;
}

}  // namespace

SessionResult run_session(const Options& options, const Corpus& corpus, const fs::path& out,
                          std::FILE* stream) {
  const auto start = Clock::now();
  SessionResult result;
  result.settings = options.settings;
  const StopOnSignal signals;

  const bool stored = has_run(out);
  result.command = options.command;
  if (stored) {
    const StoredSettings earlier = read_settings(out / "settings.json");
    if (earlier.fingerprint != fingerprint(corpus))
      refuse("lab", "--resume requires the same texts", "different texts");
    result.command = earlier.command;
  }
  for (const char* part : {"checkpoints", "runs", "models"}) fs::create_directories(out / part);
  at::set_num_threads(1);
  Settings asked = result.settings;
  leave_out_unusable(result, corpus, stream);
  if (options.cost) result.cost = cost(result.settings, corpus, out, stream);
  if (!stored) {
    if (options.minutes) {
      const std::int64_t fit = fitting_steps(result.settings, options, corpus);
      if (fit < asked.steps && !options.steps_follow_minutes)
        fmt::print(stream,
                   "Number of steps reduced from {} to {}, to stay within {} minutes.\n",
                   asked.steps, fit, *options.minutes);
      asked.steps = options.steps_follow_minutes ? fit : std::min(fit, asked.steps);
      result.settings.steps = asked.steps;
    }
    io::write_aside(
        out / "settings.json",
        to_json(StoredSettings{asked, fingerprint(corpus), options.command}).dump(1));
  }
  if (!result.cost.empty()) io::write_aside(out / "cost.json", to_json(result.cost).dump(1));

  const Settings& settings = result.settings;
  std::vector<Job> jobs;
  for (std::int64_t seed = 1; seed <= settings.seeds; ++seed)
    for (const std::string& encoding : settings.encodings) jobs.push_back({encoding, seed});
  std::vector<std::optional<RunResult>> found(jobs.size());
  {
    Progress progress(settings, stream);
    on_threads(options.jobs, jobs.size(), [&](std::size_t i) {
      const fs::path done = out / "runs" / (jobs[i].name() + ".json");
      if (fs::exists(done)) {
        found[i] = read_run(done, settings, jobs[i].encoding, jobs[i].seed);
        progress.finished(jobs[i].encoding, jobs[i].seed, outcome(*found[i]));
      } else if (!stop_asked) {
        found[i] = work_on(jobs[i], settings, corpus, out, progress);
      }
    });
    if (stop_asked) progress.note("Stopped. Continue with --resume.");
  }
  for (auto& one : found)
    if (one) (one->unfinished ? result.unfinished : result.runs).push_back(std::move(*one));
  result.stopped = stop_asked;
  std::error_code not_empty;
  fs::remove(out / "checkpoints", not_empty);  // has files if a run was stopped
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

}  // namespace gnomon::lab
