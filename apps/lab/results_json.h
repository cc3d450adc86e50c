// JSON of settings and results, for results.json and for the files that --resume reads. This is
// the only place that knows the keys.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/lab/results.h"

namespace gnomon::lab {

// The contents of settings.json: the settings, a hash of the texts, the command line, the
// version of the library, and the runs of --shard as "I/N".
struct StoredSettings {
  Settings settings;
  std::string fingerprint, command;
  std::optional<std::string> gnomon = {}, shard = {};
};

Json to_json(const Settings& settings);
Json to_json(const StoredSettings& stored);
Json to_json(const RunResult& run);
Json to_json(const std::vector<MeasuredCost>& costs);
Json to_json(const Results& results);
Json to_json(const ModelConfig& config);
Json to_json(const LengthLoss& loss);
Json to_json(const Stretch& stretch);

// Readers of files that an earlier session wrote. Throw std::invalid_argument, with the path
// and the reason, if the file is not what that session wrote: not JSON, a key that is missing
// or of another type, lists of other lengths than those of the settings.
StoredSettings read_settings(const std::filesystem::path& path);
StoredSettings read_settings(const Json& stored);  // that rank 0 sent
RunResult read_run(const std::filesystem::path& path, const Settings& settings,
                   const std::string& encoding, std::int64_t seed);
// The measurements in results.json: the settings, metric, texts, machine, requested runs and
// runs, from which compare_encodings() computes the rest.
Results read_results(const std::filesystem::path& path);
Results read_results(const Json& stored);
std::vector<MeasuredCost> read_costs(const std::filesystem::path& path);
// The config.json of a trained model.
ModelConfig read_model_config(const std::filesystem::path& path);

}  // namespace gnomon::lab
