// The workers that train the runs of a session, one after another: threads of this process
// (--workers-per-run), or all processes of a launcher (world.h). Rank 0 has the session, writes
// the files and tests. The other ranks follow it.
//
// The processes meet in c10d's TCPStore in rank 0.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>

#include "apps/lab/data/corpus.h"
#include "apps/lab/runs/job.h"
#include "apps/lab/runs/options.h"
#include "apps/lab/runs/team.h"

namespace gnomon::lab {

class RunTeam {
 public:
  // Connects to the other processes of the team, and sends them the settings. `texts`: the
  // fingerprint of the corpus. Throws TeamError if they do not answer.
  RunTeam(const Options& options, const Settings& settings, const std::string& texts);
  // Tells the other processes that there are no more runs.
  ~RunTeam();
  RunTeam(const RunTeam&) = delete;
  RunTeam& operator=(const RunTeam&) = delete;

  // Calls `work` for each member in this process, and the others train the run too. With
  // processes, one run at a time.
  void train(const Job& job, const std::function<void(Team&)>& work);

  struct Processes;

 private:
  const int threads_;
  std::unique_ptr<Processes> processes_;
};

// Trains the runs of rank 0 until there are no more, in another rank. Returns the exit status.
// Throws std::invalid_argument if the texts differ from those of rank 0, and TeamError if
// another member fails.
int follow_team(const Options& options, std::FILE* stream);

}  // namespace gnomon::lab
