// The plan of a session: its settings and its runs, as a JSON file. `--list-runs` prints it,
// `--protocol` reads it, and `--run` trains one run of it (session.h). Another program or a
// person may write it:
//
//   protocol      1
//   gnomon        version of the library
//   settings      as in settings.json; an absent key has the default of its option
//   fingerprint   hash of the texts (corpus.h)
//   tokenizer     with --tokens bpe: the model of SentencePiece in base64
//   runs          list of name, encoding and seed
//   statements    a list that this program does not read
//
// Only `protocol` and `settings` are required.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/lab/data/settings.h"

namespace gnomon::lab {

// A run of a session: one encoding and one seed.
struct Job {
  std::string encoding;
  std::int64_t seed = 0;

  std::string name() const;  // file name without extension: NAME-seedN
  std::filesystem::path checkpoint(const std::filesystem::path& folder) const;
  std::filesystem::path result(const std::filesystem::path& folder) const;

  bool operator==(const Job&) const = default;
};

// The runs of the settings, by seed, then by encoding.
std::vector<Job> jobs_of(const Settings& settings);

struct Plan {
  Settings settings;
  std::string fingerprint = {};  // empty: any texts
  std::string tokenizer = {};    // empty: trained on the texts
  std::vector<Job> runs = {};    // empty: those of the settings
  std::string sha256 = {};       // of the file that was read
};

Json to_json(const Plan& plan);

// Throws std::invalid_argument, with the path and the reason, if the file is not a plan of this
// version of the library: if a key is unknown or its value is not allowed (check_settings), or
// if runs are not those of the settings.
Plan read_plan(const std::filesystem::path& path);

// The runs of settings without unusable encodings, in the order of the plan. Throws
// std::invalid_argument if the plan has others.
std::vector<Job> runs_of(const Plan& plan, const Settings& usable);

}  // namespace gnomon::lab
