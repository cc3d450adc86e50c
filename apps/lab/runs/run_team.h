// The workers that train the runs of a session: threads of this process (--workers-per-run), or
// with --processes-per-run N consecutive ranks of a launcher. The first rank of such a team
// leads it: it takes part in the session, claims runs, writes files and tests. The other ranks
// follow it.
//
// The teams find each other through c10d's TCPStore in rank 0, on the port after that of the
// session.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>

#include "apps/lab/data/corpus.h"
#include "apps/lab/runs/options.h"
#include "apps/lab/runs/team.h"
#include "apps/lab/runs/work_list.h"

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

// Whether this process follows the first rank of its team.
bool follows(const Options& options);
// Trains the runs of the team until there are no more. Returns the exit status. Throws
// std::invalid_argument if the texts differ from those of the leader, and TeamError if another
// member fails or the leader is silent for options.lease_seconds.
int follow_team(const Options& options, std::FILE* stream);

}  // namespace gnomon::lab
