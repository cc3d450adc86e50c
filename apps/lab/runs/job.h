// A run of a session: one encoding and one seed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/lab/data/settings.h"

namespace gnomon::lab {

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

}  // namespace gnomon::lab
