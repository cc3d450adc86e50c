// A whole session of the lab: trains and tests every encoding and seed, in parallel, resumable.
//
//   OUT/settings.json                       the settings, for --resume
//   OUT/checkpoints/NAME-seedN.safetensors  the state of an unfinished run (checkpoint.cc)
//   OUT/cost.json                           the cost of each encoding
//   OUT/runs/NAME-seedN.json                the results of a finished run
//   OUT/models/NAME-seedN/                  the model of a finished run (make_model.h)
//   OUT/index.html, results.json, ...       the report, which report.cc writes from the
//                                           SessionResult
#pragma once

#include <cstdio>
#include <filesystem>

#include "apps/lab/data/corpus.h"
#include "apps/lab/data/run_json.h"
#include "apps/lab/data/run_result.h"
#include "apps/lab/runs/options.h"
#include "apps/lab/runs/plan.h"

namespace gnomon::lab {

// Moves the encodings that cannot take part from the settings to `left_out`, with a line each.
// Throws std::invalid_argument if none is left.
void remove_unusable_encodings(SessionResult& result, const Corpus& corpus, std::FILE* stream);

// The plan for --list-runs. With options.minutes, the number of steps fits this machine.
Plan plan_session(const Options& options, const Corpus& corpus, std::FILE* stream);

// `out`: the folder, which is empty or has a stopped run with options.settings. The first
// Ctrl-C saves the state of every run and returns the finished runs. The second ends the
// process. With options.world, the other processes train each run, too (run_team.h).
SessionResult run_session(const Options& options, const Corpus& corpus,
                          const std::filesystem::path& out, std::FILE* stream);

// Trains and tests options.run into options.out, as a part of a session without a
// report. Continues from a checkpoint in the folder, and does nothing if the result is
// there, so that an engine can repeat the call. Other processes may train other runs in the
// same folder at the same time. Returns the exit status.
//
// Throws std::invalid_argument if there is no such run, if another process trains it, or if the
// folder has runs of other settings, texts, another plan or version.
int train_one_run(const Options& options, const Corpus& corpus, std::FILE* stream);

struct Parts {
  std::vector<std::filesystem::path> folders;
  StoredSettings stored;  // settings of all folders
};

// Reads the settings of the folders, with the encodings of all of them. Throws
// std::invalid_argument if they differ in other settings, texts or version, or if a file of
// them is a link or not a regular file.
Parts read_parts(const std::vector<std::string>& folders);

// Copies runs, models and cost to `out`, as if one session had trained them. Throws
// std::invalid_argument, with the names, if runs are missing without options.partial, if two
// folders have different results of one run, or if runs have other numbers of test segments.
// Then nothing is written. At the return everything is on the disk (fsync).
SessionResult merge_parts(const Parts& parts, const Options& options, const Corpus& corpus,
                          const std::filesystem::path& out, std::FILE* stream);

}  // namespace gnomon::lab
