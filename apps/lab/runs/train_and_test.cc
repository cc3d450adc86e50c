#include "apps/lab/runs/train_and_test.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "apps/lab/data/model_size.h"
#include "apps/lab/data/numbers.h"
#include "apps/lab/data/task.h"
#include "apps/lab/data/words.h"
#include "apps/lab/runs/extend.h"
#include "apps/lab/runs/run.h"
#include "apps/lab/runs/threads.h"
#include "apps/lab/tasks/stored.h"
#include "gnomon/io/file.h"
#include "src/core/text.h"

namespace gnomon::lab {
namespace {

std::string scores_of(const RunResult& run) {
  std::string text;
  for (const Stretch& one : ranges_of(run.tests.stretches))
    text +=
        fmt::format("{}{} at {}", text.empty() ? "" : ", ",
                    !one.applicable                                    ? "n/a"
                    : std::isfinite(one.score + one.second + one.bits) ? percent_text(one.score)
                                                                       : "diverged",
                    range_text(one.from, one.to));
  return text;
}

}  // namespace

std::string outcome(const RunResult& run) {
  const std::string time = ", trained in " + duration(run.train_seconds);
  if (!run.tests.stretches.empty()) return scores_of(run) + time;
  std::string text;
  for (const LengthLoss& one : run.tests.lengths)
    text += one.applicable
                ? fmt::format("{}{} at {}", text.empty() ? "" : ", ",
                              number_or_diverged("{:.3f}", one.tail_bits), one.length)
                : fmt::format(", n/a at {}", one.length);
  return text + " (bits per byte)" + time;
}

namespace {

// The work of one member of a team. Rank 0 writes the files and tests. The others only train.
std::optional<RunResult> train_and_test(const Job& job, const Settings& settings,
                                        const Corpus& corpus, const std::filesystem::path& out,
                                        double checkpoint_seconds, Progress& progress,
                                        Team& team) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
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
    const double now = static_cast<double>(settings.batch * tokens) / since(start);
    rate = rate > 0 ? 0.9 * rate + 0.1 * now : now;
    progress.training(job.encoding, job.seed, run.step(), bits, rate);
    if (since(saved) > checkpoint_seconds) {
      const auto begin = Clock::now();
      run.save(checkpoint);
      checkpoint_seconds = std::max(checkpoint_seconds, 20 * since(begin));
      saved = Clock::now();
    }
  }
  if (!team.leads()) return {};
  if (run.step() > 0) run.save(checkpoint);  // not of a released model, which may be large
  RunResult found = run.summary();
  const auto stop = [] { return stop_asked.load(); };
  if (!run.trained() || stop()) return found;
  progress.testing(job.encoding, job.seed);
  const auto start = Clock::now();
  const auto tested = run.model().evaluate(stop);
  if (tested && !settings.extend.empty() && extends(job.encoding))
    found.extension =
        extend(run.transformer(), sized(settings, job.encoding), corpus, job.seed, stop);
  if (!tested || stop()) return found;
  found.unfinished = false;
  found.test_seconds = since(start);
  found.tests = *tested;
  run.model().describe(found);
  // Files and pages are UTF-8. The prompts, texts and answers of tasks are any bytes.
  for (Sample& sample : found.samples)
    for (std::string* text : {&sample.prompt, &sample.text, &sample.expected})
      *text = internal::printable_lines(*text);
  run.model().save(out / "models" / job.name(), found);
  io::write_atomically(job.result(out), to_json(found).dump(1));
  std::filesystem::remove(checkpoint);
  progress.finished(job.encoding, job.seed, outcome(found));
  return found;
}

}  // namespace

RunResult train_and_test(const Job& job, const Settings& settings, const Corpus& corpus,
                         const std::filesystem::path& out, double checkpoint_seconds,
                         RunTeam& team, Progress& progress) {
  RunResult result;
  team.train(job, [&](Team& one) {
    auto found = train_and_test(job, settings, corpus, out, checkpoint_seconds, progress, one);
    if (found) result = std::move(*found);
  });
  return result;
}

}  // namespace gnomon::lab
