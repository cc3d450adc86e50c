#include "apps/lab/runs/one_run.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "apps/lab/runs/folder.h"
#include "apps/lab/runs/plan.h"
#include "apps/lab/runs/progress.h"
#include "apps/lab/runs/run_team.h"
#include "apps/lab/runs/session.h"
#include "apps/lab/runs/threads.h"
#include "apps/lab/runs/train_and_test.h"
#include "apps/lab/tasks/stored.h"
#include "gnomon/error.h"

namespace gnomon::lab {
namespace {

namespace fs = std::filesystem;

// The run of that name, or of that number from 0.
Job find_run(const std::vector<Job>& jobs, const std::string& wanted) {
  std::size_t number = 0;
  const char* const end = wanted.data() + wanted.size();
  const auto [rest, error] = std::from_chars(wanted.data(), end, number);
  if (error == std::errc() && rest == end && number < jobs.size()) return jobs[number];
  const auto found = std::find_if(jobs.begin(), jobs.end(),
                                  [&](const Job& job) { return job.name() == wanted; });
  if (found == jobs.end())
    refuse("lab",
           fmt::format("--run must be the name of a run, as {}, or a number from 0 to {}",
                       jobs[0].name(), jobs.size() - 1),
           wanted);
  return *found;
}

}  // namespace

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
    progress.finished(job.encoding, job.seed, outcome(run));
    return 0;
  }
  RunTeam team(options, session.settings, fingerprint(corpus));
  const RunResult run = train_and_test(job, session.settings, corpus, options.out,
                                       options.checkpoint_seconds, team, progress);
  if (!run.unfinished) return 0;
  progress.note("Stopped. The same command continues.");
  return 130;
}

}  // namespace gnomon::lab
