// A whole session of the lab: trains and tests every encoding and seed, in parallel, resumable.
//
//   OUT/settings.json            the settings, for --resume
//   OUT/checkpoints/NAME.pt      the state of an unfinished run
//   OUT/cost.json                the cost of each encoding
//   OUT/runs/NAME.json           the results of a finished run
//   OUT/models/NAME.pt           the weights of a finished run
//   OUT/results.json, index.html the report, which report.cc writes from the SessionResult
#pragma once

#include <cstdio>
#include <filesystem>
#include <optional>
#include <vector>

#include "apps/lab/corpus.h"
#include "apps/lab/options.h"
#include "apps/lab/results.h"

namespace gnomon::lab {

struct SessionResult {
  // The settings after --resume, --minutes and the removal of encodings that cannot take part,
  // which are in `left_out`.
  Settings settings;
  std::vector<LeftOut> left_out;
  std::vector<RunResult> runs;        // finished, by seed, then by encoding
  std::vector<RunResult> unfinished;  // summaries of runs that were stopped
  std::vector<MeasuredCost> cost;
  bool stopped = false;  // by Ctrl-C
  double seconds = 0;
};

// Throws std::invalid_argument before training if OUT is not writable or its disk has too
// little space. The first Ctrl-C saves the state of every run and returns the finished runs.
// The second ends the process.
SessionResult run_session(const Options& options, const Corpus& corpus, std::FILE* stream);

// The settings in OUT for --resume. Empty if OUT has no run.
std::optional<Settings> stored_settings(const std::filesystem::path& out);

}  // namespace gnomon::lab
