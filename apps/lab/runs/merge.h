// `gnomon lab --merge DIR...`: one report of several folders with runs, of the lab or of
// another program.
#pragma once

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/lab/data/corpus.h"
#include "apps/lab/runs/session.h"
#include "apps/lab/tasks/stored.h"

namespace gnomon::lab {

struct Parts {
  std::vector<std::filesystem::path> folders;
  StoredSettings stored;  // settings of all folders
};

// Reads the settings of the folders, with the encodings of all of them. Throws
// std::invalid_argument if they differ in other settings, texts or version, or if a file of
// them is a link or not a regular file.
Parts read_parts(const std::vector<std::string>& folders);

enum class Missing { refused = 1, permitted };

// Copies runs, models and cost to `out`, as if one session had trained them. Throws
// std::invalid_argument, with the names, if runs are missing and not permitted, if two folders
// have different results of one run, or if runs have other numbers of test segments. Then
// nothing is written. At the return everything is on the disk (fsync).
SessionResult merge_parts(const Parts& parts, const std::string& command, Missing missing,
                          const Corpus& corpus, const std::filesystem::path& out,
                          std::FILE* stream);

}  // namespace gnomon::lab
