// Training and test of one run, from its checkpoint if there is one.
#pragma once

#include <filesystem>
#include <string>

#include "apps/lab/data/corpus.h"
#include "apps/lab/runs/job.h"
#include "apps/lab/runs/progress.h"
#include "apps/lab/runs/run_team.h"

namespace gnomon::lab {

// Saves a checkpoint at least every `checkpoint_seconds`, and stores the result and the model
// in the folder `out` (session.h). If the storage of a checkpoint takes long, checkpoints are
// rarer: they take at most a twentieth of the time. Returns the result, or the summary of a
// run that was stopped (stop_asked).
RunResult train_and_test(const Job& job, const Settings& settings, const Corpus& corpus,
                         const std::filesystem::path& out, double checkpoint_seconds,
                         RunTeam& team, Progress& progress);

// The result of a finished run in a few words.
std::string outcome(const RunResult& run);

}  // namespace gnomon::lab
