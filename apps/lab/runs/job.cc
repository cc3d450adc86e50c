#include "apps/lab/runs/job.h"

#include "apps/lab/model/candidate.h"

namespace gnomon::lab {

std::string Job::name() const { return file_name(encoding) + "-seed" + std::to_string(seed); }

std::filesystem::path Job::checkpoint(const std::filesystem::path& folder) const {
  return folder / "checkpoints" / (name() + ".safetensors");
}

std::filesystem::path Job::result(const std::filesystem::path& folder) const {
  return folder / "runs" / (name() + ".json");
}

std::vector<Job> jobs_of(const Settings& settings) {
  std::vector<Job> jobs;
  for (const std::int64_t seed : settings.seeds)
    for (const std::string& encoding : settings.encodings) jobs.push_back({encoding, seed});
  return jobs;
}

}  // namespace gnomon::lab
