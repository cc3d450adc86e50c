// `--run`: one run of a plan or of the settings, for engines that distribute runs.
#pragma once

#include <cstdio>

#include "apps/lab/data/corpus.h"
#include "apps/lab/runs/options.h"

namespace gnomon::lab {

// Trains and tests options.run into options.out, as a part of a session without a report
// (session.h). Continues from a checkpoint in the folder, and does nothing if the result is
// there, so that an engine can repeat the call. Other processes may train other runs in the
// same folder at the same time. Returns the exit status.
//
// Throws std::invalid_argument if there is no such run, if another process trains it, or if the
// folder has runs of other settings, texts, another plan or version.
int train_one_run(const Options& options, const Corpus& corpus, std::FILE* stream);

}  // namespace gnomon::lab
