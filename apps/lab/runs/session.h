// A whole session of the lab: trains and tests every encoding and seed, in parallel, resumable.
//
//   OUT/settings.json                       the settings, for --resume
//   OUT/checkpoints/NAME-seedN.safetensors  the state of an unfinished run (checkpoint.h)
//   OUT/cost.json                           the cost of each encoding
//   OUT/runs/NAME-seedN.json                the results of a finished run
//   OUT/models/NAME-seedN/                  the model of a finished run (make_model.h)
//   OUT/index.html, results.json, ...       the report, which report.cc writes from the
//                                           SessionResult
#pragma once

#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/lab/data/corpus.h"
#include "apps/lab/data/run_json.h"
#include "apps/lab/data/run_result.h"
#include "apps/lab/runs/options.h"
#include "apps/lab/runs/plan.h"

namespace gnomon::lab {

struct SessionResult {
  // The settings after --resume, --minutes and the removal of encodings that cannot take part,
  // which are in `left_out`.
  Settings settings;
  std::string command;  // that began the run
  std::vector<SweptRate> sweep = {};
  std::optional<Protocol> protocol = {};
  std::vector<std::string> missing = {};  // runs that --merge --partial has not found
  std::vector<LeftOut> left_out;
  std::vector<RunResult> runs;        // finished, by seed, then by encoding
  std::vector<RunResult> unfinished;  // summaries of runs that were stopped
  std::vector<MeasuredCost> cost;
  bool stopped = false;  // stopped by Ctrl-C
  double seconds = 0;
};

// Moves the encodings that cannot take part from the settings to `left_out`, with a line each.
// Throws std::invalid_argument if none is left.
void remove_unusable_encodings(SessionResult& result, const Corpus& corpus, std::FILE* stream);

// The contents of settings.json for a new session. Throws std::invalid_argument if the texts
// are not those of options.plan.
StoredSettings stored_settings(const Options& options, const Corpus& corpus);

// The plan for --list-runs. With options.minutes, the number of steps fits this machine.
Plan plan_session(const Options& options, const Corpus& corpus, std::FILE* stream);

// `out`: the folder, which is empty or has a stopped run with options.settings. The first
// Ctrl-C saves the state of every run and returns the finished runs. The second ends the
// process. With options.world, the other processes train each run, too (run_team.h).
SessionResult run_session(const Options& options, const Corpus& corpus,
                          const std::filesystem::path& out, std::FILE* stream);

}  // namespace gnomon::lab
