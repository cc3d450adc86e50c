// The workers that train the runs of a session, one after another: threads of this process
// (--workers-per-run), or all processes of a launcher (options.h). Rank 0 has the session,
// writes the files and tests. The other ranks follow it.
//
// The processes meet in c10d's TCPStore in rank 0.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "apps/lab/data/corpus.h"
#include "apps/lab/runs/options.h"
#include "apps/lab/runs/progress.h"
#include "apps/lab/runs/team.h"

namespace gnomon::lab {

class RunTeam {
 public:
  // Connects to the other processes of the team, and sends them the settings. `texts`: the
  // fingerprint of the corpus. Throws TeamError if they do not answer.
  RunTeam(const Options& options, const Settings& settings, const std::string& texts);
  // Tells the other processes that there are no more runs.
  ~RunTeam();

  // Trains and tests a run, from its checkpoint if there is one. With processes, one run at a
  // time. Saves a checkpoint at least every `checkpoint_seconds`, and stores the result and the
  // model in the folder `out` (session.h). If the storage of a checkpoint takes long,
  // checkpoints are rarer: they take at most a twentieth of the time. Returns the result, or
  // the summary of a run that was stopped (stop_asked).
  RunResult train_and_test(const Job& job, const Settings& settings, const Corpus& corpus,
                           const std::filesystem::path& out, double checkpoint_seconds,
                           Progress& progress);

  struct Processes;

 private:
  const int threads_;
  std::unique_ptr<Processes> processes_;
};

// The result of a finished run in a few words.
std::string outcome(const RunResult& run);

// Trains the runs of rank 0 until there are no more, in another rank. Returns the exit status.
// Throws std::invalid_argument if the texts differ from those of rank 0, and TeamError if
// another member fails.
int follow_team(const Options& options, std::FILE* stream);

}  // namespace gnomon::lab
