// Training and test of one claimed run, from its checkpoint if there is one.
#pragma once

#include <optional>
#include <string>

#include "apps/lab/data/corpus.h"
#include "apps/lab/runs/progress.h"
#include "apps/lab/runs/run_team.h"
#include "apps/lab/runs/work_list.h"

namespace gnomon::lab {

// Trains and tests a run that `work` gave, saves a checkpoint at least every
// `checkpoint_seconds`, and stores the result. If the storage of a checkpoint takes long,
// checkpoints are rarer: they take at most a twentieth of the time. Returns the result, or the
// summary of a run that was stopped. Empty if another result was accepted before.
std::optional<RunResult> work_on(const Claim& claim, const Job& job, WorkList& work,
                                 const Settings& settings, const Corpus& corpus,
                                 double checkpoint_seconds, RunTeam& team, Progress& progress);

// The result of a finished run in a few words.
std::string outcome(const RunResult& run);

}  // namespace gnomon::lab
